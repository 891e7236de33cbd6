"""From a trained run to a policy: by Python and from the shell."""

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import torch
from repository import ROOT

from lit_ios import StoppingPolicy
from lit_ios.checkpoints import write_checkpoint
from lit_ios.checks import UserError
from lit_ios.program import main
from lit_ios.trajectories import Trajectory, TrajectorySet


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train once on a table with a column of text; return checkpoint, data module and table."""
    import train

    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    lines = ["unit,day,heat,colour,failed"]
    for unit in range(60):
        length = int(rng.integers(3, 9))
        for day in range(length):
            heat = rng.normal() + 3 * (day == length - 1)
            colour = rng.choice(["red", "blue"])
            failed = int(day == length - 1 and unit % 5 > 0)
            lines.append(f"u{unit},{day * 2},{heat:.4f},{colour},{failed}")
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main([
            "fit", f"--config={ROOT}/configs/data/table.yaml",
            f"--config={ROOT}/configs/model/do_iqs_lb.yaml", f"--data.init_args.file={table}",
            "--data.init_args.path=unit", "--data.init_args.time=day",
            "--data.init_args.stop=failed", f"--runs_dir={folder}/runs",
            "--trainer.max_epochs=3", "--trainer.enable_progress_bar=false", "--threads=1",
        ])  # fmt: skip
    best = Path(cli.trainer.checkpoint_callback.best_model_path)
    return best, cli, table


def test_policy_has_the_margins_of_the_trained_module(run):
    best, cli, table = run
    policy = StoppingPolicy.load(best)
    assert policy.columns == ("heat", "colour")
    assert policy.rule.window.feature_names == ("heat", "colour=blue", "colour=red")
    assert float(policy.rule.time_step) == 2.0
    test = cli.datamodule.splits.test
    module = cli.model.eval()
    with torch.no_grad():
        expected = module(cli.datamodule.first_paths("test")[0]).margin
    found = policy.predict(table)  # path and time are known from training
    rows = {(r["unit"], r["day"]): r["margin"] for r in found.to_pylist()}
    names = np.repeat(test.names, test.lengths)
    for name, time, margin in zip(names, test.times, expected.tolist(), strict=True):
        assert rows[name, time] == pytest.approx(margin, abs=2e-5)


def test_live_row_of_a_table_is_taken_by_its_columns(run):
    best, _, table = run
    policy = StoppingPolicy.load(best)
    rows = pyarrow.csv.read_csv(table).to_pylist()[:3]
    margins = policy.predict(table)["margin"].to_pylist()
    stream = policy.stream()
    for row, margin in zip(rows, margins, strict=False):
        assert stream.step(row, row["day"]).margin == pytest.approx(margin)


def test_threshold_and_how_it_was_chosen_are_kept_in_the_file(run, tmp_path):
    best, cli, _ = run
    policy = StoppingPolicy.load(best)
    found = policy.calibrate(cli.datamodule.splits.test, max_event_miss_rate=0.25)
    policy.save(tmp_path / "policy.ckpt")
    again = StoppingPolicy.load(tmp_path / "policy.ckpt")
    assert again.threshold == policy.threshold == found.threshold
    assert again.calibration == found
    assert again.rule.fingerprint == policy.rule.fingerprint
    assert StoppingPolicy.load(best).threshold == 0.0


def test_training_paths_are_never_calibrated_on(run):
    best, cli, table = run
    policy = StoppingPolicy.load(best)
    with pytest.raises(UserError, match=r"of the 60 calibration paths were trained on, e\.g\. 'u"):
        policy.calibrate(table, stop="failed", max_event_miss_rate=0.2)
    train = cli.datamodule.splits.train
    shorter = TrajectorySet.from_paths(
        [Trajectory(p.states[:2], p.times[:2], True, p.name) for p in train], train.feature_names
    )
    single = train.with_states(train.states.astype(np.float32))
    for paths in (train, shorter, single):
        with pytest.raises(UserError, match="were trained on"):
            policy.calibrate(paths)
        with pytest.raises(UserError, match="were trained on"):
            StoppingPolicy.of(cli.model).calibrate(paths)
    assert policy.calibrate(train, allow_known_paths=True).paths == len(train)


def test_guarantee_is_refused_on_paths_that_chose_the_epoch(run):
    best, cli, _ = run
    policy = StoppingPolicy.load(best)
    with pytest.raises(UserError, match="were used to choose the epoch"):
        policy.calibrate(cli.datamodule.splits.val, max_event_miss_rate=0.3)
    policy.calibrate(cli.datamodule.splits.val)  # no promise, no harm


def test_stops_are_read_by_the_column_of_training(run, tmp_path):
    best, cli, table = run
    names = cli.datamodule.splits.test.names
    lines = table.read_text().splitlines()
    fresh = tmp_path / "fresh.csv"
    fresh.write_text("\n".join([lines[0], *(s for s in lines if s.split(",")[0] in names)]) + "\n")
    policy = StoppingPolicy.load(best)
    found = policy.calibrate(fresh)
    assert found.events == cli.datamodule.splits.test.stopped.sum() < found.paths
    assert found == policy.calibrate(fresh, stop="failed")


def test_names_of_paths_in_a_file_are_text(run, tmp_path):
    file = tmp_path / "names.csv"
    rows = "\n".join(f"{name},{day},1.5,red" for name in ("07", "7") for day in (0, 2))
    file.write_text(f"unit,day,heat,colour\n{rows}\n")
    found = StoppingPolicy.load(run[0]).predict(file)
    assert found["unit"].to_pylist() == ["07", "07", "7", "7"]
    assert found["margin"][0] == found["margin"][2]


def test_threshold_set_by_hand_carries_no_promise(run, tmp_path):
    best, cli, _ = run
    policy = StoppingPolicy.load(best)
    policy.calibrate(cli.datamodule.splits.test, max_event_miss_rate=0.3)
    policy.save(tmp_path / "a.ckpt")
    policy = StoppingPolicy.load(tmp_path / "a.ckpt")
    policy.threshold = 5.0
    policy.save(tmp_path / "b.ckpt")
    assert StoppingPolicy.load(tmp_path / "b.ckpt").calibration is None
    with pytest.raises(UserError, match="must be a number"):
        policy.threshold = "high"


def test_runs_of_another_seed_are_found_again(tmp_path, run_train, capsys):
    cli = run_train("fit", "--seed_everything=7", "--trainer.max_epochs=2", model="iqs")
    best = cli.trainer.checkpoint_callback.best_model_path
    capsys.readouterr()
    figure = str(tmp_path / "frontier.png")
    assert main(["frontier", best, "--draws=2", "--output", figure]) == 0
    shown = capsys.readouterr().out
    missed = float(cli.trainer.callback_metrics["test/event_miss_rate"])
    assert f"event-miss rate {missed:.4f}" in shown
    assert main(["calibrate", best]) == 0


def test_training_goes_on_at_margin_zero_after_calibration(run_train):
    cli = run_train("fit", "--trainer.max_epochs=1", model="iqs")
    last = Path(cli.trainer.checkpoint_callback.best_model_path).with_name("last.ckpt")
    policy = StoppingPolicy.load(last)
    policy.calibrate(cli.datamodule.splits.val)
    policy.save(last)
    resumed = run_train(
        "fit", f"--ckpt_path={last}", "--trainer.max_epochs=2", data="", model="", small=False
    )
    assert float(resumed.model.rule.threshold) == 0.0


def test_checkpoint_can_still_be_tested_and_resumed_after_calibration(run, tmp_path):
    import train

    best, cli, _ = run
    policy = StoppingPolicy.load(best)
    policy.calibrate(cli.datamodule.splits.val)
    file = best.with_name("calibrated.ckpt")
    policy.save(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tested = train.main(["test", f"--ckpt_path={file}"])
    assert float(tested.model.rule.threshold) == policy.threshold
    file.unlink()


def test_shell_calibrates_draws_predicts_explains_and_exports(run, tmp_path, capsys):
    best, _, table = run
    policy = tmp_path / "policy.ckpt"
    columns = ["--data", str(table), "--stop", "failed"]
    calibrate = ["calibrate", str(best), "--max-event-miss-rate", "0.3", "--output", str(policy)]
    assert main(calibrate) == 0
    assert "at most 0.3" in capsys.readouterr().out
    figure = tmp_path / "frontier.png"
    assert main(["frontier", str(best), "--draws=5", "--output", str(figure)]) == 0
    assert "do_iqs_lb: event-miss rate" in capsys.readouterr().out
    decisions = tmp_path / "decisions.parquet"
    assert main(["predict", str(policy), *columns, "--output", str(decisions)]) == 0
    why = tmp_path / "why.png"
    explain = ["explain", str(policy), *columns, "--of", "u7", "--row", "2", "--output", str(why)]
    assert main(explain) == 0
    out = capsys.readouterr().out
    assert "path u7, row 2" in out
    assert "colour = red" in out, out
    program = tmp_path / "policy.pt2"
    assert main(["export", str(policy), str(program)]) == 0
    for file in (figure, decisions, why, program):
        assert file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["calibrate", "BEST", "--max-event-miss-rate", "0.001"], "at least 999 stopped paths"),
        (
            ["calibrate", "BEST", "--max-event-miss-rate", "0.3", "--split", "val"],
            "choose the epoch",
        ),
        (["calibrate", "BEST", "--output", "nowhere/x.ckpt"], "there is no folder nowhere"),
        (["export", "BEST", "nowhere/x.onnx"], "there is no folder nowhere"),
        (["frontier", "BEST", "--output", "x.xyz"], "must end in .png or .pdf or .svg"),
        (["calibrate", "nothing.ckpt"], "there is no file nothing.ckpt"),
        (["predict"], "predict needs a checkpoint: predict RUN"),
        (
            ["predict", "BEST", "--data", "TABLE", "--output", "x.txt"],
            "must end in .csv or .parquet",
        ),
        (["explain", "BEST", "--data", "TABLE", "--of", "u99"], "there is no path 'u99'"),
        (["explain", "BEST", "--data", "TABLE", "--of", "u1", "--row", "99"], "has rows 0 to"),
        (["export", "BEST", "policy.h5"], "must end in .onnx or .pt2"),
        (["calibrate", "BEST", "--data", "TABLE"], "were trained on"),
    ],
)
def test_shell_says_what_is_wrong_in_one_sentence(words, message, run, capsys):
    best, _, table = run
    known = {"BEST": str(best), "TABLE": str(table)}
    assert main([known.get(word, word) for word in words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has version 99 of the checkpoint format; this program reads version 1"),
        ({"version": None}, "has version None"),
        ({"format": "other"}, "is not a lit-ios checkpoint"),
        ({"rule": {"head": 5}}, "its rule cannot be made"),
        ({"rule": None}, "its rule cannot be made"),
    ],
)
def test_checkpoint_of_another_format_is_refused_in_one_sentence(change, message, run, tmp_path):
    content = torch.load(run[0], weights_only=True)
    content["lit_ios"] |= change
    write_checkpoint(content, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match=message) as error:
        StoppingPolicy.load(tmp_path / "other.ckpt")
    assert str(tmp_path / "other.ckpt") in str(error.value)
    assert "\n" not in str(error.value)


def test_checkpoint_says_what_its_rule_is_and_how_it_was_trained(run):
    about = torch.load(run[0], weights_only=True)["lit_ios"]
    assert json.loads(json.dumps(about)) == about
    assert about["trained"] == "lit_ios.modules.do_iqs.DOIQS"
    assert about["data"] == "table"
    assert about["table"]["path"] == "unit"
    encoder = about["rule"]["encoder"]["init_args"]
    assert encoder == {"columns": ["heat", "colour"], "categories": {"colour": ["blue", "red"]}}


def test_fit_ends_with_the_frontier(run):
    assert (run[0].parent.parent / "figures/frontier.png").is_file()


def test_stream_state_is_plain_json(run):
    stream = StoppingPolicy.load(run[0]).stream()
    stream.step({"heat": 1, "colour": "red"})
    assert json.loads(json.dumps(stream.state())) == stream.state()


def test_policy_is_written_whole_or_not_at_all(run, tmp_path):
    policy = StoppingPolicy.load(run[0])
    file = tmp_path / "policy.ckpt"
    policy.save(file)
    before = file.read_bytes()
    policy._checkpoint["broken"] = lambda: None  # cannot be pickled
    with pytest.raises(Exception, match="lambda"):
        policy.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    with pytest.raises(UserError, match="nowhere"):
        policy.save(tmp_path / "nowhere/policy.ckpt")


def test_run_with_folds_is_calibrated_on_its_test_paths(run_train, capsys):
    folds = ("--model.init_args.members=2", "--data.init_args.folds=2")
    cli = run_train("fit", "--trainer.max_epochs=1", *folds, model="iqs")
    best = cli.trainer.checkpoint_callback.best_model_path
    assert main(["calibrate", best]) == 0
    assert "on the test paths of the run" in capsys.readouterr().out
    assert main(["calibrate", best, "--split", "val", "--overwrite"]) == 1
    assert "were trained on" in capsys.readouterr().err


def test_checkpoint_away_from_its_run_is_not_tested_on_other_data(run, tmp_path, run_train):
    file = tmp_path / "alone.ckpt"
    StoppingPolicy.load(run[0]).save(file)
    with pytest.raises(SystemExit, match=r"no config.yaml of its run lies beside"):
        run_train("test", f"--ckpt_path={file}", data="", model="", small=False)
