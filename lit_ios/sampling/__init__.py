"""From paths to training rows: split, states, oversampling. NumPy, with explicit Generators."""

from lit_ios.sampling.familiarity import fit_familiarity
from lit_ios.sampling.gaps import Fill, fit_fill
from lit_ios.sampling.oversampling import (
    Confidence,
    OversamplingError,
    SmoteKind,
    balance_stops,
    bootstrap_copies,
    bootstrap_stops,
    folds_held_out,
    sample_stops,
    smote_stops,
    synthetic_confidence,
)
from lit_ios.sampling.split import split_numbers, split_paths
from lit_ios.sampling.statistics import Statistics, fit_statistics

__all__ = [
    "Confidence",
    "Fill",
    "OversamplingError",
    "SmoteKind",
    "Statistics",
    "balance_stops",
    "bootstrap_copies",
    "bootstrap_stops",
    "fit_familiarity",
    "fit_fill",
    "fit_statistics",
    "folds_held_out",
    "sample_stops",
    "smote_stops",
    "split_numbers",
    "split_paths",
    "synthetic_confidence",
]
