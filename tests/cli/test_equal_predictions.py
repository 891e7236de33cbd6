"""`train.py predict` and `lit-ios predict` say the same of the same file, to the bit."""

import os
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
import torch
from repository import ROOT

import train
from lit_ios.program import main

COLUMNS = ("unit", "cycle", "heat", "colour")
UNITS = 20


def machines(names="text", times="integers", units=UNITS, seed=0):
    """Return a table of machines that heat up until they are stopped."""
    columns = {name: [] for name in COLUMNS}
    rng = np.random.default_rng(seed)
    for unit in range(units):
        for cycle in range(rng.integers(4, 12)):
            row = unit, cycle, 300 + 10 * cycle + rng.normal(), ("red", "blue")[unit % 2]
            for name, value in zip(COLUMNS, row, strict=True):
                columns[name].append(value)
    numbers = np.array(columns["cycle"])
    # numbers of machines that are not in the order of their texts: 7, 20, 33, …
    columns["unit"] = {
        "text": lambda: [f"m {unit}" for unit in columns["unit"]],
        "integers": lambda: [7 + 13 * unit for unit in columns["unit"]],
    }[names]()
    columns["cycle"] = {
        "integers": lambda: pa.array(numbers),
        "floats": lambda: pa.array(numbers * 0.75 + 0.1),
        "dates": lambda: pa.array(1_700_000_000 + 3600 * numbers).cast(pa.timestamp("s")),
        "dates with zone": lambda: pa.array(
            1_700_000_000_000 + 3_600_000 * numbers
        ).cast(pa.timestamp("ms", "UTC")),
        "dates as text": lambda: pa.array(
            [f"2024-03-01T{number:02}:30:00" for number in numbers.tolist()]
        ),
    }[times]()  # fmt: skip
    return pa.table(columns)


def shuffled(table, seed=3):
    return table.take(pa.array(np.random.default_rng(seed).permutation(len(table))))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Train two members on a table and return the checkpoint."""
    folder = tmp_path_factory.mktemp("equal")
    pa_csv.write_csv(machines(), folder / "my.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main([
            "fit", f"--config={ROOT}/configs/data/table.yaml",
            f"--config={ROOT}/configs/model/do_iqs_lb.yaml",
            f"--data.init_args.file={folder}/my.csv",
            "--data.init_args.path=unit", "--data.init_args.time=cycle",
            "--model.init_args.members=2", "--model.init_args.hidden=[16]",
            "--trainer.max_epochs=2", f"--runs_dir={folder}/runs",
        ])  # fmt: skip
    return f"{cli.trainer.log_dir}/checkpoints/best.ckpt"


@pytest.fixture
def both(checkpoint, tmp_path):
    """Return a function that predicts a file by either program: rows and paths of each."""

    def predict(file, train_options=(), lit_ios_options=()):
        outputs = [tmp_path / "by_train.parquet", tmp_path / "by_lit_ios.parquet"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train.main([
                "predict", f"--ckpt_path={checkpoint}", f"--data.init_args.file={file}",
                f"--output={outputs[0]}", f"--runs_dir={tmp_path}/runs", *train_options,
            ])  # fmt: skip
        arguments = ["predict", checkpoint, f"--data={file}", f"--output={outputs[1]}"]
        assert main([*arguments, *lit_ios_options]) == 0
        return [
            [pa_parquet.read_table(file.with_stem(file.stem + end)) for end in ("", "_paths")]
            for file in outputs
        ]

    return predict


def check_equal(predictions, file):
    """Compare the tables of both programs, and their first columns with the file's own."""
    (rows, paths), (same_rows, same_paths) = predictions
    assert rows.schema == same_rows.schema
    assert rows.equals(same_rows)
    assert paths.schema == same_paths.schema
    assert paths.equals(same_paths)
    assert rows.column_names == [
        "unit", "cycle", "margin", "probability", "stop", "first_stop", "stop_gain",
        "continuation_gain", "margin_spread", "familiar", "unfamiliar",
    ]  # fmt: skip
    if file.suffix == ".csv":  # names of paths as they are written
        types = pa_csv.ConvertOptions(column_types={"unit": pa.string()})
        given = pa_csv.read_csv(file, convert_options=types)
        file = write(given, file.with_suffix(".parquet"))  # where seconds become milliseconds
    given = pa_parquet.read_table(file)
    assert rows.select(["unit", "cycle"]).equals(given.select(["unit", "cycle"]))


def write(table, file):
    if file.suffix == ".parquet":
        pa_parquet.write_table(table, file)
    else:
        pa_csv.write_csv(table, file)
    return file


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("names", ["text", "integers"])
@pytest.mark.parametrize("times", ["integers", "floats", "dates"])
def test_both_programs_write_the_same_table_of_shuffled_rows(ending, names, times, both, tmp_path):
    file = write(shuffled(machines(names, times)), tmp_path / f"new.{ending}")
    check_equal(both(file, ["--data.init_args.sort=true"], ["--sort"]), file)


@pytest.mark.parametrize("times", ["dates with zone", "dates as text"])
def test_both_programs_write_the_same_table_of_other_dates(times, both, tmp_path):
    file = write(machines("text", times), tmp_path / "new.parquet")
    check_equal(both(file), file)


def test_both_programs_keep_the_order_of_rows_whose_paths_are_mixed(both, tmp_path):
    table = machines()
    by_time = table.take(pa.compute.sort_indices(table, [("cycle", "ascending")]))
    file = write(by_time, tmp_path / "new.csv")
    check_equal(both(file), file)


@pytest.mark.parametrize("missing", ["last", "drop"])
def test_both_programs_treat_missing_values_alike(missing, both, tmp_path):
    table = machines()
    gap = np.array(table["cycle"]) == 1
    heat = pa.array(np.array(table["heat"]), mask=gap)
    file = write(table.set_column(2, "heat", heat), tmp_path / "gaps.csv")
    options = [f"--data.init_args.missing={missing}"], ["--missing", missing]
    (rows, paths), (same_rows, same_paths) = both(file, *options)
    assert rows.equals(same_rows)
    assert paths.equals(same_paths)
    assert len(rows) == len(table) - (gap.sum() if missing == "drop" else 0)


def test_both_programs_agree_whatever_the_number_of_threads(both, tmp_path, monkeypatch):
    """train.py sets one thread; lit-ios leaves PyTorch as many as there are cores."""
    file = write(machines(units=3000), tmp_path / "many.parquet")
    with_one = both(file)
    threads = torch.get_num_threads()
    monkeypatch.setattr("train.main", lambda _: None)  # its output is there
    torch.set_num_threads(max(2, os.cpu_count()))
    try:
        with_several = both(file)
    finally:
        torch.set_num_threads(threads)
    assert with_one[0][0].num_rows > 20_000
    assert with_several[0][0].equals(with_several[1][0])
    assert with_several[1][0].equals(with_one[1][0])
