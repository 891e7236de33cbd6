"""Generated settings and metadata: taken, or refused in one sentence."""

import json
import warnings

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.hostile_checks.states import policy
from lit_ios.auto import _own_table
from lit_ios.checks import UserError
from lit_ios.found import class_paths, files_read, found_options, found_settings
from lit_ios.live.metadata import read_metadata
from lit_ios.modules import StoppingModule
from lit_ios.policy.exports import ExportedStep, describe_export
from lit_ios.program import main
from lit_ios.program.class_names import check_class
from lit_ios.settings import merge_settings, read_settings

MANY = settings(
    max_examples=150, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
NAMES = st.sampled_from(
    ["model", "data", "trainer", "class_path", "init_args", "callbacks", "callbacks+", "logger",
     "strategy", "file", "dirpath", "filename", "seed_everything", "max_epochs", "dict_kwargs"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["lit_ios.modules.IQS", "os.system", "evil.Thing", "callbacks.X", "../x"]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | LEAVES, inner, max_size=4),
    max_leaves=15,
)
SETTINGS = st.dictionaries(NAMES, TREES, max_size=5)


def one_sentence(call, *args):
    """Return what a call returns; None if it refuses in one sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args)
        except UserError as error:
            said = str(error)
    assert len(said.splitlines()) == 1
    return None


@MANY
@given(tree=SETTINGS)
def test_found_settings_are_taken_or_refused_in_a_sentence(tree, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(tree))
    found = one_sentence(found_settings, file)
    if found is not None:
        assert set(found) <= {"model", "data", "trainer", "seed_everything", "baseline"}
        assert not any(path.startswith(("os.", "evil.")) for path in class_paths(found))
        files_read(found)


@MANY
@given(layers=st.lists(SETTINGS, max_size=3))
def test_layers_of_settings_are_merged_or_refused_in_a_sentence(layers):
    merged = one_sentence(merge_settings, layers)
    if merged is not None:
        one_sentence(check_class, "model", merged, [], StoppingModule)


@MANY
@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_as_settings_or_refused_in_a_sentence(text, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    found = one_sentence(read_settings, file)
    assert found is None or isinstance(found, dict)


@MANY
@given(words=st.lists(st.text("-=.0aedtmlr", max_size=9) | NAMES.map("--{}".format), max_size=6))
def test_options_of_a_run_are_taken_or_left_out(words):
    kept = one_sentence(found_options, words)
    assert set(kept) <= set(words)


ABOUT = json.loads(json.dumps(describe_export(policy(), ExportedStep(policy().rule, "last", True))))


@MANY
@given(
    changes=st.dictionaries(st.sampled_from(sorted(ABOUT)), TREES, min_size=1, max_size=3),
    left=st.sets(st.sampled_from(sorted(ABOUT)), max_size=1),
)
def test_metadata_are_read_or_refused_in_a_sentence(changes, left):
    about = {name: value for name, value in (ABOUT | changes).items() if name not in left}
    text = json.dumps(about, default=str, skipkeys=True)
    found = one_sentence(read_metadata, text, "rule.onnx")
    if found is not None:
        assert found["columns"]
        assert all(isinstance(number, int | float) for number in found["start"])


def test_whole_metadata_are_read():
    assert read_metadata(json.dumps(ABOUT), "rule.onnx") == ABOUT


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{"model": {"class_path": 5}}, {"model": {"class_path": "IQS"}}], "class_path of model"),
        ([{"trainer": {"callbacks+": 5}}], "give a list"),
        ([{"trainer": {"callbacks": 5}}, {"trainer": {"callbacks+": ["a"]}}], "give a list"),
    ],
)
def test_layers_that_cannot_be_merged_name_what_is_wrong(layers, message):
    with pytest.raises(UserError, match=message):
        merge_settings([{"trainer": {"a": 1}}, *layers])


def test_a_model_that_is_no_mapping_is_refused():
    with pytest.raises(UserError, match="model in a settings file must have a class_path"):
        check_class("model", {"model": "text"}, [], StoppingModule)


def test_data_that_are_no_mapping_are_no_table_of_ones_own(tmp_path):
    (tmp_path / "a.yaml").write_text("data: [1]\n")
    assert not _own_table(["fit"], [str(tmp_path / "a.yaml")])


def test_a_folder_of_runs_that_is_a_number_is_refused(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("runs_dir: 0.5\n")
    assert main(["fit", "--data", "CP1", "--model", "iqs", f"--config={tmp_path}/a.yaml"]) == 1
    assert "runs_dir must be text" in capsys.readouterr().err
