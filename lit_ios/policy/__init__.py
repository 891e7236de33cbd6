"""Trained rules in use: whole paths, live paths, thresholds with a promise, other programs."""

from lit_ios.live import Decision, Decisions, Forecast, Remaining, Stream, Streams
from lit_ios.policy.calibration import Calibration
from lit_ios.policy.explanations import Explanation
from lit_ios.policy.frontiers import FrontierCurve
from lit_ios.policy.policy import StoppingPolicy

__all__ = [
    "Calibration",
    "Decision",
    "Decisions",
    "Explanation",
    "Forecast",
    "FrontierCurve",
    "Remaining",
    "StoppingPolicy",
    "Stream",
    "Streams",
]
