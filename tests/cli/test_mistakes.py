"""Likely mistakes on the command line, and the one line each gets, which ends in what to do."""

import pytest

import train
from lit_ios.program import main

SECRET = "secret-4711"
ROLES = ("--path", "unit", "--time", "day")


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """Work in a folder with a table, a broken settings file and no runs."""
    rows = "\n".join(f"{SECRET},{day},1.5" for day in range(5))
    (tmp_path / "my.csv").write_text(f"unit,day,heat\n{rows}\n")
    (tmp_path / "rows.txt").write_text(f"unit,day,heat\n{rows}\n")
    (tmp_path / "broken.yaml").write_text(f"a: {SECRET}\nb: [{SECRET}\n")
    (tmp_path / "modle.yaml").write_text("trainer:\n  max_epchs: 3\n")
    (tmp_path / "seed.yaml").write_text("seed_everything: true\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)


QUICK = [  # said before anything slow is imported
    ("fitt my.csv", "there is no command 'fitt'; did you mean fit?"),
    ("train my.csv", "there is no command 'train'; lit-ios --help lists them"),
    ("fit --modle auto", "there is no option --modle; did you mean --model?"),
    ("fit --max_epochs 3", "there is no option --max_epochs; did you mean --trainer.max_epochs?"),
    ("fit --seed 3", "there is no option --seed; did you mean --seed_everything?"),
    ("fit my.csv --pth unit --time day", "there is no option --pth; did you mean --path?"),
    ("fit my.csv --time_unit days", "there is no option --time_unit; did you mean --time-unit?"),
    ("fit my.csv --zzzz 1", "there is no option --zzzz; fit --help lists them"),
    ("fit mine.csv", "there is no file mine.csv: give the place of your table"),
    ("fit --data CP9", "--data: there is no file and no data set 'CP9'; did you mean CP1?"),
    (
        "fit my.csv --time day",
        "which column of my.csv is the path? give --path COLUMN; inspect my.csv lists the columns",
    ),
    (
        "fit --data CP1 --path unit",
        "--path goes with a table of your own, not with CP1: fit FILE --path …",
    ),
    ("fit my.csv more.csv", "one set of data is read at a time: leave 'more.csv' out"),
    ("fit my.csv --path", "--path needs a value: --path NAME"),
    ("fit --model my.csv", "--model takes no table, got my.csv: give --data my.csv"),
    ("fit --config my.csv", "--config my.csv: that is a table, not settings: give --data"),
    (
        "fit --data.init_args my.csv",
        "--data.init_args takes no table, got my.csv: give --data my.csv",
    ),
    ("test nowhere", "there is no file nowhere: give a run folder or a checkpoint"),
    (
        "test empty",
        "there is no run with a checkpoint in empty: give a folder such as "
        "runs/<data>/<variant>/version_0",
    ),
    ("runs", "there is no folder runs: name the one that your runs are in"),
    ("runs empty", "there is no run in empty: train one with fit, or name another folder"),
    ("runs empty --sort sed", "--sort: there is no column sed; did you mean seed?"),
    ("inspect", "inspect needs a table: inspect FILE --path COLUMN --time COLUMN"),
    ("inspect my.csv --pth unit", "there is no option --pth; did you mean --path?"),
    ("calibrate", "calibrate needs a run: calibrate RUN, a run folder or a checkpoint"),
    ("frontier empty --draws many", "--draws: must be a positive integer, got 'many'"),
    ("calibrate empty --split train", "--split must be one of val, test, got 'train'"),
    ("calibrate empty --miss-cost much", "--miss-cost must be a number, got 'much'"),
    ("explain empty", "explain needs --of: explain RUN [FILE] --of PATH [options]"),
    ("export empty", "export needs a file to write: export RUN policy.onnx, or .pt2"),
    ("predict", "predict needs a checkpoint: predict RUN, a run folder or a checkpoint"),
]
PARSED = [  # said by LightningCLI's parser, in our words
    (
        "fit --model.init_args.gama 0.9",
        "DOIQS has no argument gama; did you mean --model.init_args.gamma?",
    ),
    ("fit --model.init_args.gamma much", "--model.init_args.gamma must be a number, got 'much'"),
    ("fit --trainer.max_epochs ten", "--trainer.max_epochs must be an integer, got 'ten'"),
    (
        "fit --trainer.max_epoch 3",
        "there is no option --trainer.max_epoch; did you mean --trainer.max_epochs?",
    ),
    (
        "fit --data.init_args.batch_by row",
        "--data.init_args.batch_by must be one of auto, rows, paths, got 'row'",
    ),
    (
        "fit my.csv --path unit --time day --missing maybe --model iqs",
        "--missing must be one of",
    ),
    ("fit --model do_iqs_bl", "--model: there is no 'do_iqs_bl'; did you mean do_iqs_lb?"),
    ("fit --model ./nope.yaml", "--model: there is no file ./nope.yaml; there are classifier,"),
    ("fit --seed_everything -1", "seed_everything must be an integer of at least 0 and below"),
    ("fit --seed_everything=one", "seed_everything must be an integer of at least 0 and below"),
    ("fit --seed_everything 99999999999", "seed_everything must be an integer of at least 0"),
    ("fit --config seed.yaml", "seed_everything must be an integer of at least 0 and below"),
    ("fit --trainer.max_epochs -3", "trainer: `max_epochs` must be a non-negative integer"),
    (
        "fit --trainer.devices 0",
        "trainer: `Trainer(devices='0')` value is not a valid input using cpu accelerator; leave "
        "--trainer.accelerator and --trainer.devices out",
    ),
    (
        "fit --model nope",
        "--model: there is no 'nope'; there are auto, classifier, classifier_smote, do_iqs,",
    ),
    ("fit --config modle.yaml", "there is no setting trainer.max_epchs; did you mean"),
    ("fit --config broken.yaml", "--config: broken.yaml is not valid YAML in line 3: correct it"),
    ("fit --config rows.txt", "--config: rows.txt does not hold settings by name"),
    ("fit --trainer.callbacks ./rows.txt", "--trainer.callbacks must be a list"),
    ("fit --trainer ./rows.txt", "--trainer cannot be used, got './rows.txt': fit --help-all"),
    ("fit --data rows.txt --path unit --time day --model iqs", "rows.txt"),
    ("fit --trainer.max_epochs ./rows.txt", "--trainer.max_epochs must be an integer"),
    ("fit --model.init_args.head ./rows.txt", ""),
]


@pytest.mark.parametrize(("line", "sentence"), QUICK, ids=lambda value: value[:40])
def test_mistake_is_answered_in_this_line(line, sentence, capsys):
    assert main(line.split()) == 1
    shown = capsys.readouterr()
    assert shown.err == f"error: {sentence}\n"
    assert shown.out == ""


@pytest.mark.parametrize(("line", "sentence"), PARSED, ids=lambda value: value[:40])
def test_mistake_in_settings_is_answered_in_one_line_without_the_files_content(
    line, sentence, capsys
):
    assert main(line.split()) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: {sentence}")
    assert shown.err.count("\n") == 1
    assert SECRET not in shown.err + shown.out


def test_both_ways_to_start_say_the_same(capsys):
    with pytest.raises(SystemExit, match=r"^error: there is no option --modle; did you mean"):
        train.main(["fit", "--modle", "auto"])
    assert main(["fit", "--modle", "auto"]) == 1
