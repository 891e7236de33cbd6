"""Rows over HTTP: those of a stream, each counted once, in order, or refused."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from policies import make_policy, random_paths
from served import Served

FIELDS = ("t", "time", "stop", "margin", "probability", "first_stop", "familiar")


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
@pytest.mark.filterwarnings("ignore:rows are")
def test_decisions_are_those_of_a_stream_row_by_row_together_and_many_at_once(variant, tmp_path):
    policy, paths = make_policy(variant, lags=2, members=3), random_paths(12, longest=12)
    policy.save(tmp_path / "policy.ckpt")
    with Served(tmp_path / "policy.ckpt", tmp_path / "live.db") as served:
        for i, path in enumerate(paths):
            stream = policy.stream()
            wanted = [stream.step(s, t) for s, t in zip(path.states, path.times, strict=True)]
            rows = [
                {"time": t, "values": dict(zip("ab", s, strict=True))}
                for s, t in zip(path.states.tolist(), path.times.tolist(), strict=True)
            ]
            if i % 3 == 0:
                found = [served.row(path.name, **row) for row in rows]
            elif i % 3 == 1:
                found = served.post(f"/paths/{path.name}/rows", {"rows": rows})["decisions"]
            else:
                named = [row | {"path": n} for row in rows for n in (path.name, f"twin{i}")]
                found = served.post("/rows", {"rows": named})["decisions"]
                assert [d["margin"] for d in found[::2]] == [d["margin"] for d in found[1::2]]
                found = found[::2]
            for one, other in zip(found, wanted, strict=True):
                for field in FIELDS:
                    assert one[field] == pytest.approx(getattr(other, field), abs=1e-9), field
                assert tuple(one["unfamiliar"]) == other.unfamiliar


def test_a_row_sent_again_gets_the_same_bytes_and_changes_nothing(served):
    body = {"time": 3.5, "values": {"a": 1, "b": 2}}
    first = served.ask("POST", "/paths/p/rows", body)
    before = served.get("/paths/p")
    assert served.ask("POST", "/paths/p/rows", body) == first
    assert served.ask("POST", "/paths/p/rows", body | {"values": [1.0, 2], "t": 0}) == first
    assert served.get("/paths/p") == before
    assert before["rows"] == 1


def test_a_row_sent_again_with_other_values_or_another_time_is_refused(served):
    served.row("p", [1, 2], time=3, t=0)
    assert "taken before with other values" in served.refused(
        "/paths/p/rows", {"time": 3, "values": [1, 3]}, 409
    )
    assert "another time" in served.refused(
        "/paths/p/rows", {"t": 0, "time": 2, "values": [1, 2]}, 409
    )
    assert served.get("/paths/p")["rows"] == 1


def test_rows_must_come_in_order(served):
    served.row("p", [1, 2], time=3)
    assert "rows must come in order" in served.refused(
        "/paths/p/rows", {"time": 2, "values": [1, 2]}, 409
    )
    assert "row 1 is next, got row 2" in served.refused(
        "/paths/p/rows", {"t": 2, "values": [1, 2]}, 409
    )
    assert "time must increase" in served.refused(
        "/paths/p/rows", {"t": 1, "time": 3, "values": [1, 2]}, 409
    )


def test_a_row_without_time_and_number_is_refused_for_it_could_not_be_told_from_a_repeat(served):
    assert "give the row its time, or its number" in served.refused(
        "/paths/p/rows", {"values": [1, 2]}, 422
    )
    assert served.get("/paths")["live"] == 0


def test_rows_without_times_are_told_by_their_numbers(served, policy):
    stream = policy.stream()
    for t in range(3):
        found = served.row("p", [t, 1], t=t)
        assert found["margin"] == pytest.approx(stream.step([t, 1]).margin, abs=1e-12)
    assert served.row("p", [2, 1], t=2) == found


def test_only_the_last_rows_are_remembered_and_a_request_holds_no_more(served):
    for t in range(6):
        served.row("p", [t, 1], time=t)
    assert served.row("p", [2, 1], time=2)["t"] == 2
    assert "none of the last 4" in served.refused(
        "/paths/p/rows", {"time": 1, "values": [1, 1]}, 409
    )
    rows = [{"time": 10 + i, "values": [0, 0]} for i in range(5)]
    assert "at most 4 rows of a path" in served.refused("/paths/p/rows", {"rows": rows}, 413)
    (count,) = served.state.store._execute("SELECT COUNT(*) FROM lit_ios_answers").fetchone()
    assert count == 4


def test_a_whole_request_sent_again_and_longer_is_answered_as_before_and_goes_on(served):
    rows = [{"time": i, "values": [i, 1]} for i in range(3)]
    first = served.post("/paths/p/rows", {"rows": rows})["decisions"]
    more = served.post("/paths/p/rows", {"rows": [*rows, {"time": 3, "values": [3, 1]}]})
    assert more["decisions"][:3] == first
    assert more["decisions"][3]["t"] == 3


def test_rows_of_one_path_are_taken_together_or_not_at_all_and_others_do_not_suffer(served):
    rows = [
        {"path": "good", "time": 1, "values": [1, 2]},
        {"path": "bad", "time": 1, "values": [1, 2]},
        {"path": "bad", "time": 2, "values": [1, None]},
        {"path": "good", "time": 1, "values": [1, 2]},
    ]
    found = served.post("/rows", {"rows": rows})
    assert found["refused"] == 2
    good, bad, worse, again = found["decisions"]
    assert good == again
    assert bad == worse
    assert bad["status"] == 422
    assert "row 1 of the request: column 'b': missing" in bad["error"]
    assert [path["path"] for path in served.get("/paths")["paths"]] == ["good"]


def test_many_paths_of_which_some_cannot_be_judged_have_the_margins_they_have_alone(served, policy):
    rng = np.random.default_rng(5)
    values = {f"p{i}": rng.normal(size=2).tolist() for i in range(15)}
    rows = [
        {"path": name, "time": 0, "values": [None, 1] if i % 4 == 0 else row}
        for i, (name, row) in enumerate(values.items())
    ]
    for row, found in zip(rows, served.post("/rows", {"rows": rows})["decisions"], strict=True):
        if row["values"][0] is None:
            assert found["status"] == 422
        else:
            alone = policy.stream().step(row["values"], 0)
            assert found["margin"] == pytest.approx(alone.margin, abs=1e-12)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"values": {"a": 1}}, "no column 'b'"),
        ({"values": [1]}, "2 columns are needed"),
        ({"values": [1, "x"]}, "must be numbers"),
        ({"values": {"a": 1, "b": "inf"}}, "column 'b' is infinite"),
        ({"values": {"a": 1, "b": 10**400}}, "not a number"),
        ({"values": [1, 10**400]}, "must be numbers"),
        ({"values": [1, 1e308]}, None),
        ({"values": [1, 2], "time": 10**400}, "time must be"),
        ({"values": [1, 2], "time": "yesterday"}, "time must be"),
        ({"values": [1, 2], "time": True}, "a time is a number"),
        ({"values": [1, [2]]}, "a value is a number"),
        ({"values": [1, 2], "t": -1}, "greater than or equal to 0"),
        ({"values": [1, 2], "tiem": 1}, "tiem: Extra inputs are not permitted"),
        ({}, "values: Field required"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused_in_a_sentence(served, row, words):
    status, body = served.ask("POST", "/paths/p/rows", {"time": 1} | row)
    if words is not None:
        assert status == 422
        assert words in json.loads(body)["error"]
    assert served.get("/paths")["live"] == (status == 200)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_json_are_refused(served, number):
    for body in (f'{{"time":1,"values":[1,{number}]}}', f'{{"time":{number},"values":[1,2]}}'):
        kind = {"content-type": "application/json"}
        status, answer = served.ask("POST", "/paths/p/rows", body, **kind)
        assert status == 422
        assert "give null" in json.loads(answer)["error"]


def test_requests_at_the_same_time_are_counted_each_once(file, tmp_path):
    with Served(file, tmp_path / "live.db", requests=200) as served:
        start = threading.Barrier(8)

        def go(worker):
            mine = served.beside()
            start.wait()
            own = [mine.row(f"own{worker}", [t, 1], t=t)["t"] for t in range(20)]
            shared = [mine.row("shared", [t, 1], t=t) for t in range(20)]  # all send the same
            mine._connection.close()
            return own, shared

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(go, range(8)))
        assert all(own == list(range(20)) for own, _ in found)
        assert all(shared == found[0][1] for _, shared in found)
        assert {path["rows"] for path in served.get("/paths")["paths"]} == {20}
        assert (
            'lit_ios_rows_total{result="taken"} 180.0' in served.ask("GET", "/metrics")[1].decode()
        )
