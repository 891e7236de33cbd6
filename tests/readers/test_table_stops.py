"""How stops are marked: words, values, the outcome of a path on all of its rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written, refusal_of

from lit_ios.checks import UserError
from lit_ios.readers import TableRoles

PAIRS = [
    ("no", "yes"), ("No", "YES"), ("n", "y"), ("false", "true"), ("F", "T"), ("off", "on"),
    ("0", "1"), ("0.0", "1.0"), (" no", "yes "),
]  # fmt: skip


def table_of(*words: str) -> str:
    """Return two paths of two rows each with the words as their status."""
    rows = zip("aabb", (0, 1, 0, 1), words, strict=True)
    return "unit,t,x,s\n" + "".join(f"{path},{t},{t},{word}\n" for path, t, word in rows)


@pytest.mark.parametrize(("no", "yes"), PAIRS)
def test_words_for_yes_and_no_are_known(tmp_path: Path, no: str, yes: str) -> None:
    paths = read_written(tmp_path, table_of(no, yes, no, no), stop="s")
    assert paths.stopped.tolist() == [True, False]


@pytest.mark.parametrize(("no", "yes"), PAIRS)
def test_words_may_mark_censoring(tmp_path: Path, no: str, yes: str) -> None:
    paths = read_written(tmp_path, table_of(no, yes, no, no), censored="s")
    assert paths.stopped.tolist() == [False, True]


@pytest.mark.parametrize(("no", "yes"), PAIRS)
def test_words_may_be_text_in_a_parquet_file(tmp_path: Path, no: str, yes: str) -> None:
    words = pa.array([no, no, no, yes]).dictionary_encode()
    assert read_written(tmp_path, parquet_table(s=words), stop="s").stopped.tolist() == [
        False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("alive", "dead", "alive", "lost"), "dead"),
        (("", "dead", "", ""), "dead"),
        (("0", "2", "0", "1"), "2"),
        (("0.5", "2", "1", ""), "2.0"),
        (("1", "0", "1", "1"), "0"),
        (("true", "false", "true", "true"), "no"),
    ],
)
def test_named_value_means_stop_and_all_others_do_not(
    tmp_path: Path, words: tuple[str, ...], value: str
) -> None:
    paths = read_written(tmp_path, table_of(*words), stop="s", stop_value=value)
    assert paths.stopped.tolist() == [True, False]


def test_unknown_words_are_named_with_the_option_that_tells_them_apart(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, table_of("alive", "dead", "lost", "alive"), stop="s")
    assert "column 's', path 'a', row 1: neither yes nor no: 'alive' and 'dead'" in message
    assert "stop_value='…'" in message
    assert "lost" not in message


def test_words_of_two_kinds_are_a_mistake(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, table_of("no", "yes", "no", "1"), stop="s")
    assert "column 's', path 'b', row 4: a flag must be no or yes here, got '1'" in message


def test_missing_word_is_a_mistake(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, table_of("", "yes", "no", "no"), stop="s")
    assert "column 's', path 'a', row 1: a flag must be no or yes here, got nothing" in message


def test_stop_value_that_is_no_number_among_numbers_is_refused(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, table_of("0", "1", "0", "0"), stop="s", stop_value="dead")
    assert "column 's'" in message
    assert "stop_value='…'" in message


def test_stop_value_needs_a_column() -> None:
    with pytest.raises(UserError, match="stop='…'"):
        TableRoles("unit", "t", stop_value="dead")


@pytest.mark.parametrize(("no", "yes"), [("0", "1"), ("no", "yes")])
def test_status_on_all_rows_of_each_path_is_its_outcome(tmp_path: Path, no: str, yes: str) -> None:
    with pytest.warns(UserWarning, match="column 's'.*the path's outcome"):
        paths = read_written(tmp_path, table_of(yes, yes, no, no), stop="s")
    assert paths.stopped.tolist() == [True, False]
    assert paths.actions.tolist() == [1, 0, 1, 1]


def test_flag_on_last_rows_is_not_remarked_on(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_written(tmp_path, table_of("0", "1", "0", "0"), stop="s")


def test_status_on_all_rows_of_some_paths_only_is_refused(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, table_of("1", "1", "0", "1"), stop="s")
    assert "column 's', path 'a', row 1: rows follow after the stop; drop them, or" in message


def test_stop_value_that_no_cell_has_is_noted_with_the_nearest(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no cell is 'deed'.*did you mean 'dead'") as caught:
        refusal_of(
            tmp_path, table_of("alive", "dead", "alive", "alive"), stop="s", stop_value="deed"
        )
    assert len(caught) == 1
