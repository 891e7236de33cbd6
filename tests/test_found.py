"""Of settings found in a run folder, only what says what model and data are is taken."""

import warnings

import pytest
import yaml

from lit_ios.auto import AutoRun
from lit_ios.checks import UserError
from lit_ios.found import found_options, found_settings, refuse_link, refuse_links

MODEL = {"class_path": "lit_ios.modules.IQS", "init_args": {"hidden": [8]}}
DATA = {"class_path": "datamodules.TableData", "init_args": {"file": "/a/b.csv"}}


@pytest.fixture
def found(tmp_path):
    """Return a function that writes settings and reads them as found ones."""

    def read(settings, allow=()):
        text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
        (tmp_path / "config.yaml").write_text(text)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            taken = found_settings(tmp_path / "config.yaml", allow)
        return taken, " ".join(str(one.message) for one in said)

    return read


def test_model_data_seed_and_length_of_training_are_taken(found):
    settings = {
        "seed_everything": 3, "model": MODEL, "data": DATA,
        "trainer": {"max_epochs": 7, "devices": 1, "precision": "64-true"},
    }  # fmt: skip
    assert found(settings) == (settings, "")


@pytest.mark.parametrize("name", ["output", "runs_dir", "ckpt_path", "weights_only", "threads"])
def test_what_belongs_to_a_command_is_not_taken(name, found):
    assert found({"model": MODEL, name: "/elsewhere"})[0] == {"model": MODEL}


@pytest.mark.parametrize(
    "trainer",
    [
        {"default_root_dir": "/elsewhere"},
        {"logger": {"class_path": "pytorch_lightning.loggers.CSVLogger",
                    "init_args": {"save_dir": "/elsewhere"}}},
        {"profiler": {"class_path": "pytorch_lightning.profilers.SimpleProfiler"}},
        {"plugins": [{"class_path": "pytorch_lightning.plugins.io.AsyncCheckpointIO"}]},
        {"strategy": {"class_path": "pytorch_lightning.strategies.DDPStrategy"}},
    ],
    ids=lambda trainer: next(iter(trainer)),
)  # fmt: skip
def test_what_could_write_elsewhere_is_left_out_and_a_note_says_so(trainer, found):
    taken, said = found({"model": MODEL, "trainer": trainer})
    assert taken == {"model": MODEL, "trainer": {}}
    assert f"trainer.{next(iter(trainer))}" in said
    assert "--config" in said


def callbacks_of(found, *given, allow=()):
    taken, said = found({"trainer": {"callbacks": list(given)}}, allow)
    return taken["trainer"]["callbacks"], said


def test_callbacks_lose_the_places_they_would_write_to(found):
    arguments = {"dirpath": "/elsewhere", "filename": "best", "monitor": "val/balanced_accuracy"}
    given = {"class_path": "callbacks.checkpoints.RunCheckpoint", "init_args": arguments}
    kept, said = callbacks_of(found, given)
    del arguments["dirpath"]
    assert kept == [given | {"init_args": arguments}]
    assert "dirpath of RunCheckpoint" in said
    kept, said = callbacks_of(
        found, {"class_path": "PredictionWriter", "init_args": {"output": "/elsewhere/x.csv"}}
    )
    assert kept == [{"class_path": "PredictionWriter", "init_args": {}}]
    assert "output of PredictionWriter" in said


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", 5, "..\\x"])
def test_callback_whose_file_lies_elsewhere_is_left_out(name, found):
    given = {"class_path": "callbacks.RunCheckpoint", "init_args": {"filename": name}}
    assert callbacks_of(found, given)[0] == []


def test_callback_of_lightning_that_writes_where_it_is_told_is_left_out(found):
    path = "pytorch_lightning.callbacks.OnExceptionCheckpoint"
    kept, said = callbacks_of(found, {"class_path": path, "init_args": {"dirpath": "/x"}})
    assert kept == []
    assert "OnExceptionCheckpoint" in said
    early = {
        "class_path": "pytorch_lightning.callbacks.EarlyStopping",
        "init_args": {"patience": 3},
    }
    assert callbacks_of(found, early) == ([early], "")


def test_arguments_smuggled_beside_the_others_are_left_out(found):
    given = {"class_path": "callbacks.RunCheckpoint", "dict_kwargs": {"dirpath": "/elsewhere"}}
    assert callbacks_of(found, given)[0] == [
        {"class_path": "callbacks.RunCheckpoint", "init_args": {}}
    ]


@pytest.mark.parametrize("form", ["mapping", "text"])
def test_class_of_a_stranger_is_refused_and_of_an_allowed_package_taken(form, found):
    given = {"class_path": "stranger.Thing", "init_args": {"a": 1}}
    with pytest.raises(UserError, match="if you trust that package"):
        callbacks_of(found, given if form == "mapping" else "stranger.Thing")
    assert callbacks_of(found, given, allow=["stranger"])[0] == [given]


def test_data_module_of_another_package_is_refused(found):
    path = "pytorch_lightning.demos.mnist_datamodule.MNISTDataModule"
    with pytest.raises(UserError, match="is not imported because a file names it"):
        found({"data": {"class_path": path}})


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "other.yaml"}, {"model": 5}, {"data": {"class_path": 5}}, {"data": []},
        {"model": {"class_path": "IQS", "init_args": [1]}}, {"trainer": "x"}, "- a", "5",
        "a: [", "a: &a [*a]", "!!python/object/apply:os.getcwd []", "1: 2", "\x00",
    ],
    ids=repr,
)  # fmt: skip
def test_broken_settings_are_refused_in_one_sentence(settings, found):
    with pytest.raises(UserError) as error:
        found(settings)
    assert len(str(error.value).splitlines()) == 1
    assert "config.yaml" in str(error.value)


def test_options_kept_in_a_run_folder_are_taken_by_the_same_rule():
    words = [
        "--data=CP1", "--data.init_args.paths", "-5", "--runs_dir=/elsewhere", "--model=iqs",
        "--trainer.max_epochs=3", "--config", "evil.yaml", "-c", "evil.yaml", "--output", "x.csv",
        "--seed_everything=3",
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found_options(words) == [
            "--data=CP1", "--data.init_args.paths", "-5", "--model=iqs", "--trainer.max_epochs=3",
            "--seed_everything=3",
        ]  # fmt: skip
    with pytest.warns(UserWarning, match=r"--trainer\.logger"):
        assert found_options(["--trainer.logger=x.Y"]) == []


def test_auto_run_does_not_allow_packages_by_itself(tmp_path):
    (tmp_path / "auto.json").write_text(
        '{"files": [], "options": [], "quick": true, "allow": ["evil"]}'
    )
    with pytest.raises(UserError, match="add --allow evil if you trust that package"):
        AutoRun.resumed(tmp_path, tmp_path, "lit-ios")
    assert AutoRun.resumed(tmp_path, tmp_path, "lit-ios", ["evil"]).allow == ["evil"]


@pytest.mark.parametrize("text", ["[" * 100_000, "5", '{"files": 5}', "{", '{"files": [5]}'])
def test_broken_auto_run_is_refused_in_one_sentence(text, tmp_path):
    (tmp_path / "auto.json").write_text(text)
    with pytest.raises(UserError, match="is not the folder of an auto run"):
        AutoRun.resumed(tmp_path, tmp_path, "lit-ios")


def test_links_out_of_a_run_folder_are_refused(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "kept").touch()
    (run / "checkpoints/last.ckpt").symlink_to(run / "kept")
    refuse_links(run)
    (run / "metrics.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"metrics\.json is a link that leads out"):
        refuse_links(run)


def test_checkpoints_that_are_a_link_are_not_written_to(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="--output FILE"):
        refuse_link(tmp_path / "checkpoints")
    refuse_link(tmp_path / "elsewhere")
