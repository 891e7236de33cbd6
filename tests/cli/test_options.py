"""What readers say names arguments in Python, and options in the shell."""

import re
import warnings

import pytest

import lit_ios
from lit_ios.checks import UserError
from lit_ios.program import main
from lit_ios.program.short import SHORT, as_options

HEAD = "unit,day,heat,failed\n"
ROWS = {
    "gap": "a,1,2,0\na,2,,1\n",
    "order": "a,2,2,0\na,1,3,1\n",
    "twice": "a,1,2,0\na,1,2,0\na,2,1,1\n",
    "comma": 'a,1,"2,5",0\na,2,3,1\n',
    "word": "a,1,2,alive\na,2,3,dead\n",
    "date": "a,31/12/2024,2,0\na,01/01/2025,3,1\n",
    "names": "".join(f"a,{day},text{day},{int(day == 200)}\n" for day in range(1, 201)),
}
SAID = [
    ("gap", "missing='impute'", "--missing impute"),
    ("order", "sort=True", "--sort"),
    ("twice", "duplicates='drop'", "--duplicates drop"),
    ("comma", "decimal=','", "--decimal ,"),
    ("word", "stop_value='…'", "--stop-value X"),
    ("date", "date_format='%d.%m.%Y'", "--date-format %d.%m.%Y"),
    ("names", "drop=['heat']", "--drop heat"),
]


@pytest.mark.parametrize(("mistake", "argument", "option"), SAID)
def test_advice_names_the_argument_in_python_and_the_option_in_the_shell(
    mistake, argument, option, tmp_path, capsys
):
    file = tmp_path / "my.csv"
    file.write_text(HEAD + ROWS[mistake])
    with pytest.raises(UserError) as refused:
        lit_ios.fit(file, path="unit", time="day", stop="failed", progress=False)
    assert argument in str(refused.value)
    assert "--" not in str(refused.value)
    words = ["inspect", str(file), "--path", "unit", "--time", "day", "--stop", "failed"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert option in said
    assert argument not in said


def test_options_are_typed_so_that_the_shell_takes_them_for_one_word_each():
    said = as_options("drop=['a b', \"it's\"] or separator='\\t' or separator=';', sort=True")
    assert said == """--drop 'a b' 'it'"'"'s' or --separator tab or --separator ';', --sort"""


def test_every_argument_of_a_table_has_its_option():
    for short in SHORT:
        assert as_options(f"set {short.argument}='x'") == f"set {short.option} x"


def test_what_is_no_argument_of_the_program_is_left_as_it_is():
    sentence = "got 'heat=1', other='x', margin='validated'"
    assert as_options(sentence) == sentence


def test_notes_name_options_and_leave_out_what_only_concerns_programmers(capsys):
    main(["--version"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an odd table: set missing='last'", stacklevel=1)
        warnings.warn("f is deprecated", DeprecationWarning, stacklevel=1)
    said = capsys.readouterr().err
    assert re.findall("note: (.*)", said) == ["an odd table: set --missing last"]
