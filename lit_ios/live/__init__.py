"""Live paths: NumPy alone, whatever computes the rule."""

from lit_ios.live.observations import Observations
from lit_ios.live.rule import LiveRule
from lit_ios.live.stream import Decision, Stream
from lit_ios.live.streams import Decisions, Streams

__all__ = ["Decision", "Decisions", "LiveRule", "Observations", "Stream", "Streams"]
