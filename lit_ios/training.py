"""Training in this process: what `lit_ios.fit` and the estimator share."""

from __future__ import annotations

import contextlib
import inspect
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from tqdm.auto import tqdm

import callbacks
import datamodules
import lit_ios
from callbacks import EpsilonDecay
from datamodules import PathsData, TrajectoryDataModule
from lit_ios import modules
from lit_ios.checkpoints import describe, read_checkpoint, rule_weights
from lit_ios.checks import check_arguments
from lit_ios.data_record import TableColumns
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.imports import class_path
from lit_ios.modules.checkpointing import SealedCheckpointIO
from lit_ios.policy import StoppingPolicy
from lit_ios.recipe import highest
from lit_ios.trajectories import TrajectorySet
from lit_ios.variants import Variant

Arguments = Mapping[str, Any]
# where remarks come from
OURS = tuple(
    str(Path(package.__file__ or "").parent) for package in (callbacks, datamodules, lit_ios)
)


class Trained(NamedTuple):
    """What training a variant gave."""

    policy: StoppingPolicy
    held_out: float  # cross-fitted balanced accuracy; NaN where no margin was validated
    never_stops: bool  # on the paths that were left out
    remarks: tuple[str, ...] = ()  # on the data, for whoever asked for the training to pass on


class Bar:
    """One progress bar, on stderr, over the epochs of all candidates.

    Args:
        candidates: how many are trained, one after the other.
        epochs: of each at the most.
        shown: whether there is a bar.
    """

    def __init__(self, candidates: int, epochs: int, shown: bool = True) -> None:
        self.epochs, self._ended = epochs, 0
        self._bar = tqdm(
            total=candidates * epochs, unit="epoch", disable=not shown, dynamic_ncols=True,
            mininterval=0.5, leave=False,
        )  # fmt: skip

    def __enter__(self) -> Bar:
        """Show it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Take it away."""
        self._bar.close()

    def begin(self, name: str) -> None:
        """Name the candidate that comes next."""
        self._bar.set_description(name)

    def advance(self, accuracy: float | None) -> None:
        """Count an epoch."""
        if accuracy is not None:
            self._bar.set_postfix_str(f"held-out {accuracy:.3f}", refresh=False)
        self._bar.update()

    def end(self) -> None:
        """Skip the epochs that an early end spared."""
        self._ended += self.epochs
        self._bar.update(self._ended - self._bar.n)


class _Epochs(pl.Callback):
    """Tells the bar of each epoch."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        found = trainer.callback_metrics.get("val/balanced_accuracy")
        self.bar.advance(None if found is None else float(found))


def train_candidates(
    paths: TrajectorySet, candidates: Mapping[str, Variant], bar: Bar, **settings: Any
) -> tuple[str, dict[str, Trained]]:
    """Train several variants; return the best on paths left out, and all of them.

    Args:
        paths: of raw columns; all are trained on where there are folds.
        candidates: by name.
        bar: to advance.
        **settings: see `train_variant`.
    """
    found = {
        name: train_variant(paths, variant, bar=bar, **settings)
        for name, variant in candidates.items()
    }
    return highest({name: trained.held_out for name, trained in found.items()}), found


def train_variant(
    paths: TrajectorySet,
    variant: Variant,
    *,
    epochs: int,
    seed: int,
    model_args: Arguments,
    data_args: Arguments,
    table: TableColumns | None = None,
    bar: Bar | None = None,
) -> Trained:
    """Train one variant; keep the epoch of the highest validation balanced accuracy.

    Args:
        paths: of raw columns.
        variant: module, data arguments and callbacks.
        epochs: at the most.
        seed: of splits, weights and batches; the program's own generators are left alone.
        model_args: arguments of the module, over those of the variant.
        data_args: arguments of PathsData, over those of the variant.
        table: columns of the table the paths were read from.
        bar: to advance; None for none.
    """
    model_class = getattr(modules, variant.model["class_path"])
    check_arguments(model_args, _arguments_of(model_class) - {"inputs"})
    check_arguments(data_args, _arguments_of(PathsData) - {"paths", "table"})
    data = PathsData(paths, **_plain({**variant.data, **data_args}), table=table, seed=seed)
    if bar is not None:
        bar.begin(variant.name)
    with (
        torch.random.fork_rng(devices=[]),
        tempfile.TemporaryDirectory() as folder,
        _quiet() as caught,
    ):
        torch.manual_seed(seed)
        arguments = _plain({**variant.model["init_args"], **model_args})
        model = model_class.for_data(data, **arguments)
        best = ModelCheckpoint(
            folder, "best", monitor="val/balanced_accuracy", mode="max", save_weights_only=True,
            enable_version_counter=False, save_on_train_epoch_end=True,
        )  # fmt: skip
        trainer = pl.Trainer(
            accelerator="cpu", devices=1, max_epochs=int(epochs),
            callbacks=[*_callbacks(variant), *([] if bar is None else [_Epochs(bar)]), best],
            logger=False, enable_progress_bar=False, enable_model_summary=False,
            num_sanity_val_steps=0, default_root_dir=folder,
            plugins=[SealedCheckpointIO(durable=False)],  # read again in a moment, by this process
        )  # fmt: skip
        try:
            trainer.fit(model, data)
        except SystemExit:  # what Lightning makes of it
            raise KeyboardInterrupt from None
        model.rule.load_state_dict(rule_weights(read_checkpoint(Path(folder) / "best.ckpt")))
    if bar is not None:
        bar.end()
    held_out = honest_score(model.choices)
    about = describe(model.rule, model.record, class_path(model_class))
    about |= {"candidate": variant.name, "held_out": None if np.isnan(held_out) else held_out}
    policy = StoppingPolicy(model.rule, about)
    ours = [str(one.message) for one in caught if one.filename.startswith(OURS)]
    return Trained(policy, held_out, _never_stops(policy, data), tuple(dict.fromkeys(ours)))


def _callbacks(variant: Variant) -> list[pl.Callback]:
    made: list[pl.Callback] = [EpsilonDecay()]
    for name, arguments in zip(variant.callbacks, variant.callback_args, strict=True):
        made.append((getattr(callbacks, name, None) or getattr(pl.callbacks, name))(**arguments))
    return made


def _never_stops(policy: StoppingPolicy, data: TrajectoryDataModule) -> bool:
    """Say whether no validation path is stopped by members that left it out."""
    with torch.inference_mode():
        return not any(
            bool((policy.rule.scan(batch, batch.judges).margin >= policy.threshold).any())
            for batch in data.val_dataloader()
        )


def _arguments_of(made: type) -> set[str]:
    """Return the names of a class's arguments, those it hands on to its bases included."""
    found: set[str] = set()
    for base in made.__mro__:
        if base.__module__.split(".")[0] in ("lit_ios", "datamodules"):
            found |= inspect.signature(base.__init__).parameters.keys()  # type: ignore[misc]
    return found - {"self", "args", "kwargs"}


def _plain(value: Any) -> Any:
    """Return numbers of NumPy, as search grids hold them, as Python's, which checkpoints keep."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


@contextlib.contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings instead of showing them; leave logging and threads as they were."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels, threads = [logger.level for logger in loggers], torch.get_num_threads()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            torch.set_num_threads(1)  # best for small networks
            yield caught
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            torch.set_num_threads(threads)
