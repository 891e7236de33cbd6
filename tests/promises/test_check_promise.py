"""What `check_promise` lets pass, and what it does not."""

from dataclasses import dataclass

import pytest
import torch

from lit_ios.promises import AlarmsPerTime, Balanced, Cost, FalseAlarms, MissRate, Promise
from lit_ios.testing import CheckError, check_promise


@pytest.mark.parametrize(
    "promise",
    [
        MissRate(0.1), MissRate(0.2, 0.9), FalseAlarms(0.3), FalseAlarms(0.3, 0.8), Balanced(),
        AlarmsPerTime(0.1), AlarmsPerTime(0.2, window=1.0, confidence=0.9), Cost(3, 1, 2),
    ],
)  # fmt: skip
def test_our_own_promises_pass(promise):
    check_promise(promise)


@dataclass(frozen=True)
class Wrong(Promise):
    kind: str = "shape"
    prefers = "high"

    @property
    def words(self):
        return "" if self.kind == "words" else "wrong"

    def price(self, sweep, error):
        zeros = torch.zeros(len(sweep.threshold))
        if self.kind == "shape":
            return zeros[:3]
        if self.kind == "nan":
            return zeros * torch.nan
        if self.kind == "order":
            return zeros + float(sweep.paths.stopped[0]) * torch.inf
        if self.kind == "cost":
            return zeros + 1
        return self.kept(sweep.false_alarms < 20)  # kept by high thresholds


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("shape", "a price for each threshold"), ("nan", "numbers or ∞"), ("words", "words"),
        ("order", "numbers or ∞|the order of paths"), ("cost", "costs 0"), ("prefers", "is `pref"),
    ],
)  # fmt: skip
def test_promises_that_are_none_are_named(kind, said):
    with pytest.raises(CheckError, match=said):
        check_promise(Wrong(kind))
