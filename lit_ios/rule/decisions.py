"""What a rule says of whole paths."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Decisions(NamedTuple):
    """One value per row of whole paths; (M,) each."""

    margin: Tensor
    probability: Tensor  # of stopping; ½ at the threshold
    stop: Tensor  # bool: the margin reaches the threshold
    first_stop: Tensor  # bool: the first such row of its path
    stop_gain: Tensor  # G(s) = Q(s, stop), E10
    continuation_gain: Tensor | None = None  # g(s), E10, where asked for and modelled
    margin_spread: Tensor | None = None  # standard deviation of the members' margins
    distance: Tensor | None = None  # from the rows of training; up to 1 they are familiar
    responsible: Tensor | None = None  # (M, 3) coordinates that make a row unfamiliar, −1: none
