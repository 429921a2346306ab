"""What every reader of tables gives, and the words in which it refuses; no JAX.

A table is wrong far more often than it is right. Each mistake is one `TableError` of one line that
names the column or the row, the count, and what to do.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

#: What people write where there is no value, in lower case.
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "?"})

_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE
)
_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
#: Above this, float64 no longer holds every whole number.
EXACT = 2.0**53


class Refusal(ValueError):
    """What the user can mend, in one line; anything else that goes wrong is a mistake in jaxfs."""


class TableError(Refusal):
    """A table that cannot be used, or a column that it does not have."""


@dataclasses.dataclass
class Columns:
    """A file's columns as they stand, before anything is known of targets.

    `values (n, d)` holds NaN where a value is missing, and throughout a column of text; `texts`
    holds those columns by position, with `None` where a value is missing. Columns from `extra` on
    did not stand among the measurements (the other arrays of an `.npz`): they may be a target but
    are no features. `inexact` are columns of whole numbers beyond what float64 can tell apart.
    `marks`: how missing values were written, by position.
    """

    names: list[str]
    values: np.ndarray
    texts: dict[int, list[str | None]]
    named: bool = True
    extra: int | None = None
    rows: list[str] | None = None
    inexact: list[int] = dataclasses.field(default_factory=list)
    marks: dict[int, set[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def printable(text: object, width: int = 60) -> str:
    """`text` in one line without control characters, which a terminal would obey."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def quote(name: object) -> str:
    """A name as it is shown in messages."""
    return f"'{printable(name)}'"


def listed(items: Iterable[str], limit: int = 5) -> str:
    """`a, b, c and 7 more`."""
    items = list(items)
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def plural(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def numbered(count: int) -> list[str]:
    """Names for columns that have none."""
    return [f"column_{j + 1}" for j in range(count)]


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def is_gap(cell: str) -> bool:
    """Missing in a column of words."""
    return is_missing(cell) and not is_none(cell)


def is_none(cell: str) -> bool:
    return cell.strip().lower() == "none"


def is_number(cell: str) -> bool:
    """A number as programs write it: ASCII digits, a point, no underscores, no separators."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_whole(cell: str) -> bool:
    return cell.strip().lstrip("+-").isdecimal()


def is_comma_number(cell: str) -> bool:
    """A number with one comma: a decimal comma, or one that sets thousands apart."""
    return _COMMA.fullmatch(cell.strip()) is not None


def is_text(cell: str) -> bool:
    return not (is_missing(cell) or is_number(cell) or is_comma_number(cell))


def parse(cells: Sequence[str]) -> np.ndarray | None:
    """The numbers of one column, NaN where missing; `None` if a cell is neither.

    `float` reads more than numbers as programs write them (`1_000`, digits of other scripts), so
    what it accepts is looked over once, joined, before it is believed.
    """
    joined = "".join(cells)
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        cells = ["nan" if cell.strip().lower() in MISSING else cell for cell in cells]
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            return None
    if (not joined.isascii() or "_" in joined) and any(map(is_text, cells)):
        return None
    return values


def is_inexact(cell: str) -> bool:
    """Whether a whole number changes when float64 holds it."""
    digits = cell.strip()
    if not re.fullmatch(r"[+-]?\d+", digits, re.ASCII):
        return False
    value = float(digits)
    return math.isfinite(value) and int(value) != int(digits)


def from_strings(
    columns: Sequence[Sequence[str]], names: list[str], *, named: bool, notes: list[str]
) -> Columns:
    """Columns of cells as numbers where all of a column are, and as text elsewhere.

    Among words `none` is one of them, such as a treatment; among numbers it is no value.
    """
    values = np.full((len(columns[0]), len(columns)), np.nan, order="F")
    texts: dict[int, list[str | None]] = {}
    marks: dict[int, set[str]] = {}
    for j, cells in enumerate(columns):
        parsed = parse(cells)
        if parsed is None:
            texts[j] = [None if is_gap(cell) else cell.strip() for cell in cells]
            gaps = {cell.strip() for cell in cells if is_gap(cell)}
        else:
            values[:, j] = parsed
            gaps = {cells[i].strip() for i in np.flatnonzero(np.isnan(parsed)).tolist()}
        if gaps:
            marks[j] = gaps
    large = np.flatnonzero((np.abs(values) >= EXACT).any(axis=0)).tolist()
    inexact = [j for j in large if any(map(is_inexact, columns[j]))]
    return Columns(names, values, texts, named=named, inexact=inexact, notes=notes, marks=marks)
