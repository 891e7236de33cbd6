"""Options of the commands that need no Lightning."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NoReturn

from lit_ios.checks import UserError
from lit_ios.program.mistakes import no_option
from lit_ios.program.short import SHORT
from lit_ios.program.usage import EXAMPLES, GRAMMAR, OWN_EXAMPLES, USES


class Parser(argparse.ArgumentParser):
    """Answers mistakes in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse has to say as an error of ours."""
        word = self.prog.rpartition(" ")[2]
        if missing := re.fullmatch(r"the following arguments are required: (.+)", message):
            raise UserError(f"{word} needs {missing[1]}: {word} {GRAMMAR[word]}")
        if choice := re.fullmatch(r"argument (.+?): invalid choice: (.+) \(choose from (.+)\)",
                                  message):  # fmt: skip
            listed = choice[3].replace("'", "")
            raise UserError(f"{choice[1]} must be one of {listed}, got {choice[2]}")
        if kind := re.fullmatch(r"argument (.+?): invalid (?:_\w+|float|int) value: (.+)", message):
            raise UserError(f"{kind[1]} must be a number, got {kind[2]}")
        if empty := re.fullmatch(r"argument (.+?): expected (?:one|at least one) argument",
                                 message):  # fmt: skip
            raise UserError(f"{empty[1]} needs a value: {empty[1]} VALUE")
        raise UserError(message.removeprefix("argument "))

    def read(self, words: list[str]) -> argparse.Namespace:
        """Parse words; refuse those that mean nothing."""
        options, others = self.parse_known_intermixed_args(words)
        known = [name for action in self._actions for name in action.option_strings]
        word = self.prog.rpartition(" ")[2]
        for other in others:
            if other.startswith("-"):
                raise no_option(other.partition("=")[0], known, f"{word} --help lists them")
            raise UserError(f"{word} has no place for {other!r}: {word} {GRAMMAR[word]}")
        return options


def positive(text: str) -> int:
    """Read a positive integer."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def parser_of(command: str, program: str = "lit-ios") -> Parser:
    """Return the parser of a command's options."""
    parser = Parser(
        prog=f"{program} {command}", description=USES[command].capitalize() + ".",
        usage=f"{program} {command} {GRAMMAR[command]}", allow_abbrev=False,
        epilog=OWN_EXAMPLES.get(command, EXAMPLES).format(program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    if command in ("predict", "calibrate", "forecast", "explain", "export", "monitor", "serve"):
        exported = ", or an exported .onnx" if command == "serve" else ""
        parser.add_argument(
            "run", nargs="?", metavar="RUN", help=f"a run folder or a checkpoint{exported}"
        )
        parser.add_argument("--ckpt_path", metavar="RUN", help="the same")
    if command not in ("inspect", "runs"):
        parser.add_argument(
            "--allow", action="append", default=[], metavar="PACKAGE",
            help="trust classes of this package that the checkpoint names",
        )  # fmt: skip
    _ADD[command](parser)
    if command not in ("export", "runs", "serve"):
        _add_table(parser, command)
    return parser


def _add_table(parser: Parser, command: str) -> None:
    if command not in ("frontier", "report"):
        parser.add_argument("file", nargs="?", metavar="FILE", help="a table, or a folder of them")
    parser.add_argument("--data", metavar="FILE", help="the table")
    group = parser.add_argument_group("of the table (default: as in training)")
    for short in SHORT:
        if short.fits or (short.learns and command != "inspect"):
            continue
        if short.kind == "flag":
            group.add_argument(short.option, action="store_true", default=None, help=short.help)
        else:
            several = "+" if short.kind == "list" else None
            kind = positive if short.kind == "count" else str
            # %% since argparse fills in help texts
            text = short.help.replace("%", "%%")
            group.add_argument(short.option, nargs=several, type=kind, metavar="X", help=text)


def _add_inspect(parser: Parser) -> None:
    parser.add_argument("--figure", type=Path, help="PNG file (default: <file>_inspect.png)")


def _add_calibrate(parser: Parser) -> None:
    parser.add_argument(
        "--max-event-miss-rate", type=float, metavar="ALPHA",
        help="promise at most this share of missed events on fresh paths",
    )  # fmt: skip
    parser.add_argument(
        "--max-false-alarm-rate", type=float, metavar="ALPHA",
        help="promise at most this share of false alarms on fresh censored paths",
    )  # fmt: skip
    parser.add_argument(
        "--max-alarms-per-time", type=float, metavar="RATE",
        help="promise at most so many alarms per unit of observed time",
    )  # fmt: skip
    parser.add_argument(
        "--confidence", type=float, metavar="P",
        help="keep the promises with this probability over calibrations (default: in the mean)",
    )  # fmt: skip
    parser.add_argument("--miss-cost", type=float, help="cost of a missed event")
    parser.add_argument("--time-cost", type=float, help="cost of a unit of lost time")
    parser.add_argument("--alarm-cost", type=float, help="cost of a false alarm (default: 0)")
    parser.add_argument(
        "--balanced", action="store_true",
        help="of the thresholds that keep the promises, take that of the best balanced accuracy",
    )  # fmt: skip
    _add_lead(parser)
    parser.add_argument(
        "--per", metavar="COLUMN", help="keep the promises within each group that it names"
    )
    parser.add_argument(
        "--split", choices=("val", "test"),
        help="without FILE, paths of the run to take (default: val; test for a promise, since "
        "the validation paths chose the epoch, and for members that leave out folds)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-known-paths", action="store_true",
        help="take paths that look like those of training, too: if rows hold few different numbers",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path,
        help="checkpoint to write (default: calibrated.ckpt beside the checkpoint)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="also over one that is there")
    _add_place(parser)


def _add_forecast(parser: Parser) -> None:
    parser.add_argument(
        "--confidence", type=float, default=0.9,
        help="with which lower bounds of the time left hold (default: 0.9)",
    )  # fmt: skip
    parser.add_argument(
        "--within", type=float, nargs="+", default=[], metavar="TIME",
        help="times for which predict gives the probability that the stop comes within them",
    )  # fmt: skip
    parser.add_argument(
        "--allow-known-paths", action="store_true",
        help="take paths that look like those of training, too: if rows hold few different numbers",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path,
        help="checkpoint to write (default: forecast.ckpt beside the checkpoint)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="also over one that is there")


def _add_lead(parser: Parser) -> None:
    parser.add_argument(
        "--lead", type=float, metavar="TIME",
        help="time by which a stop must come before the event (default: as in training)",
    )  # fmt: skip


def _add_frontier(parser: Parser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders or checkpoints")
    parser.add_argument("--split", choices=("val", "test"), default="test", help="(default: test)")
    parser.add_argument(
        "--draws", type=positive, default=200, help="bootstrap samples (default: 200)"
    )
    _add_lead(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("frontier.png"), help="(default: frontier.png)"
    )


def _add_report(parser: Parser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders or checkpoints")
    parser.add_argument(
        "--output", type=Path, help="(default: report.html in the run folder, or here for several)"
    )


def _add_predict(parser: Parser) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path("decisions.csv"),
        help="CSV or Parquet file (default: decisions.csv; of the run's own test paths: "
        "predictions.csv in a new run folder); of a folder of tables that hold whole paths, also "
        "a folder: file by file, and again only what is missing",
    )  # fmt: skip
    _add_safe_csv(parser)
    group = _add_place(parser)
    group.add_argument(
        "--overwrite", action="store_true", help="also what another policy decided there"
    )


def _add_place(parser: Parser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("of a folder, file by file")
    group.add_argument("--processes", type=positive, metavar="N", help="files at a time")
    group.add_argument(
        "--on", choices=("processes", "ray"),
        help="processes of this machine (default), or a Ray cluster",
    )  # fmt: skip
    group.add_argument("--address", help="of the Ray cluster (default: one on this machine)")
    return group


def _add_explain(parser: Parser) -> None:
    parser.add_argument("--of", required=True, metavar="PATH", help="name of the path")
    parser.add_argument(
        "--row", type=int, help="number of the row, from 0 (default: the first at which it stops)"
    )
    parser.add_argument("--output", type=Path, help="PNG file to draw")


def _add_export(parser: Parser) -> None:
    parser.add_argument("out", nargs="?", metavar="OUT", help="….onnx, or ….pt2 for torch.export")


def _add_monitor(parser: Parser) -> None:
    parser.add_argument(
        "--state", type=Path, metavar="JSON",
        help="file that keeps the paths so far: read if it is there, then written",
    )  # fmt: skip
    parser.add_argument(
        "--alarm-probability", type=float, metavar="DELTA",
        help="largest probability that an alarm is ever raised although nothing changes "
        "(default: 0.01, or that of the state)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-known-paths", action="store_true",
        help="take paths that look like those of training or calibration, too",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="PNG file to draw the evidence in")
    parser.add_argument("--fail-on-alarm", action="store_true", help="end with 1 if there is one")


def _add_serve(parser: Parser) -> None:
    parser.add_argument(
        "--store", default="live.db", metavar="PLACE",
        help="SQLite file that keeps live paths (default: live.db), or postgresql://…",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (default: this machine only)"
    )
    parser.add_argument("--port", type=int, default=8000, help="(default: 8000; 0: a free one)")
    parser.add_argument(
        "--without-key", action="store_true",
        help="answer to other machines although LIT_IOS_API_KEY names no key",
    )  # fmt: skip
    parser.add_argument(
        "--max-paths", type=positive, default=100_000, metavar="N",
        help="live paths at a time (default: 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--remember", type=positive, default=128, metavar="N",
        help="rows of each path that can be sent again, and that a request can hold of one path "
        "(default: 128)",
    )  # fmt: skip


def _add_runs(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="(runs)")
    parser.add_argument("--sort", metavar="COLUMN", help="column to sort by (default: the folder)")
    parser.add_argument("--reverse", action="store_true", help="the largest first")
    parser.add_argument("--all", action="store_true", help="also candidates of auto runs")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table to a CSV file")
    _add_safe_csv(parser)


def _add_safe_csv(parser: Parser) -> None:
    parser.add_argument(
        "--safe-csv", action="store_true",
        help="put an apostrophe before text that a spreadsheet would take for a formula",
    )  # fmt: skip


_ADD = {
    "inspect": _add_inspect,
    "calibrate": _add_calibrate,
    "forecast": _add_forecast,
    "frontier": _add_frontier,
    "predict": _add_predict,
    "explain": _add_explain,
    "export": _add_export,
    "monitor": _add_monitor,
    "report": _add_report,
    "serve": _add_serve,
    "runs": _add_runs,
}
