"""A server in a process of its own: killed, told to end, without torch."""

import json
import signal
from pathlib import Path

import pytest

from benchmarks.reliability_checks import serving
from benchmarks.reliability_checks.serving import Server, server_kills
from benchmarks.serve import measure

KEY = "a key of 24 characters !"


def ask(server, method, place, body=None, **headers):
    connection = server.connect()
    text = None if body is None else json.dumps(body)
    connection.request(method, place, text, {"content-type": "application/json"} | headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_server_that_is_killed_in_mid_load_has_what_it_answered_and_nothing_twice():
    found = server_kills(2, 7)
    assert found.bad == 0, found.note


def test_the_check_notices_a_server_that_does_not_keep_what_it_answered(monkeypatch):
    monkeypatch.setattr(serving, "ROWS", 40)
    started = Server.start

    def forgetful(self):
        place = Path(self._words[self._words.index("--store") + 1])
        for file in place.parent.glob(f"{place.name}*"):
            file.unlink()
        started(self)

    monkeypatch.setattr(Server, "start", forgetful)
    assert server_kills(1, 7).bad > 0


def test_told_to_end_a_server_answers_what_it_has_begun_and_lets_go_of_its_store(file, tmp_path):
    store = str(tmp_path / "live.db")
    for t in range(2):
        server = Server(file, store, LIT_IOS_API_KEY=KEY)
        row = {"t": t, "values": [1, 2]}
        key = {"authorization": f"Bearer {KEY}"}
        assert ask(server, "POST", "/paths/p/rows", row)[0] == 401
        assert ask(server, "POST", "/paths/p/rows", row, **key)[0] == 200
        assert server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert not (tmp_path / "live.db-wal").exists()  # closed, not left


def test_an_exported_policy_is_served_without_torch(policy, tmp_path):
    file, stream = policy.export(tmp_path / "policy.onnx"), policy.stream()
    server = Server(file, str(tmp_path / "live.db"))
    for t in range(4):
        body = ask(server, "POST", "/paths/p/rows", {"time": t, "values": [t, 1]})[1]
        found = json.loads(body)["decisions"][0]
        assert found["margin"] == pytest.approx(stream.step([t, 1], t).margin, abs=1e-5)
    assert "torch" not in Path(f"/proc/{server._process.pid}/maps").read_text()
    server.end()


def test_load_is_measured_beside_a_bare_server_and_streams():
    found = measure(None, 0.3, 1)
    assert {"hello, 1", "row, 64", "1000 rows, 1", "stream.step"} <= found.keys()
    assert all(one["rate"] > 0 for one in found.values())
