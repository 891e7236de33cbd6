"""The learnt rule and its parts: encoder, window, scaler, memory, head, dynamics."""

from lit_ios.rule.decisions import Decisions
from lit_ios.rule.encoders import ColumnEncoder, ConditionEncoder, Encoder
from lit_ios.rule.heads import Head, MLPHead, join
from lit_ios.rule.memories import GainMemory, Memory, NoMemory
from lit_ios.rule.rule import StoppingRule, load_rule
from lit_ios.rule.scaler import Scaler
from lit_ios.rule.window import Window

__all__ = [
    "ColumnEncoder",
    "ConditionEncoder",
    "Decisions",
    "Encoder",
    "GainMemory",
    "Head",
    "MLPHead",
    "Memory",
    "NoMemory",
    "Scaler",
    "StoppingRule",
    "Window",
    "join",
    "load_rule",
]
