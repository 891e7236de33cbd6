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
METHODS = VARIANTS
