"""train.py on a user's own files: a table, and engines in NASA's layout."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from engine_files import text_of

import lit_ios.readers.table
from lit_ios.program import main
from lit_ios.readers.files import read_parts

UNITS = 24
ROLES = ("--data.init_args.path=unit", "--data.init_args.time=cycle")


def wearing_machines(units=range(UNITS), seed=0):
    """Return a table of machines that heat up until they are stopped."""
    columns = {name: [] for name in ("unit", "cycle", "heat", "noise", "colour")}
    for unit in range(UNITS):
        rng = np.random.default_rng([seed, unit])
        for cycle in range(rng.integers(5, 15)):
            row = (f"m{unit:02}", cycle, 300 + 10 * cycle + rng.normal(), rng.normal(),
                   ("red", "blue")[unit % 2])  # fmt: skip
            if unit in units:
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return pa.table(columns)


@pytest.fixture
def trained(run_train, tmp_path):
    """Train on the table and return the checkpoint."""
    pa_csv.write_csv(wearing_machines(), tmp_path / "my.csv")
    options = (f"--data.init_args.file={tmp_path}/my.csv", *ROLES)
    cli = run_train("fit", "--trainer.max_epochs=2", *options, data="table", small=False)
    return f"{cli.trainer.log_dir}/checkpoints/best.ckpt"


@pytest.fixture
def predict(run_train, tmp_path):
    """Return a function that predicts a table and gives back rows and paths."""

    def run(checkpoint, table, ending="parquet"):
        pa_parquet.write_table(table, tmp_path / "new.parquet")
        output = tmp_path / f"decisions.{ending}"
        run_train(
            "predict", "--ckpt_path", checkpoint, f"--data.init_args.file={tmp_path}/new.parquet",
            f"--output={output}", data="", small=False,
        )  # fmt: skip
        read = pa_parquet.read_table if ending == "parquet" else pa_csv.read_csv
        return read(output), read(output.with_stem("decisions_paths"))

    return run


def test_decisions_do_not_depend_on_what_else_the_file_holds(trained, predict):
    everything, _ = predict(trained, wearing_machines())
    few = wearing_machines(units=(3, 20))
    few = few.append_column("remark", pa.array(["?"] * len(few))).select(
        ["remark", "noise", "colour", "cycle", "heat", "unit"]
    )
    alone, _ = predict(trained, few)
    same = everything.filter(pa.compute.is_in(everything["unit"], pa.array(["m03", "m20"])))
    assert alone.column_names == same.column_names
    for name in ("margin", "probability", "stop_gain", "continuation_gain"):
        np.testing.assert_allclose(alone[name], same[name], rtol=0, atol=1e-6)
    assert alone["stop"].equals(same["stop"])
    assert alone["first_stop"].equals(same["first_stop"])


def test_paths_file_has_the_first_stop_of_every_path(trained, predict):
    rows, paths = predict(trained, wearing_machines(), ending="csv")
    assert paths["unit"].to_pylist() == [f"m{unit:02}" for unit in range(UNITS)]
    by_path = {name: [] for name in paths["unit"].to_pylist()}
    for row in rows.to_pylist():
        by_path[row["unit"]].append(row)
    for path in paths.to_pylist():
        own = by_path[path["unit"]]
        stops = [row["cycle"] for row in own if row["stop"]]
        assert path["rows"] == len(own)
        assert path["first_stop_time"] == (stops[0] if stops else None)
        assert [row["cycle"] for row in own if row["first_stop"]] == stops[:1]


@pytest.mark.parametrize("kind", [pa.timestamp("ms", "UTC"), pa.string()])
def test_dates_are_written_as_they_were_given(trained, predict, kind):
    machines = wearing_machines()
    hours = pa.array(1_700_000_000 + 3600 * machines["cycle"].to_numpy())
    dates = hours.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("ms", "UTC"))
    texts = [date.as_py().strftime("%Y-%m-%dT%H:%M:%SZ") for date in dates]
    cells = dates if kind != pa.string() else pa.array(texts)
    dated = machines.set_column(1, "cycle", cells)
    numbered, by_number = predict(trained, machines)
    rows, paths = predict(trained, dated)
    assert rows["cycle"].type == paths["first_stop_time"].type == kind
    assert rows["cycle"].to_pylist() == cells.to_pylist()
    np.testing.assert_allclose(rows["margin"], numbered["margin"], rtol=0, atol=1e-5)
    cell_of = dict(zip(machines["cycle"].to_pylist(), cells.to_pylist(), strict=True))
    assert any(time is not None for time in by_number["first_stop_time"].to_pylist())
    assert paths["first_stop_time"].to_pylist() == [
        None if number is None else cell_of[number]
        for number in by_number["first_stop_time"].to_pylist()
    ]


def test_missing_column_is_named_and_nothing_is_written(trained, predict, tmp_path):
    runs = sorted((tmp_path / "runs").rglob("*"))
    with pytest.raises(SystemExit, match=r"new\.parquet.*'heat'"):
        predict(trained, wearing_machines().drop_columns(["heat"]))
    assert sorted((tmp_path / "runs").rglob("*")) == runs
    assert not list(tmp_path.glob("decisions*"))


def test_training_and_testing_read_the_table_once(run_train, tmp_path, monkeypatch):
    reads = []

    def counted(*args, **kwargs):
        reads.append(args)
        return read_parts(*args, **kwargs)

    monkeypatch.setattr(lit_ios.readers.table, "read_parts", counted)
    pa_csv.write_csv(wearing_machines(), tmp_path / "my.csv")
    options = (f"--data.init_args.file={tmp_path}/my.csv", *ROLES)
    run_train("fit", "--trainer.max_epochs=1", *options, data="table", small=False)
    assert len(reads) == 1


def test_unknown_category_is_refused(trained, predict):
    table = wearing_machines()
    green = pa.array(["green"] * len(table))
    with pytest.raises(SystemExit, match="green"):
        predict(trained, table.set_column(table.column_names.index("colour"), "colour", green))


def test_file_without_stops_for_validation_is_refused(run_train, tmp_path):
    table = wearing_machines()
    stop = np.zeros(len(table), dtype=int)
    stop[np.flatnonzero(np.array(table["unit"]) == "m00")[-1]] = 1
    pa_csv.write_csv(table.append_column("stop", pa.array(stop)), tmp_path / "one.csv")
    options = (f"--data.init_args.file={tmp_path}/one.csv", "--data.init_args.stop=stop")
    with pytest.raises(SystemExit, match=r"none of the .* validation paths was stopped"):
        run_train("fit", *ROLES, *options, data="table", small=False)


def test_engines_are_scaled_as_the_checkpoint_scaled_its_own(run_train, tmp_path):
    lines = text_of(range(25, 45), conditions=(0.0, 20.0)).splitlines(keepends=True)
    (tmp_path / "train.txt").write_text("".join(lines))
    few = [line for line in lines if line.split()[0] in ("4", "5")]
    (tmp_path / "few.txt").write_text("".join(few))
    cli = run_train(
        "fit", "--trainer.max_epochs=1", f"--data.init_args.file={tmp_path}/train.txt",
        data="turbofan", model="iqs", small=False,
    )  # fmt: skip
    decided = {}
    for name in ("train", "few"):
        output = tmp_path / f"{name}.parquet"
        run_train(
            "predict", "--ckpt_path", f"{cli.trainer.log_dir}/checkpoints/best.ckpt",
            f"--data.init_args.file={tmp_path}/{name}.txt", f"--output={output}",
            data="", small=False,
        )  # fmt: skip
        decided[name] = pa_parquet.read_table(output)
    whole, alone = decided["train"], decided["few"]
    assert len(set(whole["unit"].to_pylist())) == 20
    same = whole.filter(pa.compute.is_in(whole["unit"], pa.array(["4", "5"])))
    np.testing.assert_allclose(alone["margin"], same["margin"], rtol=0, atol=1e-6)


@pytest.mark.usefixtures("with_figures")
def test_cut_off_engines_have_a_time_to_event_only(run_train, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LIT_IOS_DATA", str(tmp_path))
    (tmp_path / "train_FD001.txt").write_text(text_of(range(25, 45)))
    (tmp_path / "test_FD001.txt").write_text(text_of([12, 30, 21], seed=1))
    (tmp_path / "RUL_FD001.txt").write_text("100\n5\n40\n")
    options = ("--trainer.max_epochs=1", "--data.init_args.test_set=nasa")
    run_train("fit", *options, data="turbofan", model="iqs", small=False)
    shown = capsys.readouterr().out
    assert re.search("event-miss rate +–\n", shown)
    assert "none of these paths was stopped" in shown


# Features that give the stop away ---------------------------------------------------------------


def leaking_file(folder):
    """Write a table with the remaining life of each machine and a remark at its end."""
    machines = wearing_machines()
    units, cycles = machines["unit"].to_pylist(), machines["cycle"].to_pylist()
    last = dict(zip(units, cycles, strict=True))
    life = [last[unit] - cycle for unit, cycle in zip(units, cycles, strict=True)]
    remark = ["ended" if left == 0 else "fine" for left in life]
    machines = machines.append_column("life", pa.array(life))
    pa_csv.write_csv(machines.append_column("remark", pa.array(remark)), folder / "leaky.csv")
    return str(folder / "leaky.csv")


def test_fit_asks_about_features_that_give_the_stop_away_before_a_run_is_made(run_train, tmp_path):
    options = (f"--data.init_args.file={leaking_file(tmp_path)}", *ROLES)
    with pytest.raises(SystemExit) as caught:
        run_train("fit", *options, data="table", small=False)
    said = str(caught.value)
    assert said.startswith("error: possible leak: life almost determines the stop")
    assert "remark changes almost only at the last row" in said
    assert "--drop life remark" in said
    assert "ended" not in said
    assert not (tmp_path / "runs").exists()


def test_fit_asks_only_about_features_that_are_not_kept(run_train, tmp_path):
    options = (f"--data.init_args.file={leaking_file(tmp_path)}", *ROLES)
    with pytest.raises(SystemExit, match=r"leave it out with --drop remark, or keep it"):
        run_train("fit", *options, '--data.init_args.keep=["life"]', data="table", small=False)
    kept = '--data.init_args.keep=["life","remark"]'
    cli = run_train("fit", *options, kept, "--trainer.max_epochs=1", data="table", small=False)
    assert cli.datamodule.keep == ("life", "remark")


def test_leaks_are_looked_for_in_paths_that_are_not_tested(tmp_path, monkeypatch):
    from datamodules import TableData, table

    given = []
    monkeypatch.setattr(table, "find_leaks", lambda paths, keep: given.append(paths) or [])
    pa_csv.write_csv(wearing_machines(), tmp_path / "my.csv")
    data = TableData(file=f"{tmp_path}/my.csv", path="unit", time="cycle")
    data.setup("test")
    assert given == []
    data.setup("fit")
    ((known),) = given
    assert not set(known.names) & set(data.splits.test.names)
    assert set(known.names) == {*data.splits.train.names, *data.splits.val.names}


def test_inspect_names_features_that_give_the_stop_away(tmp_path, capsys):
    words = [leaking_file(tmp_path), "--path=unit", "--time=cycle", f"--figure={tmp_path}/a.png"]
    assert main(["inspect", *words]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "leak" in line]
    assert [line.split()[2] for line in said if line.startswith("possible leak:")] == [
        "life", "remark",
    ]  # fmt: skip
