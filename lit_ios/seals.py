"""Files that end in a SHA-256 of all before it, so that a bit that changed on a disk is noticed.

The checksum stands where other programs pass over it: in the comment of a zip archive, or in a
metadata entry of an ONNX model that comes last. It finds accidents; it is no signature.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from lit_ios.checks import UserError
from lit_ios.memory import memory_at_hand

SEAL = b"lit-ios sha256 "  # before the checksum
_DIGITS = 2 * hashlib.sha256().digest_size
_SIZE = len(SEAL) + _DIGITS
_KEY = b"lit_ios_seal"  # of the entry in an ONNX model
_BEGINNINGS = (b"PK\x03\x04", b"\x08")  # of a zip archive and of an ONNX model


def seal(body: bytes) -> bytes:
    """Return bytes with their checksum behind them."""
    body += SEAL
    return body + hashlib.sha256(body).hexdigest().encode()


def seal_archive(archive: bytes) -> bytes:
    """Return a zip archive whose comment is its checksum."""
    if archive[-22:-18] != b"PK\x05\x06":  # the end of an archive without a comment
        raise RuntimeError("torch no longer writes a zip archive without a comment")
    return seal(archive[:-2] + _SIZE.to_bytes(2, "little"))


def seal_model(model: bytes) -> bytes:
    """Return an ONNX model whose last metadata entry is its checksum.

    Protocol buffers allow the entries of a repeated field, here field 14 of ModelProto with a key
    and a value, to stand anywhere, thus behind all others.
    """
    entry = bytes([0x0A, len(_KEY)]) + _KEY + bytes([0x12, _SIZE])
    return seal(model + bytes([0x72, len(entry) + _SIZE]) + entry)


def read_sealed(file: str | Path, what: str, instead: str) -> bytes:
    """Read a file; refuse one that is not as it was written.

    Args:
        file: to be read.
        what: it should be, with its article.
        instead: what to do if it is not.
    """
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}: {instead}")
    try:
        if Path(file).stat().st_size > memory_at_hand():
            raise MemoryError
        data = Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    except MemoryError:
        raise UserError(f"{file} is larger than the memory at hand: {instead}") from None
    body, checksum = data[:-_DIGITS], data[-_DIGITS:]
    if body.endswith(SEAL) and hashlib.sha256(body).hexdigest().encode() == checksum:
        return data
    if SEAL in data[-2 * _SIZE :]:
        raise UserError(f"{file} is damaged: its content is not what its checksum says; {instead}")
    if data.startswith(_BEGINNINGS):
        raise UserError(f"{file} is not {what}, or not all of it: it lacks a checksum; {instead}")
    raise UserError(f"{file} is not {what}: {instead}")
