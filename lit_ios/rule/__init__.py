"""The learnt rule and its parts: encoder, window, scaler, memory, head, dynamics."""

from lit_ios.rule.decisions import Decisions
from lit_ios.rule.encoders import ColumnEncoder, ConditionEncoder, Encoder
from lit_ios.rule.heads import Head, MLPHead, join
from lit_ios.rule.memories import (
    AccumulateMemory,
    GainMemory,
    GRUMemory,
    JoinedMemory,
    Memory,
    NoMemory,
    memory_spec,
)
from lit_ios.rule.rule import StoppingRule, load_rule
from lit_ios.rule.scaler import Scaler
from lit_ios.rule.window import Window

__all__ = [
    "AccumulateMemory",
    "ColumnEncoder",
    "ConditionEncoder",
    "Decisions",
    "Encoder",
    "GRUMemory",
    "GainMemory",
    "Head",
    "JoinedMemory",
    "MLPHead",
    "Memory",
    "NoMemory",
    "Scaler",
    "StoppingRule",
    "Window",
    "join",
    "load_rule",
    "memory_spec",
]
