"""The names of the variants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def variant_name(model: object, datamodule: Any, callbacks: Iterable[object]) -> str:
    """Name a variant by the model's class, the oversampling and the schedules: do_iqs_lb."""
    confidence = any(getattr(callback, "buffer", "") == "confidence" for callback in callbacks)
    suffix = {"none": "", "smote": "_cs_smote" if confidence else "_smote", "bootstrap": "_lb"}
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=DO)(?=IQS)", "_", type(model).__name__)
    return words.lower() + suffix[datamodule.oversampling]
