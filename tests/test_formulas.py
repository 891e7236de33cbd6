"""Text that a spreadsheet would take for a formula is marked where that is asked for."""

import csv

import pyarrow as pa
import pytest

from lit_ios.formulas import BEGINNINGS, safe_cells, safe_text
from lit_ios.policy.decision_tables import write_decisions

HOSTILE = [f"{mark}cmd" for mark in BEGINNINGS] + [" =1+1", "=HYPERLINK(1)"]
PLAIN = ["", "pump", "a=b", "1+1", "x@y", "'=1", "5"]


@pytest.mark.parametrize("text", HOSTILE)
def test_formula_is_marked_as_text(text):
    assert safe_text(text) == "'" + text


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays(text):
    assert safe_text(text) == text


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_cells_of_a_table_and_names_of_columns_are_marked_alike(kind):
    texts = [*HOSTILE, *PLAIN, None]
    table = pa.table({"=p": pa.array(texts).cast(kind), "n": pa.array([-1.5] * len(texts))})
    made = safe_cells(table)
    assert made.column_names == ["'=p", "n"]
    assert made["'=p"].to_pylist() == [None if x is None else safe_text(x) for x in texts]
    assert made["n"].to_pylist() == [-1.5] * len(texts)


@pytest.mark.parametrize("safe", [False, True])
def test_decisions_are_marked_on_request_only(safe, tmp_path):
    decided = pa.table({
        "unit": ["=1+1", "b"], "t": [1, 2], "first_stop": [True, False], "margin": [-0.5, 0.5],
    })  # fmt: skip
    for file in write_decisions(decided, tmp_path / "decisions.csv", safe):
        rows = list(csv.reader(file.open()))
        assert rows[1][0] == ("'=1+1" if safe else "=1+1")
    (rows, _) = write_decisions(decided, tmp_path / "decisions.csv", safe)
    assert [row[3] for row in csv.reader(rows.open())][1:] == ["-0.5", "0.5"]
