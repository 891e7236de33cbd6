"""Settings files and how they are laid over one another."""

import pytest
import yaml
from repository import DATA_SETS, ROOT, VARIANTS

from lit_ios.checks import UserError
from lit_ios.configs import gather_config_options, merge_settings, read_settings
from lit_ios.variants import VARIANTS as PAPER
from lit_ios.variants import Variant


def test_the_promised_files_exist():
    assert set(DATA_SETS) >= {"bmG", "bmgG", "CP1", "CP2", "CP3", "radial", "star"}
    assert set(VARIANTS) >= {
        "classifier", "classifier_smote", "iqs", "iqs_smote", "iqs_cs_smote",
        "model_based_iqs", "model_based_iqs_smote", "model_based_iqs_cs_smote",
        "do_iqs", "do_iqs_lb",
    }  # fmt: skip


@pytest.mark.parametrize("file", sorted(ROOT.glob("configs/**/*.yaml")), ids=lambda f: f.stem)
def test_settings_file_begins_with_a_comment_and_names_bare_classes(file):
    text = file.read_text()
    assert text.startswith("# ")
    assert all("." not in line for line in text.splitlines() if "class_path" in line)


def test_a_later_file_wins_key_by_key():
    merged = merge_settings([{"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"b": 4}])
    assert merged == {"a": {"x": 1, "y": 3}, "b": 4}


def test_plus_appends_to_a_list():
    merged = merge_settings([{"t": {"callbacks": [1]}}, {"t": {"callbacks+": [2]}}])
    assert merged == {"t": {"callbacks": [1, 2]}}


def test_another_class_drops_the_arguments_of_the_class_before():
    below = {"model": {"class_path": "A", "init_args": {"epsilon": 0.1}}}
    merged = merge_settings([below, {"model": {"class_path": "B"}}])
    assert merged == {"model": {"class_path": "B", "init_args": {}}}


def test_another_data_set_keeps_the_oversampling_but_not_its_own_arguments():
    below = {"data": {"class_path": "A", "init_args": {"oversampling": "smote", "steps": 50}}}
    merged = merge_settings([below, {"data": {"class_path": "B", "init_args": {"problem": "x"}}}])
    assert merged["data"]["init_args"] == {"oversampling": "smote", "problem": "x"}


def test_the_same_class_keeps_its_arguments():
    below = {"model": {"class_path": "A", "init_args": {"epsilon": 0.1}}}
    assert merge_settings([below, {"model": {"class_path": "A"}}]) == below


def test_merging_changes_no_layer():
    below = {"t": {"callbacks": [1]}}
    merge_settings([below, {"t": {"callbacks+": [2]}}])
    assert below == {"t": {"callbacks": [1]}}


def test_config_options_are_gathered_in_order():
    words = ["fit", "--config", "a", "--x=1", "-c", "b", "--config=c", "--y", "2"]
    assert gather_config_options(words) == (["a", "b", "c"], ["fit", "--x=1", "--y", "2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "no valid YAML"), ("- 1\n- 2\n", "settings by name"), (None, "cannot read")],
)
def test_bad_settings_file_is_an_error_that_names_it(text, message, tmp_path):
    file = tmp_path / "bad.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        read_settings(file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("order", ["data first", "model first"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_means_the_same_in_either_order(order, variant):
    data, model = (
        read_settings(ROOT / f"configs/{kind}.yaml") for kind in ("data/star", f"model/{variant}")
    )
    layers = [data, model] if order == "data first" else [model, data]
    merged = merge_settings([read_settings(ROOT / "configs/default.yaml"), *layers])
    assert merged["model"]["class_path"] == model["model"]["class_path"]
    assert merged["data"]["init_args"] == {**model["data"]["init_args"], "problem": "star"}
    names = [callback["class_path"] for callback in merged["trainer"]["callbacks"]]
    assert ("ConfidenceDecay" in names) == ("_cs_" in variant)
    assert yaml.safe_load(yaml.safe_dump(merged)) == merged


def test_arguments_kept_for_another_data_set_are_those_of_the_base_class():
    import inspect

    from datamodules import TrajectoryDataModule
    from lit_ios.configs import OF_EVERY_DATA_SET

    arguments = set(inspect.signature(TrajectoryDataModule.__init__).parameters)
    assert set(OF_EVERY_DATA_SET) == arguments - {"self", "seed"}


def test_the_same_callback_is_not_appended_twice():
    layer = {"callbacks+": [{"class_path": "ConfidenceDecay"}]}
    assert merge_settings([layer, layer]) == {"callbacks": [{"class_path": "ConfidenceDecay"}]}


def test_full_and_bare_class_names_are_the_same_class():
    below = {"model": {"class_path": "lit_ios.modules.IQS", "init_args": {"alpha": 1}}}
    merged = merge_settings([below, {"model": {"class_path": "IQS"}}])
    assert merged["model"]["init_args"] == {"alpha": 1}


@pytest.mark.parametrize("name", PAPER)
def test_variants_known_to_python_are_those_of_the_files(name):
    settings = read_settings(ROOT / f"configs/model/{name}.yaml")
    data = (settings.get("data") or {}).get("init_args") or {}
    callbacks = (settings.get("trainer") or {}).get("callbacks+") or []
    decays = any(callback["class_path"] == "ConfidenceDecay" for callback in callbacks)
    found = Variant(
        settings["model"]["class_path"], data.get("oversampling", "none"),
        data.get("batch_by", "rows"), decays,
    )  # fmt: skip
    assert found == PAPER[name]
