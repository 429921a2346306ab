"""Readers of tables: a file becomes named columns of numbers, or a one-line error; no JAX."""

from jaxfs.cli.tables._columns import Refusal, TableError
from jaxfs.cli.tables._table import Table, read_table

__all__ = ["Refusal", "Table", "TableError", "read_table"]
