"""A rule as a checkpoint holds it, and what is said there of how it came about."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Self

import torch

from lit_ios.checkpoints import (
    describe,
    read_checkpoint,
    rule_content,
    rule_weights,
    write_checkpoint,
)
from lit_ios.checks import UserError
from lit_ios.data_record import TableColumns
from lit_ios.live import LiveRule
from lit_ios.policy.calibration import Calibration
from lit_ios.policy.forecasts import kept_forecast, read_forecast
from lit_ios.rule import StoppingRule, load_rule


class LoadedRule:
    """A rule with its threshold, what was promised of it and what was learnt of the time left.

    Args:
        rule: the learnt rule; it is copied, in double precision.
        about: the entry `lit_ios` of a checkpoint: what the rule was trained on.
        checkpoint: the whole content the rule was loaded from, with which training can go on.
    """

    def __init__(
        self,
        rule: StoppingRule,
        about: Mapping[str, Any] | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        self.rule = copy.deepcopy(rule).cpu().double().eval()
        self.rule.requires_grad_(False)
        self._about, self._checkpoint = dict(about or {}), checkpoint
        self._live: LiveRule | None = None
        calibration = self._about.get("calibration")
        self.calibration = None if calibration is None else Calibration.from_plain(calibration)
        self.learnt_forecast = read_forecast(self._about, self.rule)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made of the weights."""
        return self.__dict__ | {"_live": None}

    @classmethod
    def load(cls, file: str | Path, allow: Sequence[str] = ()) -> Self:
        """Read a checkpoint; no trainer and no data are needed.

        Args:
            file: a checkpoint that training or `save` wrote, or a run folder.
            allow: packages of your own that the checkpoint may name classes of.
        """
        content = read_checkpoint(file)
        about = content["lit_ios"]
        try:
            rule = load_rule(about["rule"], rule_weights(content), allow)
            return cls(rule, about, content)
        except UserError as error:
            raise UserError(f"{file}: {str(error)[:500]}") from None
        except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{file} is damaged: its record cannot be read ({type(error).__name__}); take "
                "another copy of it"
            ) from None

    @classmethod
    def of(cls, module: Any) -> Self:
        """Return the policy of a module that was trained in this program."""
        about = describe(module.rule, module.record, type(module).__name__)
        return cls(module.rule, about)

    def save(self, file: str | Path) -> None:
        """Write a checkpoint with the threshold as it is now."""
        content = dict(self._checkpoint or rule_content(self.rule, self._about))
        threshold = torch.tensor(self.threshold, dtype=torch.float64)
        content["state_dict"] = content["state_dict"] | {"rule.threshold": threshold}
        promised = None if self.calibration is None else self.calibration.plain()
        kept = {"calibration": promised, "forecast": kept_forecast(self.learnt_forecast)}
        content["lit_ios"] = content["lit_ios"] | self._about | kept
        write_checkpoint(content, file)

    # What it is ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Say what it decides by, what it was trained on and what it came to."""
        about, members = self._about, self.rule.members
        named = ", ".join(self.columns[:4]) + (", …" if len(self.columns) > 4 else "")
        taken = about.get("candidate", "").replace("none", "no memory")
        parts = [f"{taken} on {named}" if taken else named]
        if "paths" in about:
            table = self.table
            parts += [f"{about['paths']:,} paths ({about['stops']:,} stopped)"]
            parts[-1] += f" of {table.path!r}" if table.path else ""
            parts[-1] += f" over {table.time!r}" if table.time else ""
        parts += [f"{members} members"] if members > 1 else []
        if self.held_out is not None:
            parts += [f"held-out balanced accuracy {self.held_out:.2f}"]
        never = " (never stops)" if self.threshold == math.inf else ""
        return f"{type(self).__name__}: {'; '.join(parts)}; threshold {self.threshold:.4g}{never}"

    @property
    def about(self) -> Mapping[str, Any]:
        """The entry `lit_ios` of its checkpoint."""
        return self._about

    @property
    def held_out(self) -> float | None:
        """Balanced accuracy (M1) on paths left out in training, where `lit_ios.fit` made it.

        Epoch and threshold were chosen on other paths than those it is measured on.
        """
        found = self._about.get("held_out")
        return None if found is None else float(found)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns it takes, in the order of an array."""
        return self.rule.encoder.columns

    @property
    def threshold(self) -> float:
        """The policy stops when the margin is at least this."""
        return float(self.rule.threshold)

    @threshold.setter
    def threshold(self, value: float) -> None:
        if not isinstance(value, Real) or math.isnan(value):
            raise UserError(f"the threshold must be a number, got {value!r}")
        self.rule.threshold.fill_(value)
        self.calibration = None  # what was promised of another threshold
        self._about["calibrated_on"] = None
        self._live = None

    @property
    def epsilon(self) -> float:
        """Temperature of the stopping probability."""
        return float(self.rule.epsilon)

    @property
    def time_unit(self) -> str:
        """Unit of times that are given as dates."""
        return self.table.time_unit

    @property
    def table(self) -> TableColumns:
        """Columns of the table it was trained on."""
        return TableColumns(**self._about.get("table", {}))

    @property
    def lead(self) -> float:
        """Time by which stops had to come before events where it was validated (M8)."""
        return float(self._about.get("lead", 0.0))

    @property
    def validates_on_training_paths(self) -> bool:
        """Whether members left out folds: every validation path was trained on by some."""
        training = self._about.get("training")
        return bool(training) and training == self._about.get("validation")
