"""Files are written whole or not at all; folders belong to one run."""

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from repository import ROOT

from lit_ios import files
from lit_ios.checks import UserError
from lit_ios.files import (
    ABANDONED,
    claim_version,
    explain_os_error,
    remove_leftovers,
    replacing,
    write_bytes,
    write_json,
    write_text,
)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "kept.txt"
    file.write_text("before")
    return file


def test_a_file_is_replaced_by_what_was_written(file):
    write_text(file, "after ✓")
    assert file.read_text() == "after ✓"
    assert os.listdir(file.parent) == [file.name]


def test_an_error_while_writing_leaves_the_file_as_it_was(file):
    def fail():
        with replacing(file) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_text() == "before"
    assert os.listdir(file.parent) == [file.name]


def test_nothing_is_at_the_place_of_a_new_file_until_it_is_whole(tmp_path):
    with replacing(tmp_path / "new") as stream:
        stream.write(b"half")
        stream.flush()
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new").read_bytes() == b"half"


def test_content_reaches_the_disk_before_its_name_does(file, monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def noted(*args, name=name, real=real):
            happened.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, noted)
    write_text(file, "after")
    assert happened == ["fsync", "replace", "fsync"]  # of the file, then of the folder


def test_a_new_file_has_the_usual_rights_and_an_old_one_keeps_its_own(file):
    plain = file.with_name("plain")
    plain.touch()
    write_text(file.with_name("new"), "")
    assert file.with_name("new").stat().st_mode == plain.stat().st_mode
    file.chmod(0o640)
    write_text(file, "after")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(file):
    link = file.with_name("link")
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink()
    assert file.read_text() == "after"


def test_numbers_that_are_not_finite_are_null_in_json(file):
    write_json(file, {"a": float("nan"), "b": [1.5, float("-inf")], "c": ("x", None)})
    assert json.loads(file.read_text()) == {"a": None, "b": [1.5, None], "c": ["x", None]}


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match=rf"could not be written: there is no folder {tmp_path}/x$"):
        write_text(tmp_path / "x/file", "")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="there is a folder of that name"):
        write_text(tmp_path / "taken", "")
    assert os.listdir(tmp_path) == ["taken"]


def test_the_limit_for_files_is_an_error_in_one_sentence(file):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(UserError, match=r"larger than the limit for files \(ulimit -f\)"):
            write_bytes(file, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_text() == "before"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "not permitted")],
)
def test_other_errors_say_what_to_do(number, words):
    assert words in explain_os_error(OSError(number, os.strerror(number)))


# Leftovers ---------------------------------------------------------------------------------------

KILLED = """
import os, signal
from lit_ios.files import replacing
with replacing({file!r}) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_while_writing(file):
    code = KILLED.format(file=str(file))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == -9


def test_what_a_killed_process_leaves_is_removed_when_the_file_is_written_again(file):
    kill_while_writing(file)
    assert file.read_text() == "before"
    assert len(os.listdir(file.parent)) == 2
    write_text(file.with_name("other"), "")  # not by writing another
    assert len(os.listdir(file.parent)) == 3
    write_text(file, "after")
    assert sorted(os.listdir(file.parent)) == [file.name, "other"]


def test_what_a_killed_process_leaves_is_removed_below_a_folder(file):
    kill_while_writing(file)
    (file.parent / ".hidden.tmp").touch()  # not ours
    remove_leftovers(file.parent.parent)
    assert sorted(os.listdir(file.parent)) == [".hidden.tmp", file.name]


WRITING = """
import sys
from lit_ios.files import replacing
with replacing({file!r}) as stream:
    stream.write(b"after")
    stream.flush()
    print("half", flush=True)
    sys.stdin.read()
"""


def halves(folder):
    return [file for file in folder.iterdir() if file.suffix == ".tmp"]


def test_what_this_process_is_writing_is_left_alone(file):
    with replacing(file) as stream:
        remove_leftovers(file.parent)
        write_text(file, "meanwhile")
        assert len(halves(file.parent)) == 1
        stream.write(b"after")
    assert file.read_text() == "after"


def test_what_another_process_is_writing_is_left_alone(file):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING.format(file=str(file))], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "half\n"
    remove_leftovers(file.parent)
    write_text(file, "meanwhile")
    assert len(halves(file.parent)) == 1
    process.communicate("")
    assert process.returncode == 0
    assert file.read_text() == "after"
    assert halves(file.parent) == []


def test_what_a_killed_process_leaves_is_known_also_where_its_number_is_in_use_again(file):
    kill_while_writing(file)
    (half,) = halves(file.parent)
    words = half.name.split(".")
    words[-3] = str(os.getppid())  # which lives
    half.rename(half.with_name(".".join(words)))
    remove_leftovers(file.parent)
    assert halves(file.parent) == []


def test_what_another_machine_is_writing_is_left_alone_for_a_day(file):
    elsewhere = file.parent / ".kept.txt.another-machine.1.0.tmp"
    elsewhere.touch()
    remove_leftovers(file.parent)
    write_text(file, "meanwhile")
    old = elsewhere.stat().st_mtime - ABANDONED - 1
    os.utime(elsewhere, (old, old))
    remove_leftovers(file.parent)
    assert not elsewhere.exists()


def test_leftovers_are_known_by_their_age_where_there_are_no_locks(file, monkeypatch):
    kill_while_writing(file)
    monkeypatch.setattr(files, "fcntl", None)
    (half,) = halves(file.parent)
    remove_leftovers(file.parent)
    assert half.exists()
    old = half.stat().st_mtime - ABANDONED - 1
    os.utime(half, (old, old))
    write_text(file, "after")
    assert os.listdir(file.parent) == [file.name]


def test_a_pipe_or_a_link_named_as_a_leftover_is_not_opened(file, tmp_path):
    kill_while_writing(file)
    (half,) = halves(file.parent)
    half.unlink()
    os.mkfifo(half)  # whoever opened it would wait
    target = tmp_path / "target"
    target.touch()
    half.with_name(half.name.replace("kept", "link")).symlink_to(target)
    remove_leftovers(file.parent)
    assert target.exists()


def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(file, monkeypatch):
    real, taken = os.open, []

    def snatched(path, *args):
        descriptor = real(path, *args)
        if str(path).endswith(".tmp") and not taken:
            taken.append(path)
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", snatched)
    write_text(file, "after")
    assert taken
    assert file.read_text() == "after"


def test_writers_of_one_file_do_not_take_each_other_for_dead(file):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_bytes(file, b"x" * number, durable=False), range(400)))
    assert set(file.read_bytes()) <= {ord("x")}
    assert os.listdir(file.parent) == [file.name]


# Folders -----------------------------------------------------------------------------------------


def test_versions_are_counted_up_from_the_largest(tmp_path):
    place = tmp_path / "a/b"
    assert [claim_version(place).name for _ in range(3)] == ["version_0", "version_1", "version_2"]
    (place / "version_10").mkdir()
    (place / "version_x").mkdir()
    assert claim_version(place).name == "version_11"


def test_no_two_runs_get_the_same_folder(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        claimed = list(pool.map(lambda _: claim_version(tmp_path), range(200)))
    assert len(set(claimed)) == 200


def test_a_pipe_is_written_into_and_stays_one(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    until = time.monotonic() + 10
    while not read and time.monotonic() < until:
        try:
            write_text(pipe, "content")
            break
        except UserError:  # it is not being read yet
            time.sleep(0.01)
    reader.join(10)
    assert read == [b"content"]
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="it is a pipe that nobody reads"):
        write_text(tmp_path / "pipe", "content")


def test_a_device_is_written_into_and_stays_one(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_text("")
    except OSError:
        pytest.skip("no right to make devices")
    write_text(device, "content")
    assert device.is_char_device()


def test_what_the_program_prints_to_is_written_into(tmp_path):
    code = (
        "from lit_ios.files import write_text; print('before'); "
        "write_text('/dev/stdout', 'content\\n'); print('after')"
    )
    with (tmp_path / "said.txt").open("w") as said:
        subprocess.run([sys.executable, "-c", code], stdout=said, cwd=ROOT, check=True)
    assert (tmp_path / "said.txt").read_text() == "before\ncontent\nafter\n"


def test_bytes_of_a_name_that_are_no_text_are_escaped(tmp_path):
    write_text(tmp_path / "names.csv", os.fsdecode(b"a\xff"))
    assert (tmp_path / "names.csv").read_text() == "a\\udcff"
