"""Classes named in settings: samplers, optimizers, and data of a user's own."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from engine_files import text_of
from imblearn.over_sampling import ADASYN

from datamodules import TurbofanData
from lit_ios import StoppingPolicy
from lit_ios.batches import path_batch

ONE_EPOCH = "--trainer.max_epochs=1"


def metrics_of(cli):
    return json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())


# Samplers -----------------------------------------------------------------------------------------


OWN_SAMPLER = {
    "class_path": "imblearn.over_sampling.ADASYN",
    "init_args": {"n_neighbors": 3, "random_state": 5},
}


@pytest.mark.parametrize("model", ["iqs", "model_based_iqs", "classifier"])
def test_run_with_a_sampler_of_ones_own_is_named_by_it(model, settings_file, run_train, tmp_path):
    own = settings_file({"data": {"init_args": {"oversampling": OWN_SAMPLER}}})
    cli = run_train("fit", own, ONE_EPOCH, model=model)
    assert cli.trainer.log_dir == str(tmp_path / f"runs/CP1/{model}_adasyn/version_0")
    assert 0 <= metrics_of(cli)["test/balanced_accuracy"] <= 1


def test_sampler_gets_the_training_rows_and_the_arguments_of_the_settings(settings_file, run_train):
    own = settings_file({"data": {"init_args": {"oversampling": OWN_SAMPLER}}})
    data = run_train("fit", own, ONE_EPOCH, model="iqs").datamodule
    paths = data.training_paths
    states, actions = paths.states, paths.actions
    known = np.ones(len(states), dtype=bool)
    known[paths.last_rows[~paths.stopped]] = False  # what comes after them is not known
    states, actions = states[known], actions[known]
    wanted = int((actions == 1).sum())  # as many stops, 0, as continues, 1
    sampler = ADASYN(sampling_strategy={0: wanted}, n_neighbors=3, random_state=5)
    expected, _ = sampler.fit_resample(states, actions)
    np.testing.assert_array_equal(data.synthetic_stops, expected[len(states) :])


def test_rows_of_a_sampler_are_trained_on(settings_file, run_train):
    own = settings_file({"data": {"init_args": {"oversampling": OWN_SAMPLER}}})
    data = run_train("fit", own, ONE_EPOCH, model="iqs").datamodule
    synthetic = torch.cat([batch.synthetic for batch in data.train_batches()])
    assert synthetic.sum() == len(data.synthetic_stops) > 0


def test_run_with_a_sampler_of_ones_own_is_tested_and_resumed_by_its_settings(
    settings_file, run_train
):
    own = settings_file({"data": {"init_args": {"oversampling": OWN_SAMPLER}}})
    cli = run_train("fit", own, ONE_EPOCH, model="iqs")
    checkpoints = f"{cli.trainer.log_dir}/checkpoints"
    again = run_train("test", f"--ckpt_path={checkpoints}/best.ckpt", data="", small=False)
    key = "test/balanced_accuracy"
    assert metrics_of(again)[key] == metrics_of(cli)[key]
    last = f"--ckpt_path={checkpoints}/last.ckpt"
    resumed = run_train("fit", last, "--trainer.max_epochs=2", data="", small=False)
    assert resumed.trainer.log_dir == cli.trainer.log_dir
    assert resumed.datamodule.sampler == OWN_SAMPLER


def test_sampler_may_be_named_by_an_option(run_train, tmp_path):
    option = "--data.init_args.oversampling=imblearn.over_sampling.RandomOverSampler"
    cli = run_train("fit", option, ONE_EPOCH, model="iqs")
    assert cli.trainer.log_dir == str(tmp_path / "runs/CP1/iqs_random_over_sampler/version_0")
    real = {tuple(row) for row in cli.datamodule.training_paths.states.tolist()}
    assert all(tuple(row) in real for row in cli.datamodule.synthetic_stops.tolist())


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        ({"class_path": "imblearn.under_sampling.RandomUnderSampler",
          "init_args": {"sampling_strategy": "auto"}}, "use a sampler that only adds rows"),
        ("imblearn.over_sampling.SMOTEN.Nothing", "cannot be imported"),
        ({"class_path": "imblearn.over_sampling.SMOTE", "init_args": {"k_neighbours": 3}},
         "cannot be made: .*k_neighbours"),
        ({"class_path": "imblearn.over_sampling.SMOTE", "init_args": {"k_neighbors": 10_000}},
         "SMOTE: .*n_neighbors = 10001"),
        ({"class_path": "imblearn.over_sampling.SMOTE", "n": 3}, "unknown n beside class_path"),
        ({"init_args": {}}, "oversampling must be a class path"),
    ],
)  # fmt: skip
def test_sampler_that_cannot_be_used_is_refused_in_one_sentence(
    sampler, reason, settings_file, run_train
):
    own = settings_file({"data": {"init_args": {"oversampling": sampler}}})
    with pytest.raises(SystemExit, match=rf"^error: [^\n]*{reason}[^\n]*$"):
        run_train("fit", own, ONE_EPOCH, model="iqs")


# Optimizers ---------------------------------------------------------------------------------------


SGD = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.003, "momentum": 0.5}}
FACTORED = {"class_path": "torch.optim.Adafactor", "init_args": {"weight_decay": 0.125}}


@pytest.mark.parametrize("own", [SGD, FACTORED], ids=["element-wise", "by matrices"])
@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_one_optimizer_is_taken_for_all_parts(own, updates, settings_file, run_train, tmp_path):
    settings = {"model": {"init_args": {"optimizer": own, "updates": updates}}}
    cli = run_train("fit", settings_file(settings), ONE_EPOCH)
    assert cli.trainer.log_dir == str(tmp_path / "runs/CP1/do_iqs_lb/version_0")
    assert "test/balanced_accuracy" in metrics_of(cli)
    assert cli.model.parts == ("dynamics", "q", "gain")
    cls = getattr(torch.optim, own["class_path"].rpartition(".")[2])
    assert [type(optimizer) for optimizer in cli.trainer.optimizers] == [cls] * 3
    for optimizer in cli.trainer.optimizers:
        (group,) = optimizer.param_groups
        assert group["initial_lr"] == own["init_args"].get("lr", 0.01)
        assert {name: group[name] for name in own["init_args"] if name != "lr"} == {
            name: value for name, value in own["init_args"].items() if name != "lr"
        }


def test_optimizers_are_taken_by_part_and_the_others_are_adam(settings_file, run_train, tmp_path):
    own = {"q": SGD, "gain": FACTORED}
    cli = run_train("fit", settings_file({"model": {"init_args": {"optimizer": own}}}), ONE_EPOCH)
    assert cli.trainer.log_dir == str(tmp_path / "runs/CP1/do_iqs_lb/version_0")
    assert "test/balanced_accuracy" in metrics_of(cli)
    found = dict(zip(cli.model.parts, cli.trainer.optimizers, strict=True))
    classes = {part: type(optimizer) for part, optimizer in found.items()}
    assert classes == {
        "dynamics": torch.optim.Adam, "q": torch.optim.SGD, "gain": torch.optim.Adafactor
    }  # fmt: skip
    rates = {part: optimizer.param_groups[0]["initial_lr"] for part, optimizer in found.items()}
    assert rates == {"dynamics": 0.01, "q": 0.003, "gain": 0.01}


@pytest.mark.parametrize("own", [SGD, {"q": SGD, "gain": FACTORED}], ids=["for all", "by part"])
def test_run_with_an_optimizer_of_ones_own_goes_on_as_if_it_had_not_been_stopped(
    own, settings_file, run_train
):
    settings = settings_file({"model": {"init_args": {"optimizer": own}}})
    whole = run_train("fit", settings, "--trainer.max_epochs=2")
    first = run_train("fit", settings, ONE_EPOCH)
    last = f"{first.trainer.log_dir}/checkpoints/last.ckpt"
    run_train("fit", f"--ckpt_path={last}", "--trainer.max_epochs=2", data="", small=False)
    a, b = (
        torch.load(f"{cli.trainer.log_dir}/checkpoints/last.ckpt", weights_only=True)
        for cli in (whole, first)
    )
    assert a["epoch"] == b["epoch"] == 1
    for name, values in a["state_dict"].items():
        assert torch.equal(values, b["state_dict"][name]), name


def test_optimizer_that_does_nothing_leaves_the_weights_of_its_part(settings_file, run_train):
    still = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.0}}
    settings = settings_file({"model": {"init_args": {"optimizer": {"q": still}}}})
    runs = [run_train("fit", settings, f"--trainer.max_epochs={epochs}") for epochs in (1, 2)]
    files = [f"{cli.trainer.log_dir}/checkpoints/last.ckpt" for cli in runs]
    one, two = (torch.load(file, weights_only=True)["state_dict"] for file in files)
    assert torch.equal(one["rule.head.q.weight"], two["rule.head.q.weight"])
    assert not torch.equal(one["rule.dynamics.change.weight"], two["rule.dynamics.change.weight"])


@pytest.mark.parametrize(
    ("optimizer", "reason"),
    [
        ({"reward": SGD}, "there is no part 'reward'; the parts are dynamics, q, gain"),
        ("torch.optim.LBFGS", "LBFGS needs a closure"),
        ("torch.nn.Linear", "must be a subclass of .*Optimizer"),
        ({"class_path": "torch.optim.SGD", "init_args": {"rate": 1}}, "cannot be made: .*rate"),
        ({"class_path": "torch.optim.SGD", "init_args": {"momentum": -1}}, "cannot be made: .*-1"),
    ],
)  # fmt: skip
def test_optimizer_that_cannot_be_used_is_refused_in_one_sentence(
    optimizer, reason, settings_file, run_train
):
    own = settings_file({"model": {"init_args": {"optimizer": optimizer}}})
    with pytest.raises(SystemExit, match=rf"^error: [^\n]*{reason}[^\n]*$"):
        run_train("fit", own, ONE_EPOCH)


# Data ---------------------------------------------------------------------------------------------


class PlantData(TurbofanData):
    """Engines of a user's own plant, with nothing changed."""


@pytest.fixture
def plant(settings_file, run_train, tmp_path):
    """Train on engines of two operating conditions through PlantData; return CLI and file."""
    file = tmp_path / "engines.txt"
    file.write_text(text_of(range(25, 45), conditions=(0.0, 20.0)))
    own = {"class_path": f"{__name__}.PlantData", "init_args": {"file": str(file), "step": 3}}
    cli = run_train(
        "fit", settings_file({"data": own}), "--trainer.max_epochs=2", data="turbofan",
        model="model_based_iqs", small=False,
    )  # fmt: skip
    return cli, file


def test_data_of_ones_own_need_no_permission_where_the_program_has_imported_them(plant):
    assert type(plant[0].datamodule) is PlantData


def test_policy_of_ones_own_data_has_the_margins_of_the_trained_module_on_raw_rows(plant):
    cli, file = plant
    test = cli.datamodule.splits.test
    with torch.no_grad():
        expected = cli.model.eval()(path_batch(test)).margin.numpy()
    policy = StoppingPolicy.load(f"{cli.trainer.log_dir}/checkpoints/best.ckpt")
    # raw rows as they stand in NASA's layout: unit, cycle, three settings, sensors
    numbers = np.loadtxt(file)
    wanted = {name: numbers[:, 5 + i] for i, name in enumerate(f"sensor{n}" for n in range(1, 22))}
    columns = {"unit": numbers[:, 0].astype(int), "cycle": numbers[:, 1], "setting1": numbers[:, 2]}
    table = pa.table(columns | wanted)
    rows = set(zip(np.repeat(test.names, test.lengths), test.times.tolist(), strict=True))
    judged = [
        (str(unit), cycle) in rows
        for unit, cycle in zip(columns["unit"], columns["cycle"], strict=True)
    ]
    assert sum(judged) == len(expected) > 50
    found = policy.predict(table.filter(pa.array(judged)), path="unit", time="cycle")
    np.testing.assert_allclose(found["margin"], expected, rtol=1e-4, atol=2e-5)
    assert np.ptp(expected) > 0.01


def test_scaling_of_ones_own_data_is_that_of_their_training_engines(plant):
    cli, file = plant
    numbers = np.loadtxt(file)
    training = np.isin(numbers[:, 0], [int(name) for name in cli.datamodule.splits.train.names])
    policy = StoppingPolicy.load(f"{cli.trainer.log_dir}/checkpoints/best.ckpt")
    encoder = policy.rule.encoder
    sensors = [4 + int(name.removeprefix("sensor")) for name in encoder.columns[1:]]
    for condition, mean in zip(encoder.conditions.tolist(), encoder.mean.numpy(), strict=True):
        own = training & (np.rint(numbers[:, 2]) == condition)
        np.testing.assert_allclose(mean, numbers[own][:, sensors].mean(0), rtol=1e-5, atol=1e-4)
