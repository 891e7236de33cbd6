"""Who may ask, how much and how long; and what the pages hold."""

import json
import re
import socket
import subprocess
import sys
import threading
import time

import pytest
from repository import ROOT
from served import Served

from lit_ios.checks import UserError
from lit_ios.program import main
from lit_ios.serve import pages, serve, server

KEY = "a key of 24 characters !"
ROW = {"time": 1, "values": [1, 2]}


def test_whoever_has_no_key_sees_only_what_says_nothing_of_paths(file, tmp_path):
    with Served(file, tmp_path / "live.db", key=KEY) as served:
        served.row("p", [1, 2], time=1)
        served.key = None
        for place in ("/", "/docs", "/health", "/openapi.json"):
            assert served.ask("GET", place)[0] == 200
        for method, place in [
            ("GET", "/paths"), ("GET", "/paths/p"), ("DELETE", "/paths/p"), ("GET", "/metrics"),
            ("POST", "/paths/p/rows"), ("POST", "/rows"), ("POST", "/paths/p/end"),
            ("GET", "/policy"), ("POST", "/policy"), ("GET", "/nothing"), ("GET", "//paths"),
        ]:  # fmt: skip
            for given in (None, "Bearer ", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", KEY):
                headers = {} if given is None else {"authorization": given}
                status, body = served.ask(method, place, None, **headers)
                assert (status, method, place) == (401, method, place)
                assert "Authorization: Bearer" in json.loads(body)["error"]
        served.key = KEY
        assert served.get("/paths")["live"] == 1


def test_without_a_key_a_name_of_a_stranger_that_leads_here_is_refused(file, tmp_path):
    with Served(file, tmp_path / "live.db", local=True) as served:
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
            status, body = served.ask("GET", "/paths", None, host=host)
            assert status in (400, 421), body
        for host in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
            assert served.ask("GET", "/paths", None, host=host)[0] == 200


def test_pages_of_other_servers_may_not_ask(served):
    own = f"http://127.0.0.1:{served.port}"
    assert served.ask("POST", "/policy", None, origin="http://evil.example")[0] == 403
    assert served.ask("POST", "/policy", None, origin="null")[0] == 403
    assert served.ask("POST", "/policy", None, origin=own)[0] == 200


def test_rows_of_a_plain_form_are_refused(served):
    text = json.dumps(ROW)
    assert served.ask("POST", "/paths/p/rows", text, **{"content-type": "text/plain"})[0] == 422
    assert served.ask("POST", "/paths/p/rows", text)[0] == 422
    assert served.get("/paths")["live"] == 0


def test_a_body_that_is_too_long_is_refused_told_or_not(file, tmp_path):
    with Served(file, tmp_path / "live.db", body=1000) as served:
        long = json.dumps(ROW | {"values": {"a": "x" * 1000}})
        assert served.ask("POST", "/rows", long)[0] == 413
        served._connection.close()
        chunks = (long[i : i + 100].encode() for i in range(0, len(long), 100))  # without a length
        served._connection.request("POST", "/rows", chunks, encode_chunked=True)
        answer = served._connection.getresponse()
        assert answer.status == 413
        assert "at most 1000 bytes" in json.loads(answer.read())["error"]
        served._connection.close()
        assert served.row("p", [1, 2], time=1)["t"] == 0


def test_a_body_that_does_not_come_is_not_waited_for(file, tmp_path):
    with Served(file, tmp_path / "live.db", seconds=0.2) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as slow:
            slow.sendall(b"POST /rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
            assert b"408" in slow.recv(100)
        assert served.row("p", [1, 2], time=1)["t"] == 0


def test_one_request_too_many_is_told_to_come_again(file, tmp_path):
    with Served(file, tmp_path / "live.db", requests=1) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as slow:
            slow.sendall(b"POST /rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
            time.sleep(0.1)
            assert "try later" in served.refused("/paths/p/rows", ROW, 503)
            assert served.get("/health") == {"status": "ok"}
        time.sleep(0.1)
        assert served.row("p", [1, 2], time=1)["t"] == 0


def test_an_answer_that_takes_too_long_can_be_asked_for_again(file, tmp_path):
    with Served(file, tmp_path / "live.db", seconds=0.3) as served:
        free, write = threading.Event(), served.state.store._write
        served.state.store._write = lambda changes: (free.wait(5), write(changes))
        assert "send the same again" in served.refused("/paths/p/rows", ROW, 503)
        free.set()
        assert served.row("p", [1, 2], time=1)["t"] == 0
        assert served.get("/paths/p")["rows"] == 1


@pytest.mark.parametrize(
    "name", ["a%2Fb", "%00", ".", "..", "%ED%A0%80", "%0A", "x" * 201, "%E2%80%AE"]
)
def test_names_that_are_none_are_refused(served, name):
    status, body = served.ask("POST", f"/paths/{name}/rows", ROW)
    assert status in (404, 405, 422)
    assert json.loads(body)["error"]
    assert served.get("/paths")["live"] == 0


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "Ω 17", "a'b\"c", "a?b#c&d%"])
def test_names_may_hold_anything_that_is_printed(served, name):
    from urllib.parse import quote

    assert served.row(quote(name), [1, 2], time=1)["path"] == name
    assert served.get(f"/paths/{quote(name)}")["path"] == name


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"), (b"\xff\xfe", None), (b"[" * 100_000, None), (b"null", "JSON object"),
        (b'{"rows": []}', "at least 1 item"), (b'{"rows": 3}', "list"), (b"1" * 5000, None),
        (b'{"rows": [{"path": "\\ud800", "time": 1, "values": []}]}', "unicode"),
        (b'{"rows": [{"path": "p", "time": "\\ud800", "values": [1, 2]}]}', "time"),
    ],
)  # fmt: skip
def test_bodies_that_are_none_are_refused_in_the_one_shape(served, body, words):
    status, answer = served.ask("POST", "/rows", body, **{"content-type": "application/json"})
    assert status in (400, 422, 200)
    said = json.loads(answer)
    assert words is None or words in json.dumps(said)


@pytest.mark.parametrize("place", pages.PAGES)
def test_pages_load_nothing_from_elsewhere_and_write_text_only(served, place):
    served._connection.request("GET", place)
    answer = served._connection.getresponse()
    page = answer.read().decode()
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"https?://|(src|href)=\"//|@import|url\(", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)
    assert not re.search(r"\son\w+=|style=", page)  # the content policy would refuse them


def test_a_server_that_others_can_reach_needs_a_key_unless_told(monkeypatch):
    monkeypatch.delenv("LIT_IOS_API_KEY", raising=False)
    for host in ("0.0.0.0", "::"):
        with pytest.raises(UserError, match="set LIT_IOS_API_KEY"):
            serve(lambda: None, host=host)
    assert server.is_local("127.0.0.1")
    assert server.is_local("localhost")
    monkeypatch.setenv("LIT_IOS_API_KEY", "short")
    with pytest.raises(UserError, match="at least 16"):
        serve(lambda: None)


def test_the_command_says_in_one_line_what_it_cannot_do(file, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LIT_IOS_API_KEY", raising=False)
    nowhere = ["--store", str(tmp_path / "none/live.db"), "--port", "0"]
    for words, said in [
        ([], "serve needs a run"),
        ([str(tmp_path / "x.ckpt")], "there is no file"),
        ([str(file), *nowhere], "--store: there is no folder"),
        ([str(file), "--port", "70000"], "--port must lie between"),
        ([str(file), "--host", "256.1.1.1"], "--host: there is no address"),
        ([str(file), "--remember", "0"], "--remember"),
    ]:
        if words and not words[0].startswith("-") and "--store" not in words:
            words = [*words, "--store", str(tmp_path / "live.db")]
        assert main(["serve", *words]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert said in lines[0]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(file), "--port", port, "--store", str(tmp_path / "l.db")]) == 1
        assert "cannot be listened at" in capsys.readouterr().err


def test_whoever_lacks_the_extra_is_told_its_name():
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from lit_ios.program import main; sys.exit(main(['serve', 'setup.py']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: lit-ios serve needs fastapi: pip install 'lit-ios[serve]'\n"
