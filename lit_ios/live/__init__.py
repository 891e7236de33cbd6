"""Live paths: NumPy alone, whatever computes the rule."""

from lit_ios.live.forecast import Forecast, Remaining
from lit_ios.live.monitor import Monitor
from lit_ios.live.observations import Observations
from lit_ios.live.rule import LiveRule
from lit_ios.live.stream import Decision, Stream
from lit_ios.live.streams import Decisions, Streams

__all__ = [
    "Decision",
    "Decisions",
    "Forecast",
    "LiveRule",
    "Monitor",
    "Observations",
    "Remaining",
    "Stream",
    "Streams",
]
