"""Settings files and how they are laid over one another."""

import inspect

import pytest
import yaml
from repository import DATA_SETS, ROOT, VARIANTS

import callbacks
from datamodules import ChangePointData, TrajectoryDataModule
from lit_ios import modules
from lit_ios.checks import UserError
from lit_ios.settings import OF_EVERY_DATA_SET, gather_options, merge_settings, read_settings
from lit_ios.variants import find_variant, variant_name, variants


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
    named = [line for line in text.splitlines() if "class_path" in line]
    assert all("." not in line or "ray.train.lightning." in line for line in named)


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


def test_options_are_gathered_in_order_by_any_of_their_names():
    words = ["fit", "--config", "a", "--x=1", "-c", "b", "--config=c", "--y", "2"]
    found = gather_options(words, "--config", "-c")
    assert found == (["a", "b", "c"], ["fit", "--x=1", "--y", "2"])


def test_value_of_a_gathered_option_may_hold_an_equals_sign():
    assert gather_options(["--config=a=b.yaml"], "--config") == (["a=b.yaml"], [])


def test_option_whose_name_begins_alike_is_not_gathered():
    words = ["--allowed=x", "--print_config"]
    assert gather_options(words, "--allow", "--config") == ([], words)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not valid YAML"), ("- 1\n- 2\n", "settings by name"), (None, "cannot read")],
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
    arguments = set(inspect.signature(TrajectoryDataModule.__init__).parameters)
    assert set(OF_EVERY_DATA_SET) == arguments - {"self", "seed"}


def test_the_same_callback_is_not_appended_twice():
    layer = {"callbacks+": [{"class_path": "ConfidenceDecay"}]}
    assert merge_settings([layer, layer]) == {"callbacks": [{"class_path": "ConfidenceDecay"}]}


def test_full_and_bare_class_names_are_the_same_class():
    below = {"model": {"class_path": "lit_ios.modules.IQS", "init_args": {"alpha": 1}}}
    merged = merge_settings([below, {"model": {"class_path": "IQS"}}])
    assert merged["model"]["init_args"] == {"alpha": 1}


def test_settings_of_a_class_by_path_replace_a_choice_by_name_and_the_other_way_round():
    own = {"class_path": "imblearn.over_sampling.ADASYN", "init_args": {"n_neighbors": 3}}
    for below, above in (("smote", own), (own, "smote")):
        layers = [{"data": {"init_args": {"oversampling": value}}} for value in (below, above)]
        assert merge_settings(layers)["data"]["init_args"] == {"oversampling": above}


# The files of configs/model are the variants ------------------------------------------------------


def test_every_file_is_a_variant_and_there_are_no_others():
    assert sorted(variants()) == VARIANTS


@pytest.mark.parametrize("name", VARIANTS)
def test_label_of_a_variant_is_its_files_comment_up_to_a_colon(name):
    first = (ROOT / f"configs/model/{name}.yaml").read_text().splitlines()[0]
    variant = find_variant(name)
    assert variant.name == name
    assert first == f"# {variant.label}" or first.startswith(f"# {variant.label}: ")


def test_labels_are_those_of_the_papers_table_in_its_order_and_then_ours():
    paper = [
        "Classifier", "Classifier-SMOTE", "IQS", "IQS-SMOTE", "IQS-CS-SMOTE", "Model-based IQS",
        "Model-based IQS-SMOTE", "Model-based IQS-CS-SMOTE", "DO-IQS", "DO-IQS-LB",
    ]  # fmt: skip
    labels = [variant.label for variant in variants().values()]
    assert labels[:10] == paper
    assert labels[10:] == ["IQS-folds", "OTI"]


@pytest.mark.parametrize("name", VARIANTS)
def test_variant_says_what_its_file_says(name):
    settings = read_settings(ROOT / f"configs/model/{name}.yaml")
    variant = find_variant(name)
    assert variant.model["class_path"] == settings["model"]["class_path"]
    assert variant.model["init_args"] == settings["model"].get("init_args", {})
    assert variant.data == settings["data"]["init_args"]
    assert list(variant.callbacks) == (["ConfidenceDecay"] if "_cs_" in name else [])


def test_unknown_variant_is_an_error_that_names_the_nearest_or_lists_them():
    with pytest.raises(UserError, match=r"no variant 'iq'; did you mean 'iqs'\?"):
        find_variant("iq")
    with pytest.raises(UserError, match=r"no variant 'zzz'; .*classifier, .*do_iqs_lb"):
        find_variant("zzz")


def trained_as(model, data, added=()):
    """Return model, data and callbacks of some settings, as a run has them."""
    module = ChangePointData(paths=20, test_paths=5, **data)
    name, arguments = model
    made = getattr(modules, name).for_data(module, **arguments)
    return made, module, [getattr(callbacks, each)() for each in ("RunSummary", *added)]


@pytest.mark.parametrize("name", VARIANTS)
def test_what_a_file_asks_for_is_named_like_the_file(name):
    variant = find_variant(name)
    model = variant.model["class_path"], variant.model["init_args"]
    assert variant_name(*trained_as(model, variant.data, variant.callbacks)) == name


ADASYN = {"class_path": "imblearn.over_sampling.ADASYN", "init_args": {"n_neighbors": 3}}


@pytest.mark.parametrize(
    ("model", "data", "added", "name"),
    [
        ("Classifier", {"oversampling": "bootstrap"}, [], "classifier_lb"),
        ("Classifier", {"oversampling": "smote"}, ["ConfidenceDecay"], "classifier_cs_smote"),
        ("IQS", {"oversampling": ADASYN}, [], "iqs_adasyn"),
        ("IQS", {"oversampling": "imblearn.over_sampling.BorderlineSMOTE"}, [],
         "iqs_borderline_smote"),
        ("ModelBasedIQS", {"oversampling": ADASYN}, ["ConfidenceDecay"],
         "model_based_iqs_cs_adasyn"),
        ("DOIQS", {"oversampling": "bootstrap", "batch_by": "paths", "folds": 2}, [],
         "do_iqs_lb_folds"),
    ],
)  # fmt: skip
def test_combination_that_no_file_declares_is_named_by_its_parts(model, data, added, name):
    arguments = {"members": 2} if "folds" in data else {}
    assert variant_name(*trained_as((model, arguments), data, added)) == name


def test_model_of_ones_own_is_named_by_its_class():
    class OwnIQS(modules.IQS):
        pass

    _, data, added = trained_as(("IQS", {}), {"oversampling": "smote"})
    assert variant_name(OwnIQS.for_data(data), data, added) == "own_iqs_smote"
