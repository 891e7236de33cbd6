"""Callbacks: schedules, progress, figures, predictions and the run's summary."""

from callbacks.checkpoints import RunCheckpoint
from callbacks.figures import StoppingFigures
from callbacks.interruptions import Interruptions
from callbacks.predictions import PredictionWriter
from callbacks.progress import EpochProgressBar
from callbacks.schedules import ConfidenceDecay, EpsilonDecay, ExponentialSchedule
from callbacks.summary import RunSummary

__all__ = [
    "ConfidenceDecay",
    "EpochProgressBar",
    "EpsilonDecay",
    "ExponentialSchedule",
    "Interruptions",
    "PredictionWriter",
    "RunCheckpoint",
    "RunSummary",
    "StoppingFigures",
]
