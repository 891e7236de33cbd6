"""What a model says of whole paths, and how several members come to one answer."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class PathOutput(NamedTuple):
    """What the model says of every row of whole paths; g and y where the variant has them.

    Several members each say their own, along a first axis, until `vote` makes one of them.
    """

    q: Tensor  # (M, 2)
    margin: Tensor  # (M,)
    gain: Tensor | None = None  # (M,) g(s), E10
    previous_y: Tensor | None = None  # (M,) y⁻, E6; stays (K, M) with several members
    spread: Tensor | None = None  # (M,) standard deviation of the members' margins

    def vote(self) -> PathOutput:
        """Let the member with the median margin speak: it stops iff more than half of them do."""
        if self.margin.ndim == 1:
            return self
        median, member = self.margin.median(0)  # the lower one of an even number
        q = self.q.gather(0, member[None, :, None].expand(1, -1, 2))[0]
        gain = None if self.gain is None else self.gain.gather(0, member[None])[0]
        return PathOutput(q, median, gain, self.previous_y, self.margin.std(0))
