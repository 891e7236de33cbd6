"""Whether times are dates: they are numbers once they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lit_ios.readers.table import TableRoles, open_file
from lit_ios.times import SECONDS
from lit_ios.trajectories import FloatArray

YEARS = 5 * 365.25 * 86400  # seconds from 1970 on within which a time is taken for a number


def holds_dates(file: str | Path, roles: TableRoles, times: FloatArray) -> bool:
    """Say whether the time column of a file holds dates.

    The column is read again only where the times are large enough to be dates after 1974.

    Args:
        file: as for `read_paths`.
        roles: which column means what.
        times: that were read from it.
    """
    if not len(times) or float(times.min()) * SECONDS[roles.time_unit] < YEARS:
        return False
    kind = open_file(file, roles, wanted=[roles.path, roles.time]).table[roles.time].type
    return not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
