"""What requests hold and answers look like, for checks and for the OpenAPI page."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    Tag,
    WithJsonSchema,
)

LONGEST = 200  # characters of a name
WIDEST = 100_000  # values of a row
TAGS = ("by name", "in order", "one row", "many rows")  # of alternatives


def _name(text: str) -> str:
    # U+FFFD stands for bytes that are no text: two names could become one
    if not text.isprintable() or {"/", "\ufffd"} & set(text) or text in (".", ".."):
        raise ValueError("a name of a path is printable, without '/', and neither '.' nor '..'")
    return text


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and Infinity are not JSON: give null for what is missing")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError("a value is a number, text, true, false, or null for what is missing")


def _time(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(_value(value), int | float | str | None):
        raise ValueError("a time is a number, or a date in ISO form")
    return value


_OF_TIME = {"type": ["number", "string", "null"], "examples": [12, "2026-03-01T12:00:00Z"]}
_OF_VALUE = {"type": ["number", "string", "boolean", "null"]}
Name = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_name)]
Value = Annotated[Any, PlainValidator(_value), WithJsonSchema(_OF_VALUE)]
Time = Annotated[
    Any,
    PlainValidator(_time),
    WithJsonSchema(_OF_TIME),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RowBody(_Strict):
    """A row of a path: its time, or its number in the path, or both, and its values."""

    time: Time = Field(None, description="in the unit of training, or a date")
    t: Annotated[StrictInt, Field(ge=0, le=2**53)] | None = Field(
        None, description="number of the row in its path, from 0"
    )
    values: Annotated[
        Annotated[dict[str, Value], Field(max_length=WIDEST), Tag(TAGS[0])]
        | Annotated[list[Value], Field(max_length=WIDEST), Tag(TAGS[1])],
        Discriminator(lambda given: TAGS[isinstance(given, list)]),
    ] = Field(description="by column name, or in the policy's order", examples=[{"heat": 71.3}])


class RowsBody(_Strict):
    """Rows of one path, in their order."""

    rows: list[RowBody] = Field(min_length=1)


OneOrMany = Annotated[
    Annotated[RowBody, Tag(TAGS[2])] | Annotated[RowsBody, Tag(TAGS[3])],
    Discriminator(lambda given: TAGS[3 if isinstance(given, dict) and "rows" in given else 2]),
]


class PathRowBody(RowBody):
    """A row of the path that it names."""

    path: Name


class ManyBody(_Strict):
    """Rows of many paths; those of one path in their order."""

    rows: list[PathRowBody] = Field(min_length=1)


class EndBody(_Strict):
    """How a path came to its end."""

    stopped: StrictBool = Field(description="whether the expert stopped it, or it was cut off")


class RemainingAnswer(BaseModel):
    """How long is left at a row; null where nothing can be said."""

    low: float | None
    low_at_stop: float | None
    median: float | None
    within: dict[str, float]


class DecisionAnswer(BaseModel):
    """What the policy says of a row."""

    path: str
    t: int = Field(description="number of the row in its path, from 0")
    time: float = Field(description="since the path began")
    stop: bool
    margin: float
    probability: float
    first_stop: bool
    familiar: bool
    unfamiliar: list[str]
    remaining: RemainingAnswer | None
    stopped_at: int | None = Field(description="number of the first row at which the rule stopped")
    threshold: float
    policy: str


class RefusedAnswer(BaseModel):
    """Why a row was not taken."""

    path: str
    status: int
    error: str


class DecisionsAnswer(BaseModel):
    """A decision for each row of one path."""

    decisions: list[DecisionAnswer]


class ManyAnswer(BaseModel):
    """A decision for each row, or why the rows of its path were not taken."""

    decisions: list[DecisionAnswer | RefusedAnswer]
    refused: int = Field(description="rows that were not taken")


class PathAnswer(BaseModel):
    """A live path."""

    path: str
    rows: int
    changed: str
    highest: float
    furthest: float
    last: DecisionAnswer


class StateAnswer(PathAnswer):
    """A live path, with all it remembers."""

    state: dict[str, Any] = Field(description="for policy.stream(state) in Python")


class PathsAnswer(BaseModel):
    """Live paths."""

    live: int
    stopped: int
    paths: list[PathAnswer]


class EndedAnswer(BaseModel):
    """A path that has ended."""

    path: str
    stopped: bool
    rows: int
    stopped_at: int | None
    highest: float
    furthest: float
    policy: str


class ErrorAnswer(BaseModel):
    """Why nothing was done, in a sentence."""

    error: str
