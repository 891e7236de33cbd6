"""The law: stepping through any prefix of a path gives what scanning the whole path gives."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import own_parts
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lit_ios import runtime
from lit_ios.carry import Usual
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.exports import ExportedStep
from lit_ios.rule import ColumnEncoder, ConditionEncoder, StoppingRule
from lit_ios.testing import CheckError, check_rule
from lit_ios.trajectories import TrajectorySet

OWN = [own_parts.__name__]
HEADS = {
    "mlp": {"class_path": "lit_ios.rule.MLPHead", "init_args": {"hidden": [6, 5]}},
    "gelu": {
        "class_path": "lit_ios.rule.MLPHead",
        "init_args": {"hidden": [5], "activation": "gelu", "normalisation": "layer"},
    },
    "residual": {"class_path": "own_parts.Residual", "init_args": {"width": 5}},
    "dueling": {"class_path": "own_parts.Dueling"},
    "loop": {"class_path": "own_parts.LoopHead"},
}
MEMORIES = {
    "none": None,
    "gain": {
        "class_path": "lit_ios.rule.GainMemory", "init_args": {"gamma": 0.9, "hidden": [5]},
    },
    "own": {"class_path": "own_parts.Average", "init_args": {"units": 2}},
    "accumulate": {"class_path": "lit_ios.rule.AccumulateMemory", "init_args": {"hidden": [4]}},
    "gru": {"class_path": "lit_ios.rule.GRUMemory", "init_args": {"units": 3}},
}  # fmt: skip
MEMORIES["gain and gru"] = [MEMORIES["gain"], MEMORIES["gru"]]
MEMORIES["accumulate and own"] = [MEMORIES["accumulate"], MEMORIES["own"]]
ENCODERS = {
    "plain": ColumnEncoder(("a", "b")),
    "categories": ColumnEncoder(("a", "c", "d"), {"c": ("x", "y", "z"), "d": ("u", "v")}),
    "conditions": ConditionEncoder(
        ("k", "a", "b"), [0, 10], [[0.1, -0.2], [1.0, 2.0]], [[1.0, 0.5], [2.0, 3.0]]
    ),
    "own": own_parts.Logarithms(("a", "b"), factor=2.0),
}
for missing in ("last", "impute"):
    ENCODERS[missing] = ColumnEncoder(
        ("a", "c", "b"), {"c": ("x", "y", "z")}, missing, {"a": 0.3, "c": 1.0, "b": -1.0},
        flagged=("a", "c"),
    )  # fmt: skip


def raw_paths(kind, lengths, rng, timed):
    """Return paths of raw columns that the encoder knows, some values the same as before."""
    encoder = ENCODERS[kind]
    rows = sum(lengths)
    columns = []
    for name in encoder.columns:
        if name in encoder.categories:
            columns.append(rng.integers(len(encoder.categories[name]), size=rows))
        elif name == "k":
            columns.append(rng.choice([0.0, 9.8, 10.3], size=rows))
        else:
            columns.append(np.round(rng.normal(size=rows), 1))
    gaps = rng.uniform(0.3, 3.0, size=rows) if timed else np.full(rows, 1.5)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times = np.concatenate(
        [50 * i + np.cumsum(gaps[a:b]) for i, (a, b) in enumerate(pairwise(offsets))]
    )
    paths = TrajectorySet(
        np.column_stack(columns).astype(float), times, offsets, np.ones(len(lengths), dtype=bool),
        tuple(map(str, range(len(lengths)))), encoder.columns,
    )  # fmt: skip
    if encoder.missing != "error":
        states = np.where(rng.random(paths.states.shape) < 0.3, np.nan, paths.states)
        paths = replace(paths, states=states, gaps=True)
    return replace(paths, categories=encoder.categories)


def random_rule(encoder, head, memory, seed=0, **options):
    torch.manual_seed(seed)
    rule = StoppingRule(ENCODERS[encoder].spec, HEADS[head], MEMORIES[memory], allow=OWN, **options)
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.mul_(2)
    rule.scaler.mean.copy_(torch.randn(rule.state_dim) * 0.3)
    rule.scaler.scale.copy_(torch.rand(rule.state_dim) + 0.5)
    dim = len(rule.current_names)
    drawn = torch.randn(dim, dim).double()
    rule.familiarity.set(
        Usual(
            drawn @ drawn.T, torch.tensor(0.3), torch.rand(dim), torch.randn(dim), torch.rand(dim)
        )
    )
    rule.time_step.fill_(1.5)
    rule.threshold.fill_(0.1)
    return rule


@settings(max_examples=250, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(
    encoder=st.sampled_from(sorted(ENCODERS)),
    head=st.sampled_from(sorted(HEADS)),
    memory=st.sampled_from(sorted(MEMORIES)),
    members=st.sampled_from([1, 3]),
    lags=st.integers(0, 3),
    static=st.booleans(),
    include_time=st.booleans(),
    dynamics=st.booleans(),
    timed=st.booleans(),
    gaps=st.booleans(),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    seed=st.integers(0, 5),
)
def test_stepping_gives_what_scanning_gives(
    encoder, head, memory, members, lags, static, include_time, dynamics, timed, gaps, lengths, seed
):
    rule = random_rule(
        encoder, head, memory, seed, members=members, lags=lags, include_time=include_time,
        dynamics=dynamics, static=ENCODERS[encoder].feature_names[:1] if static else (),
    )  # fmt: skip
    paths = raw_paths(encoder, lengths, np.random.default_rng(seed), timed)
    missing = ENCODERS[encoder].missing
    if gaps and encoder in ("plain", "categories"):  # features that stay right in later rows
        missing = "last"
    check_rule(rule, paths, timed=timed, missing=missing)


EXPORTED = [
    ("plain", "residual", "none", {"members": 3, "lags": 1}),
    ("categories", "mlp", "gain", {"lags": 2, "dynamics": True}),
    ("conditions", "dueling", "gain", {"members": 3, "dynamics": True}),
    ("own", "gelu", "own", {"include_time": False}),
    ("plain", "mlp", "own", {"members": 3, "dynamics": True, "lags": 1}),
    ("plain", "mlp", "gru", {"members": 3, "lags": 1}),
    ("categories", "residual", "accumulate", {"dynamics": True}),
    ("plain", "mlp", "gain and gru", {"members": 3, "dynamics": True}),
    ("last", "mlp", "gru", {"lags": 2, "static": ("b",)}),
    ("impute", "mlp", "none", {"members": 3, "lags": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "head", "memory", "options"), EXPORTED)
def test_exported_programs_keep_the_law(encoder, head, memory, options, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    rule = random_rule(encoder, head, memory, **options)
    policy = StoppingPolicy(rule)
    program = torch.export.load(policy.export(tmp_path / "rule.pt2")).module()
    exported = runtime.load(policy.export(tmp_path / "rule.onnx"))
    for timed in (True, False):
        paths = raw_paths(encoder, [6, 1, 4], np.random.default_rng(1), timed)
        check_exported(policy, program, exported, paths, timed)
    assert ExportedStep(rule, "error", single=False).outputs[:4] == [
        "margin", "probability", "stop", "next_carry",
    ]  # fmt: skip


def check_exported(policy, program, exported, paths, timed):
    margins, stops = policy.margins(paths), []
    worst = {"torch.export": 0.0, "ONNX": 0.0}
    for i, path in enumerate(paths):
        carry, stream, own = policy.rule.init(1), exported.stream(), policy.stream()
        for row, (x, time) in enumerate(zip(path.states, path.times, strict=True)):
            expected = margins[paths.offsets[i] + row]
            when = torch.tensor([time if timed else np.nan], dtype=torch.double)
            margin, _, stop, carry, *_ = program(torch.from_numpy(x)[None], when, carry)
            found = stream.step(x, time if timed else None)
            live = own.step(x, time if timed else None)
            assert (found.familiar, found.unfamiliar) == (live.familiar, live.unfamiliar)
            worst["torch.export"] = max(worst["torch.export"], abs(float(margin) - expected))
            worst["ONNX"] = max(worst["ONNX"], abs(found.margin - expected))
            if abs(expected - policy.threshold) > 1e-5:
                stops += [bool(stop) == (expected >= policy.threshold), found.stop == bool(stop)]
    assert worst["torch.export"] <= 1e-9
    assert worst["ONNX"] <= 1e-5
    assert all(stops)


class Forgetful(own_parts.Average):
    """Scans as if every row began a path."""

    def scan(self, state, t, first_row):
        return self._drive(state) / 2


def test_a_memory_that_breaks_the_law_is_found_out():
    rule = random_rule("plain", "mlp", "own")
    rule.memory.__class__ = Forgetful
    with pytest.raises(CheckError, match="margins stepped in torch and scanned: they differ"):
        check_rule(rule, raw_paths("plain", [5, 3], np.random.default_rng(0), True))


@pytest.mark.parametrize("lags", [0, 2])
def test_one_live_row_is_as_familiar_as_the_row_of_a_whole_path(lags):
    rule = random_rule("plain", "mlp", "none", lags=lags, include_time=False).double().eval()
    policy, paths = StoppingPolicy(rule), raw_paths("plain", [40], np.random.default_rng(2), True)
    (decided,) = policy.decide(paths)
    expected = [
        tuple(rule.current_names[i] for i in row if i >= 0) for row in decided.responsible.tolist()
    ]
    stream = policy.stream()
    found = [stream.step(x, t) for x, t in zip(paths.states, paths.times, strict=True)]
    assert [decision.unfamiliar for decision in found] == expected
    assert [decision.familiar for decision in found] == [not names for names in expected]
    assert 5 < sum(decision.familiar for decision in found) < 35  # both kinds are there
