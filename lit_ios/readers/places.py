"""Where data sets lie: a given folder, LIT_IOS_DATA, the user's cache, or the official address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lit_ios.readers.files import TableError


class MissingFileError(TableError):
    """A data file that is nowhere; the message says where to put it."""


class Download(NamedTuple):
    """A file that can be fetched, and what its content must be."""

    name: str
    address: str
    sha256: str


def cache_folder() -> Path:
    """Return the user's cache folder of this program."""
    import pooch

    return Path(pooch.os_cache("lit-ios"))


def find_file(
    names: Sequence[str], folder: str, data_dir: str | None, downloads: Sequence[Download] = ()
) -> Path:
    """Return the first file of these names that exists, downloading it as a last resort.

    Args:
        names: file names, the best first.
        folder: the data set's own folder below a data folder; may be left out there.
        data_dir: where the user says the data are; LIT_IOS_DATA and the cache come after it.
        downloads: where to fetch the file if it is nowhere, tried in turn.
    """
    places = _places(data_dir)
    for place in places:
        for name in names:
            for file in (place / folder / name, place / name):
                if file.is_file():
                    return file
    reasons = []
    for download in downloads:
        try:
            return _fetch(download, cache_folder() / folder)
        except Exception as error:  # any kind of network trouble, or another content
            first_line = str(error).splitlines()[0] if str(error) else ""
            reasons.append(f"{download.address}: {type(error).__name__}: {first_line}")
    failed = f". The download failed: {'; '.join(reasons)}" if reasons else ""
    raise MissingFileError(_advice(names, folder, places) + failed)


def _places(data_dir: str | None) -> list[Path]:
    if data_dir is not None and not Path(data_dir).is_dir():
        raise TableError(f"data_dir: there is no folder {data_dir}; make it, or leave data_dir out")
    named = (data_dir, os.environ.get("LIT_IOS_DATA"))
    return [*(Path(place) for place in named if place), cache_folder()]


def _advice(names: Sequence[str], folder: str, places: Sequence[Path]) -> str:
    return (
        f"none of {', '.join(names)} was found in {', '.join(map(str, places))}; put one of them "
        f"into {cache_folder() / folder}, or say where it is with data_dir='…' or "
        "the environment variable LIT_IOS_DATA"
    )


def _fetch(download: Download, folder: Path) -> Path:
    """Download with a progress bar and check the SHA-256."""
    import pooch

    file = pooch.retrieve(
        download.address,
        known_hash=f"sha256:{download.sha256}",
        fname=download.name,
        path=folder,
        progressbar=True,
    )
    return Path(file)
