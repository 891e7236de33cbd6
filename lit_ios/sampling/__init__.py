"""From paths to training rows: split, states, oversampling. NumPy, with explicit Generators."""

from lit_ios.sampling.oversampling import (
    OversamplingError,
    SmoteKind,
    bootstrap_copies,
    bootstrap_stops,
    folds_held_out,
    smote_stops,
)
from lit_ios.sampling.split import split_numbers, split_paths
from lit_ios.sampling.states import (
    Statistics,
    build_states,
    fit_statistics,
    standardise,
    state_names,
)

__all__ = [
    "OversamplingError",
    "SmoteKind",
    "Statistics",
    "bootstrap_copies",
    "bootstrap_stops",
    "build_states",
    "fit_statistics",
    "folds_held_out",
    "smote_stops",
    "split_numbers",
    "split_paths",
    "standardise",
    "state_names",
]
