"""From paths to training rows: split, states, oversampling. NumPy, with explicit Generators."""

from lit_ios.sampling.oversampling import (
    OversamplingError,
    SmoteKind,
    balance_stops,
    bootstrap_copies,
    bootstrap_stops,
    folds_held_out,
    sample_stops,
    smote_stops,
)
from lit_ios.sampling.split import split_numbers, split_paths
from lit_ios.sampling.statistics import Statistics, fit_statistics

__all__ = [
    "OversamplingError",
    "SmoteKind",
    "Statistics",
    "balance_stops",
    "bootstrap_copies",
    "bootstrap_stops",
    "fit_statistics",
    "folds_held_out",
    "sample_stops",
    "smote_stops",
    "split_numbers",
    "split_paths",
]
