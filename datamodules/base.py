"""From paths to batches: split → features → states → standardise → oversample → loaders."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from pytorch_lightning.utilities import rank_zero_warn

from datamodules.declared import DeclaredData, Splits
from datamodules.loaders import BatchBy, Chunks, PathLoader, Shard, TrainLoader
from datamodules.processes import all_gather, places_among_all
from lit_ios.batches import PathBatch, path_batch
from lit_ios.carry import Usual
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.data_record import DataRecord
from lit_ios.imports import Spec, as_spec, import_class
from lit_ios.recognition import Fingerprints, fingerprints, join_fingerprints
from lit_ios.rule import Scaler
from lit_ios.sampling import (
    Confidence,
    SmoteKind,
    Statistics,
    bootstrap_copies,
    fit_familiarity,
    fit_statistics,
    folds_held_out,
    sample_stops,
    smote_stops,
    synthetic_confidence,
)
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectoryError, TrajectorySet

MOST_GRID_TIMES = 60
FEW_STOPS = 10  # of which training warns

Oversampling = Literal["none", "smote", "bootstrap"]
T = TypeVar("T")


class TrajectoryDataModule(DeclaredData):
    """Serves training batches of standardised transitions and raw whole paths for evaluation.

    A data set gives `name`, `columns` and `read_splits` (see DeclaredData); the rest is here.

    Args:
        oversampling: `smote` adds synthetic stop rows to the training split; `bootstrap` draws
            the stop rows of each batch again (local bootstrap); a class path and its arguments
            name a sampler of imbalanced-learn or of your own. Validation and test data are never
            resampled.
        ratio: stop rows per continue row after oversampling.
        neighbors: SMOTE's k, reduced where there are fewer stops.
        smote_kind: `borderline` interpolates only from stops near continue rows.
        smote_windows: windows of time within which SMOTE interpolates; 1 for all at once.
        synthetic_confidence: how far each synthetic row is believed, beside a confidence that
            decays: `one`, or learnt from the real rows by their `neighbors` or a `discriminator`.
        batch_size: rows per training batch, before bootstrap.
        batch_by: `rows` shuffles single rows; `paths` shuffles whole paths, as a model that
            remembers a path's past needs; `auto` does what the model needs.
        batches_per_call: batches the trainer hands over at a time; each is still an optimizer
            step of its own. What Lightning counts in batches or steps (limit_train_batches,
            max_steps, log_every_n_steps) are such calls: 1 makes them single batches.
        lags: how many earlier rows are part of the state.
        include_time: make the time since the path began the last coordinate of the state.
        validation_share: share of the training paths held out to choose the best epoch.
        lead: time by which a stop must come before the event to count as caught in validation and
            test (M8), in the data's unit.
        stop_lead: time by which the stops of the training paths are moved earlier.
        folds: train on these too: all paths are dealt out into this many folds, each of several
            members leaves out one, and every path is judged in validation by the members that left
            it out.
        encoder: class path and arguments of an encoder of your own from raw columns to features.
        seed: decides data, splits, synthetic rows and batches.
    """

    def __init__(
        self,
        oversampling: str | dict[str, Any] = "none",
        ratio: float = 1.0,
        neighbors: int = 12,
        smote_kind: SmoteKind = "regular",
        smote_windows: int = 1,
        synthetic_confidence: Confidence = "one",
        batch_size: int = 128,
        batch_by: Literal["auto", "rows", "paths"] = "auto",
        batches_per_call: int = 64,
        lags: int = 0,
        include_time: bool = True,
        validation_share: float = 0.3,
        lead: float = 0.0,
        stop_lead: float = 0.0,
        folds: int | None = None,
        encoder: str | dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(lags, include_time, validation_share, encoder, seed)
        if not ratio > 0:
            raise ValueError(f"ratio must be positive, got {ratio}")
        if folds is not None and folds < 2:
            raise ValueError(f"folds must be at least 2, or null for none, got {folds}")
        check_number("lead", lead, at_least=0)
        check_number("stop_lead", stop_lead, at_least=0)
        check_number("neighbors", neighbors, above=0)
        check_number("batch_size", batch_size, above=0)
        check_number("batches_per_call", batches_per_call, above=0)
        check_choice("smote_kind", smote_kind, SmoteKind)
        check_number("smote_windows", smote_windows, above=0)
        check_choice("synthetic_confidence", synthetic_confidence, Confidence)
        check_choice("batch_by", batch_by, Literal["auto", "rows", "paths"])
        self.sampler: Spec | None = None  # of a sampler that is named by its class
        if isinstance(oversampling, dict) or "." in oversampling:
            self.sampler = as_spec("oversampling", oversampling)
            import_class(self.sampler["class_path"], object)
            oversampling = self.sampler["class_path"].rpartition(".")[2]
        else:
            check_choice("oversampling", oversampling, Oversampling)
        self.makes_rows = self.sampler is not None or oversampling == "smote"
        if folds is not None and self.makes_rows:
            raise UserError(
                f"folds cannot be used with oversampling: {oversampling}, whose rows are made of "
                "the stops of all folds: a member would be validated on what it was trained on"
            )
        if smote_windows > 1 and (self.sampler is not None or oversampling != "smote"):
            raise UserError("smote_windows needs oversampling: smote")
        if synthetic_confidence != "one" and not self.makes_rows:
            raise UserError("synthetic_confidence needs oversampling: smote, or a sampler")
        self.oversampling, self.ratio = oversampling, ratio
        self.neighbors, self.smote_kind = neighbors, smote_kind
        self.smote_windows, self.synthetic_confidence = smote_windows, synthetic_confidence
        self.batch_size, self.batch_by = batch_size, batch_by
        self.batches_per_call = batches_per_call
        self.folds, self.lead, self.stop_lead = folds, lead, stop_lead
        self._whole_paths = False  # whether the model needs them
        self._seen: FloatArray | None = None  # (K, P) how often members see training paths
        self._judges: BoolArray | None = None  # (K, P) which members judge validation paths

    def prepare_for(
        self,
        members: int = 1,
        bootstrap: bool = True,
        whole_paths: bool = False,
        times: int = 1,
    ) -> DataRecord:
        """Deal the paths out to the members of a model; return what it must know of the data.

        Args:
            members: number of networks.
            bootstrap: whether several of them see bootstrap samples of the training paths.
            whole_paths: whether batches must be of whole paths.
            times: so many models of these members are trained side by side on the same batches.
        """
        if whole_paths and self.batch_by == "rows":
            raise UserError(
                "the model remembers a path's past or learns from whole paths, and batch_by: rows "
                "tears paths apart: set data.init_args.batch_by to auto or paths"
            )
        self._whole_paths = whole_paths
        self._seen = self._judges = None
        if self.folds is not None:
            self._judges = self.held_out(members)
            self._seen = (~self._judges).astype(np.float32)
        elif members > 1 and bootstrap:
            self._seen = self.bootstrap_copies(members)
        if self._seen is not None:
            self._seen = np.tile(self._seen, (times, 1))
        stopped = self._among_all()[0]
        return DataRecord(
            name=self.name,
            inputs=self.inputs,
            statistics=self.statistics,
            usual=self._familiarity(),
            time_step=self.time_step,
            table=self.table,
            training=self._fingerprints(self.splits.train),
            validation=self._fingerprints(self.splits.val),
            paths=len(stopped),
            stops=int(stopped.sum()),
            longest=int(self.splits.train.lengths.max()),
            lead=self.lead,
            synthetic=self.synthetic_stops is not None,
        )

    def _familiarity(self) -> Usual:
        """Learn what rows of paths that are not tested are like."""
        train, val, _ = self.splits
        scaler = Scaler(len(self.statistics.mean))
        scaler.set(*self.statistics)
        known = [scaler.paths(self.states(train)) if self.stop_lead else self.training_paths]
        if val is not train:
            known.append(scaler.paths(self.states(val)))
        if self.lags:  # the coordinates of a state that are of its own row
            dim = len(self.encoder.feature_names)
            own = [*range(dim), *([len(self.statistics.mean) - 1] if self.include_time else [])]
            names = [known[0].feature_names[i] for i in own]
            known = [paths.with_states(paths.states[:, own], names) for paths in known]
        return fit_familiarity(known, self._all_gather)

    def _fingerprints(self, paths: TrajectorySet) -> Fingerprints:
        return join_fingerprints(self._all_gather(fingerprints(paths)))

    # What the trainer gets ------------------------------------------------------------------------

    @cached_property
    def splits(self) -> Splits:
        """Paths of raw columns, read once."""
        splits = self.read_splits()
        self._first_val = len(splits.train)
        if self.folds is None or splits.train is splits.val:
            return splits
        known = splits.train.followed_by(splits.val)
        return Splits(known, known, splits.test)

    @cached_property
    def _training(self) -> tuple[Statistics, TrajectorySet]:
        """Statistics of the training states, and the states standardised by them."""
        states = self.states(self.splits.train).stopped_earlier(self.stop_lead)
        statistics = fit_statistics(states.states, self._all_gather)
        scaler = Scaler(len(statistics.mean))
        scaler.set(*statistics)
        return statistics, scaler.paths(states)

    @property
    def statistics(self) -> Statistics:
        """Mean and scale of the training states."""
        return self._training[0]

    @property
    def training_paths(self) -> TrajectorySet:
        """Training paths of standardised states."""
        return self._training[1]

    @cached_property
    def synthetic_stops(self) -> FloatArray | None:
        """Synthetic stop rows, made once from the training split."""
        if not self.makes_rows:
            return None
        states, actions, _, steps = self._transitions()
        rng = self.random(purpose=3)
        if self.sampler is not None:
            return sample_stops(states, actions, rng, self.sampler, ratio=self.ratio)
        return smote_stops(
            states, actions, rng, neighbors=self.neighbors, ratio=self.ratio,
            kind=self.smote_kind, steps=steps, windows=self.smote_windows,
        )  # fmt: skip

    @cached_property
    def confidence_in_synthetic(self) -> FloatArray | None:
        """How far each synthetic row is believed; None if all alike."""
        if self.synthetic_stops is None or self.synthetic_confidence == "one":
            return None
        states, actions, paths, _ = self._transitions()
        return synthetic_confidence(
            self.synthetic_stops, states, actions, paths, self.synthetic_confidence, self.neighbors
        )

    def _transitions(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """Return state, action, path and step of all training rows that are transitions."""
        train = self.training_paths
        columns = (train.states, train.actions, train.path_of_row, train.steps)
        no_transition = train.last_rows[~train.stopped]
        return tuple(np.delete(column, no_transition, axis=0) for column in columns)  # type: ignore[return-value]

    @property
    def batches_of(self) -> BatchBy:
        """What batches are made of: as told, or as the model needs."""
        if self.batch_by == "auto":
            return "paths" if self._whole_paths else "rows"
        return self.batch_by

    @property
    def local_bootstrap(self) -> bool:
        """Whether the stop rows of each batch are drawn again."""
        return self.oversampling == "bootstrap" and not self.makes_rows

    def _all_gather(self, value: T) -> list[T]:
        """Return what each of the processes that share the paths out has, or what this one has."""
        return all_gather(value) if self.shared_out else [value]

    def held_out(self, members: int) -> BoolArray:
        """Return which paths each member leaves out for validation; (K, P)."""
        assert self.folds is not None
        if members % self.folds:
            raise UserError(
                f"data.init_args.folds ({self.folds}) must divide model.init_args.members "
                f"({members}): every path is left out by as many members"
            )
        stopped, own = self._among_all()
        return folds_held_out(members, self.folds, stopped, self.random(purpose=5))[:, own]

    def bootstrap_copies(self, members: int) -> FloatArray:
        """Return how often each member draws each training path of this process; (K, P)."""
        stopped, own = self._among_all()
        return bootstrap_copies(members, len(stopped), self.random(purpose=4))[:, own]

    def _among_all(self) -> tuple[BoolArray, IntArray]:
        """Return which training paths of all processes were stopped, and which are this one's."""
        rank = self._shard.rank if self.shared_out else 0
        stopped = self.splits.train.stopped
        return places_among_all(stopped, self._first_val, rank, self._all_gather)

    def setup(self, stage: str) -> None:
        """Read the data before the first loader asks for them."""
        named = zip(("training", "validation"), self.splits, strict=False)
        for name, paths in named if stage == "fit" else ():
            if not any(self._all_gather(bool(paths.stopped.any()))):
                raise TrajectoryError(
                    f"{self.name}: none of the {len(paths)} {name} paths was stopped; training and "
                    "validation both need stops: give more paths, or another validation_share"
                )
        if stage == "fit":
            self._warn_of_constants()
            self._warn_of_few_stops()
            self._warn_of_short_paths()

    def _warn_of_constants(self) -> None:
        names = self.training_paths.feature_names
        scales = zip(names, self.statistics.scale, strict=True)
        constant = [name for name, scale in scales if scale == np.inf]
        if self.lags:  # what is said of a row holds for the rows before it
            constant = [name for name in constant if not re.search(r"\[-\d+\]$", name)]
        if constant:
            rank_zero_warn(f"the same in all training rows, and so ignored: {', '.join(constant)}")

    def _warn_of_few_stops(self) -> None:
        stops = sum(self._all_gather(int(self.splits.train.stopped.sum())))
        if stops < FEW_STOPS:
            rank_zero_warn(
                f"only {stops} stopped paths to train on: what is learnt and measured means little "
                "below some 20; give more paths"
            )

    def _warn_of_short_paths(self) -> None:
        """Say so if events come too soon for the lead that is asked for."""
        for name, lead in (("lead", self.lead), ("stop_lead", self.stop_lead)):
            paths = self.splits.train
            begins = paths.times[paths.offsets[:-1]]
            short = sum(self._all_gather(int((paths.events - begins < lead)[paths.stopped].sum())))
            if lead and short:
                ends = "no stop catches them" if name == "lead" else "they stop at their first row"
                rank_zero_warn(
                    f"{short} training paths have their event sooner than {name} ({lead:g}) after "
                    f"their first row: {ends}"
                )

    def forget(self) -> None:
        """Drop what was made of the data: it is made anew when next asked for."""
        for name in ("splits", "_training", "synthetic_stops", "confidence_in_synthetic"):
            self.__dict__.pop(name, None)

    def train_dataloader(self) -> Chunks:
        """Chunks of batches of transitions."""
        return Chunks(self.train_batches(), self.batches_per_call)

    def train_batches(self) -> TrainLoader:
        """Batches of transitions."""
        return TrainLoader(
            self.training_paths,
            self.synthetic_stops,
            believed=self.confidence_in_synthetic,
            batch_size=self.batch_size,
            batch_by=self.batches_of,
            bootstrap_ratio=self.ratio if self.local_bootstrap else None,
            seen=self._seen,
            seed=self.seed,
            shard=self._turns,
            together=self._all_gather,
            device="cpu" if self.trainer is None else self.trainer.strategy.root_device,
        )

    def val_dataloader(self) -> PathLoader:
        """Whole validation paths."""
        return PathLoader(self.splits.val, self._judges, shard=self._turns, lead=self.lead)

    def test_dataloader(self) -> PathLoader:
        """Whole test paths."""
        return PathLoader(self.splits.test, shard=self._turns, lead=self.lead)

    def predict_dataloader(self) -> PathLoader:
        """Whole test paths."""
        return self.test_dataloader()

    @property
    def time_step(self) -> float:
        """Usual time between two rows of a training path; 1 if all have a single row."""
        train = self.splits.train
        within = np.delete(np.diff(train.times), train.last_rows[:-1])
        usual = float(np.median(within)) if len(within) else 1.0
        return float(np.median(self._all_gather(usual)))

    @property
    def grid_times(self) -> FloatArray:
        """Times since a path began at which figures show the stopping region."""
        train = self.splits.train
        elapsed = train.times - np.repeat(train.times[train.offsets[:-1]], train.lengths)
        times = np.unique(elapsed)
        shown = np.unique(np.linspace(0, len(times) - 1, MOST_GRID_TIMES).astype(int))
        return np.asarray(times[shown])

    def first_paths(self, stage: str, most: int | None = None) -> tuple[PathBatch, tuple[str, ...]]:
        """Return the first (or all) validation (`val`) or test paths in one batch, with names."""
        paths = self.splits.val if stage == "val" else self.splits.test
        paths = paths.select(np.arange(len(paths))[:most])
        judges = self._judges if stage == "val" else None
        judges = None if judges is None else judges[:, :most]
        return path_batch(paths, judges=judges, lead=self.lead), paths.names

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Leave a batch that is there already: searching it costs as much as a small step."""
        first = batch[0][0] if isinstance(batch, list) else batch[0]
        if first.device == device:
            return batch
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    @property
    def _shard(self) -> Shard:
        if self.trainer is None:
            return Shard()
        return Shard(self.trainer.global_rank, self.trainer.world_size)

    @property
    def _turns(self) -> Shard:
        """Which of the batches of its paths this process takes: all, if the paths are its own."""
        return Shard() if self.shared_out else self._shard
