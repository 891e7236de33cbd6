"""Trained models in use: whole paths, live paths, thresholds with a promise, other programs."""

from lit_ios.policy.calibration import Calibration
from lit_ios.policy.explanations import Explanation
from lit_ios.policy.fleet import Decisions, Streams
from lit_ios.policy.frontiers import FrontierCurve
from lit_ios.policy.policy import StoppingPolicy
from lit_ios.policy.streams import Decision, Stream

__all__ = [
    "Calibration",
    "Decision",
    "Decisions",
    "Explanation",
    "FrontierCurve",
    "StoppingPolicy",
    "Stream",
    "Streams",
]
