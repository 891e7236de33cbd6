"""Small files in a stranger's folder: read if they are files, and small."""

import os
from pathlib import Path

import pytest

from lit_ios.small_files import read_small, read_small_json


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert read_small_json(tmp_path / "a.json") == {"a": 1}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is not a file"):
        read_small(tmp_path / "pipe")


def test_a_device_that_never_ends_is_not_read(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="is not a file"):
        read_small(tmp_path / "zero")


def test_a_file_of_many_bytes_is_refused(tmp_path):
    Path(tmp_path / "large").write_bytes(b"x" * 11)
    assert read_small(tmp_path / "large", 11) == b"x" * 11
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_small(tmp_path / "large", 10)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_what_is_no_json_is_a_value_error(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"."):
        read_small_json(tmp_path / "a.json")
