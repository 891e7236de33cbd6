"""What the shell does with a trained policy."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lit_ios.checks import UserError, nearest
from lit_ios.files import write_figure
from lit_ios.found import refuse_link
from lit_ios.policy import Calibration, StoppingPolicy
from lit_ios.policy.calibration import Estimate, Group, short_forms
from lit_ios.policy.frontiers import OperatingPoint
from lit_ios.program.monitoring import monitor
from lit_ios.program.places import find_checkpoint, to_decide_by
from lit_ios.program.uses import roles_of
from lit_ios.promises import AlarmsPerTime, Balanced, Promise
from lit_ios.trajectories import TrajectorySet

if TYPE_CHECKING:
    from lit_ios.scale import Place


def calibrate(options: Namespace) -> None:
    """Choose the threshold and write it to a new checkpoint."""
    checkpoint = find_checkpoint(options.run)
    if options.output is None:
        refuse_link(checkpoint.absolute().parent)
    target = options.output or checkpoint.with_name("calibrated.ckpt")
    if target.exists() and not options.overwrite:
        raise UserError(f"{target} is there already: give --output FILE or --overwrite")
    policy = StoppingPolicy.load(checkpoint, options.allow)
    before, promises = policy.threshold, _promises(options)
    how = {
        "lead": options.lead, "per": options.per, "allow_known_paths": options.allow_known_paths
    }  # fmt: skip
    if _file_by_file(options):
        from lit_ios.scale import calibrate_folder

        policy = calibrate_folder(
            checkpoint, options.data, *promises, allow=options.allow, place=_place(options),
            **how, **roles_of(options),
        )  # fmt: skip
    else:
        kept = any(promise.prefers is not None for promise in promises)
        folds = policy.validates_on_training_paths
        split = options.split or ("test" if kept or folds else "val")
        data, columns = _data(options, checkpoint, split)
        if options.data is None:
            print(f"calibrating on the {split} paths of the run: measure on others from here on")
        policy.calibrate(data, *promises, **how, **columns)
    policy.save(target)
    assert policy.calibration is not None
    _print_calibration(policy.calibration, before, policy.table.unit)
    print(f"written to {target}: give that in place of the run to decide by it")


def _file_by_file(options: Namespace) -> bool:
    """Say whether a folder is to be read file by file, on some place."""
    if (options.on, options.processes, options.address) == (None, None, None):
        return False
    if options.data is None or not Path(options.data).is_dir():
        raise UserError("--on, --processes and --address go with a folder of tables")
    return True


def _place(options: Namespace) -> Place:
    """Return where to work."""
    from lit_ios.scale import Place

    return Place(options.on or "processes", options.processes or 1, options.address)


def _promises(options: Namespace) -> list[Promise]:
    """Return what the options promise."""
    rate, sure = options.max_alarms_per_time, options.confidence
    others = (options.max_event_miss_rate, options.max_false_alarm_rate)
    made: list[Promise] = [] if rate is None else [AlarmsPerTime(rate, confidence=sure)]
    made += [Balanced()] if options.balanced else []
    sure = None if rate is not None and others == (None, None) else sure
    return made + short_forms(
        *others, sure, options.miss_cost, options.time_cost, options.alarm_cost
    )


def _print_calibration(found: Calibration, before: float, unit: str) -> None:
    print(f"threshold           {found.threshold:.6g}  (was {before:.6g})")
    if math.isinf(found.threshold):
        print("                    never to stop is best by this rule")
    for i, promise in enumerate(found.promises):
        print(f"{'' if i else 'chosen for':19s} {promise['words']}{_risk(promise)}")
    if len([promise for promise in found.promises if promise.get("confidence")]) > 1:
        print(f"{'':19s} promises with a confidence are kept together with it")
    print(
        f"on these {found.paths} paths, {found.events} of them stopped, which chose the threshold: "
        "fresh ones may fare worse (95 % intervals)"
    )
    lead = f", a stop counting up to {found.lead:g}{unit} before the event" if found.lead else ""
    if found.event_miss_rate is not None:
        print(f"  event-miss rate   {_shown(found.event_miss_rate)}{lead}")
    if found.false_alarm_rate is not None:
        of = f"of {found.censored} censored paths"
        print(f"  false alarms      {_shown(found.false_alarm_rate)} {of}")
    if found.alarms_per_time is not None:
        per = f"per unit of time{unit} where the expert went on"
        print(f"  alarms            {_shown(found.alarms_per_time, 3)} {per}")
    at_once = _shown(found.stopped_at_first_row)
    print(f"  stopped at once   {at_once} of all paths, at their first row")
    print(f"  time to event     {_shown(found.time_to_event, 3)}{unit}, mean")
    print(f"  balanced accuracy {found.balanced_accuracy:.4f}")
    for group in found.groups:
        print(f"  {_group_words(group)}")
    if found.stopped_at_first_row.value == 1:
        print("the rule stops each of these paths at its first row: it says nothing")


def _risk(promise: Mapping[str, Any]) -> str:
    """Say how often a promise in the mean is broken by a single calibration."""
    if (risk := promise.get("risk")) is None:
        return ""
    percent = math.ceil(100 * risk)
    return f": a single calibration exceeds it with a probability of up to {percent} %"


def forecast(options: Namespace) -> None:
    """Learn how long is left at a row and write it to a new checkpoint."""
    checkpoint = find_checkpoint(options.run)
    target = options.output or checkpoint.with_name("forecast.ckpt")
    if target.exists() and not options.overwrite:
        raise UserError(f"{target} is there already: give --output FILE or --overwrite")
    policy = StoppingPolicy.load(checkpoint, options.allow)
    data, columns = _data(options, checkpoint, "test")
    if options.data is None:
        print("learning from the test paths of the run: measure on others from here on")
    found = policy.learn_forecast(
        data, confidence=options.confidence, horizons=options.within,
        allow_known_paths=options.allow_known_paths, **columns,
    )  # fmt: skip
    policy.save(target)
    print(f"learnt on {found.paths} paths, {found.events} of them seen to their stop")
    print(f"lower bounds hold with confidence {found.confidence:g} in the mean over fresh paths")
    if not found.stop_position(policy.threshold):
        print("at first stops by this threshold, no bound above 0 can be promised")
    print(f"written to {target}")


def _shown(estimate: Estimate, digits: int = 4) -> str:
    """Return a number with its interval."""
    if digits == 4:
        return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"
    return f"{estimate.value:.4g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _group_words(group: Group) -> str:
    counts = f"{group.missed} of {group.events} events missed"
    if group.censored:
        counts += f", {group.false_alarms} of {group.censored} censored paths stopped"
    note = "" if group.promised else "; too small for the promise, which says nothing of it"
    return f"{group.name}: {counts}{note}{' (the least favourable)' if group.decisive else ''}"


def frontier(options: Namespace) -> None:
    """Draw missed events against lost time for every threshold of some policies."""
    from lit_ios.plotting import frontiers

    curves, units = {}, set()
    for run in options.runs:
        checkpoint = find_checkpoint(run)
        policy = StoppingPolicy.load(checkpoint, options.allow)
        data, columns = _data(options, checkpoint, options.split)
        curve = policy.frontier(data, draws=options.draws, lead=options.lead, **columns)
        folders = checkpoint.resolve().parents
        name = folders[2].name if checkpoint.parent.name == "checkpoints" else checkpoint.stem
        if name in curves:
            name = str(checkpoint)
        curves[name] = curve
        units.add(policy.table.time_name)
        print(f"{name}: {_point(curve.chosen, policy.table.unit)}")
    unit = units.pop() if len(units) == 1 else ""
    write_figure(options.output, frontiers(curves, unit))
    print(f"figure  {options.output}")


def report(options: Namespace) -> None:
    """Write a page on one or several runs, judged on their test paths or on a table."""
    from lit_ios.report import RunFacts, write_report

    found = []
    for run in options.runs:
        checkpoint = find_checkpoint(run)
        policy = StoppingPolicy.load(checkpoint, options.allow)
        data, columns = _data(options, checkpoint, "test")
        paths = data if isinstance(data, TrajectorySet) else policy.labelled(data, **columns)
        table = None if options.data is None else Path(options.data).name
        found.append(RunFacts(checkpoint, policy, paths, table))
    single = found[0].folder / "report.html" if len(found) == 1 else Path("report.html")
    file = options.output or single
    write_report(found, file)
    print(f"report  {file}")


def _point(chosen: OperatingPoint, unit: str) -> str:
    """Say what a threshold does."""
    words = f"event-miss rate {chosen.event_miss_rate:.4f}"
    if not math.isnan(chosen.false_alarm_rate):
        words += f", false alarms {chosen.false_alarm_rate:.4f}"
    return f"{words}, mean time to event {chosen.time_to_event:.4g}{unit}"


def predict(options: Namespace) -> None:
    """Decide on every row of a table."""
    from lit_ios.policy.decision_tables import ENDINGS, refuse_own_table, write_decisions

    refuse_own_table(options.output, options.data)
    checkpoint = to_decide_by(options.run)
    if Path(options.data).is_dir() and options.output.suffix not in ENDINGS:
        _predict_folder(checkpoint, options)
        return
    if _file_by_file(options):
        raise UserError("--on, --processes and --address go with --output FOLDER")
    table = StoppingPolicy.load(checkpoint, options.allow).predict(
        options.data, **roles_of(options)
    )
    rows, paths = write_decisions(table, options.output, options.safe_csv)
    print(f"{table.num_rows} decisions  {rows}")
    print(f"first stop of each path  {paths}")


def _predict_folder(checkpoint: Path, options: Namespace) -> None:
    """Decide on a folder file by file."""
    from lit_ios.scale import predict_folder

    if options.safe_csv:
        raise UserError("--safe-csv goes with CSV; decisions on a folder are Parquet: leave it out")
    found = predict_folder(
        checkpoint, options.data, options.output, allow=options.allow,
        place=_place(options), overwrite=options.overwrite,
        **roles_of(options),
    )  # fmt: skip
    there = f", {found.kept} of them there already" if found.kept else ""
    print(f"{found.rows} decisions  {options.output}/rows, {found.files} files{there}")
    print(f"first stop of each of {found.paths} paths  {options.output}/paths")
    print(f"{found.stopped} paths are stopped")


def explain(options: Namespace) -> None:
    """Take the decision of one row apart."""
    checkpoint = to_decide_by(options.run)
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
    print(f"  at the average state {found.average_margin:+.4g}, and by column:")
    for name, share in sorted(found.shares.items(), key=lambda item: -abs(item[1])):
        print(f"    {share:+10.4g}  {found.label(name)}")
    if options.output is not None:
        write_figure(options.output, found.figure())
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
    policy = StoppingPolicy.load(to_decide_by(options.run), options.allow)
    print(f"written to {policy.export(Path(options.out))}")


def _data(options: Namespace, checkpoint: Path, split: str) -> tuple[Any, dict[str, Any]]:
    """Return the file given and its columns, or paths of the checkpoint's own run."""
    if options.data is not None:
        return options.data, roles_of(options)
    return run_paths(checkpoint, split, options.allow), {}


def run_paths(checkpoint: Path, split: str, allow: Sequence[str] = ()) -> TrajectorySet:
    """Return the paths that the run of a checkpoint validated or tested on."""
    from lit_ios.checkpoints import read_checkpoint
    from lit_ios.found import CONFIG, files_read, found_settings
    from lit_ios.imports import build
    from lit_ios.program.packages import check_packages

    config = checkpoint.absolute().parent.parent / CONFIG
    if not config.is_file():
        raise UserError(f"{checkpoint}: no config.yaml of its run beside it: give --data FILE")
    settings = found_settings(config, allow)
    if "data" not in settings:
        raise UserError(f"{config} says nothing of data: give --data FILE")
    if files := files_read(settings):
        print(f"data of the run: {', '.join(files)}")
    check_packages()
    from pytorch_lightning import LightningDataModule

    import datamodules

    spec = dict(settings["data"])
    if "." not in spec["class_path"]:
        spec["class_path"] = f"{datamodules.__name__}.{spec['class_path']}"
    spec["init_args"] |= {"seed": settings.get("seed_everything") or 0}
    module: Any = build(f"data of {config}", spec, LightningDataModule, allow)
    module.read_as(read_checkpoint(checkpoint)["lit_ios"]["rule"])
    found: TrajectorySet = getattr(module.splits, split)
    return found


COMMANDS = {
    "calibrate": calibrate,
    "forecast": forecast,
    "frontier": frontier,
    "predict": predict,
    "explain": explain,
    "export": export,
    "monitor": monitor,
    "report": report,
}
