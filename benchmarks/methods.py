"""What the benchmarks run: data sets, the paper's variants and what goes beyond them."""

from __future__ import annotations

from typing import NamedTuple


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
}
VARIANTS = {
    file: Method(label, file)
    for file, label in {
        "classifier": "Classifier",
        "classifier_smote": "Classifier-SMOTE",
        "iqs": "IQS",
        "iqs_smote": "IQS-SMOTE",
        "iqs_cs_smote": "IQS-CS-SMOTE",
        "model_based_iqs": "Model-based IQS",
        "model_based_iqs_smote": "Model-based IQS-SMOTE",
        "model_based_iqs_cs_smote": "Model-based IQS-CS-SMOTE",
        "do_iqs": "DO-IQS",
        "do_iqs_lb": "DO-IQS-LB",
    }.items()
}


def _beyond(label: str, *options: str) -> Method:
    validated = ("--model.init_args.margin=validated", *options)
    return Method(f"IQS, validated margin{label}", "iqs", validated)


LAGS = ("--data.init_args.lags=4",)
E11 = ("--model.init_args.policy_weight=0.3", "--data.init_args.batch_by=paths")
MEMBERS = ("--model.init_args.members=8", "--model.init_args.bootstrap=false")
EXTENSIONS = {
    "iqs_v": _beyond(""),
    "iqs_v_lags": _beyond(", 4 lags", *LAGS),
    "iqs_v_e11": _beyond(", E11", *E11),
    "iqs_v_members": _beyond(", 8 members", *MEMBERS),
    "iqs_v_all": _beyond(", lags, E11, members", *LAGS, *E11, *MEMBERS),
}
METHODS = VARIANTS | EXTENSIONS
