"""What a space file may say, and what each of its values becomes."""

import pytest
import yaml

from lit_ios.checks import UserError
from lit_ios.tune.space import Knob, as_options, read_space, schedule_epsilon
from lit_ios.tune.trials import Trainee
from lit_ios.variants import configs_folder

MODEL = {
    "gamma": "float", "hidden": "list[int]", "memory": "str", "margin": "Margin",
    "members": "int", "policy_weight": "float", "inputs": "InputSettings", "ratio": "float",
}  # fmt: skip
DATA = {"lags": "int", "batch_size": "int", "paths": "int", "ratio": "float", "seed": "int"}


def read(tmp_path, space, **more):
    file = tmp_path / "space.yaml"
    file.write_text(space if isinstance(space, str) else yaml.safe_dump(space, sort_keys=False))
    return read_space(file, MODEL, DATA, **more)


def test_names_are_found_among_model_and_data(tmp_path):
    names = ("gamma", "lags", "trainer.max_epochs", "epsilon_decay")
    space = {name: [1, 2] for name in names}
    keys = [knob.key for knob in read(tmp_path, space)]
    assert sorted(keys) == [
        "data.init_args.lags", "epsilon_decay", "model.init_args.gamma", "trainer.max_epochs",
    ]  # fmt: skip


def test_numbers_are_whole_where_the_argument_is(tmp_path):
    low_high = {"low": 0, "high": 4}
    weight, lags = read(tmp_path, {"policy_weight": low_high, "lags": {**low_high, "step": 2}})
    assert (weight.whole, lags.whole) == (False, True)
    assert lags.edges == [0, 4]
    assert [lags.holds(value) for value in (0, 1, 2, 4, 5)] == [True, False, True, True, False]


def test_texts_that_yaml_does_not_take_for_numbers_are_numbers(tmp_path):
    (knob,) = read(tmp_path, "gamma: {low: 1e-3, high: 1e-1, log: true}\n")
    assert (knob.low, knob.high, knob.log) == (0.001, 0.1, True)


def test_lists_and_mappings_are_told_apart_by_their_labels(tmp_path):
    (knob,) = read(tmp_path, {"hidden": [[8], [8, 8]]})
    assert knob.labels == {"[8]": [8], "[8, 8]": [8, 8]}
    assert as_options([knob], {"hidden": [8, 8]}) == ["--model.init_args.hidden=[8, 8]"]


def test_the_schedule_of_epsilon_is_set_in_its_callback():
    callbacks = [{"class_path": "RunSummary"}, {"class_path": "callbacks.EpsilonDecay"}]
    settings = schedule_epsilon({"trainer": {"callbacks": callbacks}}, 0.9)
    assert settings["trainer"]["callbacks"] == [
        {"class_path": "RunSummary"},
        {"class_path": "callbacks.EpsilonDecay", "init_args": {"decay": 0.9}},
    ]


def test_of_the_shipped_space_only_what_the_classes_have_is_searched():
    knobs = read_space(configs_folder() / "space.yaml", MODEL, DATA, shipped=True)
    assert {knob.name for knob in knobs} == {"gamma", "hidden", "memory", "lags", "batch_size"}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"gama": [0.9, 1]}, "no setting gama; did you mean 'gamma'"),
        ({"ratio": [1, 2]}, r"may be model\.init_args\.ratio or data\.init_args\.ratio"),
        ({"paths": [1, 2]}, "would change what trials are measured by"),
        ({"margin": ["zero", "validated"]}, "would change what trials are measured by"),
        ({"compile": ["never", "build"]}, "how they are done"),
        ({"seed": [1, 2]}, "a seed is luck"),
        ({"model": ["iqs", "oti"]}, "is chosen by --model"),
        ({"gamma": [0.9]}, "two or more different choices"),
        ({"gamma": [0.9, 0.9]}, "two or more different choices"),
        ({"gamma": {"low": 1, "high": 0}}, "low < high"),
        ({"gamma": {"low": 0, "high": 1, "log": True}}, "above 0 where log"),
        ({"gamma": {"low": 1, "high": 2, "log": True, "step": 1}}, "log or step"),
        ({"gamma": {"low": 0, "hihg": 1}}, "a mapping of low and high"),
        ({"lags": {"low": 0, "high": 1.5}}, "takes integers"),
        ({"hidden": {"low": 1, "high": 2}}, "takes choices"),
        ({"memory": {"low": 1, "high": 2}}, "takes choices"),
        ({"memory": ["none", "evil.Memory"]}, r"evil\.Memory is not imported"),
        ({"memory": ["none", {"class_path": "evil.Memory"}]}, r"evil\.Memory is not imported"),
        ({"gamma": [0.9, 1], "model.init_args.gamma": [0.9, 1]}, "is there twice"),
        ({}, "names no setting"),
        ("- 3", "does not hold settings by name"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(tmp_path, space, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, space)


def test_a_value_that_is_no_number_is_outside_a_range():
    knob = Knob("gamma", "model.init_args.gamma", (), 0.5, 1.0)
    assert [knob.holds(value) for value in (None, True, "0.7", 0.7, 1.1)] == [
        False, False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (("learning_rate", "epsilon_decay"), True),
        (("learning_rate", "gamma"), False),
        (("hidden",), False),
        ((), False),
    ],
)
def test_trials_that_differ_in_rates_and_schedules_alone_share_a_compiled_step(names, shared):
    knobs = [Knob(name, f"model.init_args.{name}", (1, 2)) for name in names]
    seen = []

    class Kind:
        checkpoint = None

        @staticmethod
        def carry_out(settings, words):
            seen.append(words)

    trainee = Trainee({"trainer": {"callbacks": []}}, ["--model.init_args.members=2"], knobs)
    trainee.run(Kind, {})
    assert ("--model.init_args.compile=build" in seen[0]) == shared
    assert seen[0][-1] == "--model.init_args.members=2"  # what is said wins
