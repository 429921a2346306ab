"""The columns that readers return, limits on their size, tests of single cells, and errors.

Every error is a `TableError` of one line. It names the column or the row, the count, and the fix.
"""

import contextlib
import dataclasses
import difflib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from jaxfs.streaming import _memory

#: Cells that mean a missing value, in lower case.
MISSING_CELLS = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "?"})
#: Default limit, in gigabytes, on the decompressed size of a file.
GIGABYTES = 2.0
#: Number of bytes that are decompressed at a time.
PART = 2**20
#: Number of copies of the matrix in memory: as read, as columns, and as the input of a method.
COPIES = 3

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
    `rows_name`: name of the column that held them, or nothing. `marks`: spellings of missing values
    in each column.
    """

    names: list[str]
    arrays: list[np.ndarray]
    num_candidates: int
    named: bool = True
    rows: list[str] | None = None
    rows_name: str = ""
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


def as_text(cell: object) -> str:
    """Return the text of a cell: `1` for 1.0, words unchanged."""
    return f"{cell:.17g}" if isinstance(cell, float) else str(cell)


def missing(cells: np.ndarray) -> np.ndarray:
    """Return where the cells of a column, numbers or words, are missing."""
    return np.array([cell is None or cell != cell for cell in cells], bool)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with ASCII digits and without thousands separators."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_word(cell: str) -> bool:
    """Return whether a cell is neither missing nor a number; numbers may have a decimal comma."""
    return not (cell.strip().lower() in MISSING_CELLS or is_number(cell.replace(",", ".", 1)))


def transpose(columns: Columns) -> Columns:
    """Return the columns of the transposed table: rows become columns, and names become row names.

    The names of the rows, or the cells of a first column of words, become the names of the columns.
    """
    if columns.num_candidates < len(columns.names):
        extra = quote(columns.names[columns.num_candidates])
        raise TableError(f"a file with further arrays, such as {extra}, cannot be transposed")
    names, arrays, rows = columns.rows, columns.arrays, columns.names
    first = arrays[0]
    if names is None and (first.dtype.kind == "O" or (columns.named and not rows[0])):
        arrays, rows = arrays[1:], rows[1:]
        names = np.where(missing(first), "", list(map(as_text, first))).tolist()
    if not arrays:
        raise TableError("the transposed table has no rows: the file has one column, of names")
    if all(array.dtype.kind == "f" for array in arrays):
        turned = list(np.ascontiguousarray(np.stack(arrays).T))
    else:
        turned = [_retype(cells) for cells in zip(*arrays, strict=True)]
    marks = set().union(*columns.marks.values())
    return Columns(
        names or default_names(len(first)),
        turned,
        len(first),
        named=names is not None,
        rows=rows if columns.named else None,
        marks=dict.fromkeys(range(len(first)), marks),
        notes=columns.notes,
    )


def _retype(cells: Sequence[float | str | None]) -> np.ndarray:
    """Return cells as numbers if all of them are numbers or missing, otherwise as words."""
    words = [None if cell is None or cell != cell else as_text(cell) for cell in cells]
    if all(word is None or is_number(word) for word in words):
        return np.array([np.nan if word is None else float(word) for word in words])
    return np.array(words, dtype=object)


def indicators(name: str, cells: np.ndarray) -> dict[str, np.ndarray]:
    """Return a column of 0 and 1, called `colour=red`, for each value of a categorical column."""
    gaps, words = missing(cells), np.array([*map(as_text, cells)], dtype=object)
    values = sorted(set(words[~gaps]))
    if len(values) < 2:
        raise TableError(f"the categorical column {quote(name)} has one value only")
    return {f"{name}={value}": np.where(gaps, np.nan, words == value) for value in values}


@contextlib.contextmanager
def refuse_damaged(kind: str) -> Iterator[None]:
    """Convert errors of a library for damaged files into `TableError`; hide its warnings."""
    with warnings.catch_warnings(action="ignore"):
        try:
            yield
        except (TableError, ModuleNotFoundError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is not an `Exception`
            reason = str(error).strip().split("\n")[0][:120] or type(error).__name__
            raise TableError(f"the file is not a valid {kind} ({reason})") from error


class Allowance:
    """Limits on the size of one file: decompressed bytes and free memory.

    A few kilobytes can decompress to terabytes. The sizes are therefore checked before reading. If
    a format does not state the sizes, they are checked while reading. Every check raises
    `TableError`.
    """

    def __init__(self, path: Path, gigabytes: float) -> None:
        self.stored = path.stat().st_size
        self._limit, self._free = 1e9 * gigabytes, _memory.free()

    def check(self, size: float, copies: float = 1) -> None:
        """Check that `size` bytes are within the limit, and that `copies` of them fit into memory.

        The limit applies to compressed files only.
        """
        if size > max(self._limit, self.stored):
            raise TableError(
                f"decompressed, the file has at least {_memory.readable(size)}, more than the "
                f"{_memory.readable(self._limit)} allowed: --max-gb raises the limit"
            )
        self.check_memory(size * copies, "the file")

    def check_memory(self, size: float, what: str) -> None:
        if size > self._free:
            need, free = map(_memory.readable, (size, self._free))
            raise TableError(
                f"{what} needs about {need}, and {free} are free: keep fewer rows or columns"
            )

    def check_matrix(self, n: int, d: int, what: str = "a table") -> None:
        self.check_memory(8 * n * d * COPIES, f"{what} of {n} rows and {d} columns")

    def gather(self, parts: Iterable[bytes], copies: float, before: int = 0) -> bytes:
        """Join parts as they are decompressed; `before` bytes were decompressed earlier."""
        kept, size = [], before
        for part in parts:
            size += len(part)
            self.check(size, copies)
            kept.append(part)
        return b"".join(kept)
