"""The tab HPARAMS of TensorBoard: what a run was told, beside what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from torch.utils.tensorboard.summary import hparams

MAIN = ("data", "learning_rate", "members", "memory", "method")  # as many as are shown at first
SCORES = (
    "test/balanced_accuracy", "test/event_miss_rate", "test/false_alarm_rate",
    "test/time_to_event_mean",
)  # fmt: skip


def log_hyperparameters(
    logger: TensorBoardLogger, settings: Mapping[str, Any], metrics: Mapping[str, float]
) -> None:
    """Put settings beside final metrics, those that matter first.

    TensorBoard sorts settings by their names, but those that are marked to differ between runs
    come first. It takes the list of one run for all.

    Args:
        logger: of the run.
        settings: by name.
        metrics: by tag.
    """
    values = {name: _plain(settings[name]) for name in settings}
    logger.log_metrics(dict(metrics))
    experiment, start, end = hparams(values, dict(metrics))  # type: ignore[no-untyped-call]
    _put_first(experiment, values, metrics)
    for made in (experiment, start, end):
        logger.experiment._get_file_writer().add_summary(made)


def _put_first(made: Any, values: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    """Write what matters first into the list of all settings and metrics."""
    names = [*MAIN, *sorted(set(values) - {*MAIN})]
    tags = [*(tag for tag in SCORES if tag in metrics), *sorted(set(metrics) - {*SCORES})]
    about = made.value[0].metadata.plugin_data
    content = plugin_data_pb2.HParamsPluginData.FromString(about.content)
    infos = [_info(name, values.get(name, ""), name in MAIN) for name in names]
    shown = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in tags]
    content.experiment.CopyFrom(api_pb2.Experiment(hparam_infos=infos, metric_infos=shown))
    about.content = content.SerializeToString()


def _plain(value: Any) -> float | str | bool:
    if isinstance(value, bool | str):
        return value
    return float(value) if isinstance(value, int | float) else str(value)


def _info(name: str, value: float | str | bool, first: bool) -> api_pb2.HParamInfo:
    kinds: dict[type, int] = {bool: api_pb2.DATA_TYPE_BOOL, float: api_pb2.DATA_TYPE_FLOAT64}
    kind = kinds.get(type(value), api_pb2.DATA_TYPE_STRING)
    return api_pb2.HParamInfo(name=name, type=kind, differs=first)
