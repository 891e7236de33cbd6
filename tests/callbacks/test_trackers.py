"""Loggers beside the run folder's own: each gets curves and settings, some the run's files."""

import csv
import json
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import yaml
from pytorch_lightning.loggers import MLFlowLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

import callbacks.trackers
import train
from lit_ios.policy import StoppingPolicy

FILES = {"config.yaml", "metrics.json", "best.ckpt", "policy.onnx", "frontier.png", "margins.png"}
SHORT = (
    "--data=CP1", "--model=do_iqs_lb", "--data.init_args.paths=40", "--data.init_args.test_paths=9",
    "--trainer.max_epochs=2", "--trainer.enable_progress_bar=false", "--baseline=false",
    "--report=false",
)  # fmt: skip


def fit(place, *loggers):
    """Train with some loggers; return the run folder."""
    settings = place / "loggers.yaml"
    settings.write_text(yaml.safe_dump({"trainer": {"logger": list(loggers)}}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train.main(["fit", *SHORT, f"--config={settings}", f"--runs_dir={place}/runs"])
    (folder,) = (place / "runs/CP1/do_iqs_lb").iterdir()
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a run that also logs to a CSV file, and that of the file."""
    place = tmp_path_factory.mktemp("trained")
    return fit(place, logger("CSVLogger", save_dir=str(place / "csv"))), place / "csv"


def logger(name, **arguments):
    return {"class_path": name, "init_args": arguments}


def events(folder):
    """Return everything in the event files of a run, which writes hyper-parameters to its own."""
    return EventAccumulator(str(folder)).Reload()


def plugin(folder, name):
    return events(folder).PluginTagToContent(name)


def test_run_folder_is_complete_beside_a_logger_of_the_users(trained):
    folder, place = trained
    metrics = json.loads((folder / "metrics.json").read_text())
    assert {file.name for file in (folder / "figures").iterdir()} == {"frontier.png", "margins.png"}
    assert (folder / "checkpoints/best.ckpt").is_file()
    assert len(events(folder).Scalars("val/balanced_accuracy")) == 2
    (other,) = place.glob("**/metrics.csv")
    with other.open() as stream:
        rows = list(csv.DictReader(stream))
    found = [float(row["val/balanced_accuracy"]) for row in rows if row["val/balanced_accuracy"]]
    assert max(found) == pytest.approx(metrics["val/balanced_accuracy"])
    tested = [row["test/balanced_accuracy"] for row in rows if row["test/balanced_accuracy"]]
    assert float(tested[-1]) == pytest.approx(metrics["test/balanced_accuracy"])
    settings = yaml.safe_load((other.parent / "hparams.yaml").read_text())
    assert (settings["method"], settings["data"], settings["data/batch_size"]) == (
        "do_iqs_lb", "CP1", 128,
    )  # fmt: skip
    assert settings["gamma"] == 0.99
    assert not {"_class_path", "_instantiator", "inputs"} & settings.keys()


def test_hyperparameters_begin_with_those_that_matter(trained):
    contents = plugin(trained[0], "hparams")
    read = plugin_data_pb2.HParamsPluginData.FromString
    (about,) = [read(c).experiment for c in contents.values() if read(c).HasField("experiment")]
    infos = sorted(about.hparam_infos, key=lambda info: (not info.differs, info.name))  # as shown
    shown = [info.name for info in infos]
    assert shown[:5] == ["data", "learning_rate", "members", "memory", "method"]
    assert {"gamma", "epsilon", "data/batch_size", "data/seed"} < set(shown)
    assert not [name for name in shown if name.startswith("_") or name == "inputs"]
    assert about.metric_infos[0].name.tag == "test/balanced_accuracy"
    (began,) = [read(c).session_start_info for c in contents.values()
                if read(c).HasField("session_start_info")]  # fmt: skip
    assert began.hparams["method"].string_value == "do_iqs_lb"
    assert began.hparams["learning_rate"].number_value == 0.01


def test_charts_show_accuracy_losses_and_schedules_together(trained):
    folder, _ = trained
    (tag,) = plugin(folder, "custom_scalars")
    event = events(folder).Tensors(tag)[0]
    layout = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0])
    (category,) = layout.category
    tags = {chart.title: list(chart.multiline.tag) for chart in category.chart}
    assert next(iter(tags)) == "balanced accuracy"
    assert {"losses of the parts", "schedules"} < tags.keys()
    there = events(folder).Tags()["scalars"]
    for title, patterns in tags.items():
        matching = pd.Series(there).str.fullmatch("|".join(patterns))
        assert matching.any(), title
    parts = pd.Series(there)[pd.Series(there).str.fullmatch(tags["losses of the parts"][0])]
    assert set(parts) == {f"train/{part}/total" for part in ("q", "dynamics", "gain")}


def test_tracker_that_cannot_be_reached_costs_a_note(tmp_path, monkeypatch):
    def refuse(*_):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(callbacks.trackers, "_to_mlflow", refuse)
    unreachable = object.__new__(MLFlowLogger)
    with pytest.warns(UserWarning, match="^MLFlowLogger did not take the files of .*: no route"):
        callbacks.trackers.send_results([unreachable], tmp_path, None)


# With the packages themselves -------------------------------------------------------------------


@pytest.mark.mlflow
def test_mlflow_gets_curves_settings_and_files(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    address = f"sqlite:///{tmp_path}/mlflow.db"
    given = {"tracking_uri": address, "artifact_location": str(tmp_path / "kept")}
    folder = fit(tmp_path, logger("MLFlowLogger", **given))
    metrics = json.loads((folder / "metrics.json").read_text())
    client = mlflow.MlflowClient(address)
    (experiment,) = [e for e in client.search_experiments() if e.name == "lightning_logs"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.metrics["test/balanced_accuracy"] == pytest.approx(
        metrics["test/balanced_accuracy"]
    )
    curve = client.get_metric_history(found.info.run_id, "val/balanced_accuracy")
    assert max(each.value for each in curve) == pytest.approx(metrics["val/balanced_accuracy"])
    assert (found.data.params["method"], found.data.params["gamma"]) == ("do_iqs_lb", "0.99")
    kept = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    assert {file.name for file in kept} >= FILES
    model = mlflow.pyfunc.load_model(str(next(f for f in kept if f.name == "MLmodel").parent))
    table = pd.DataFrame({"path": 1, "time": np.arange(9), "x": np.linspace(-1, 6, 9)})
    expected = StoppingPolicy.load(folder / "checkpoints/best.ckpt").predict(table, "path", "time")
    pd.testing.assert_frame_equal(model.predict(table), expected)


@pytest.mark.wandb
def test_wandb_without_a_network_gets_curves_settings_and_files(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staged"))
    given = {"offline": True, "project": "trial", "save_dir": str(tmp_path)}
    try:
        folder = fit(tmp_path, logger("WandbLogger", **given))
        seen = dict(wandb.run.summary)
        settings = dict(wandb.run.config)
    finally:
        wandb.finish()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert seen["test/balanced_accuracy"] == pytest.approx(metrics["test/balanced_accuracy"])
    assert (settings["method"], settings["gamma"]) == ("do_iqs_lb", 0.99)
    staged = [file.read_bytes() for file in (tmp_path / "staged").rglob("tmp*") if file.is_file()]
    sent = [folder / "config.yaml", folder / "metrics.json", folder / "checkpoints/best.ckpt"]
    sent += sorted((folder / "figures").iterdir())
    left = [content for content in staged if content not in {file.read_bytes() for file in sent}]
    assert len(staged) == len(FILES) == len(sent) + 1
    assert onnxruntime.InferenceSession(left[0]).get_inputs()
    (place,) = (tmp_path / "wandb").glob("offline-run-*")
    pictures = [file.name.partition("_")[0] for file in place.rglob("*.png")]
    assert sorted(pictures) == ["frontier", "margins"]
