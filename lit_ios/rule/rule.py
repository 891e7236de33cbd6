"""The learnt rule: raw columns in, decisions out. Plain PyTorch; all that decides goes through it.

columns ─ encoder ─ features ─ window ─ state ─ scaler ─ memory ─ (state, h) ─ head ─ Q
        ─ members combined ─ threshold ─ decision
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lit_ios.batches import PathBatch
from lit_ios.carry import (
    Advanced,
    Layout,
    Missing,
    Usual,
    advance,
    combine,
    current,
    responsible,
    strangeness,
)
from lit_ios.checks import UserError, check_number
from lit_ios.functional import (
    first_stops,
    recovered_gains,
    soft_value,
    stop_probability,
    stops,
)
from lit_ios.imports import Spec, as_spec, build, import_class
from lit_ios.rule.decisions import Decisions
from lit_ios.rule.dynamics import Dynamics
from lit_ios.rule.encoders import Encoder
from lit_ios.rule.familiarity import Familiarity
from lit_ios.rule.heads import build_head, join
from lit_ios.rule.layers import by_blocks
from lit_ios.rule.memories import JoinedMemory, Memory, NoMemory
from lit_ios.rule.scaler import Scaler
from lit_ios.rule.weights import impossible, other_kind, too_many, wrong_shape
from lit_ios.rule.window import Window


class Remembered(NamedTuple):
    """All rows of whole paths as Q takes them."""

    state: Tensor  # (M, S) standardised
    h: Tensor  # (…, M, C)


class Successor(NamedTuple):
    """The predicted next row of B paths (E5)."""

    state: Tensor  # (…, B, S)
    h: Tensor  # (…, B, C)


class StoppingRule(nn.Module):
    """When to stop: everything between a measured row and a decision.

    Args:
        encoder: class_path and init_args of an Encoder.
        head: class_path and init_args of a Head.
        memory: class_path and init_args of a Memory, or several side by side; null for none.
        lags: how many earlier rows are part of the state.
        include_time: whether the time since the path began is part of the state.
        static: features that do not change along a path, and so have no lags.
        members: number of networks, the lower median of whose margins decides.
        gamma: discount factor γ.
        epsilon: temperature ε of the soft policy.
        dynamics: whether the rule has a model of what comes next.
        variance: whether that model also has a variance.
        allow: packages that classes may be imported from beside the trusted ones.
    """

    epsilon: Tensor
    threshold: Tensor
    time_step: Tensor  # usual time between two rows of a path

    def __init__(
        self,
        encoder: Spec,
        head: Spec,
        memory: Spec | Sequence[Spec] | None = None,
        *,
        lags: int = 0,
        include_time: bool = True,
        static: Sequence[str] = (),
        members: int = 1,
        gamma: float = 0.99,
        epsilon: float = 0.1,
        dynamics: bool = False,
        variance: bool = False,
        allow: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_number("members", members, above=0)
        check_number("gamma", gamma, above=0, at_most=1)
        check_number("epsilon", epsilon, above=0)
        self.encoder = build("encoder", as_spec("encoder", encoder), Encoder, allow)
        self.window = Window(self.encoder.feature_names, lags, include_time, static)
        self.state_dim = len(self.window.state_names)
        self.members, self.gamma = members, gamma
        self.scaler = Scaler(self.state_dim)
        self.familiarity = Familiarity(len(self.window.feature_names) + include_time)
        self.memory = self._build_memory(memory, allow)
        head = as_spec("head", head)
        self.head = build_head(head, self.state_dim, self.memory.width, members, allow)
        predicted = self.state_dim + self.memory.predicted
        self.dynamics = (
            Dynamics(self.head.width, predicted, members, variance) if dynamics else None
        )
        self.register_buffer("epsilon", torch.tensor(epsilon))
        self.register_buffer("threshold", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("time_step", torch.tensor(1.0, dtype=torch.float64))
        self.spec: dict[str, Any] = {
            "encoder": self.encoder.spec,
            "head": head,
            "memory": memory,
            "lags": lags,
            "include_time": include_time,
            "static": list(static),
            "members": members,
            "gamma": gamma,
            "epsilon": epsilon,
            "dynamics": dynamics,
            "variance": variance,
        }

    def _build_memory(self, spec: Spec | Sequence[Spec] | None, allow: Sequence[str]) -> Memory:
        if spec is None:
            return NoMemory()
        if not isinstance(spec, dict | str):
            return JoinedMemory([self._build_memory(one, allow) for one in spec])
        spec = as_spec("memory", spec)
        import_class(spec["class_path"], Memory, allow)
        return build("memory", spec, Memory, allow, state_dim=self.state_dim, members=self.members)

    @property
    def layout(self) -> Layout:
        """Where the pieces of a carry lie."""
        window = self.window
        return Layout(len(window.feature_names), window.lags, self.members, self.memory.width)

    @property
    def fingerprint(self) -> str:
        """Short name of what decides, whatever the threshold."""
        digest = hashlib.blake2b(digest_size=8)
        digest.update(json.dumps(self.spec, sort_keys=True).encode())
        for name, values in sorted(self.state_dict().items()):
            if name != "threshold":
                digest.update(name.encode() + values.double().cpu().numpy().tobytes())
        return digest.hexdigest()

    # One row at a time ---------------------------------------------------------------------------

    def init(self, count: int) -> Tensor:
        """Return the carry of B new paths; (B, W)."""
        start = torch.tensor(self.layout.start(float(self.threshold)), dtype=torch.double)
        return start.expand(count, -1).clone()

    def step(
        self, columns: Tensor, time: Tensor, carry: Tensor, missing: Missing | None = None
    ) -> Advanced:
        """Take the next row of B paths; a NaN margin means that it cannot be judged.

        Args:
            columns: (B, C) raw, double.
            time: (B,) double, NaN for a usual step after the last row.
            carry: (B, W) double.
            missing: what to do about features that are missing; None for what the rule was
                trained with.
        """
        chosen = missing or self.encoder.missing
        return advance(torch, _TorchParts(self), columns, time, carry, chosen)

    # Whole paths ---------------------------------------------------------------------------------

    def scan(
        self,
        paths: PathBatch,
        judges: Tensor | None = None,
        details: bool = False,
        missing: Missing | None = None,
    ) -> Decisions:
        """Judge all rows of whole paths, given in raw columns.

        Args:
            paths: M rows of P paths.
            judges: (K, P) which members judge each path; None for all.
            details: also say g(s), and how familiar the rows are.
            missing: as for `step`.
        """
        state, gain = self.states(paths, missing), None
        if details:
            h, gain = self.memory.scan_and_gain(state, paths.step, paths.first_row)
        else:
            h = self.memory.scan(state, paths.step, paths.first_row)
        q = self.values(state, h)
        margins = q[..., 0] - q[..., 1]  # (…, M)
        margin = self.combined(margins, judges, paths)
        stop = stops(margin, self.threshold)
        distance, strange = self.unfamiliar(state) if details else (None, None)
        if details:
            gain = self.continuation_gain(state, h, paths.step, gain)
        return Decisions(
            margin=margin,
            probability=stop_probability(margin - self.threshold, self.epsilon),
            stop=stop,
            first_stop=first_stops(stop, paths.step, paths.path, len(paths.stopped)),
            stop_gain=combine(torch, q[..., 0]),
            continuation_gain=gain,
            margin_spread=margins.std(0) if self.members > 1 else None,
            distance=distance,
            responsible=strange,
        )

    def unfamiliar(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far rows are from those of training, and by which coordinates.

        (M,), and (M, 3) with −1 for none.
        """
        now = current(torch, self.layout, self.window.include_time, state.double())
        distance, shares = strangeness(torch, now, self.familiarity.usual)
        found = torch.full((len(now), min(3, now.shape[1])), -1, device=now.device)
        strange = ~(distance <= 1)
        found[strange] = responsible(torch, shares[strange])
        return distance, found

    @property
    def current_names(self) -> tuple[str, ...]:
        """Names of the coordinates of a state that are of its own row."""
        names = self.window.feature_names
        return (*names, self.window.state_names[-1]) if self.window.include_time else names

    @staticmethod
    def combined(margins: Tensor, judges: Tensor | None, paths: PathBatch) -> Tensor:
        """Return one margin per row, of the members that judge its path; (…, M) → (M,)."""
        if judges is None:
            return torch.as_tensor(combine(torch, margins))
        asked = judges[:, paths.path]  # (K, M)
        ordered = margins.masked_fill(~asked, torch.inf).sort(0).values
        middle = (asked.sum(0, keepdim=True) - 1) // 2
        return ordered.gather(0, middle)[0]

    def remember(self, paths: PathBatch, missing: Missing | None = None) -> Remembered:
        """Return the states of all rows and what their paths remember at each."""
        state = self.states(paths, missing)
        return Remembered(state, self.memory.scan(state, paths.step, paths.first_row))

    def states(self, paths: PathBatch, missing: Missing | None = None) -> Tensor:
        """Return the standardised states of all rows; (M, S)."""
        features = self.encoder(paths.columns.double())
        features = self.encoder.complete(features, paths.first_row, missing)
        raw = self.window.scan(features, paths.time.double(), paths.first_row)
        state: Tensor = self.scaler(raw)
        return state.to(self.epsilon.dtype)

    def values(self, state: Tensor, h: Tensor) -> Tensor:
        """Return Q of every member; (…, B, 2)."""
        return by_blocks(self.head, state, h)

    def continuation_gain(
        self, state: Tensor, h: Tensor, t: Tensor, gain: Tensor | None = None
    ) -> Tensor | None:
        """Return g(s) (E10): the memory's own, or Q(s,1) − γ V(ŝ′) in a learnt world; (B,).

        Args:
            state: (B, S).
            h: (…, B, C).
            t: (B,) number of the row in its path.
            gain: (…, B) the memory's own, if it is known.
        """
        gain = self.memory.gain(state) if gain is None else gain
        if gain is None and self.dynamics is not None:
            features = self.head.features(state, h)
            next_value = self.value_at(self.predict(state, h, features)[0], h, t)
            gain = recovered_gains(self.head.values(features), next_value, self.gamma).go
        return None if gain is None else combine(torch, gain)

    # The learnt world ----------------------------------------------------------------------------

    def predict(self, state: Tensor, h: Tensor, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the predicted successor: ŝ′, and what is predicted of h′."""
        assert self.dynamics is not None
        return self.dynamics(join(state, h[..., : self.memory.predicted]), features)  # type: ignore[no-any-return]

    def split(self, predicted: Tensor, h: Tensor, t: Tensor) -> Successor:
        """Return state and memory of a predicted successor; what is not predicted advances."""
        state, known = predicted[..., : self.state_dim], predicted[..., self.state_dim :]
        return Successor(state, self.memory.successor(h, state, t + 1, known))

    def value_at(self, successor: Tensor, h: Tensor, t: Tensor) -> Tensor:
        """Return V at a successor of rows that remember h; (…, B)."""
        return soft_value(self.values(*self.split(successor, h, t)), self.epsilon)


class _TorchParts:
    """A rule's parts as `advance` takes them: what is carried in double, networks as they are."""

    def __init__(self, rule: StoppingRule) -> None:
        self._rule, self.layout = rule, rule.layout
        self.include_time = rule.window.include_time
        self.time_step = rule.time_step
        self.encode, self.scale = rule.encoder, rule.scaler
        self.fill, self.lagged = rule.encoder.fill, rule.window.lagged
        self.usual: Usual = rule.familiarity.usual

    def remember(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        return self._rule.memory.advance(h, state.to(self._rule.epsilon.dtype), t)

    def judge(self, state: Tensor, h: Tensor) -> Tensor:
        dtype = self._rule.epsilon.dtype
        return self._rule.values(state.to(dtype), h.to(dtype)).double()

    def soften(self, margin: Tensor) -> Tensor:
        return stop_probability(margin, self._rule.epsilon.double())


def load_rule(spec: Any, weights: dict[str, Tensor], allow: Sequence[str] = ()) -> StoppingRule:
    """Make a rule of what a checkpoint keeps of it.

    Args:
        spec: as `StoppingRule.spec`.
        weights: its state.
        allow: packages that classes may be imported from beside the trusted ones.
    """
    try:
        if wrong := too_many(spec, weights) or wrong_shape(_shapes(spec, allow), weights):
            raise UserError(f"its weights do not fit its rule: {wrong} differs")
        rule = StoppingRule(**spec, allow=allow)
        if wrong := other_kind(rule.state_dict(), weights):
            raise UserError(f"its weights do not fit its rule: {wrong} is of another kind")
        rule.load_state_dict(weights)
    except UserError:
        raise
    except Exception as error:  # what a damaged description makes the parts raise
        reason = next(iter(str(error).splitlines()), "")
        raise UserError(f"its rule cannot be made: {type(error).__name__}: {reason}") from None
    if wrong := impossible(rule.state_dict()):
        raise UserError(f"its weights are damaged: {wrong}")
    return rule


def _shapes(spec: Any, allow: Sequence[str]) -> Mapping[str, Tensor] | None:
    """Return what a rule's weights are like without making them: wrong sizes then cost nothing.

    None where some part computes with its numbers as it is made.
    """
    try:
        with torch.device("meta"):
            return StoppingRule(**spec, allow=allow).state_dict()
    except NotImplementedError:
        return None
