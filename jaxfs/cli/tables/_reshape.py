"""Columns in another shape: transposed, and with words as indicator columns."""

from collections.abc import Collection

import numpy as np

from jaxfs.cli.tables._columns import (
    Columns,
    TableError,
    default_names,
    is_number,
    missing,
    quote,
)

#: Number of distinct words up to which a column of words may be a code.
FEW_WORDS = 20


def transpose(columns: Columns) -> Columns:
    """Return the columns of the transposed table: rows become columns, and names become row names.

    The names of the rows, or the cells of a first column of words, become the names of the columns.
    """
    if columns.num_candidates < len(columns.names):
        extra = quote(columns.names[columns.num_candidates])
        raise TableError(f"a file with further arrays, such as {extra}, cannot be transposed")
    names, start = columns.rows, 0
    first = columns.arrays[0]
    if names is None and (first.dtype.kind == "O" or (columns.named and not columns.names[0])):
        start = 1
        words = ["" if cell is None else str(cell) for cell in first.tolist()]
        names = [word.removesuffix(".0") for word in words] if first.dtype.kind == "f" else words
    n = len(first)
    arrays = columns.arrays[start:]
    if not arrays:
        raise TableError("the transposed table has no rows: the file has one column, of names")
    if all(array.dtype.kind == "f" for array in arrays):
        turned = list(np.ascontiguousarray(np.stack(arrays).T))
    else:
        turned = [_column([array[i] for array in arrays]) for i in range(n)]
    found = Columns(names or default_names(n), turned, n, named=names is not None)
    found.rows = columns.names[start:] if columns.named else None
    found.notes = columns.notes
    if columns.inexact:
        found.notes.append("integers too large for float64 were rounded")
    marks = set().union(*columns.marks.values())
    found.marks = dict.fromkeys(range(n), marks) if marks else {}
    return found


def _column(cells: list[float | str | None]) -> np.ndarray:
    """Return cells as numbers if all of them are numbers or missing, otherwise as words."""
    known = [cell for cell in cells if cell is not None and cell == cell]
    if all(isinstance(cell, float) or is_number(cell) for cell in known):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    words = [f"{cell:.17g}" if isinstance(cell, float) and cell == cell else cell for cell in cells]
    return np.array([None if word != word else word for word in words], dtype=object)


def encode(
    names: list[str], arrays: list[np.ndarray], positions: list[int], categorical: Collection[int]
) -> tuple[list[str], list[np.ndarray], list[int]]:
    """Return the features, in which indicator columns replace the columns `categorical`.

    `positions` count from 1 in the file, `categorical` from 0. A categorical column becomes one
    column of 0 and 1 for each of its values, called `colour=red`.
    """
    kept: list[tuple[str, np.ndarray, int]] = []
    for name, array, position in zip(names, arrays, positions, strict=True):
        if position - 1 not in categorical:
            kept.append((name, array, position))
            continue
        gaps = missing(array)
        numeric = array.dtype.kind == "f"
        words = np.array([f"{cell:.17g}" if numeric else str(cell) for cell in array], dtype=object)
        values = sorted(set(words[~gaps]))
        if len(values) < 2:
            raise TableError(f"the categorical column {quote(name)} has one value only")
        for value in values:
            column = np.where(gaps, np.nan, (words == value).astype(float))
            kept.append((f"{name}={value}", column, position))
    labels, columns, places = zip(*kept, strict=True)
    return list(labels), list(columns), list(places)
