"""What is live survives a restart; paths end, are forgotten, and go on with their own policy."""

import json
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from policies import make_policy, random_paths
from served import Served

from lit_ios import StoppingPolicy
from lit_ios.checks import UserError
from lit_ios.serve.batch import Limits, State
from lit_ios.serve.store import Store


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """Return the checkpoint of a calibrated policy with a forecast."""
    policy = make_policy("iqs")
    policy.calibrate(random_paths(60), max_event_miss_rate=0.3)
    with pytest.warns(UserWarning, match="the threshold was chosen on"):
        policy.learn_forecast(random_paths(60), horizons=(1, 2))
    file = tmp_path_factory.mktemp("calibrated") / "policy.ckpt"
    policy.save(file)
    return file


def test_after_a_restart_paths_go_on_and_repeats_are_answered_as_before(file, policy, tmp_path):
    store, stream = tmp_path / "live.db", policy.stream()
    with Served(file, store) as served:
        for t in range(3):
            stream.step([t, 1], t)
            last = served.ask("POST", "/paths/p/rows", {"time": t, "values": [t, 1]})
        before = served.get("/paths/p")
    with Served(file, store) as served:
        assert served.get("/paths/p") == before
        assert served.ask("POST", "/paths/p/rows", {"time": 2, "values": [2, 1]}) == last
        wanted = stream.step([3, 1], 3)
        assert served.row("p", [3, 1], time=3)["margin"] == pytest.approx(wanted.margin, abs=1e-12)


def test_the_state_of_a_path_goes_on_in_python(served, policy):
    for t in range(3):
        served.row("p", [t, 1], time=t)
    stream = policy.stream(served.get("/paths/p")["state"])
    found = served.row("p", [3, 1], time=3)
    assert stream.step([3, 1], 3).margin == pytest.approx(found["margin"], abs=1e-12)


def test_an_end_is_told_again_and_the_path_takes_no_more_rows(served):
    served.row("p", [1, 2], time=1)
    first = served.ask("POST", "/paths/p/end", {"stopped": True})
    assert first[0] == 200
    assert served.ask("POST", "/paths/p/end", {"stopped": True}) == first
    assert "stopped by the expert" in served.refused("/paths/p/end", {"stopped": False}, 409)
    row = {"time": 1, "values": [1, 2]}
    assert "has ended" in served.refused("/paths/p/rows", row, 409)
    assert served.ask("DELETE", "/paths/p")[0] == 409
    assert served.ask("GET", "/paths/p")[0] == 404
    assert "no live path" in served.refused("/paths/q/end", {"stopped": False}, 404)


def test_a_forgotten_path_begins_anew(served):
    served.row("p", [1, 2], time=1)
    served.row("p", [1, 2], time=2)
    assert served.ask("DELETE", "/paths/p") == (204, b"")
    assert served.ask("DELETE", "/paths/p")[0] == 404
    assert served.row("p", [5, 6], time=1)["t"] == 0


def test_the_monitor_counts_ended_paths_as_it_does_in_python(calibrated, tmp_path):
    place, watch = tmp_path / "live.db", StoppingPolicy.load(calibrated).monitor()
    paths = list(random_paths(12, seed=8))
    for half in (paths[:6], paths[6:]):  # a restart between them
        with Served(calibrated, place) as served:
            for path in half:
                stream = StoppingPolicy.load(calibrated).stream()
                for values, time in zip(path.states, path.times, strict=True):
                    stream.step(values + 9, time)
                    served.row(path.name, (values + 9).tolist(), time=time)
                served.post(f"/paths/{path.name}/end", {"stopped": path.stopped})
                watch.add_stream(stream, path.stopped, path.name)
            found = served.get("/policy")["monitor"]
            assert found["paths"] == len(watch)
            assert found["alarm"] == watch.alarm
            assert found["report"] == watch.report()
            text = served.ask("GET", "/metrics")[1].decode()
            assert "lit_ios_monitor_alarm{policy=" in text
    assert watch.alarm
    assert found["alarm_since"] == watch.alarm_since


def test_the_time_left_is_that_of_a_stream(calibrated, tmp_path):
    stream = StoppingPolicy.load(calibrated).stream()
    with Served(calibrated, tmp_path / "live.db") as served:
        for t in range(4):
            left = stream.step([t, 0.5], t).remaining
            found = served.row("p", [t, 0.5], time=t)["remaining"]
            assert found["low"] == pytest.approx(left.low)
            assert found["within"]["1"] == pytest.approx(left.within(1))
            known = left.median if left.median < float("inf") else None
            assert found["median"] == pytest.approx(known)


def test_paths_of_the_old_policy_go_on_with_it_through_restarts_until_they_end(file, tmp_path):
    own, store = tmp_path / "policy.ckpt", tmp_path / "live.db"
    shutil.copy(file, own)
    old, new = StoppingPolicy.load(file).stream(), make_policy("iqs", seed=5)
    with Served(own, store) as served:
        first = served.row("old", [1, 2], time=0)
        old.step([1, 2], 0)
        new.save(own)  # over the old one
        about = served.post("/policy", {})
        assert about["policy"] != first["policy"]
        assert [one["live"] for one in about["others"]] == [1]
        assert served.row("new", [1, 2], time=0)["policy"] == about["policy"]
    with Served(own, store) as served:
        found = served.row("old", [2, 2], time=1)
        assert found["margin"] == pytest.approx(old.step([2, 2], 1).margin, abs=1e-12)
        assert found["policy"] == first["policy"]
        wanted = new.stream().step([1, 2], 0)
        assert served.row("newer", [1, 2], time=0)["margin"] == pytest.approx(wanted.margin)
        served.post("/paths/old/end", {"stopped": True})
        assert served.get("/policy")["others"] == []
    assert len(Store(str(store)).policies()) == 1


def test_a_policy_that_cannot_be_read_leaves_the_old_one(file, tmp_path):
    own = tmp_path / "policy.ckpt"
    shutil.copy(file, own)
    with Served(own, tmp_path / "live.db") as served:
        key = served.get("/policy")["policy"]
        own.write_bytes(own.read_bytes()[:-9])
        assert "is damaged" in served.refused("/policy", {}, 422)
        assert served.get("/policy")["policy"] == key
        assert served.row("p", [1, 2], time=0)["policy"] == key


def test_a_restart_with_another_policy_keeps_paths_of_the_old_one(file, calibrated, tmp_path):
    with Served(file, tmp_path / "live.db") as served:
        first = served.row("p", [1, 2], time=0)
    with Served(calibrated, tmp_path / "live.db") as served:
        assert served.row("p", [1, 2], time=1)["policy"] == first["policy"]
        assert served.row("q", [1, 2], time=0)["policy"] != first["policy"]


def test_live_paths_are_limited_and_a_place_is_free_again_when_one_ends(served):
    rows = [{"path": f"p{i}", "t": 0, "values": [i, 1]} for i in range(23)]
    found = served.post("/rows", {"rows": rows})
    assert [d.get("status") for d in found["decisions"]] == [None] * 20 + [429] * 3
    served.ask("DELETE", "/paths/p0")
    assert served.row("p20", [1, 1], t=0)["t"] == 0


def test_paths_are_listed_in_order_and_page_by_page(served):
    for i in range(7):
        served.row(f"p{i}", [i - 3, 1], t=0)
    found = served.get("/paths?limit=3")
    margins = [path["last"]["margin"] for path in found["paths"]]
    assert found["live"] == 7
    assert margins == sorted(margins, reverse=True)
    names, after = [], ""
    while page := served.get(f"/paths?order=name&limit=3&after={after}")["paths"]:
        names += [path["path"] for path in page]
        after = names[-1]
    assert names == [f"p{i}" for i in range(7)]
    assert served.get("/paths?order=newest&limit=1")["paths"][0]["path"] == "p6"


def test_two_servers_do_not_share_a_store(served, file):
    with pytest.raises(UserError, match="in use by another server"):
        Served(file, served.state.store.place)


def test_a_store_that_cannot_be_written_says_so_and_nothing_has_changed(served):
    served.row("p", [1, 2], time=0)
    before = served.get("/paths/p")
    store = served.state.store
    write, opened = store._write, store.open

    def fail(changes):
        write(changes)
        raise sqlite3.OperationalError("database or disk is full")

    store._write = fail
    assert "disk is full" in served.refused("/paths/p/rows", {"time": 1, "values": [1, 2]}, 503)
    assert served.get("/paths/p") == before
    store.open = lambda: (_ for _ in ()).throw(UserError("gone"))
    assert "gone" in served.refused("/paths/p/rows", {"time": 1, "values": [1, 2]}, 503)
    store._write, store.open = write, opened
    assert "lit_ios_store_errors_total 2.0" in served.ask("GET", "/metrics")[1].decode()
    assert served.row("p", [1, 2], time=1)["t"] == 1


def test_a_mistake_of_ours_hits_one_request_and_the_server_goes_on(served, monkeypatch, capfd):
    from lit_ios.serve import judging

    judge = judging._judge

    def broken(policy, heads):
        if any(one.name == "evil" for one in heads):
            raise ZeroDivisionError
        judge(policy, heads)

    monkeypatch.setattr(judging, "_judge", broken)
    free, write = threading.Event(), served.state.store._write
    served.state.store._write = lambda changes: (free.wait(5), write(changes))
    row = {"t": 0, "values": [1, 2]}
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(served.beside().post, "/paths/first/rows", row)
        time.sleep(0.1)  # the writer waits, and these three gather
        evil = pool.submit(served.beside().refused, "/paths/evil/rows", row, 500)
        good = [pool.submit(served.beside().row, name, [1, 2], t=0) for name in ("a", "b")]
        time.sleep(0.1)
        free.set()
        assert "mistake" in evil.result()
        assert [one.result()["path"] for one in good] == ["a", "b"]
        assert first.result()["decisions"][0]["path"] == "first"
    assert served.get("/paths")["live"] == 3
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE lit_ios_paths SET carry = x'00'", "cannot be read: buffer size"),
        ("UPDATE lit_ios_paths SET policy = 'x'", "its policy"),
        ("UPDATE lit_ios_store SET version = 9", "another version"),
        ("DELETE FROM lit_ios_answers", "its last answer"),
    ],
)
def test_a_damaged_store_is_refused(file, tmp_path, statement, words):
    place = tmp_path / "live.db"
    with Served(file, place) as served:
        served.row("p", [1, 2], time=0)
    with sqlite3.connect(place) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(UserError, match=words):
        State(Store(str(place)), Limits())


def test_a_file_that_is_no_store_is_refused(tmp_path):
    (tmp_path / "x.db").write_text("hello " * 999)
    with pytest.raises(UserError, match="not a database"):
        Store(str(tmp_path / "x.db"))
    with pytest.raises(UserError, match="no folder"):
        Store(str(tmp_path / "none/x.db"))


def test_answers_are_json_that_every_program_reads(served):
    body = served.ask("POST", "/paths/p/rows", {"time": 1, "values": [1, 2]})[1]
    json.loads(body, parse_constant=lambda word: pytest.fail(word))
