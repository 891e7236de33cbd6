"""Checks that a class of your own must pass; each says what is wrong by raising an error.

    check_head("my_package.Residual", width=32)
    check_memory("my_package.Average")
    check_module(MyObjective)
    check_data(MyData(file="plant.csv"))
    check_promise(MyPromise(0.1))

`check_rule` is the law that holds all parts together: stepping through a path gives what scanning
it gives.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.batches import TrainBatch, path_batch
from lit_ios.carry import Missing, advance
from lit_ios.imports import Spec, as_spec, build
from lit_ios.promises import Promise, Sweep
from lit_ios.recognition import fingerprints, recognised
from lit_ios.rule import (
    ColumnEncoder,
    Memory,
    MLPHead,
    StoppingRule,
    load_rule,
)
from lit_ios.rule.heads import build_head
from lit_ios.rule.numpy_parts import numpy_parts
from lit_ios.trajectories import FloatArray, Trajectory, TrajectorySet

if TYPE_CHECKING:
    from datamodules import TrajectoryDataModule
    from lit_ios.modules import StoppingModule

__all__ = [
    "CheckError",
    "check_data",
    "check_head",
    "check_memory",
    "check_module",
    "check_promise",
    "check_rule",
]

STATE_DIM, MEMBERS, LENGTHS = 3, 3, (4, 1, 7, 2)


class CheckError(AssertionError):
    """A class of the user's own that breaks a promise; the message says which."""


def _demand(holds: bool | Tensor | np.bool_, message: str) -> None:
    if not holds:
        raise CheckError(message)


def _close(found: Any, expected: Any, message: str, tolerance: float = 1e-9) -> None:
    found, expected = (np.asarray(torch.as_tensor(x).detach()) for x in (found, expected))
    _demand(found.shape == expected.shape, f"{message}: shapes {found.shape}, {expected.shape}")
    apart = np.abs(found - expected).max(initial=0.0)
    _demand(bool(apart <= tolerance), f"{message}: they differ by {apart:.3g}")


# The rule ----------------------------------------------------------------------------------------


def check_rule(
    rule: StoppingRule,
    paths: TrajectorySet,
    *,
    timed: bool = True,
    missing: Missing = "error",
    tolerance: float = 1e-9,
) -> None:
    """Check that stepping through any prefix of a path gives what scanning the path gives.

    Args:
        rule: any rule; it is copied, in double precision and evaluation.
        paths: of raw columns; rows a usual step apart where `timed` is false.
        timed: whether live rows come with their times.
        missing: how live rows treat missing values; with `last`, live rows of paths without gaps
            leave out what is the same as in the row before.
        tolerance: largest difference of a margin.
    """
    rule = copy.deepcopy(rule).double().eval()
    with torch.no_grad():
        whole = rule.scan(path_batch(paths), details=True, missing=missing)
    ways: dict[str, Callable[..., Any]] = {"torch": rule.step}
    parts = numpy_parts(rule)
    if parts is not None:
        ways["NumPy"] = lambda *given: advance(np, parts, *given)
    for name, step in ways.items():
        found = _stepped(name, step, rule, paths, timed, missing)
        rows = np.isfinite(whole.margin.numpy())
        _demand(bool(rows.all()), "scanning gives margins that are not finite")
        _close(found[:, 0], whole.margin, f"margins stepped in {name} and scanned", tolerance)
        sure = (whole.margin - rule.threshold).abs().numpy() > tolerance
        stop = np.asarray(whole.stop)
        _demand(bool((found[:, 2] == stop)[sure].all()), f"stops in {name} and scanned differ")
        first = np.asarray(whole.first_stop)
        if sure.all():
            _demand(bool((found[:, 3] == first).all()), f"first stops in {name} differ")
        strange = np.asarray(whole.responsible)[:, 0] >= 0
        clear = np.abs(found[:, 4] - 1) > tolerance
        same = (found[:, 4] > 1) == strange
        _demand(bool(same[clear].all()), f"what is unfamiliar in {name} and scanned differs")


def _stepped(
    name: str, step: Callable[..., Any], rule: StoppingRule, paths: TrajectorySet, timed: bool,
    missing: Missing,
) -> FloatArray:  # fmt: skip
    """Step through all paths side by side.

    Returns margin, probability, stop, first stop and distance by row.
    """
    found = np.full((len(paths.states), 5), np.nan)
    carry: Any = rule.init(len(paths))
    carry = carry.numpy() if name == "NumPy" else carry
    columns = np.asarray(paths.states, dtype=np.float64)
    for t in range(int(paths.lengths.max())):
        live = np.flatnonzero(paths.lengths > t)
        at = paths.offsets[live] + t
        values = columns[at].copy()
        if missing == "last" and t and not paths.gaps:
            values[values == columns[at - 1]] = np.nan
        time = paths.times[at] if timed else np.full(len(at), np.nan)
        given: list[Any] = [values, np.asarray(time, dtype=np.float64), carry[live]]
        if name == "torch":
            given = [torch.as_tensor(x) for x in given]
        with torch.no_grad():
            judged = step(*given, missing)
        before = np.asarray(given[2][:, 5])
        carry[live] = judged.carry
        first = (before < 0) & (np.asarray(judged.carry[:, 5]) >= 0)
        outputs = (judged.margin, judged.probability, judged.stop, first, judged.distance)
        found[at] = np.stack([np.asarray(x, dtype=np.float64) for x in outputs], axis=1)
    return found


# Its parts ---------------------------------------------------------------------------------------


def check_head(head: str | Spec, **init_args: Any) -> None:
    """Check a network of your own: shapes, rows apart, gradients, members, live rows.

    Args:
        head: class path, or class_path and init_args.
        **init_args: arguments of the class, instead of init_args.
    """
    spec = _spec("head", head, init_args)
    for memory_dim in (0, 2):
        torch.manual_seed(0)
        made = build_head(spec, STATE_DIM, memory_dim, 1, _own(spec)).double().eval()
        state = torch.randn(6, STATE_DIM, dtype=torch.double)
        h = torch.randn(6, memory_dim, dtype=torch.double)
        q = made(state, h)
        _close(made(state, h), q, "the head gives another Q for the same rows in evaluation")
        alone = torch.cat([made(state[i : i + 1], h[i : i + 1]) for i in range(6)])
        _close(alone, q, "Q of a row depends on the rows beside it")
        q.sum().backward()
        _demand_gradients(made, "the head")
        _check_members(spec, memory_dim, state, h)
    check_rule(_rule(head=spec), _paths())
    check_rule(_rule(head=spec, members=MEMBERS), _paths())


def _check_members(spec: Spec, memory_dim: int, state: Tensor, h: Tensor) -> None:
    """Compare members evaluated together with each by itself, of the same weights."""
    torch.manual_seed(1)
    together = build_head(spec, STATE_DIM, memory_dim, MEMBERS, _own(spec)).double().eval()
    torch.manual_seed(1)
    alone = [build_head(spec, STATE_DIM, memory_dim, 1, _own(spec)) for _ in range(MEMBERS)]
    q = together(state, h.expand(MEMBERS, -1, -1))
    _demand(tuple(q.shape) == (MEMBERS, 6, 2), f"{MEMBERS} members give Q of shape {q.shape}")
    if isinstance(together, MLPHead):
        return  # its layers draw their weights in another order; tested in this project
    for k, one in enumerate(alone):
        _close(q[k], one.double().eval()(state, h), f"member {k} is not what it is alone")


def check_memory(memory: str | Spec, **init_args: Any) -> None:
    """Check a memory of your own: nothing at first, steps as scans, paths apart, live rows.

    Args:
        memory: class path, or class_path and init_args.
        **init_args: arguments of the class, instead of init_args.
    """
    spec = _spec("memory", memory, init_args)
    paths = _paths()
    for members in (1, MEMBERS):
        torch.manual_seed(0)
        given = {"state_dim": STATE_DIM, "members": members}
        made = build("memory", spec, Memory, _own(spec), **given).double().eval()
        batch = path_batch(paths)
        state = torch.randn(len(batch.step), STATE_DIM, dtype=torch.double)
        whole = made.scan(state, batch.step, batch.first_row)
        both, own_gain = made.scan_and_gain(state, batch.step, batch.first_row), made.gain(state)
        _close(both[0], whole, "scan_and_gain and scan")
        _demand((both[1] is None) == (own_gain is None), "scan_and_gain has another gain than gain")
        if both[1] is not None:
            _close(both[1], own_gain, "scan_and_gain and gain")
        axes = () if members == 1 else (members,)
        shape = (*axes, len(state), made.width)
        _demand(tuple(whole.shape) == shape, f"scan gives shape {tuple(whole.shape)}, not {shape}")
        _demand(bool((made.init(2) == 0).all()), "a new path must remember zeros")
        for i in range(len(paths)):
            h = made.init(1).to(state.dtype)
            for row in range(int(paths.offsets[i]), int(paths.offsets[i + 1])):
                h = made.advance(h, state[row : row + 1], batch.step[row : row + 1])
                _close(h[..., 0, :], whole[..., row, :], "advancing and scanning")
        if any(True for _ in made.parameters()):
            torch.autograd.backward(made.scan(state, batch.step, batch.first_row).sum())
            _demand_gradients(made, "the memory")
        check_rule(_rule(memory=spec, members=members), paths)


def check_module(
    module: type[StoppingModule], data: TrajectoryDataModule | None = None, **arguments: Any
) -> None:
    """Check a model of your own: parts, gradients, the cemetery, its checkpoint.

    Args:
        module: the class.
        data: what it is trained on; a small simulated change point by default.
        **arguments: of the class.
    """
    from datamodules import ChangePointData

    data = data or ChangePointData(paths=20, test_paths=5)
    torch.manual_seed(0)
    model = module.for_data(data, **arguments)
    model.take_over(data.prepare_for(model.members, model.bootstrap, model.needs_paths))
    owned = [id(p) for part in model.parts for p in model.part_parameters(part)]
    missing = [name for name, p in model.named_parameters() if id(p) not in owned]
    _demand(not missing, f"no part trains {', '.join(missing)}: see part_parameters")
    batch = next(iter(data.train_batches()))
    losses = _losses(model, batch)
    _demand(bool(torch.isfinite(losses).all()), f"losses are not finite: {losses.tolist()}")
    torch.autograd.backward(losses.sum())
    _demand_gradients(model, "the parts' losses")
    stops = batch.action[:, None] == 0
    moved = batch._replace(next_state=torch.where(stops, 50.0, batch.next_state))
    _close(_losses(model, moved), losses, "what a stop row stores for its successor matters", 0.0)
    plain = dict(model.hparams)
    _demand(json.loads(json.dumps(plain)) == plain, f"hyper-parameters are not plain: {plain}")
    again = load_rule(model.rule.spec, model.rule.state_dict(), _own_packages(model))
    paths = data.splits.test
    with torch.no_grad():
        margins = [rule.eval().scan(path_batch(paths)).margin for rule in (model.rule, again)]
    _close(margins[0], margins[1], "the rule of a checkpoint is another")
    check_rule(model.rule, paths)


def _losses(model: StoppingModule, batch: TrainBatch) -> Tensor:
    view, records = model.view(batch), {}  # type: ignore[var-annotated]
    return torch.stack([model._part_loss(part, view, records).sum() for part in model.parts])


def check_data(data: TrajectoryDataModule) -> None:
    """Check a data set of your own: what it declares, its splits, scales and batches.

    Args:
        data: not yet set up.
    """
    plain = data.inputs.plain()
    _demand(json.loads(json.dumps(plain)) == plain, f"inputs are not plain values: {plain}")
    _demand(isinstance(data.name, str) and bool(data.name), "the data set has no name")
    data.setup("fit")
    splits = data.splits._asdict()
    for one, other in (("train", "test"), ("val", "test"), ("train", "val")):
        both = recognised(splits[other], fingerprints(splits[one]))
        if data.folds is None or other == "test":
            _demand(not both, f"{one} and {other} share paths, e.g. {both[:1]}")
    for part, paths in splits.items():
        data.encoder.check(paths)
        _demand(len(paths) > 0, f"there are no {part} paths")
    record = data.prepare_for(data.folds or 1)
    states = data.training_paths.states.astype(np.float64)
    varying = np.isfinite(record.statistics.scale)
    _close(states.mean(0), np.zeros(states.shape[1]), "training states are not centred", 1e-4)
    _close(states.std(0)[varying], np.ones(varying.sum()), "training states are not scaled", 1e-3)
    first, again = ([b.state for b in data.train_batches()] for _ in range(2))
    same = all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    _demand(same, "two epochs of one number give different batches")
    raw = data.splits.test
    once = data.encoder.paths(raw).states
    data.read_as(dict(record.inputs.plain()))
    _close(data.encoder.paths(raw).states, once, "the encoder of a checkpoint is another")


# What they share ---------------------------------------------------------------------------------


def _spec(name: str, given: str | Spec, init_args: dict[str, Any]) -> Spec:
    spec = as_spec(name, given)
    return {**spec, "init_args": spec["init_args"] | init_args}


def _own(spec: Spec) -> list[str]:
    """Whoever checks a class trusts its package."""
    return [spec["class_path"].partition(".")[0]]


def _own_packages(model: StoppingModule) -> list[str]:
    memory = model.rule.spec["memory"]
    memories = memory if isinstance(memory, list) else [memory]
    specs = (model.rule.spec["encoder"], model.rule.spec["head"], *memories)
    return [package for spec in specs if spec is not None for package in _own(spec)]


def _rule(head: Spec | None = None, memory: Spec | None = None, members: int = 1) -> StoppingRule:
    torch.manual_seed(0)
    encoder = ColumnEncoder(("a", "b")).spec
    default = {"class_path": "lit_ios.rule.MLPHead", "init_args": {"hidden": [8]}}
    allow = [package for spec in (head, memory) if spec is not None for package in _own(spec)]
    return StoppingRule(encoder, head or default, memory, members=members, allow=allow)


def _paths() -> TrajectorySet:
    rng = np.random.default_rng(0)
    made = [
        Trajectory(rng.normal(size=(n, 2)), np.cumsum(rng.uniform(0.5, 2, n)), name=str(n))
        for n in LENGTHS
    ]
    return TrajectorySet.from_paths(made, ("a", "b"))


def _demand_gradients(module: nn.Module, what: str) -> None:
    """Every parameter must be reached; a gradient of exactly 0 everywhere reaches nothing."""
    none = [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
    _demand(not none, f"no gradient of {what} reaches {', '.join(none)}")


# Promises ----------------------------------------------------------------------------------------


def check_promise(promise: Promise) -> None:
    """Check that a promise prices every threshold, whatever the order of the paths.

    Of a promise to be kept, thresholds that keep it must have no gap on the side it prefers not.
    """
    name = type(promise).__name__
    arguments = {key: value for key, value in promise.plain().items() if key != "promise"}
    _demand(type(promise)(**arguments) == promise, f"{name}: plain values do not make it again")
    _demand(isinstance(promise.words, str) and promise.words != "", f"{name}: words are a text")
    json.dumps(promise.plain())
    error = None if promise.confidence is None else 1 - promise.confidence
    for lead in (0.0, 2.5):
        sweep, turned = _sweep(lead, turn=False), _sweep(lead, turn=True)
        price = promise.price(sweep, error)
        _demand(
            price.shape == sweep.threshold.shape,
            f"{name}: a price for each threshold is needed, {tuple(sweep.threshold.shape)}, got "
            f"{tuple(price.shape)}",
        )
        _demand(~(price.isnan() | price.isneginf()).any(), f"{name}: prices must be numbers or ∞")
        same = torch.isclose(price, promise.price(turned, error), rtol=1e-9, atol=1e-12)
        _demand(same.all(), f"{name}: the order of paths changes the price")
        if promise.prefers is None:
            continue
        kept = price.isfinite().int()
        _demand(price[kept == 1].eq(0).all(), f"{name}: a promise that is kept costs 0")
        steps = kept.diff() if promise.prefers == "high" else -kept.diff()
        _demand(
            (steps >= 0).all(),
            f"{name}: a {'lower' if promise.prefers == 'high' else 'higher'} threshold breaks what "
            "a threshold keeps; is `prefers` right?",
        )


def _sweep(lead: float, turn: bool) -> Sweep:
    """Return margins of 200 paths with ties, a third of them censored; in reverse order."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(200):
        rows = int(rng.integers(1, 9))
        states = np.round(rng.normal(size=(rows, 1)) + 0.2 * np.arange(rows)[:, None], 1)
        made.append(Trajectory(states, np.cumsum(rng.uniform(0.2, 2, rows)), bool(i % 3), str(i)))
    batch = path_batch(TrajectorySet.from_paths(made[::-1] if turn else made), lead=lead)
    return Sweep(batch.columns[:, 0], batch)
