"""The parts of a rule in NumPy, for live rows.

A row of a small network takes a framework longer to start than to compute; here it takes some
matrix products. Numbers are doubles, as when whole paths are judged, so that both agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.carry import CLOCK, Usual, combine, memory_of, responsible, strangeness
from lit_ios.live import Decision
from lit_ios.rule.encoders import ColumnEncoder, ConditionEncoder, Encoder, one_hot, scale_within
from lit_ios.rule.heads import MLPHead
from lit_ios.rule.layers import StackedLayerNorm, StackedLinear
from lit_ios.rule.memories import (
    AccumulateMemory,
    GainMemory,
    GRUMemory,
    JoinedMemory,
    Memory,
    NoMemory,
)
from lit_ios.rule.rule import StoppingRule
from lit_ios.trajectories import FloatArray, IntArray

Layer = Callable[[FloatArray], FloatArray]
Remember = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]  # h, state, t → h


MEMORIES = (NoMemory, GainMemory, AccumulateMemory, GRUMemory)


class NumpyParts:
    """A rule's parts as `lit_ios.carry.advance` takes them.

    Args:
        rule: whose parts are all known here: see `numpy_parts`.
    """

    def __init__(self, rule: StoppingRule) -> None:
        self.layout, self.include_time = rule.layout, rule.window.include_time
        self.members, self.gamma = rule.members, 1.0
        self.time_step, self.epsilon = float(rule.time_step), float(rule.epsilon)
        self.mean, self.spread = _array(rule.scaler.mean), _array(rule.scaler.scale)
        self.encode = _encoding(rule.encoder)
        self.fill = None if rule.encoder.fill is None else _array(rule.encoder.fill)
        self.lagged = rule.window.lagged
        self.usual = Usual(*map(_array, rule.familiarity.usual))
        self.names = rule.current_names
        head, memory = rule.head, rule.memory
        assert isinstance(head, MLPHead)
        self.network = [*_layers(head.trunk), *_layers(head.q)]
        self.gain: list[Layer] = []  # of a rule that remembers DO-IQS's y and nothing else
        if isinstance(memory, GainMemory):
            self.gain, self.gamma = [*_layers(memory.trunk), *_layers(memory.head)], memory.gamma
        self.memory = None if memory.width == 0 else _memory(memory)

    def scale(self, state: FloatArray) -> FloatArray:
        """Standardise states."""
        return np.asarray((state - self.mean) / self.spread)

    def remember(self, h: FloatArray, state: FloatArray, t: FloatArray) -> FloatArray:
        """Take one row (E6, E12)."""
        return h if self.memory is None else self.memory(h, state, t)

    def judge(self, state: FloatArray, h: FloatArray) -> FloatArray:
        """Return Q of every member."""
        if self.memory is not None:
            rows = state if h.ndim == 2 else np.broadcast_to(state, (self.members, *state.shape))
            state = np.concatenate([rows, h], axis=-1)
        return apply(self.network, state)

    def soften(self, margin: FloatArray) -> FloatArray:
        """Return σ(m/ε), which cannot overflow as a hyperbolic tangent."""
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 / self.epsilon * margin))


class OneRow:
    """`lit_ios.carry.advance` for one row at a time, in numbers where arrays take longer.

    Args:
        parts: of the rule.
    """

    def __init__(self, parts: NumpyParts) -> None:
        self.parts, layout = parts, parts.layout
        self.lags, self.features = layout.lags, layout.features
        self.recent, self.width = layout.recent, layout.width
        self.newest = slice(self.recent.start, self.recent.start + layout.features)
        self.dim, self.alone = len(parts.mean), parts.members == 1
        self.now = None  # the coordinates that are of the row itself; None for all
        if layout.lags:
            self.now = np.r_[: layout.features, [self.dim - 1] * parts.include_time].astype(int)
        self.plain, self.whole = parts.encode is _same, parts.usual.whole.item()
        self.steepness = 0.5 / parts.epsilon

    def __call__(
        self, columns: FloatArray, time: float, carry: FloatArray
    ) -> tuple[Decision, FloatArray] | None:
        """Return the decision and the path's new carry; None leaves what is unusual to `advance`.

        Args:
            columns: (C,) raw.
            time: NaN for a usual step after the last row.
            carry: (W,).
        """
        parts = self.parts
        (rows, threshold, start, last, timed, first_stop, highest, furthest) = carry[
            : len(CLOCK)
        ].tolist()
        given = time == time
        now = time if given else (last + parts.time_step if rows else 0.0)
        if rows:
            fits = given == (timed > 0) or not (given or parts.include_time)
            if not (now > last and fits and now - start < math.inf):
                return None
        else:
            start, timed = now, float(given)
            if not math.isfinite(now):
                return None
        features = columns
        if not self.plain:
            features = parts.encode(columns[None])[0]  # (D,)
            features[features == np.inf] = np.nan  # unknown, left to `advance` without a warning
        following = np.empty(self.width)
        known = np.empty(self.dim + 1)  # with room for what is remembered
        state = known[: self.dim]
        state[: self.features] = features
        if self.lags:
            recent = carry[self.recent] if rows else np.tile(features, self.lags)
            lagged = recent if parts.lagged is None else recent[parts.lagged]
            state[self.features : self.features + len(lagged)] = lagged
            if self.lags > 1:
                following[self.newest.stop : self.recent.stop] = recent[: -self.features]
        if parts.include_time:
            state[-1] = now - start
        state -= parts.mean
        state /= parts.spread
        margin = self._margin(known, rows, carry, following)
        distance, strange = self.strange(state if self.now is None else state[self.now])
        if not (margin == margin and distance < math.inf):  # also if a feature is not finite
            return None
        stop = margin >= threshold
        first = stop and first_stop < 0
        following[: len(CLOCK)] = (
            rows + 1, threshold, start, now, timed, rows if first else first_stop,
            margin if margin > highest else highest, distance if distance > furthest else furthest,
        )  # fmt: skip
        following[self.newest] = features
        probability = 0.5 + 0.5 * math.tanh(self.steepness * (margin - threshold))
        decision = Decision(
            stop, margin, probability, first, int(rows), now - start, not strange, strange
        )
        return decision, following

    def _margin(
        self, known: FloatArray, rows: float, carry: FloatArray, following: FloatArray
    ) -> float:
        """Return the margin of a row, and write what is remembered into the following carry.

        Args:
            known: (S + 1,) the state, and room for DO-IQS's y.
            rows: seen before.
            carry: (W,) before the row.
            following: (W,) after it.
        """
        parts, state = self.parts, known[: self.dim]
        if self.alone and parts.memory is None:
            stop_value, go_value = apply(parts.network, state).tolist()
            return float(stop_value - go_value)
        if self.alone and parts.gain:
            y = carry.item(-1) + apply(parts.gain, state).item() * parts.gamma**rows
            following[-1] = known[-1] = y
            stop_value, go_value = apply(parts.network, known).tolist()
            return float(stop_value - go_value)
        h = memory_of(parts.layout, carry[None])
        if parts.memory is not None:
            h = parts.remember(h, state[None], np.array([rows]))
            following[self.recent.stop :] = h.ravel()  # (K, 1, C), as a carry has it
        q = parts.judge(state[None], h)
        return float(combine(np, q[..., 0] - q[..., 1])[0])

    def strange(self, now: FloatArray) -> tuple[float, tuple[str, ...]]:
        """Say how far a row is from those of training, and what makes it unlike them; (F,)."""
        pull, _, _, middle, reach = self.parts.usual
        pulled = pull * now if pull.ndim == 1 else pull.dot(now)
        beyond = now - middle
        beyond *= reach
        apart = beyond.tolist()
        whole = self.whole * math.sqrt(abs(now.dot(pulled)))  # not finite if a coordinate is not
        distance = max(whole, max(apart), -min(apart)) if whole < math.inf else math.inf
        if distance <= 1:
            return distance, ()
        _, shares = strangeness(np, now[None], self.parts.usual)
        return distance, tuple(self.parts.names[i] for i in responsible(np, shares)[0] if i >= 0)


def numpy_parts(rule: StoppingRule) -> NumpyParts | None:
    """Return the parts of a rule in NumPy, or None if one of them is not known here."""
    known = (
        type(rule.head) is MLPHead
        and all(type(piece) in MEMORIES for piece in rule.memory.pieces)
        and type(rule.encoder) in (ColumnEncoder, ConditionEncoder)
    )
    try:
        return NumpyParts(rule) if known else None
    except _UnknownLayerError:
        return None


def _memory(memory: Memory) -> Remember:
    """Turn a memory into a function of arrays that can be pickled."""
    if isinstance(memory, JoinedMemory):
        pieces = [_memory(piece) for piece in memory.pieces]
        ends = np.cumsum([piece.width for piece in memory.pieces])
        return partial(_joined, pieces=pieces, ends=ends[:-1])
    if isinstance(memory, GRUMemory):
        (driven,), (recurrent,) = _layers(memory.driven), _layers(memory.recurrent)
        return partial(_gru, driven=driven, recurrent=recurrent, units=memory.width)
    assert isinstance(memory, GainMemory | AccumulateMemory)
    network = [*_layers(memory.trunk), *_layers(memory.head)]
    if isinstance(memory, GainMemory):
        return partial(_gains_so_far, network=network, gamma=memory.gamma)
    constants = {"decay": _array(memory.decay), "share": _array(memory.share)}
    return partial(_accumulate, network=network, **constants)


def _joined(
    h: FloatArray, state: FloatArray, t: FloatArray, pieces: list[Remember], ends: IntArray
) -> FloatArray:
    own = np.split(h, ends, axis=-1)
    return np.concatenate([m(x, state, t) for m, x in zip(pieces, own, strict=True)], axis=-1)


def _gains_so_far(
    h: FloatArray, state: FloatArray, t: FloatArray, network: list[Layer], gamma: float
) -> FloatArray:
    return np.asarray(h + apply(network, state) * (gamma**t)[:, None])


def _accumulate(
    h: FloatArray, state: FloatArray, t: FloatArray, network: list[Layer], decay: FloatArray,
    share: FloatArray,
) -> FloatArray:  # fmt: skip
    return np.asarray(h * decay + apply(network, state) * share)


def _gru(
    h: FloatArray, state: FloatArray, t: FloatArray, driven: Layer, recurrent: Layer, units: int
) -> FloatArray:
    a, b = driven(state), recurrent(h)
    gates = a[..., : 2 * units] + b[..., : 2 * units]
    gates = 0.5 + 0.5 * np.tanh(0.5 * gates)  # σ, which cannot overflow this way
    new = np.tanh(a[..., 2 * units :] + gates[..., :units] * b[..., 2 * units :])
    return np.asarray(new + gates[..., units:] * (h - new))


class _UnknownLayerError(Exception):
    """A layer that NumPy does not know here."""


def apply(layers: list[Layer], values: FloatArray) -> FloatArray:
    """Apply layers one after the other."""
    for layer in layers:
        values = layer(values)
    return values


def _encoding(encoder: Encoder) -> Callable[[FloatArray], FloatArray]:
    """Turn an encoder into a function that, unlike a closure, can be pickled."""
    if isinstance(encoder, ConditionEncoder):
        names = ("conditions", "mean", "scale")
        return partial(_quietly, scale_within, **{n: _array(getattr(encoder, n)) for n in names})
    assert isinstance(encoder, ColumnEncoder)
    if encoder.is_identity:
        return _same
    constants: dict[str, Any] = {n: _array(getattr(encoder, n)) for n in ("code", "count")}
    places = {"source": encoder.source.numpy(), "flags": encoder.flags.numpy()}
    return partial(_quietly, one_hot, **places, **constants)


def _same(values: FloatArray) -> FloatArray:
    return values


def _quietly(formula: Callable[..., FloatArray], values: FloatArray, **given: Any) -> FloatArray:
    """Compute NaN where something is unknown without warning of it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return formula(np, values, **given)


def _layers(network: nn.Module) -> list[Layer]:
    """Turn the layers of a network into functions of arrays, a linear one and its SiLU into one."""
    parts = list(network) if isinstance(network, nn.Sequential) else [network]
    layers: list[Layer] = []
    for i, part in enumerate(parts):
        if i and type(part) is nn.SiLU and type(parts[i - 1]) in _LINEAR:
            weight, bias = _weights(parts[i - 1])
            layers[-1] = partial(_affine_silu, 0.5 * weight, 0.5 * bias)
        else:
            layers.append(_layer(part))
    return layers


def _layer(part: nn.Module) -> Layer:
    kind = type(part)  # a subclass may compute something else
    given: Any = part
    if kind in _LINEAR:
        return partial(_affine, *_weights(given))
    if kind in (nn.LayerNorm, StackedLayerNorm):
        return partial(_layer_norm, weight=_array(given.weight), bias=_array(given.bias))
    if kind not in _ACTIVATIONS:
        raise _UnknownLayerError
    return _ACTIVATIONS[kind]


_LINEAR = (nn.Linear, StackedLinear)


def _weights(layer: Any) -> tuple[FloatArray, FloatArray]:
    """Return the weights of a linear layer, from inputs to outputs, and its bias."""
    weight = layer.weight.T if type(layer) is nn.Linear else layer.weight
    return _array(weight), _array(layer.bias)


def _affine(weight: FloatArray, bias: FloatArray, values: FloatArray) -> FloatArray:
    made: FloatArray = values.dot(weight) if weight.ndim == 2 else values @ weight
    made += bias
    return made


def _affine_silu(half_weight: FloatArray, half_bias: FloatArray, values: FloatArray) -> FloatArray:
    """Return SiLU(Wv + b) of W/2 and b/2, which are exact: x σ(x) = ½x (1 + tanh ½x)."""
    half = _affine(half_weight, half_bias, values)
    made: FloatArray = np.tanh(half)
    made *= half
    made += half
    return made


def _layer_norm(values: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + 1e-5) * weight + bias)


def _silu(values: FloatArray) -> FloatArray:
    half = 0.5 * values  # x σ(x) = ½x (1 + tanh ½x), which cannot overflow
    values = np.tanh(half)
    values *= half
    values += half
    return values


def _gelu(values: FloatArray) -> FloatArray:
    from scipy.special import erf

    return np.asarray(0.5 * values * (1 + erf(values / np.sqrt(2))))


_ACTIVATIONS: dict[type[nn.Module], Layer] = {
    nn.SiLU: _silu,
    nn.ReLU: partial(np.maximum, 0.0),
    nn.Tanh: np.tanh,
    nn.GELU: _gelu,
}


def _array(values: Tensor) -> FloatArray:
    with torch.no_grad():
        return np.ascontiguousarray(values.detach().double().cpu().numpy())
