"""Arrays in, matplotlib figures out."""

from lit_ios.plotting.paths import (
    HiddenPath,
    PathMargins,
    feature_paths,
    hidden_along_paths,
    margins_along_paths,
    time_axis,
)
from lit_ios.plotting.planes import boundaries, q_heat_maps
from lit_ios.plotting.rules import evidence, frontiers, margin_shares
from lit_ios.plotting.style import COLOURS, EXPERT, POLICY, styled, with_unit

__all__ = [
    "COLOURS",
    "EXPERT",
    "POLICY",
    "HiddenPath",
    "PathMargins",
    "boundaries",
    "evidence",
    "feature_paths",
    "frontiers",
    "hidden_along_paths",
    "margin_shares",
    "margins_along_paths",
    "q_heat_maps",
    "styled",
    "time_axis",
    "with_unit",
]
