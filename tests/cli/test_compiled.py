"""Runs whose training steps are compiled: built once, repeated to the bit, resumed to the bit."""

import json
import os
import shutil
import signal
import warnings
from pathlib import Path

import pytest
import torch

import train
from lit_ios.checkpoints import read_checkpoint
from lit_ios.modules import StoppingModule, compiled, suitable

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
    pytest.mark.skipif(VERSION < suitable.TRIED, reason="needs a newer PyTorch"),
]
DATA = (
    "--data=CP1", "--data.init_args.paths=40", "--data.init_args.test_paths=10", "--no-baseline",
    "--data.init_args.batch_size=32", "--data.init_args.batches_per_call=3",
)  # fmt: skip
SMALL = ("--model.init_args.hidden=[8]", "--model.init_args.members=2")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Share what is built: it takes some 15 s."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def fit(tmp_path, monkeypatch, cache):
    """Return a function that trains, and gives back its run folder and what was warned of."""
    monkeypatch.setenv("LIT_IOS_CACHE", str(cache))

    def run(*options, epochs=1, model="do_iqs_lb", settings=SMALL):
        words = ["fit", *DATA, f"--model={model}", f"--runs_dir={tmp_path}/runs", *settings]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cli = train.main([*words, f"--trainer.max_epochs={epochs}", *options])
        said = [str(one.message) for one in caught if "compiled" in str(one.message)]
        return Path(cli.trainer.log_dir), said

    return run


def weights_of(run, name="last"):
    state = read_checkpoint(run / f"checkpoints/{name}.ckpt")["state_dict"]
    return {key: value.double() for key, value in state.items() if value.is_floating_point()}


def largest_difference(a, b):
    return max(float((a[key] - b[key]).abs().max()) for key in a)


def steps_of(run):
    return read_checkpoint(run / "checkpoints/last.ckpt")["progress"]["steps"]


def test_a_run_is_that_of_eager_steps_but_for_rounding_and_the_same_again(fit, capsys):
    built, said = fit("--compile=build")
    assert not said
    assert capsys.readouterr().out.count("compiling the training step") == 1
    eager, said = fit()
    assert not said
    again, said = fit("--compile", "cached")
    assert not said
    assert "compiling" not in capsys.readouterr().out
    assert 0 < largest_difference(weights_of(built), weights_of(eager)) < 1e-5
    assert largest_difference(weights_of(built), weights_of(again)) == 0
    assert steps_of(built) == steps_of(again) != steps_of(eager) == "eager"
    found = [json.loads((run / "metrics.json").read_text()) for run in (built, again, eager)]
    assert found[0] == found[1]
    assert [one["compiled_steps"] for one in found] == [True, True, False]


def test_what_is_logged_of_losses_is_that_of_eager_steps(fit):
    runs = [fit(*more)[0] for more in (("--compile=build",), ())]
    terms = [read_checkpoint(run / "checkpoints/last.ckpt")["progress"]["terms"] for run in runs]
    assert terms[0].keys() == terms[1].keys()
    logged = [losses_of(run) for run in runs]
    assert logged[0].keys() == logged[1].keys()
    assert any(name.startswith("train/dynamics") for name in logged[0])
    for name, value in logged[1].items():
        assert logged[0][name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def losses_of(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), {"scalars": 0}).Reload()
    return {
        name: events.Scalars(name)[-1].value
        for name in events.Tags()["scalars"]
        if name.startswith("train/")
    }


def test_a_run_that_was_interrupted_goes_on_to_the_bit(fit, monkeypatch, tmp_path):
    before = [fit("--compile=build")[0], fit("--compile=cached", epochs=3)[0]]

    def on_train_batch_start(self, batch, batch_idx, usual=StoppingModule.on_train_batch_start):
        usual(self, batch, batch_idx)
        if self.current_epoch == 1 and batch_idx == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(StoppingModule, "on_train_batch_start", on_train_batch_start)
        with pytest.raises(SystemExit):
            fit("--compile=cached", epochs=3)
    (folder,) = {file.parents[1] for file in tmp_path.rglob("last.ckpt")} - set(before)
    last = folder / "checkpoints/last.ckpt"
    assert read_checkpoint(last)["epoch"] == 1
    resumed, said = fit(f"--ckpt_path={last}", "--compile=cached", epochs=3)
    assert not said
    assert resumed == folder
    assert largest_difference(weights_of(before[1]), weights_of(resumed)) == 0


def test_a_run_that_goes_on_with_other_steps_says_so(fit):
    run, _ = fit("--compile=build")
    _, said = fit(f"--ckpt_path={run}/checkpoints/last.ckpt", "--compile=never", epochs=2)
    (sentence,) = said
    assert sentence.startswith("until now this run took compiled steps and goes on with steps that")


def test_without_a_step_that_is_kept_it_says_so_and_trains(fit, monkeypatch, tmp_path):
    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "empty"))
    run, said = fit("--compile=cached")
    (sentence,) = said
    assert sentence == (
        "training steps are not compiled: no compiled step is kept for these settings; --compile "
        "build makes one"
    )
    assert largest_difference(weights_of(run), weights_of(fit()[0])) == 0


def test_nothing_is_taken_from_a_folder_that_others_can_write_to(fit, cache):
    fit("--compile=build")
    (cache / "steps").chmod(0o777)
    try:
        run, said = fit("--compile=build")
    finally:
        (cache / "steps").chmod(0o700)
    assert said == [
        f"training steps are not compiled: other users can write to {cache}/steps; choose another "
        "folder with LIT_IOS_CACHE"
    ]
    assert steps_of(run) == "eager"


def test_a_compiler_that_fails_leaves_training_as_it_was(fit, monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError("g++: no such header\nand more")

    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(compiled, "compile_program", fail)
    run, said = fit("--compile=build")
    assert said == [
        "training steps are not compiled: compiling failed: RuntimeError g++: no such header"
    ]
    assert steps_of(run) == "eager"


def test_without_a_compiler_it_says_so_and_trains(fit, monkeypatch, tmp_path):
    monkeypatch.setenv("LIT_IOS_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    run, said = fit("--compile=build")
    assert said == [
        "training steps are not compiled: there is no C++ compiler no-such-compiler: install one, "
        "or name it by CXX"
    ]
    assert steps_of(run) == "eager"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--model.init_args.optimizer=torch.optim.SGD",), "only Adam and AdamW"),
        (("--trainer.precision=bf16-mixed",), "mixed precision"),
        (("--trainer.detect_anomaly=true",), "detect_anomaly is on"),
    ],
)
def test_where_a_step_cannot_be_compiled_it_says_why_and_trains(fit, options, why):
    run, (sentence,) = fit("--compile=build", *options)
    assert sentence.startswith("training steps are not compiled: ")
    assert why in sentence
    assert steps_of(run) == "eager"
