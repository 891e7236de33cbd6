"""Compiled steps are kept whole, built once, and taken only from where nobody else can write."""

import multiprocessing
import os
import time

import pytest

from lit_ios.modules import step_cache
from lit_ios.modules.step_cache import UnsafeCacheError, cache_folder, find, find_or_build


def write(made, other):
    (made / "step.so").write_bytes(b"library")
    (made / "terms.json").write_text("[]")
    (other / "left over").write_text("")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "own"))
    return cache_folder()


def never(made, other):
    raise AssertionError("nothing was to be built")


def test_the_folder_is_made_for_its_owner_only(folder, tmp_path):
    assert folder == tmp_path / "own/steps"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_folder_of_ones_own_it_lies_among_the_users_caches(tmp_path, monkeypatch):
    monkeypatch.delenv("LIT_IOS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "lit_ios/steps"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("place", ["own/steps", "own"])
def test_a_folder_that_others_can_write_to_is_refused(folder, tmp_path, place, mode):
    (tmp_path / place).chmod(mode)
    with pytest.raises(UnsafeCacheError, match=f"other users can write to .*{place}"):
        cache_folder()


def test_what_a_link_leads_to_counts(folder, tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "steps").mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared)
    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "link"))
    with pytest.raises(UnsafeCacheError, match="other users can write"):
        cache_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_a_folder_of_somebody_else_is_refused(folder):
    os.chown(folder, 12345, 12345)
    with pytest.raises(UnsafeCacheError, match="belongs to another user"):
        cache_folder()


def test_a_step_that_others_can_change_is_refused(folder):
    (find_or_build(folder, "a", write) / "step.so").chmod(0o666)
    with pytest.raises(UnsafeCacheError, match="other users can write"):
        find(folder, "a")


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "file"))
    with pytest.raises(UnsafeCacheError, match="file/steps could not be made"):
        cache_folder()


def test_a_step_is_built_once_and_carries_its_checksum(folder):
    assert find(folder, "a") is None
    built = find_or_build(folder, "a", write)
    assert (built / "step.so").read_bytes() == b"library"
    assert {file.name for file in built.iterdir()} == {"step.so", "terms.json", "sums.json"}
    assert find_or_build(folder, "a", never) == find(folder, "a") == built
    assert find(folder, "b") is None


@pytest.mark.parametrize("name", ["step.so", "terms.json", "sums.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone"])
def test_a_damaged_step_is_built_again(folder, name, damage):
    built = find_or_build(folder, "a", write)
    file, whole = built / name, (built / name).read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        flipped = bytes([whole[0] ^ 1]) + whole[1:]
        file.write_bytes({"flip": flipped, "cut": whole[:-1], "empty": b""}[damage])
    assert find(folder, "a") is None
    assert find_or_build(folder, "a", write) == find(folder, "a") == built
    assert file.read_bytes() == whole


def test_a_file_that_was_put_beside_a_step_is_not_taken(folder):
    built = find_or_build(folder, "a", write)
    (built / "step.json").write_text("{}")
    assert find(folder, "a") is None


def test_a_build_that_fails_leaves_nothing_behind(folder):
    def fail(made, other):
        (made / "step.so").write_bytes(b"half")
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        find_or_build(folder, "a", fail)
    assert [file.name for file in folder.iterdir()] == ["a.lock"]
    assert find(folder, "a") is None


def test_what_a_killed_build_left_is_removed(folder):
    (folder / "a.build/inductor").mkdir(parents=True)
    find_or_build(folder, "a", write)
    assert sorted(file.name for file in folder.iterdir()) == ["a", "a.lock"]


def _build_slowly(folder, log):
    def build(made, other):
        with log.open("a") as stream:
            stream.write("built\n")
        time.sleep(0.3)
        write(made, other)

    find_or_build(folder, "a", build)
    assert find(folder, "a") is not None


def test_of_several_processes_one_builds_and_the_others_wait(folder, tmp_path):
    context = multiprocessing.get_context("fork")
    log = tmp_path / "log"
    several = [context.Process(target=_build_slowly, args=(folder, log)) for _ in range(4)]
    for process in several:
        process.start()
    for process in several:
        process.join()
    assert [process.exitcode for process in several] == [0, 0, 0, 0]
    assert log.read_text() == "built\n"


def test_the_steps_not_used_for_longest_are_removed(folder, monkeypatch):
    monkeypatch.setattr(step_cache, "KEPT", 2)
    for age, key in enumerate("abc"):
        built = find_or_build(folder, key, write)
        os.utime(built, (1000 - age, 1000 - age))
    find(folder, "a")  # used now
    find_or_build(folder, "d", write)
    assert sorted(place.name for place in folder.iterdir()) == ["a", "a.lock", "d", "d.lock"]
