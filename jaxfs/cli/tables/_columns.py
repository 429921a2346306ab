"""Columns as the readers return them, the judgement of single cells, and error messages; no JAX.

Every error is a `TableError` of one line. It names the column or the row, the count, and the fix.
"""

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Iterator

import numpy as np

#: Cells that mean a missing value, in lower case.
MISSING_CELLS = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "?"})
#: From this number on, float64 does not represent every integer.
EXACT = 2.0**53

_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE
)


class Refusal(ValueError):
    """A user error, described in one line. Any other exception is a bug in jaxfs."""


class TableError(Refusal):
    """A table that cannot be used, or a column that it does not have."""


@dataclasses.dataclass
class Columns:
    """The columns of a file, before the target is known.

    `arrays`: one `(n,)` array a column, float64 with NaN where a value is missing, or words of
    dtype object with `None` there. Only the first `num_candidates` columns may be features; the
    others, such as further arrays of an `.npz`, may be the target. `named`: whether the names come
    from the file. `rows`: names of the rows. `inexact`: columns of integers that float64 rounds.
    `marks`: how missing values are written, by column.
    """

    names: list[str]
    arrays: list[np.ndarray]
    num_candidates: int
    named: bool = True
    rows: list[str] | None = None
    inexact: list[int] = dataclasses.field(default_factory=list)
    marks: dict[int, set[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def printable(text: object, width: int = 60) -> str:
    """`text` in one line without control characters, which a terminal would obey."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def quote(name: object) -> str:
    """A name as messages show it."""
    return f"'{printable(name)}'"


def plural(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def numbered(count: int) -> list[str]:
    """Names for columns that have none."""
    return [f"column_{j + 1}" for j in range(count)]


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING_CELLS


def is_number(cell: str) -> bool:
    """Whether a cell is a number as programs write it: ASCII digits, no thousands separators."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_word(cell: str) -> bool:
    """Whether a cell is neither missing nor a number, with a point or a comma."""
    return not (is_missing(cell) or is_number(cell.replace(",", ".", 1)))


@contextlib.contextmanager
def valid(kind: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into a `TableError`; hide its warnings."""
    with warnings.catch_warnings(action="ignore"):
        try:
            yield
        except (TableError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is not an `Exception`
            reason = str(error).strip().split("\n")[0][:120] or type(error).__name__
            raise TableError(f"the file is not a valid {kind} ({reason})") from error
