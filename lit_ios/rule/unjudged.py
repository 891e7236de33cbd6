"""Rows that a rule does not judge: with gaps that nothing fills, or numbers that overflow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.checks import UserError
from lit_ios.rule.encoders import Encoder


def refuse_unjudged(
    margin: Tensor,
    batch: PathBatch,
    encoder: Encoder,
    names: Sequence[str] | None,
    why: str = "the rule gives no finite margin for these numbers",
) -> None:
    """Refuse rows without a finite margin; name the first.

    Args:
        margin: (N,) of the batch's rows.
        batch: of whole paths.
        encoder: of the rule.
        names: of the paths of the set that the batch is of; None where they are not known.
        why: there is none where no number is missing.
    """
    bad = ~margin.isfinite()
    if not bad.any():
        return
    row = int(bad.int().argmax())
    raw = batch.columns[row].cpu().numpy()
    why = encoder.gap(raw) if np.isnan(raw).any() else why
    number = int(batch.number[batch.path[row]])
    path = "a path" if names is None else f"path {names[number]!r}"
    raise UserError(f"{path}, row {int(batch.step[row]) + 1}: {why}")
