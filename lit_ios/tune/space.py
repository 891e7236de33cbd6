"""The settings that are searched, as a YAML file declares them.

learning_rate: {low: 0.001, high: 0.1, log: true}
lags: {low: 0, high: 8, step: 4}
memory: [none, accumulate, gru]
hidden: [[32, 32], [64, 64]]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lit_ios.checks import UserError, check_number, did_you_mean, quoted
from lit_ios.found import class_paths
from lit_ios.imports import check_import
from lit_ios.settings import Settings, read_settings

OF_DATA = (  # arguments of the data that leave alone which paths and stops are measured
    "batch_by", "batch_size", "batches_per_call", "drop", "encoder", "features", "include_time",
    "lags", "missing", "oversampling", "ratio", "stop_lead",
)  # fmt: skip
FIXED = ("compile", "inputs", "margin", "metrics")  # of the model: how trials are done and measured
SCHEDULED = "epsilon_decay"  # of the callback EpsilonDecay
EPOCHS = "trainer.max_epochs"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_RANGE = ("low", "high", "log", "step")


class Knob(NamedTuple):
    """A setting that is searched: choices, or numbers from low to high."""

    name: str  # as the file says
    key: str  # as the command line says, without dashes
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    whole: bool = False  # integers

    @property
    def labels(self) -> dict[Any, Any]:
        """Choices by what stands for them in tables: themselves, or JSON of lists and mappings."""
        return {label_of(choice): choice for choice in self.choices}

    @property
    def edges(self) -> list[Any]:
        """Values that show whether all can be used: every choice, both ends."""
        if self.choices:
            return list(self.choices)
        return [int(self.low), int(self.high)] if self.whole else [self.low, self.high]

    def holds(self, value: Any) -> bool:
        """Say whether a value is part of the space."""
        if self.choices:
            return label_of(value) in self.labels
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        on_grid = self.step is None or ((value - self.low) / self.step).is_integer()
        return self.low <= value <= self.high and on_grid


def label_of(value: Any) -> Any:
    """Return what stands for a value in tables."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else json.dumps(value)


def as_options(knobs: Sequence[Knob], values: Mapping[str, Any]) -> list[str]:
    """Return the words of the command line that set values, by the names of their knobs."""
    keys = {knob.name: knob.key for knob in knobs if knob.key != SCHEDULED}
    return [
        f"--{keys[name]}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
        if name in keys
    ]


def schedule_epsilon(settings: Settings, decay: float | None) -> Settings:
    """Give the schedule of ε this decay; None leaves it as it is."""
    if decay is None:
        return settings
    trainer = dict(settings["trainer"])
    trainer["callbacks"] = [
        callback | {"init_args": {**(callback.get("init_args") or {}), "decay": decay}}
        if callback["class_path"].rpartition(".")[2] == "EpsilonDecay"
        else callback
        for callback in trainer.get("callbacks") or []
    ]
    return settings | {"trainer": trainer}


def read_space(
    file: Path, model: Mapping[str, str], data: Mapping[str, str], shipped: bool = False
) -> list[Knob]:
    """Read what is searched; refuse names and values that mean nothing.

    Args:
        file: of YAML.
        model: arguments of the model's class with their annotations.
        data: those of the data's.
        shipped: leave out names that these classes do not have.
    """
    given = read_settings(file, "--space")
    known = {
        **{f"model.init_args.{name}": kind for name, kind in model.items() if name not in FIXED},
        **{f"data.init_args.{name}": kind for name, kind in data.items() if name in OF_DATA},
        EPOCHS: "int",
        SCHEDULED: "float",
    }
    if shipped:
        short = {key.rpartition(".")[2] for key in known}
        given = {name: spec for name, spec in given.items() if name in short}
    if not given:
        raise UserError(f"--space: {file} names no setting: give choices, or low and high")
    measured = {*FIXED, *(set(data) - set(OF_DATA)), "folds"}
    knobs = [_knob(name, spec, _key(name, known, measured), known) for name, spec in given.items()]
    keys = [knob.key for knob in knobs]
    for knob in knobs:
        if keys.count(knob.key) > 1:
            raise UserError(f"--space: {knob.key} is there twice: leave one out")
    return knobs


def _key(name: str, known: Mapping[str, str], measured: set[str]) -> str:
    """Return the setting that a name of the file means.

    Args:
        name: as the file says.
        known: settings that can be searched.
        measured: arguments that change what is measured.
    """
    if name in known:
        return name
    ends = [key for key in known if key.rpartition(".")[2] == name]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UserError(f"--space: {name} may be {' or '.join(ends)}: name one in full")
    last = name.rpartition(".")[2]
    if last in ("seed", "seed_everything"):
        raise UserError("--space: a seed is luck, not a setting: leave it out")
    if name in ("model", "data") or last == "class_path":
        raise UserError(
            f"--space: {name} is chosen by --{name.partition('.')[0]}: tune one class at a time"
        )
    if last in measured:
        raise UserError(
            f"--space: {name} would change what trials are measured by or how they are done: "
            "leave it out"
        )
    shorts = [key.rpartition(".")[2] for key in known]
    near = did_you_mean(name, known if "." in name else shorts)
    raise UserError(f"--space: there is no setting {name}{near or '; see fit --model.help CLASS'}")


def _knob(name: str, spec: Any, key: str, known: Mapping[str, str]) -> Knob:
    if isinstance(spec, list):
        choices = tuple(_number(choice) for choice in spec)
        if len({json.dumps(choice) for choice in choices}) < max(len(choices), 2):
            raise UserError(f"--space: {name} needs two or more different choices, got {spec}")
        for path in _named_classes(choices):
            check_import(path)
        return Knob(name, key, choices)
    if not isinstance(spec, dict) or not {"low", "high"} <= spec.keys() <= set(_RANGE):
        raise UserError(
            f"--space: {name} must be a list of choices, or a mapping of low and high (and log or "
            f"step), got {quoted(spec)}"
        )
    low, high, step = (_number(spec.get(one)) for one in ("low", "high", "step"))
    log = spec.get("log", False)
    for end, value in (("low", low), ("high", high)):
        check_number(f"--space: {name}.{end}", value)
    if not low < high or not isinstance(log, bool) or (log and low <= 0):
        raise UserError(
            f"--space: {name} needs low < high, above 0 where log is true, got {quoted(spec)}"
        )
    if step is not None:
        check_number(f"--space: {name}.step", step, above=0, at_most=high - low)
        if log:
            raise UserError(f"--space: {name} takes log or step, not both")
    kind = known[key]
    if not re.match(r"(float|int)\b", kind):
        raise UserError(f"--space: {name} takes choices, no numbers from low to high")
    numbers = [value for value in (low, high, step) if value is not None]
    whole = kind.startswith("int")
    if whole and not all(float(value).is_integer() for value in numbers):
        raise UserError(f"--space: {name} takes integers, got {quoted(spec)}")
    return Knob(name, key, (), float(low), float(high), log, step, whole)


def _number(value: Any) -> Any:
    """Return a number for a text such as 1e-3, which YAML takes for text."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    return value


def _named_classes(choices: Sequence[Any]) -> Iterator[str]:
    """Return the class paths among choices."""
    for choice in choices:
        if isinstance(choice, str) and re.fullmatch(r"\w+(\.\w+)+", choice):
            yield choice
        yield from class_paths(choice)
