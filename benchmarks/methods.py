"""What the benchmarks run: data sets, the paper's variants and what goes beyond them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.published import BALANCED_ACCURACY
from lit_ios.variants import find_variant


class DataSet(NamedTuple):
    """A column of the tables."""

    file: str  # of configs/data
    options: tuple[str, ...] = ()
    epochs: int = 200  # of a whole run; the real sets have more rows and settle sooner


class Method(NamedTuple):
    """A row of the tables."""

    label: str
    file: str  # of configs/model
    options: tuple[str, ...] = ()


def _real(file: str, *options: str) -> DataSet:
    return DataSet(file, tuple(f"--data.init_args.{option}" for option in options), 40)


DATA_SETS = {
    "bmG": DataSet("bmG"),
    "bmgG": DataSet("bmgG"),
    "azure": _real("azure"),
    "turbofan": _real("turbofan"),
    "CP1": DataSet("CP1"),
    "CP2": DataSet("CP2"),
    "CP3": DataSet("CP3"),
    "radial": DataSet("radial"),
    "star": DataSet("star"),
    "FD002": _real("turbofan", "subset=FD002"),
    "FD003": _real("turbofan", "subset=FD003"),
    "FD004": _real("turbofan", "subset=FD004"),
    "azure_all": _real("azure", "cycles=all"),
    "fatigue": DataSet("fatigue"),
    "bmY": DataSet("bmY"),
    "radial3": DataSet("radial", ("--data.init_args.dim=3",)),
    "radial5": DataSet("radial", ("--data.init_args.dim=5",)),
    "radial10": DataSet("radial", ("--data.init_args.dim=10",)),
}


def _declared(name: str) -> Method:
    """Return a variant with the label its settings file gives it."""
    return Method(find_variant(name).label, name)


VARIANTS = {name: _declared(name) for name in BALANCED_ACCURACY}  # the paper's, in its order

VALIDATED = "--model.init_args.margin=validated"
FOLDS = ("--model.init_args.members=8", "--data.init_args.folds=4")


PATHS = ("--data.init_args.oversampling=bootstrap", "--data.init_args.batch_by=paths")
MANY_PATHS = ("--data.init_args.batch_size=512",)  # side by side
EARLY = f"--config={Path(__file__).with_name('early.yaml')}"
AUTO = "auto"  # in the place of a settings file: the recipe


def _memory(name: str) -> tuple[str, ...]:
    return (f"--model.init_args.memory={name}",)


def _beyond(label: str, file: str, *options: str) -> Method:
    return Method(label, file, (VALIDATED, *options))


EXTENSIONS = {
    "iqs_members": _beyond(
        "IQS, 8 members, validated margin", "iqs", "--model.init_args.members=8"
    ),
    "iqs_folds": _declared("iqs_folds"),
    "iqs_lb": Method("IQS-LB", "iqs", PATHS),
    "model_based_iqs_lb": Method("Model-based IQS-LB", "model_based_iqs", PATHS),
    "do_iqs_lb_gradient": Method(
        "DO-IQS-LB, Q's gradient through y", "do_iqs_lb", ("--model.init_args.gain_gradient=true",)
    ),
    "iqs_lb_accumulate": Method("IQS-LB, accumulate", "iqs", (*PATHS, *_memory("accumulate"))),
    "iqs_lb_gru": Method("IQS-LB, GRU", "iqs", (*PATHS, *_memory("gru"), *MANY_PATHS)),
    "classifier_gru": _beyond(
        "Classifier-folds, GRU", "classifier", *FOLDS, *_memory("gru"), *MANY_PATHS, EARLY
    ),
    "oti": _declared("oti")._replace(options=(EARLY,)),
    "auto": Method("auto", AUTO),
    "classifier_folds": _beyond("Classifier-folds", "classifier", *FOLDS),
    "do_iqs_lb_folds": _beyond("DO-IQS-LB-folds", "do_iqs_lb", *FOLDS),
}
METHODS = VARIANTS | EXTENSIONS
