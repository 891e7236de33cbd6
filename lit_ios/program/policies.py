"""What the shell does with a trained policy."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.policy import Calibration, StoppingPolicy
from lit_ios.program.mistakes import nearest
from lit_ios.program.places import find_checkpoint
from lit_ios.program.uses import roles_of
from lit_ios.trajectories import TrajectorySet


def calibrate(options: Namespace) -> None:
    """Choose the threshold and write it to a new checkpoint."""
    checkpoint = find_checkpoint(options.run)
    target = options.output or checkpoint.with_name("calibrated.ckpt")
    if target.exists() and not options.overwrite:
        raise UserError(f"{target} is there already: give --output FILE or --overwrite")
    policy = StoppingPolicy.load(checkpoint, options.allow)
    guarantee = options.max_event_miss_rate is not None
    folds = policy.validates_on_training_paths
    split = options.split or ("test" if guarantee or folds else "val")
    data, columns = _data(options, checkpoint, split)
    if options.data is None:
        print(f"calibrating on the {split} paths of the run: measure on others from here on")
    before = policy.threshold
    found = policy.calibrate(
        data, max_event_miss_rate=options.max_event_miss_rate, miss_cost=options.miss_cost,
        time_cost=options.time_cost, allow_known_paths=options.allow_known_paths, **columns,
    )  # fmt: skip
    policy.save(target)
    _print_calibration(found, before, policy.table.unit)
    print(f"written to {target}")


def _print_calibration(found: Calibration, before: float, unit: str) -> None:
    print(f"threshold           {found.threshold:.6g}  (was {before:.6g})")
    if math.isinf(found.threshold):
        print("                    never to stop is best by this rule")
    if found.level is not None:
        print(f"event-miss rate     at most {found.level:g} in the mean over fresh paths")
    print(f"on these {found.paths} paths, {found.events} of them stopped:")
    print(f"  event-miss rate   {found.event_miss_rate:.4f}")
    if (false := found.false_alarm_rate) is not None:
        print(f"  false alarms      {false:.4f} of {found.censored} censored paths")
    print(f"  stopped at once   {found.stopped_at_first_row:.4f} of all paths, at their first row")
    print(f"  time to event     {found.time_to_event:.4g}{unit}, mean")
    print(f"  balanced accuracy {found.balanced_accuracy:.4f}")
    if found.stopped_at_first_row == 1:
        print("the rule stops each of these paths at its first row: it says nothing")


def frontier(options: Namespace) -> None:
    """Draw missed events against lost time for every threshold of some policies."""
    from lit_ios.plotting import frontiers

    curves = {}
    for run in options.runs:
        checkpoint = find_checkpoint(run)
        policy = StoppingPolicy.load(checkpoint, options.allow)
        data, columns = _data(options, checkpoint, options.split)
        curve = policy.frontier(data, draws=options.draws, **columns)
        folders = checkpoint.resolve().parents
        name = folders[2].name if checkpoint.parent.name == "checkpoints" else checkpoint.stem
        if name in curves:
            name = str(checkpoint)
        curves[name] = curve
        missed, time = curve.chosen
        lost = f"{time:.4g}{policy.table.unit}"
        print(f"{name}: event-miss rate {missed:.4f}, mean time to event {lost}")
    frontiers(curves).savefig(options.output, dpi=120)
    print(f"figure  {options.output}")


def predict(options: Namespace) -> None:
    """Decide on every row of a table."""
    from lit_ios.policy.decision_tables import write_decisions

    checkpoint = find_checkpoint(options.run)
    table = StoppingPolicy.load(checkpoint, options.allow).predict(
        options.data, **roles_of(options)
    )
    rows, paths = write_decisions(table, options.output)
    print(f"{table.num_rows} decisions  {rows}")
    print(f"first stop of each path  {paths}")


def explain(options: Namespace) -> None:
    """Take the decision of one row apart."""
    checkpoint = find_checkpoint(options.run)
    policy = StoppingPolicy.load(checkpoint, options.allow)
    data, columns = _data(options, checkpoint, "test")
    paths = data if isinstance(data, TrajectorySet) else policy.paths(data, **columns)
    number = _find_path(paths, options.of)
    path = paths[number]
    row, why = _row(policy, paths, number, options.row)
    found = policy.explain_row(path, row)
    print(f"path {options.of}, row {row}{why}: {'stop' if found.stop else 'continue'}")
    print(f"  margin {found.margin:.4g}, threshold {found.threshold:.4g}")
    print(f"  G(s) = {found.stop_gain:.4g}")
    if found.continuation_gain is not None:
        print(f"  g(s) = {found.continuation_gain:.4g}")
    print(f"  at the average state {found.average_margin:+.4g}, and by coordinate:")
    for name, share in sorted(found.shares.items(), key=lambda item: -abs(item[1])):
        print(f"    {share:+10.4g}  {name} = {found.values[name]:.4g}")
    if options.output is not None:
        found.figure().savefig(options.output, dpi=120)
        print(f"figure  {options.output}")


def _find_path(paths: TrajectorySet, name: str) -> int:
    if name in paths.names:
        return paths.names.index(name)
    near = nearest(name, paths.names)
    advice = f"did you mean {near!r}?" if near else "see the column of paths for their names"
    raise UserError(f"there is no path {name!r} among the {len(paths)} of these data; {advice}")


def _row(
    policy: StoppingPolicy, paths: TrajectorySet, number: int, row: int | None
) -> tuple[int, str]:
    """Return the row to explain, and in words which one it is."""
    length = int(paths.lengths[number])
    if row is not None:
        if not 0 <= row < length:
            raise UserError(
                f"path {paths.names[number]!r} has rows 0 to {length - 1}, not {row}: give one of "
                "them, or leave --row out"
            )
        return row, ""
    (decisions,) = policy.decide(paths.select([number]))
    stops = decisions.first_stop.nonzero()
    if len(stops):
        return int(stops[0]), ", where the rule first stops"
    return length - 1, ", the last one, since the rule stops at none"


def export(options: Namespace) -> None:
    """Write the policy for other programs."""
    policy = StoppingPolicy.load(find_checkpoint(options.run), options.allow)
    print(f"written to {policy.export(Path(options.out))}")


def _data(options: Namespace, checkpoint: Path, split: str) -> tuple[Any, dict[str, Any]]:
    """Return the file given and its columns, or paths of the checkpoint's own run."""
    if options.data is not None:
        return options.data, roles_of(options)
    return run_paths(checkpoint, split, options.allow), {}


def run_paths(checkpoint: Path, split: str, allow: Sequence[str] = ()) -> TrajectorySet:
    """Return the paths that the run of a checkpoint validated or tested on."""
    import yaml

    from lit_ios.checkpoints import read_checkpoint
    from lit_ios.imports import import_class
    from lit_ios.program.packages import check_packages

    config = checkpoint.absolute().parent.parent / "config.yaml"
    if not config.is_file():
        raise UserError(f"{checkpoint}: no config.yaml of its run beside it: give --data FILE")
    settings = yaml.safe_load(config.read_text()) or {}
    data = settings.get("data")
    if data is None:
        raise UserError(f"{config} says nothing of data: give --data FILE")
    check_packages()
    from pytorch_lightning import LightningDataModule

    import datamodules

    name = data["class_path"]
    name = name if "." in name else f"{datamodules.__name__}.{name}"
    arguments = data["init_args"] | {"seed": settings.get("seed_everything", 0)}
    module: Any = import_class(name, LightningDataModule, allow)(**arguments)
    module.read_as(read_checkpoint(checkpoint)["lit_ios"]["rule"])
    found: TrajectorySet = getattr(module.splits, split)
    return found


COMMANDS = {
    "calibrate": calibrate,
    "frontier": frontier,
    "predict": predict,
    "explain": explain,
    "export": export,
}
