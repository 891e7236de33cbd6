"""Folders of tables: one task per file, nothing lost, nothing done twice, no path cut."""

import socket
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pa_parquet
import pytest
import scale_tasks
from policies import make_policy, random_paths

from lit_ios.checks import UserError
from lit_ios.scale import Place, folders, predict_folder, results

ROLES = {"path": "unit", "time": "day"}
FILES = {"first.csv": 1, "second.parquet": 2, "third.csv": 3}


@pytest.fixture
def policy(tmp_path):
    made = make_policy(lags=1)
    made.save(tmp_path / "policy.ckpt")
    return made


@pytest.fixture
def folder(tmp_path):
    """Return a folder of three tables with paths of their own."""
    place = tmp_path / "data"
    place.mkdir()
    for name, seed in FILES.items():
        frame = as_frame(random_paths(8, seed), name[0])
        write = frame.to_csv if name.endswith("csv") else frame.to_parquet
        write(place / name, index=False)
    return place


def as_frame(paths, prefix):
    frame = pd.DataFrame(paths.states, columns=["a", "b"])
    frame["unit"] = np.repeat([prefix + name for name in paths.names], paths.lengths)
    frame["day"] = paths.times
    return frame


@pytest.fixture
def predict(tmp_path, folder, policy):
    def run(**settings):
        return predict_folder(
            tmp_path / "policy.ckpt", folder, tmp_path / "out", **(ROLES | settings)
        )

    return run


def read(place):
    return {file.stem: pa_parquet.read_table(file) for file in sorted(place.glob("*.parquet"))}


@pytest.mark.parametrize("processes", [1, 2])
def test_decisions_on_a_folder_are_those_on_its_files(predict, policy, folder, tmp_path, processes):
    found = predict(place=Place(processes=processes))
    tables = read(tmp_path / "out/rows")
    assert list(tables) == ["first", "second", "third"]
    stopped = 0
    for name in FILES:
        alone = policy.predict(folder / name, **ROLES)
        assert tables[name.split(".")[0]].replace_schema_metadata(None).equals(alone)
        stopped += alone["first_stop"].to_numpy().sum()
    rows = sum(table.num_rows for table in tables.values())
    assert found == (rows, 24, stopped, 3, 0)
    assert sum(table.num_rows for table in read(tmp_path / "out/paths").values()) == 24


def test_second_call_does_only_what_is_missing(predict, tmp_path):
    first = predict()
    kept = tmp_path / "out/rows/first.parquet"
    before = kept.stat().st_mtime_ns
    (tmp_path / "out/paths/second.parquet").unlink()
    assert predict() == first._replace(kept=2)
    assert kept.stat().st_mtime_ns == before
    assert predict().kept == 3


def test_file_that_changed_is_decided_on_again(predict, folder, tmp_path):
    predict()
    frame = as_frame(random_paths(3, 9), "f")
    frame.to_csv(folder / "first.csv", index=False)
    found = predict()
    assert found.kept == 2
    assert found.paths == 19
    assert read(tmp_path / "out/rows")["first"].num_rows == len(frame)


def test_decisions_of_another_policy_are_kept_unless_told_otherwise(predict, policy, tmp_path):
    before = predict()
    policy.threshold = 1e9
    policy.save(tmp_path / "policy.ckpt")
    with pytest.raises(UserError, match="is of another policy or other settings"):
        predict()
    after = predict(overwrite=True)
    assert after.stopped == 0 < before.stopped
    with pytest.raises(UserError, match="other settings"):
        predict(sort=True)


def test_rows_of_another_policy_are_not_kept_where_overwriting_ended_half_way(
    predict, policy, tmp_path
):
    before = predict()
    first, rows = tmp_path / "policy.ckpt", tmp_path / "out/rows/first.parquet"
    kept, wanted = first.read_bytes(), rows.read_bytes()
    policy.threshold = 1e9
    policy.save(first)
    predict(overwrite=True)
    half = rows.read_bytes()  # what is there if the process is killed before the table of paths
    first.write_bytes(kept)
    predict(overwrite=True)
    assert rows.read_bytes() == wanted != half
    rows.write_bytes(half)
    assert predict() == before._replace(kept=2)
    assert rows.read_bytes() == wanted


def test_path_in_two_files_is_refused_and_not_kept(predict, folder, tmp_path):
    half = as_frame(random_paths(8, 1), "f").head(3)
    half.to_csv(folder / "again.csv", index=False)
    with pytest.raises(UserError, match=r"path 'fp0' lies in .*again.csv and .*first.csv"):
        predict()
    assert set(read(tmp_path / "out/rows")) == {"second", "third"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("first.parquet", "2 files whose decisions would all be first.parquet"), (None, "not among")],
)
def test_names_that_clash_are_refused(predict, folder, name, sentence):
    if name is None:
        predict()
        (folder / "third.csv").unlink()
    else:
        as_frame(random_paths(2, 5), "x").to_parquet(folder / name)
    with pytest.raises(UserError, match=sentence):
        predict()


def test_output_among_the_data_is_refused(folder, policy, tmp_path):
    with pytest.raises(UserError, match="is in the folder of the data"):
        predict_folder(tmp_path / "policy.ckpt", folder, folder / "out", **ROLES)


def test_bad_row_is_named_with_its_file(predict, folder, tmp_path):
    frame = as_frame(random_paths(2, 5), "x")
    frame.loc[1, "a"] = np.inf
    frame.to_csv(folder / "bad.csv", index=False)
    with pytest.raises(UserError, match=r"bad\.csv"):
        predict(place=Place(processes=2))


def test_notes_are_passed_on_with_their_files(predict, folder):
    frame = pd.read_csv(folder / "third.csv")
    frame["day"] *= 1e6
    frame.to_csv(folder / "third.csv", index=False)
    with pytest.warns(UserWarning, match=r"^third.csv: "):
        predict()
    with pytest.warns(UserWarning, match=r"^third.csv: "):  # also of what is kept
        predict()


@pytest.mark.parametrize(
    "place", [Place(processes=2), pytest.param(Place("ray", 2), marks=pytest.mark.ray)]
)
def test_worker_killed_while_writing_loses_and_doubles_nothing(
    place, predict, tmp_path, monkeypatch
):
    expected = predict()
    known = read(tmp_path / "out/rows")
    (tmp_path / "out").rename(tmp_path / "undisturbed")
    monkeypatch.setattr(folders, "decide_file", scale_tasks.killed_while_writing)
    assert predict(place=place) == expected
    assert (tmp_path / "out/killed").exists()
    for part in ("rows", "paths"):
        names = {file.name for file in (tmp_path / "out" / part).iterdir()}
        assert names == {"first.parquet", "second.parquet", "third.parquet"}
    assert all(table.equals(known[name]) for name, table in read(tmp_path / "out/rows").items())
    monkeypatch.undo()
    assert predict().kept == 3


# Tasks --------------------------------------------------------------------------------------------


def places():
    return [Place(), Place(processes=2), pytest.param(Place("ray", 2), marks=pytest.mark.ray)]


@pytest.fixture(autouse=True)
def _skip_without_ray(request):
    if request.node.get_closest_marker("ray"):
        pytest.importorskip("ray", reason="the extra ray is not installed")


@pytest.mark.parametrize("place", places())
def test_results_are_those_of_a_loop(place):
    found = dict(results(scale_tasks.square, range(20), place))
    assert found == {number: number * number for number in range(20)}


@pytest.mark.parametrize("place", places()[1:])
def test_task_whose_process_is_killed_is_done_again(place, tmp_path):
    tasks = [(number, str(tmp_path)) for number in range(8)]
    found = [task[0] for task, _ in results(scale_tasks.killed_once, tasks, place)]
    assert sorted(found) == list(range(8))
    assert (tmp_path / "killed").exists()
    assert len(list(tmp_path.glob("done*"))) == 8


def test_processes_that_are_always_killed_end_in_a_sentence():
    with pytest.raises(UserError, match="killed 3 times while they worked on 7"):
        list(results(scale_tasks.always_killed, [7], Place(processes=2)))


@pytest.mark.parametrize("place", places())
def test_refusal_of_a_task_is_raised_as_it_is(place):
    with pytest.raises(UserError, match=r"^task 1 cannot be done: give another$"):
        list(results(scale_tasks.refuse, [1], place))


@pytest.mark.ray
def test_decisions_on_ray_are_those_on_this_machine(predict, tmp_path):
    first = predict(place=Place("ray", 2))
    found = read(tmp_path / "out/rows")
    assert predict(overwrite=True) == first
    assert all(table.equals(found[name]) for name, table in read(tmp_path / "out/rows").items())


def test_missing_ray_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'lit-ios\[ray\]'"):
        list(results(scale_tasks.square, [1], Place("ray")))


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (Place("slurm"), "on must be one of processes, ray"),
        (Place(processes=0), "processes must be"),
        (Place(address="ray://x"), "goes with on='ray'"),
    ],
)
def test_places_that_do_not_exist_are_refused(place, sentence):
    with pytest.raises(UserError, match=sentence):
        list(results(scale_tasks.square, [1], place))


@pytest.mark.ray
@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_address_where_nothing_answers_is_refused_at_once(address):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # it does not listen
        address = address.format(server.getsockname()[1])
        with pytest.raises(UserError, match=f"there is no Ray cluster at '{address}': "):
            list(results(scale_tasks.square, [1], Place("ray", address=address)))
