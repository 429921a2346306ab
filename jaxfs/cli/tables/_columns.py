"""The columns that readers return, tests of single cells, and error messages.

Every error is a `TableError` of one line. It names the column or the row, the count, and the fix.
"""

import contextlib
import dataclasses
import difflib
import re
import warnings
from collections.abc import Iterable, Iterator

import numpy as np

#: Cells that mean a missing value, in lower case.
MISSING_CELLS = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "?"})
#: Smallest number from which float64 does not represent every integer.
EXACT = 2.0**53

_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE
)


class Refusal(ValueError):
    """A user error, described in one line. Any other exception is a bug in jaxfs."""


class TableError(Refusal):
    """An error in a table: it cannot be used, or it does not have a requested column."""


@dataclasses.dataclass
class Columns:
    """The columns of a file, before the target is known.

    `arrays`: one `(n,)` array per column. It is float64 with NaN for missing values, or strings of
    dtype object with `None` for missing values. `num_candidates`: number of columns, from the
    first, that may be features. The other columns, such as further arrays of an `.npz`, may only be
    the target. `named`: whether the names come from the file. `rows`: names of the rows.
    `rows_name`: name of the column that held them, or nothing. `inexact`: columns of integers that
    float64 rounds. `marks`: spellings of missing values in each column.
    """

    names: list[str]
    arrays: list[np.ndarray]
    num_candidates: int
    named: bool = True
    rows: list[str] | None = None
    rows_name: str = ""
    inexact: list[int] = dataclasses.field(default_factory=list)
    marks: dict[int, set[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def printable(text: object, width: int = 60) -> str:
    """Return `text` in one line; control characters are escaped, so that no terminal runs them."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def quote(name: object) -> str:
    """Return a name in quotes, for a message."""
    return f"'{printable(name)}'"


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message, "; did you mean 'kind'?", or nothing if no name is close."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.strip().lower(), names, n=1)
    return f"; did you mean {quote(names[close[0]])}?" if close else ""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `2 rows`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def default_names(count: int) -> list[str]:
    """Return names for `count` columns without names: `column_1`, `column_2`, …."""
    return [f"column_{j + 1}" for j in range(count)]


def missing(cells: np.ndarray) -> np.ndarray:
    """Return where the cells of a column, numbers or words, are missing."""
    return np.array([cell is None or cell != cell for cell in cells], bool)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with ASCII digits and without thousands separators."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_word(cell: str) -> bool:
    """Return whether a cell is neither missing nor a number; numbers may have a decimal comma."""
    return not (cell.strip().lower() in MISSING_CELLS or is_number(cell.replace(",", ".", 1)))


@contextlib.contextmanager
def refuse_damaged(kind: str) -> Iterator[None]:
    """Convert errors of a library for damaged files into `TableError`; hide its warnings."""
    with warnings.catch_warnings(action="ignore"):
        try:
            yield
        except (TableError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is not an `Exception`
            reason = str(error).strip().split("\n")[0][:120] or type(error).__name__
            raise TableError(f"the file is not a valid {kind} ({reason})") from error
