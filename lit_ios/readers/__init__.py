"""Readers: files → stopped paths. Importing this needs pyarrow, but neither torch nor Lightning."""

from lit_ios.readers.files import TableError, read_columns
from lit_ios.readers.table import Missing, TableRoles, read_paths

__all__ = ["Missing", "TableError", "TableRoles", "read_columns", "read_paths"]
