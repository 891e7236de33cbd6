"""A strategy for Parquet tables of many column types, with what is to be read from each."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st
from table_loop import BadTableError, LoopPaths, Row, loop_rows
from table_strategies import ROLES, WORDS

from lit_ios.readers import TableRoles

HOUR = 3600


class Kind(NamedTuple):
    """A column type, how to make a value for row i, and what number that is (None: no number)."""

    type: pa.DataType
    make: Callable[[Random, int], Any]
    number: Callable[[Any], float] | None = None


def integer(kind: pa.DataType, low: int, high: int) -> Kind:
    return Kind(kind, lambda rng, _: rng.randint(low, high), float)


def floating(kind: pa.DataType) -> Kind:
    values = [0.0, -0.0, 0.5, -3.0, 1024.0, 0.25, math.nan, math.inf]
    return Kind(kind, lambda rng, _: rng.choice(values[: rng.choice([6, 6, 6, 8])]), float)


def stamp(unit: str, per_second: int, zone: str | None = None) -> Kind:
    second = HOUR * per_second
    return Kind(pa.timestamp(unit, zone), lambda _, i: i * second, lambda value: value / second)


def anything(kind: pa.DataType, *values: Any) -> Kind:
    return Kind(kind, lambda rng, _: rng.choice(values))


NUMBERS = {
    "int8": integer(pa.int8(), -128, 127),
    "uint64": integer(pa.uint64(), 0, 2**64 - 1),
    "int64": integer(pa.int64(), -(2**63), 2**63 - 1),
    "half": floating(pa.float16()),
    "float": floating(pa.float32()),
    "double": floating(pa.float64()),
    "bool": Kind(pa.bool_(), lambda rng, _: rng.random() < 0.5, float),
    "decimal": Kind(pa.decimal128(9, 2), lambda rng, _: Decimal(rng.randint(0, 9)) / 4, float),
    "null": Kind(pa.null(), lambda _rng, _i: None, float),
}
TEXTS = {
    "string": anything(pa.string(), *WORDS),
    "large_string": anything(pa.large_string(), *WORDS, "größer", "a,b\n"),
    "dictionary": anything(pa.dictionary(pa.int8(), pa.string()), *WORDS),
    "numeric text": anything(pa.string(), "1", "2.5", "red"),
}
TIMES = {
    "int": Kind(pa.int32(), lambda _, i: i, float),
    "double": Kind(pa.float64(), lambda _, i: i / 8 - 1, float),
    "seconds": stamp("ms", 1000),
    "zoned": stamp("us", 10**6, "America/Caracas"),
    "nanoseconds": stamp("ns", 10**9, "UTC"),
    "days": Kind(pa.date32(), lambda _, i: i - 2, lambda value: value * 24.0),
}
NAMES = {
    "string": anything(pa.string(), "a", "7", "007"),
    "large_string": anything(pa.large_string(), "a", "b c", "NA"),
    "dictionary": anything(pa.dictionary(pa.int16(), pa.string()), "a", "b"),
    "int": anything(pa.int16(), 7, -1),
}
FLAGS = ["bool", "int8", "double"]
OTHERS = {
    "list": anything(pa.list_(pa.int64()), [1], []),
    "struct": anything(pa.struct({"a": pa.int64()}), {"a": 1}),
    "map": anything(pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    "duration": anything(pa.duration("s"), 1, 2),
    "binary": anything(pa.binary(), b"\xff", b"a"),
    "large_binary": anything(pa.large_binary(), b"\xff", b"b"),
    "fixed_binary": anything(pa.binary(2), b"\xff\x00"),
    "time": anything(pa.time64("us"), 1, 2),
    "nested": anything(pa.list_(pa.struct({"a": pa.list_(pa.string())})), [{"a": ["b"]}]),
}


class ParquetCase(NamedTuple):
    """A table, how it is to be read, and what it holds (None if it is bad)."""

    table: pa.Table
    roles: TableRoles
    training: bool
    expected: LoopPaths | None


@st.composite
def parquet_cases(draw: st.DrawFn) -> ParquetCase:
    """Return a table of drawn column types; some cells are null, some types unfit."""
    roles = draw(ROLES)
    chosen = {
        "unit": draw(st.sampled_from(sorted(NAMES))),
        "t": draw(st.sampled_from(sorted(TIMES))),
        "x0": draw(st.sampled_from(sorted(NUMBERS | TEXTS))),
        "x1": draw(st.sampled_from(sorted(NUMBERS | TEXTS))),
        "s": draw(st.sampled_from(FLAGS)),
        "c": draw(st.sampled_from(FLAGS)),
    }
    pools = {"unit": NAMES, "t": TIMES, "x0": NUMBERS | TEXTS, "x1": NUMBERS | TEXTS}
    kinds = {name: pools.get(name, NUMBERS)[kind] for name, kind in chosen.items()}
    unfit = draw(st.sampled_from([None] * 15 + list(kinds)))
    if unfit is not None:
        kinds[unfit] = OTHERS[draw(st.sampled_from(sorted(OTHERS)))]
    rng = Random(draw(st.integers(0, 2**64 - 1)))
    values = random_values(rng, kinds)
    if roles.stop is None:
        del values["s"]
    if roles.censored is None:
        del values["c"]
    table = pa.table({name: as_array(kinds[name].type, cells) for name, cells in values.items()})
    training = rng.random() < 0.7
    try:
        expected = loop_parquet(values, kinds, roles, training)
    except BadTableError:
        expected = None
    return ParquetCase(table, roles, training, expected)


def as_array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).cast(kind)
    return pa.array(values, kind)


def random_values(rng: Random, kinds: dict[str, Kind]) -> dict[str, list[Any]]:
    """Fill the columns; flags fit the paths, unless a cell is spoiled."""
    count = rng.randint(3, 10)
    values = {name: [kind.make(rng, i) for i in range(count)] for name, kind in kinds.items()}
    last = {str(name): i for i, name in enumerate(values["unit"])}
    stopped = {name: rng.random() < 0.8 for name in last}
    for i, name in enumerate(map(str, values["unit"])):
        flags = {"s": stopped[name] and last[name] == i, "c": not stopped[name]}
        for column, flag in flags.items():
            if kinds[column].number is not None:
                values[column][i] = flag if kinds[column].type == pa.bool_() else int(flag)
    for cells in values.values():
        gaps = rng.choice([0, 0, 0, 0, 0, 0, 0, 0.05, 0.3])
        cells[:] = [None if rng.random() < gaps else cell for cell in cells]
    if rng.random() < 0.2:
        place = rng.randrange(1, count)
        values["t"][place], values["t"][place - 1] = values["t"][place - 1], values["t"][place]
    if rng.random() < 0.1:
        values["t"][-1] = values["t"][0]
    return values


def loop_parquet(
    values: dict[str, list[Any]], kinds: dict[str, Kind], roles: TableRoles, training: bool
) -> LoopPaths:
    """Say cell by cell what the table holds."""
    if kinds["unit"] not in NAMES.values() or None in values["unit"]:
        raise BadTableError("a path without a name")
    times = loop_numbers(values["t"], kinds["t"])
    if None in times:
        raise BadTableError("a row without a time")
    features: dict[str, list[float | None]] = {}
    for name in roles.features or ("x0", "x1"):
        features |= loop_feature(name, values[name], kinds[name], roles)
    flags = {name: loop_numbers(values[name], kinds[name]) for name in "sc" if name in values}
    if any(flag not in (0.0, 1.0) for column in flags.values() for flag in column):
        raise BadTableError("a flag that is neither 0 nor 1")
    none = [0.0] * len(times)
    rows = [
        Row(str(values["unit"][i]), times[i], [column[i] for column in features.values()],
            flags.get("s", none)[i] == 1, flags.get("c", none)[i] == 1)
        for i in range(len(times))
    ]  # fmt: skip
    return loop_rows(rows, list(features), roles, training, plain=True)


def loop_numbers(values: list[Any], kind: Kind) -> list[float | None]:
    if kind.number is None:
        raise BadTableError(f"{kind.type} is no number")
    numbers = [None if value is None else kind.number(value) for value in values]
    return [n if n is not None and math.isfinite(n) else None for n in numbers]


def loop_feature(
    name: str, values: list[Any], kind: Kind, roles: TableRoles
) -> dict[str, list[float | None]]:
    known = roles.categories.get(name)
    if kind not in TEXTS.values() and (known is None or kind.number is None):
        return {name: loop_numbers(values, kind)}
    found = {value for value in values if value is not None}
    if known is None and not found:
        raise BadTableError("a category that is nowhere given")
    if known is None and {"1", "2.5"} & found:
        raise BadTableError("numbers as text")
    if known is not None and not found <= set(known) and roles.unknown == "error":
        raise BadTableError("a category that is not known")
    gaps = {None} if known is None else {value for value in values if value not in known}
    return {
        f"{name}={word}": [None if value in gaps else float(value == word) for value in values]
        for word in known or sorted(found)
    }
