"""Short options for one's own table: declared here, the same in all commands.

Each is the argument of TableRoles or TableData with the same name, `-` for `_`.
"""

from __future__ import annotations

import ast
import re
import shlex
from typing import Literal, NamedTuple

Kind = Literal["text", "file", "list", "flag", "count"]


class Short(NamedTuple):
    """An option that says something of a table."""

    name: str
    help: str
    kind: Kind = "text"
    learns: bool = False  # only means something where a model is trained or data are inspected
    fits: bool = False  # only means something where a model is trained

    @property
    def option(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"

    @property
    def argument(self) -> str:
        """The argument of TableRoles or TableData."""
        return self.name.replace("-", "_")


SHORT = (
    Short("path", "column that names the path a row belongs to"),
    Short("time", "column of times: numbers or dates"),
    Short("stop", "column with 1 where the expert stopped (default: the last row of a path)"),
    Short("stop-value", "value of that column that means a stop"),
    Short("censored", "column with 1 on rows of paths that were cut off"),
    Short("events", "table with one row per path: its outcome and when", "file"),
    Short("event-time", "column of the event's time, the same on all rows of a path"),
    Short("features", "columns of the state (default: all that have no other role)", "list", True),
    Short("drop", "columns to leave out of the features", "list", True),
    Short("keep", "features that may stay although they look like a leak", "list", fits=True),
    Short("missing", "what to do about missing values: error, drop, last or impute"),
    Short("unknown", "what to do about new categories: error or missing"),
    Short("duplicates", "what to do about rows that come twice: error or drop"),
    Short("sort", "sort the rows of each path by time", "flag"),
    Short("time-unit", "unit of time where times are dates: seconds, minutes, hours, days"),
    Short("date-format", "how dates are written, such as %d.%m.%Y"),
    Short("separator", "character between the cells of a CSV file"),
    Short("decimal", "decimal mark of a CSV file"),
    Short("max-rows", "refuse files of more rows (default: what memory allows)", "count"),
    Short("max-bytes", "refuse files of more bytes, unpacked (default: what memory allows)",
          "count"),
    Short("val-file", "table of validation paths (default: a share of the paths)", "file", True,
          True),
    Short("test-file", "table of test paths (default: a share of the paths)", "file", True, True),
)  # fmt: skip
BY_OPTION = {short.option: short for short in SHORT}

_OPTIONS = {short.argument: short.option for short in SHORT} | {
    "allow": "--allow",
    "allow_known_paths": "--allow-known-paths",
    "data_dir": "--data.init_args.data_dir",
}
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})=(True|{_TEXT}|\[{_TEXT}(?:, {_TEXT})*\])")


def as_options(sentence: str) -> str:
    """Return a sentence that names arguments of Python with the options of the program instead.

    set missing='impute', or drop=['a', 'b'], sort=True   →
    set --missing impute, or --drop a b, --sort
    """
    return _ARGUMENT.sub(_as_option, sentence)


def _as_option(found: re.Match[str]) -> str:
    value = ast.literal_eval(found[2])
    values = [] if value is True else [value] if isinstance(value, str) else value
    return " ".join([_OPTIONS[found[1]], *map(_as_word, values)])


def _as_word(value: str) -> str:
    """Return a value as it is typed; … stands for one of the user's."""
    return {"…": "X", "\t": "tab"}.get(value) or shlex.quote(value)
