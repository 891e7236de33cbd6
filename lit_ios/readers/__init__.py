"""Readers: files → stopped paths. Importing this needs pyarrow, but neither torch nor Lightning."""

from lit_ios.readers.files import TableError, read_columns
from lit_ios.readers.roles import Duplicates, Missing, TableRoles, Unknown
from lit_ios.readers.table import read_paths

__all__ = [
    "Duplicates", "Missing", "TableError", "TableRoles", "Unknown", "read_columns", "read_paths",
]  # fmt: skip
