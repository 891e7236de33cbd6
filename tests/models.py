"""Models of made-up inputs: plain columns, or columns of text among them."""

import torch

from lit_ios.data_record import Inputs
from lit_ios.rule import ColumnEncoder


def plain_inputs(names=("a", "b"), lags=0, include_time=False, categories=None):
    """Return what a model needs to know of data that were never there."""
    return Inputs(ColumnEncoder(names, categories).spec, lags, include_time).plain()


def make(cls, names=("a", "b"), lags=0, include_time=False, seed=None, **kwargs):
    """Make a small model."""
    if seed is not None:
        torch.manual_seed(seed)
    return cls(inputs=plain_inputs(names, lags, include_time), **{"hidden": [8], **kwargs})
