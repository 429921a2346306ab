"""Which column is meant: names, positions, and columns that are none; no JAX."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from jaxfs.cli.tables._columns import Columns, TableError, is_text, listed, plural, quote


def is_position(name: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,9}", name.strip(), re.ASCII) is not None


def find(columns: Columns, wanted: str, names: list[str | None], what: str) -> list[int]:
    """The columns that bear a name, else the one at a position."""
    found = [j for j, name in enumerate(columns.names) if name == wanted.strip()]
    found = found or [j for j, name in enumerate(names) if name == wanted.strip()]
    if found:
        return found
    if is_position(wanted):
        position = int(wanted)
        if not 1 <= abs(position) <= len(names):
            raise TableError(
                f"{what} must be a column: a name, or a position from 1 to {len(names)} or from "
                f"-1 (the last) back; got {position}"
            )
        return [position - 1 if position > 0 else len(names) + position]
    shown = [quote(name) for j, name in enumerate(names) if name is not None]
    if columns.extra is not None and columns.extra < len(names):
        shown = shown[columns.extra :] + shown[: columns.extra]
    raise TableError(f"{what}: no column is called {quote(wanted)}; there are {listed(shown)}")


def row_names(columns: Columns, target: str | None, drop: Sequence[str]) -> int | None:
    """The position of a first column that names the rows."""
    if columns.rows is not None or not columns.names or columns.extra == 0:
        return None
    nameless = columns.named and re.fullmatch(r"(Unnamed: 0)?", columns.names[0]) is not None
    if not nameless and 0 not in columns.texts:
        return None
    asked = {name.strip() for name in (target, *drop) if name is not None}
    if asked & ({"1", str(-len(columns.names))} | {columns.names[0]} - {""}):
        return None
    cells = columns.texts.get(0) or [_plain(value) for value in columns.values[:, 0]]
    if None in cells or len(set(cells)) < len(cells) or len(cells) < 2:
        return None
    if not nameless and not all(is_text(str(cell)) for cell in cells):
        return None  # numbers with a slip of the pen among them are not names
    columns.rows = [str(cell) for cell in cells]
    called = "without a name" if nameless else quote(columns.names[0])
    columns.notes.append(f"the first column, {called}, names the rows and is no feature")
    columns.names[0] = columns.names[0] or _unused("row", columns.names)
    return 0


def _unused(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


def _plain(value: float) -> str | None:
    return None if np.isnan(value) else f"{value:.17g}"


def leave_out_empty(columns: Columns) -> None:
    """Columns without a name hold nothing, as a delimiter at the end of each line leaves them."""
    nameless = [j for j, name in enumerate(columns.names) if not name]
    full = [j for j in nameless if j in columns.texts or not np.isnan(columns.values[:, j]).all()]
    if full:
        where = listed(str(j + 1) for j in full)
        raise TableError(f"{plural(len(full), 'column')} without a name, at position {where}")
    if nameless:
        columns.notes.append(f"{plural(len(nameless), 'empty column')} without a name left out")


def distinct(columns: Columns) -> list[str | None]:
    """Every column's own name; `None` for those left out."""
    counts = Counter(columns.names)
    taken, seen = set(counts), Counter[str]()
    names: list[str | None] = []
    for name in columns.names:
        seen[name] += 1
        own, number = name, seen[name]
        while number > 1 and own in taken:
            own, number = f"{name}.{number}", number + 1
        taken.add(own)
        names.append(own or None)
    repeated = [name for name, count in counts.items() if name and count > 1]
    if repeated:
        shown = listed(map(quote, repeated))
        columns.notes.append(f"names of more than one column, now told apart: {shown}")
    return names
