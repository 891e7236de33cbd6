"""What a simulator knows and a learner must find: the true stopping region."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lit_ios.trajectories import BoolArray, FloatArray


@runtime_checkable
class StoppingRegion(Protocol):
    """A region in (features, time): the expert stops on entering it."""

    def margin(self, features: FloatArray, times: FloatArray) -> FloatArray:
        """Return a number that is at least 0 inside the region; (N, D), (N,) → (N,)."""
        ...

    def stops(self, features: FloatArray, times: FloatArray) -> BoolArray:
        """Say for each row whether the expert stops there; (N, D), (N,) → (N,)."""
        ...
