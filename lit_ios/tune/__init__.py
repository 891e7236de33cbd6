"""Hundreds of trainings: a search for settings, its trials in a file that many workers share."""

from lit_ios.tune.space import Knob, read_space

__all__ = ["Knob", "read_space"]
