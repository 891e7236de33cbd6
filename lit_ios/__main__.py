"""Use trained policies from the shell: `python -m lit_ios --help`, or `lit-ios --help`."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lit_ios.checks import UserError

if TYPE_CHECKING:
    from lit_ios.policy import StoppingPolicy

EXAMPLES = """\
examples:
  lit-ios calibrate runs/…/best.ckpt --max-event-miss-rate 0.05 --output policy.ckpt
  lit-ios calibrate runs/…/best.ckpt --data patients.csv --path id --time day --stop died \\
      --miss-cost 100 --time-cost 1
  lit-ios frontier runs/…/best.ckpt runs/…/best.ckpt --output frontier.png
  lit-ios predict policy.ckpt --data live.csv --path id --time day --output decisions.csv
  lit-ios explain policy.ckpt --data live.csv --path id --time day --of 17 --output why.png
  lit-ios export policy.ckpt policy.onnx

Without --data, paths of the run a checkpoint belongs to are taken (its config.yaml lies beside it):
the test paths, or the validation paths to calibrate without a guarantee where none of them was
trained on.
"""


def main(args: list[str] | None = None) -> int:
    """Carry out a command line; return 0, or 1 with a sentence if it cannot be."""
    options = _parser().parse_args(args)
    try:
        _check_output(getattr(options, "output", None), _ENDINGS.get(options.command, ()))
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            _COMMANDS[options.command](options)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _show_warning(message: Warning | str, *args: Any) -> None:
    print(f"note: {message}", file=sys.stderr)


def _check_output(file: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if file is None:
        return
    if endings and file.suffix not in endings:
        raise UserError(f"--output must end in {' or '.join(endings)}, got {file}")
    if not file.parent.is_dir():
        raise UserError(f"--output: there is no folder {file.parent}")


def _calibrate(options: argparse.Namespace) -> None:
    policy = _load(options)
    guarantee = options.max_event_miss_rate is not None
    folds = policy.validates_on_training_paths
    split = options.split or ("test" if guarantee or folds else "val")
    data, columns = _data(options, options.checkpoint, split)
    if options.data is None:
        print(f"calibrating on the {split} paths of the run: measure on others from here on")
    before = policy.threshold
    found = policy.calibrate(
        data, max_event_miss_rate=options.max_event_miss_rate, miss_cost=options.miss_cost,
        time_cost=options.time_cost, allow_known_paths=options.allow_known_paths, **columns,
    )  # fmt: skip
    target = options.output or options.checkpoint
    policy.save(target)
    print(f"threshold          {found.threshold:.6g}  (was {before:.6g})")
    if math.isinf(found.threshold):
        print("                   never to stop is best by this rule")
    if found.level is not None:
        print(f"event-miss rate    at most {found.level:g} in the mean over fresh paths")
    print(f"on these {found.paths} paths, {found.events} of them stopped:")
    print(f"  event-miss rate  {found.event_miss_rate:.4f}")
    print(f"  time to event    {found.time_to_event:.4g}, mean")
    print(f"  balanced accuracy {found.balanced_accuracy:.4f}")
    print(f"written to {target}")


def _frontier(options: argparse.Namespace) -> None:
    from lit_ios.plotting import frontiers

    curves = {}
    for checkpoint in options.checkpoints:
        data, columns = _data(options, checkpoint, options.split)
        policy = _load(options, checkpoint)
        curve = policy.frontier(data, draws=options.draws, **columns)
        folders = checkpoint.resolve().parents
        name = folders[2].name if checkpoint.parent.name == "checkpoints" else checkpoint.stem
        if name in curves:
            name = str(checkpoint)
        curves[name] = curve
        missed, time = curve.chosen
        print(f"{name}: event-miss rate {missed:.4f}, mean time to event {time:.4g}")
    frontiers(curves).savefig(options.output, dpi=120)
    print(f"figure  {options.output}")


def _predict(options: argparse.Namespace) -> None:
    from lit_ios.policy.decision_tables import write_decisions

    data, columns = _data(options, options.checkpoint, "test")
    table = _load(options).predict(data, **columns)
    rows, paths = write_decisions(table, options.output)
    print(f"{table.num_rows} decisions  {rows}")
    print(f"first stop of each path  {paths}")


def _explain(options: argparse.Namespace) -> None:
    policy = _load(options)
    data, columns = _data(options, options.checkpoint, "test")
    paths = policy.paths(data, **columns)
    if options.of not in paths.names:
        raise UserError(f"there is no path {options.of!r}; the first ones are {paths.names[:5]}")
    path = paths[paths.names.index(options.of)]
    row = len(path) - 1 if options.row is None else options.row
    if not 0 <= row < len(path):
        raise UserError(f"path {options.of!r} has rows 0 to {len(path) - 1}, not {row}")
    found = policy.explain_row(path, row)
    print(f"path {options.of}, row {row}: {'stop' if found.stop else 'continue'}")
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


def _export(options: argparse.Namespace) -> None:
    print(f"written to {_load(options).export(options.file)}")


def _load(options: argparse.Namespace, checkpoint: Path | None = None) -> StoppingPolicy:
    from lit_ios.policy import StoppingPolicy

    return StoppingPolicy.load(checkpoint or options.checkpoint, options.allow)


def _data(options: argparse.Namespace, checkpoint: Path, split: str) -> tuple[Any, dict[str, Any]]:
    """Return the file given and its columns, or paths of the checkpoint's own run."""
    if options.data is not None:
        roles = {
            "path": options.path,
            "time": options.time,
            "stop": options.stop,
            "censored": options.censored,
            "sort": options.sort or None,
            "missing": options.missing,
        }
        return options.data, {name: value for name, value in roles.items() if value is not None}
    if options.command in ("predict", "explain"):
        raise UserError("give a table: --data FILE")
    return run_paths(checkpoint, split, options.allow), {}


def run_paths(checkpoint: Path, split: str, allow: Sequence[str] = ()) -> Any:
    """Return the paths that the run of a checkpoint validated or tested on."""
    import yaml
    from pytorch_lightning import LightningDataModule

    import datamodules
    from lit_ios.checkpoints import read_checkpoint
    from lit_ios.imports import import_class

    config = checkpoint.absolute().parent.parent / "config.yaml"
    if not config.is_file():
        raise UserError(f"{checkpoint}: no config.yaml of its run beside it: give --data FILE")
    settings = yaml.safe_load(config.read_text()) or {}
    data = settings.get("data")
    if data is None:
        raise UserError(f"{config} says nothing of data: give --data FILE")
    name = data["class_path"]
    name = name if "." in name else f"{datamodules.__name__}.{name}"
    arguments = data["init_args"] | {"seed": settings.get("seed_everything", 0)}
    module: Any = import_class(name, LightningDataModule, allow)(**arguments)
    module.read_as(read_checkpoint(checkpoint)["lit_ios"]["rule"])
    return getattr(module.splits, split)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lit-ios", description="Use trained policies.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--allow", action="append", default=[], metavar="PACKAGE",
        help="trust classes of this package that the checkpoint names",
    )  # fmt: skip
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--data", type=Path, help="CSV or Parquet file of paths")
    table.add_argument("--path", help="its column that names the path (default: as in training)")
    table.add_argument("--time", help="its column of times (default: as in training)")
    table.add_argument("--stop", help="its column with 1 where the expert stopped")
    table.add_argument("--censored", help="its column with 1 on rows of censored paths")
    table.add_argument("--sort", action="store_true", help="sort the rows of each path by time")
    table.add_argument(
        "--missing", choices=("drop", "last"),
        help="drop rows with missing values, or take the last one before (default: refuse them)",
    )  # fmt: skip

    def add(name: str, text: str, *, reads: bool = True) -> argparse.ArgumentParser:
        parents = [common, table] if reads else [common]
        return commands.add_parser(name, help=text, description=text, parents=parents)

    one = add("calibrate", "Choose the threshold on paths that were not trained on.")
    one.add_argument("checkpoint", type=Path)
    one.add_argument(
        "--max-event-miss-rate", type=float, metavar="ALPHA",
        help="guarantee at most this share of missed events in the mean over fresh paths",
    )  # fmt: skip
    one.add_argument(
        "--split", choices=("val", "test"),
        help="paths of the run to take (default: val; test for a guarantee, since the validation "
        "paths chose the epoch, and for members that leave out folds, which were trained on them)",
    )  # fmt: skip
    one.add_argument("--miss-cost", type=float, help="cost of a missed event")
    one.add_argument("--time-cost", type=float, help="cost of a unit of lost time")
    one.add_argument(
        "--allow-known-paths", action="store_true",
        help="take paths that look like those of training, too: if rows hold few different numbers",
    )  # fmt: skip
    one.add_argument("--output", type=Path, help="checkpoint to write (default: the same file)")
    one = add("frontier", "Draw missed events against time to event for every threshold.")
    one.add_argument("checkpoints", type=Path, nargs="+")
    one.add_argument("--split", choices=("val", "test"), default="test", help="(default: test)")
    one.add_argument(
        "--draws", type=_positive, default=200, help="bootstrap samples (default: 200)"
    )
    one.add_argument(
        "--output", type=Path, default=Path("frontier.png"), help="(default: frontier.png)"
    )
    one = add("predict", "Write margin, probability and decision of every row of a table.")
    one.add_argument("checkpoint", type=Path)
    one.add_argument(
        "--output", type=Path, default=Path("decisions.csv"),
        help="CSV or Parquet file (default: decisions.csv)",
    )  # fmt: skip
    one = add("explain", "Say what the margin of a row is made of.")
    one.add_argument("checkpoint", type=Path)
    one.add_argument("--of", required=True, help="name of the path")
    one.add_argument("--row", type=int, help="number of the row, from 0 (default: the last)")
    one.add_argument("--output", type=Path, help="PNG file to draw")
    one = add("export", "Write the policy for other programs.", reads=False)
    one.add_argument("checkpoint", type=Path)
    one.add_argument("file", type=Path, help="….onnx, or ….pt2 for torch.export")
    return parser


_ENDINGS = {
    "frontier": (".png", ".pdf", ".svg"),
    "explain": (".png", ".pdf", ".svg"),
    "predict": (".csv", ".parquet"),
}
_COMMANDS = {
    "calibrate": _calibrate,
    "frontier": _frontier,
    "predict": _predict,
    "explain": _explain,
    "export": _export,
}

if __name__ == "__main__":
    raise SystemExit(main())
