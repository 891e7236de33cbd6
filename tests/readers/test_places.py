"""Where data files are looked for, and how they are fetched from a server (here: this machine)."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lit_ios.readers import TableError
from lit_ios.readers.places import Download, find_file


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep the user's own cache and data folder out."""
    monkeypatch.delenv("LIT_IOS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "cache/lit-ios"


@pytest.fixture
def server(tmp_path):
    """Serve a folder with one file; return the address."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "engines.txt").write_text("1 2 3\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


SHA256 = hashlib.sha256(b"1 2 3\n").hexdigest()


def test_given_folder_comes_before_the_variable_and_that_before_the_cache(
    tmp_path, cache, monkeypatch
):
    places = {name: tmp_path / name for name in ("given", "variable")} | {"cache": cache}
    for place in places.values():
        (place / "set").mkdir(parents=True)
        (place / "set/a.txt").write_text("x")
    monkeypatch.setenv("LIT_IOS_DATA", str(places["variable"]))
    assert find_file(["a.txt"], "set", str(places["given"])) == places["given"] / "set/a.txt"
    assert find_file(["a.txt"], "set", None) == places["variable"] / "set/a.txt"
    monkeypatch.delenv("LIT_IOS_DATA")
    assert find_file(["a.txt"], "set", None) == cache / "set/a.txt"


def test_better_name_wins_and_the_inner_folder_may_be_left_out(tmp_path):
    (tmp_path / "b.txt").write_text("x")
    assert find_file(["a.txt", "b.txt"], "set", str(tmp_path)) == tmp_path / "b.txt"
    (tmp_path / "a.txt").write_text("x")
    assert find_file(["a.txt", "b.txt"], "set", str(tmp_path)) == tmp_path / "a.txt"


def test_file_is_downloaded_once_into_the_cache(server, cache):
    download = Download("engines.txt", f"{server}/engines.txt", SHA256)
    file = find_file(["engines.txt"], "set", None, [download])
    assert file == cache / "set/engines.txt"
    assert file.read_text() == "1 2 3\n"
    nowhere = Download("engines.txt", "http://127.0.0.1:9/engines.txt", SHA256)
    assert find_file(["engines.txt"], "set", None, [nowhere]) == file


def test_second_address_is_tried_when_the_first_fails(server):
    downloads = [
        Download("engines.txt", f"{server}/gone.txt", SHA256),
        Download("engines.txt", f"{server}/engines.txt", SHA256),
    ]
    assert find_file(["engines.txt"], "set", None, downloads).read_text() == "1 2 3\n"


def test_other_content_is_refused_and_not_kept(server, cache):
    download = Download("engines.txt", f"{server}/engines.txt", "0" * 64)
    with pytest.raises(TableError, match=r"The download failed: .*engines.txt.*hash"):
        find_file(["engines.txt"], "set", None, [download])
    assert not list(cache.rglob("*.txt"))


def test_without_network_the_error_says_which_file_to_put_where(cache):
    download = Download("engines.txt", "http://127.0.0.1:9/engines.txt", SHA256)
    with pytest.raises(TableError) as caught:
        find_file(["engines.txt"], "set", None, [download])
    message = str(caught.value)
    assert "engines.txt" in message
    assert f"put one of them into {cache / 'set'}" in message
    assert "data_dir='…'" in message
    assert "LIT_IOS_DATA" in message
    assert "http://127.0.0.1:9/engines.txt" in message


def test_missing_data_dir_is_named(tmp_path):
    with pytest.raises(TableError, match=r"there is no folder .*nowhere"):
        find_file(["a.txt"], "set", str(tmp_path / "nowhere"))
