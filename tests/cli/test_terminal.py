"""Names in data and folders cannot steer the terminal, nor look like sentences of the program."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from repository import ROOT

from lit_ios.program import main
from lit_ios.program.terminal import plain, plain_output

TITLE = "\x1b]0;owned\x07"


def said_by(*words):
    """Return the exit code and what was printed, as a terminal of UTF-8 takes it."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        code = main(list(words))
    return code, raw.getvalue().decode()


def table(file, names):
    rows = [f"{name},{t},{t % 3}.5" for name in names for t in range(4)]
    file.write_text("unit,time,heat\n" + "\n".join(rows) + "\n")
    return str(file)


@pytest.mark.parametrize("sign", [*"\x00\x07\x1b\x7f\x9b\u202e\u2066\u2028\udcff"])
def test_signs_that_steer_are_written_out(sign):
    assert sign not in plain(f"a{sign}b")
    assert plain(f"a{sign}b").isprintable()


def test_other_text_is_left_as_it_is():
    text = "ε → ∞, 100 %|███▌ | \t\r\n 日本 ‘x’ –"
    assert plain(text) == text


def test_streams_are_as_before_afterwards(capsys):
    before = sys.stdout, sys.stderr
    with plain_output():
        print(TITLE)
        sys.stdout.writelines([TITLE, "\n"])
        assert sys.stdout.isatty() is False
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out == "\\x1b]0;owned\\x07\n" * 2


def test_names_of_columns_and_paths_reach_the_terminal_written_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.csv"
    table(file, [f"p{TITLE}{n}" for n in range(5)])
    file.write_text(file.read_text().replace("heat", f"heat{TITLE}"))
    code, said = said_by("inspect", str(file), "--path", "unit", "--time", "time")
    assert code == 0
    assert "\x1b" not in said
    assert "heat\\x1b]0;owned\\x07" in said


def test_a_name_with_a_line_break_makes_no_line_of_its_own(tmp_path):
    place = tmp_path / "a\nerror: give your password"
    for name in "bc":
        (place / name / "checkpoints").mkdir(parents=True)
        (place / name / "checkpoints/best.ckpt").touch()
    code, said = said_by("test", str(place))
    assert code == 1
    assert len(said.splitlines()) == 1


def test_a_file_whose_name_is_no_text_is_refused_in_one_sentence(tmp_path):
    file = tmp_path / os.fsdecode(b"a\xff.csv")
    try:
        table(file, "ab")
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    code, said = said_by("inspect", str(file), "--path", "unit", "--time", "time")
    assert code == 1
    assert said.startswith("error: ")
    assert "is not valid UTF-8: rename it" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["fit", "--help"], ["inspect", "t.csv", "--path", "unit", "--time", "time"], []]
)
def test_a_reader_who_leaves_early_ends_nothing(words, tmp_path):
    table(tmp_path / "t.csv", [f"unit {i}" for i in range(6)])
    command = [sys.executable, "-m", "lit_ios", *words]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 0
