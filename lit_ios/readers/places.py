"""Where data sets lie: a given folder, LIT_IOS_DATA, the user's cache, or the official address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lit_ios.readers.files import TableError


class Download(NamedTuple):
    """A file that can be fetched, and what its content must be."""

    name: str
    addresses: tuple[str, ...]
    sha256: str


def cache_folder() -> Path:
    """Return the user's cache folder of this program."""
    import pooch

    return Path(pooch.os_cache("lit-ios"))


def find_file(
    names: Sequence[str], folder: str, data_dir: str | None, download: Download | None = None
) -> Path:
    """Return the first file of these names that exists, downloading it as a last resort.

    Args:
        names: file names, the best first.
        folder: the data set's own folder below a data folder; may be left out there.
        data_dir: where the user says the data are; LIT_IOS_DATA and the cache come after it.
        download: how to fetch the file if it is nowhere.
    """
    places = [Path(place) for place in (data_dir, os.environ.get("LIT_IOS_DATA")) if place]
    if data_dir is not None and not Path(data_dir).is_dir():
        raise TableError(f"data_dir: there is no folder {data_dir}")
    for place in [*places, cache_folder()]:
        for name in names:
            for file in (place / folder / name, place / name):
                if file.is_file():
                    return file
    if download is None:
        raise TableError(_advice(names, folder, places))
    return _fetch(download, folder, _advice(names, folder, places))


def _advice(names: Sequence[str], folder: str, places: Sequence[Path]) -> str:
    searched = ", ".join(str(place) for place in [*places, cache_folder()])
    return (
        f"none of {', '.join(names)} was found in {searched}; put one of them into "
        f"{cache_folder() / folder}, or say where it is with --data.init_args.data_dir or the "
        "environment variable LIT_IOS_DATA"
    )


def _fetch(download: Download, folder: str, advice: str) -> Path:
    """Download with a progress bar and check the SHA-256."""
    import pooch

    target = cache_folder() / folder
    reasons = []
    for address in download.addresses:
        try:
            file = pooch.retrieve(
                address,
                known_hash=f"sha256:{download.sha256}",
                fname=download.name,
                path=target,
                progressbar=True,
            )
        except Exception as error:  # any kind of network trouble, or another content
            reasons.append(f"{address}: {type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            return Path(file)
    raise TableError(f"{advice}. The download failed: {'; '.join(reasons)}")
