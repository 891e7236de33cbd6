"""The variants: their names, and what makes each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """What makes a variant; the files in configs/model say the same."""

    model: str  # class in lit_ios.modules
    oversampling: str = "none"
    batch_by: str = "rows"
    confidence_decay: bool = False


VARIANTS = {
    "classifier": Variant("Classifier"),
    "classifier_smote": Variant("Classifier", "smote"),
    "iqs": Variant("IQS"),
    "iqs_smote": Variant("IQS", "smote"),
    "iqs_cs_smote": Variant("IQS", "smote", confidence_decay=True),
    "model_based_iqs": Variant("ModelBasedIQS"),
    "model_based_iqs_smote": Variant("ModelBasedIQS", "smote"),
    "model_based_iqs_cs_smote": Variant("ModelBasedIQS", "smote", confidence_decay=True),
    "do_iqs": Variant("DOIQS", batch_by="paths"),
    "do_iqs_lb": Variant("DOIQS", "bootstrap", "paths"),
}


def variant_name(model: object, datamodule: Any, callbacks: Iterable[object]) -> str:
    """Name a variant by the model's class, oversampling, schedules and folds: do_iqs_lb."""
    confidence = any(getattr(callback, "buffer", "") == "confidence" for callback in callbacks)
    suffix = {"none": "", "smote": "_cs_smote" if confidence else "_smote", "bootstrap": "_lb"}
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=DO)(?=IQS)", "_", type(model).__name__)
    folds = "_folds" if datamodule.folds else ""
    return words.lower() + suffix[datamodule.oversampling] + folds
