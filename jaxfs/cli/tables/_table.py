"""Read a file as a matrix of features with names, or raise a one-line error.

The reader does not guess if a guess could change the result. Non-numeric columns, missing values
and infinite values raise an error that names the columns and counts the values. Repeated names give
a note.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxfs._checks import listed
from jaxfs.cli.tables import _binary, _columns, _text
from jaxfs.cli.tables._columns import (
    GIGABYTES,
    Allowance,
    Columns,
    TableError,
    as_text,
    is_number,
    is_word,
    missing,
    plural,
    quote,
    suggest,
)

_TEXT = (".csv", ".tsv", ".txt", ".dat", ".data", ".tab")
_PARQUET = "Parquet file", _binary.read_parquet
_ARROW = "Arrow or Feather (version 2) file", _binary.read_arrow
#: The name of each binary format, and its reader.
_BINARY: dict[str, tuple[str, Callable[[Path, Allowance], Columns]]] = {
    **dict.fromkeys((".parquet", ".pq"), _PARQUET),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _ARROW),
    ".xlsx": ("Excel file", _binary.read_xlsx),
    ".npz": (".npz of plain arrays", _binary.read_npz),
    ".mat": ("MATLAB file", _binary.read_mat),
    ".h5ad": (".h5ad file", _binary.read_h5ad),
}
_POSITION = re.compile(r"[+-]?\d{1,9}", re.ASCII)
#: Smallest number from which float64 does not represent every integer.
_EXACT = 2.0**53


@dataclasses.dataclass(frozen=True)
class Table:
    """Features in the form that a method expects.

    `values (n, d)`: finite, float64. `names`: d distinct names. `target (n,)`: float64, strings or
    `None`. `rows`: names of the rows, if there are any. `notes`: remarks for the user.
    `positions`: positions of the features among the columns of the file, from 1, if there is a
    file. `gaps (n, d)`: true where a missing value was filled in; `None` if no value was.
    `rows_name`: name of the column that named the rows; empty if it had none. `labels`: columns
    that are neither features nor the target, such as patients, by the requested name.
    """

    names: list[str]
    values: np.ndarray
    target: np.ndarray | None = None
    target_name: str | None = None
    rows: list[str] | None = None
    notes: tuple[str, ...] = ()
    positions: list[int] | None = None
    gaps: np.ndarray | None = None
    rows_name: str = ""
    labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def imputed(self) -> dict[str, int]:
        """Return the number of values filled in, for each feature that has such values."""
        if self.gaps is None:
            return {}
        counts = self.gaps.sum(axis=0).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


def read_table(
    path: str | Path,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    labels: Sequence[str] = (),
    impute: str | None = None,
    header: str = "auto",
    delimiter: str = "auto",
    decimal: str = "auto",
    max_gb: float = GIGABYTES,
    transpose: bool = False,
    categorical: Sequence[str] = (),
) -> Table:
    """Read a table in the format of its suffix: CSV, TSV, Parquet, Feather, XLSX, NPZ, MAT or H5AD.

    **Arguments**

    - `target`, `drop`, `labels`, `categorical`: columns by name or, if no column has that name, by
      position: 1 is the first, −1 the last. `labels` are neither features nor the target.
      One column of 0 and 1 for each value replaces a `categorical` column of codes or words.
    - `impute`: `"median"` replaces the missing values of a feature by its median. `"drop"` removes
      the rows in which a feature or the target is missing. With `None`, missing values raise
      `TableError`.
    - `header`, `delimiter`, `decimal`: see `_text.read_text`.
    - `max_gb`: limit on the decompressed size of a file, in gigabytes.
    - `transpose`: whether the rows of the file are features and its columns are samples.

    **Returns** a `Table`, or raises `TableError`, a `ValueError` of one line.

    The first column contains row names, and is not a feature, if all its cells are different and
    the column is text or has no name. Repeated names become `a`, `a.2`. In columns of `true` and
    `false`, the values become 1 and 0. A note reports each of these changes.
    """
    if impute not in (None, "median", "drop"):
        raise TableError(f"impute must be median or drop, got {impute!r}")
    asked = [name.strip() for name in (target, *drop, *categorical, *labels) if name is not None]
    options = {"header": header, "delimiter": delimiter, "decimal": decimal}
    columns = _read_columns(Path(path), [] if transpose else asked, options, max_gb)
    if transpose:
        columns = _columns.transpose(columns)
    rows_at = _take_row_names(columns, asked)
    names = _distinct_names(columns, rows_at)
    dropped = {j for name in drop for j in _find(columns, names, name, "drop")}
    at = None if target is None else _find_one(columns, names, target, "target")
    labelled = {name: _find_one(columns, names, name, "groups and strata") for name in labels}
    encoded = {j for name in categorical for j in _find(columns, names, name, "categorical")}
    for roles, both in {
        "the target and dropped": dropped & {at},
        "the target and groups or strata": {*labelled.values()} & {at},
        "categorical and the target or dropped": encoded & (dropped | {at}),
    }.items():
        if both:
            wrong = listed(quote(names[j]) for j in sorted(both))
            raise TableError(f"{wrong} cannot be both {roles}")
    other = dropped | {at, rows_at, *labelled.values()}
    features = [j for j in range(columns.num_candidates) if j not in other and names[j]]
    table = _build_table(columns, names, features, at, encoded)
    for name, j in labelled.items():
        if count := int(missing(columns.arrays[j]).sum()):
            raise TableError(f"{quote(name)} has {plural(count, 'missing value')}; fill them in")
    groups = {name: columns.arrays[j] for name, j in labelled.items()}
    used = {*features, at}
    marks = {mark for j, found in columns.marks.items() if j in used for mark in found}
    table = _impute(dataclasses.replace(table, labels=groups), impute, marks)
    _check_informative(table)
    return table


def _read_columns(path: Path, asked: list[str], options: dict[str, str], max_gb: float) -> Columns:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind not in _TEXT and kind not in _BINARY:
        known = ", ".join((*_TEXT[:3], ".parquet", ".feather", ".xlsx", ".npz", ".mat", ".h5ad"))
        raise TableError(f"the suffix of {quote(path.name)} must be one of {known}")
    try:
        if not path.is_file():
            raise TableError(f"{quote(path)} is {'a folder' if path.is_dir() else 'not a file'}")
        allowed = Allowance(path, max_gb)
        if kind in _TEXT:
            wanted = [name for name in asked if not _POSITION.fullmatch(name)]
            return _text.read_text(path, allowed, wanted, **options)
        for name, value in options.items():
            if value != "auto":
                raise TableError(f"{name} is for text files, and {quote(path.name)} is not one")
        form, read = _BINARY[kind]
        with _columns.refuse_damaged(form):
            return read(path, allowed)
    except OSError as error:
        raise TableError(f"{quote(path)} cannot be read: {error.strerror or error}") from error
    except ModuleNotFoundError as error:
        raise TableError(f"{kind} needs {error.name}: pip install {error.name}") from error


def _take_row_names(columns: Columns, asked: list[str]) -> int | None:
    """Set the row names if the first column contains them; return its position or `None`."""
    name, cells = columns.names[0], columns.arrays[0]
    nameless = columns.named and name in ("", "Unnamed: 0")
    words = cells.dtype.kind == "O"
    if columns.rows is not None or not columns.num_candidates or not (nameless or words):
        return None
    if {"1", str(-len(columns.names)), name or "1"} & set(asked):
        return None
    if missing(cells).any() or not 1 < len(cells) == len(set(cells)):
        return None
    if not nameless and not all(map(is_word, cells)):
        return None  # a column of numbers with a typo
    columns.rows, columns.rows_name = [*map(as_text, cells)], "" if nameless else name
    called = "without a name" if nameless else quote(name)
    columns.notes.append(f"the first column, {called}, names the rows and is not a feature")
    return 0


def _distinct_names(columns: Columns, rows_at: int | None) -> list[str]:
    """Return a distinct name for each column; columns that are left out have an empty name."""
    nameless = [j for j, name in enumerate(columns.names) if not name and j != rows_at]
    full = [str(j + 1) for j in nameless if not missing(columns.arrays[j]).all()]
    if full:
        raise TableError(
            f"{plural(len(full), 'column')} without a name, at position {listed(full)}"
        )
    if nameless:
        columns.notes.append(f"{plural(len(nameless), 'empty column')} without a name left out")
    seen, taken, names = Counter[str](), set(columns.names), []
    for name in columns.names:
        seen[name] += 1
        own = name
        if name and seen[name] > 1:
            numbered = (f"{name}.{number}" for number in itertools.count(seen[name]))
            own = next(new for new in numbered if new not in taken)
            taken.add(own)
        names.append(own)
    repeated = [quote(name) for name, count in seen.items() if name and count > 1]
    if repeated:
        columns.notes.append(f"repeated names were numbered: {listed(repeated)}")
    return names


def _find(columns: Columns, names: list[str], wanted: str, what: str) -> list[int]:
    """Return the positions of the columns called `wanted`.

    `wanted` is looked up as a name in the file, then as a distinct name, then as a position.
    """
    wanted = wanted.strip()
    for called in (columns.names, names):
        if found := [j for j, name in enumerate(called) if name and name == wanted]:
            return found
    if _POSITION.fullmatch(wanted):
        position = int(wanted)
        if not 1 <= abs(position) <= len(names):
            raise TableError(
                f"{what} must be the name of a column, or a position from 1 to {len(names)} or "
                f"from -1 (the last) to -{len(names)}; got {position}"
            )
        return [position - 1 if position > 0 else len(names) + position]
    known = names[columns.num_candidates :] + names[: columns.num_candidates]
    shown = listed(quote(name) for name in known if name)
    hint = suggest(wanted, known) or suggest(wanted.removesuffix("s"), known)
    if wanted in (columns.rows or columns.arrays[0].tolist()):
        hint = "; a row has this name: if the rows are features, use --transpose"
    raise TableError(f"{what}: no column is called {quote(wanted)}; there are {shown}{hint}")


def _find_one(columns: Columns, names: list[str], wanted: str, what: str) -> int:
    at, *others = _find(columns, names, wanted, what)
    if others:
        raise TableError(f"{1 + len(others)} columns are called {quote(wanted)}")
    return at


def _build_table(
    columns: Columns, names: list[str], features: list[int], at: int | None, encoded: set[int]
) -> Table:
    """Return a table of the features and the target, which may still have missing values."""
    if not features:
        raise TableError("no feature is left after the target, row names and dropped columns")
    kept: list[str] = []
    arrays: list[np.ndarray] = []
    positions: list[int] = []
    for j in features:
        own = {names[j]: columns.arrays[j]}
        if j in encoded:
            own = _columns.indicators(names[j], columns.arrays[j])
        kept += own.keys()
        arrays += own.values()
        positions += [j + 1] * len(own)
    values = _matrix(kept, arrays, columns.notes)
    notes = columns.notes
    target, target_name = (None, None) if at is None else (columns.arrays[at], names[at])
    numbers = dict(zip(kept, values.T, strict=True))
    if target is not None and target.dtype.kind == "f":
        numbers[str(target_name)] = target
        if np.isinf(target).any():
            raise TableError(f"the target {quote(target_name)} has infinite values")
    elif target is not None and "none" in {str(value).lower() for value in target}:
        notes.append(f"'none' is read as a value of {quote(target_name)}, not as missing")
    large = [quote(name) for name, column in numbers.items() if (abs(column) >= _EXACT).any()]
    if large:
        notes.append(f"numbers from 2⁵³ on were rounded in {listed(large)}")
    return Table(
        kept, values, target, target_name, columns.rows, tuple(notes), positions,
        rows_name=columns.rows_name,
    )  # fmt: skip


def _matrix(names: list[str], arrays: list[np.ndarray], notes: list[str]) -> np.ndarray:
    """Return features as numbers, finite or missing; `true` and `false` become 1 and 0."""
    booleans = {"true": 1.0, "false": 0.0, "none": np.nan, None: np.nan}
    read, words = [], []
    for j, array in enumerate(arrays):
        if array.dtype.kind != "O":
            continue
        cells = [cell and cell.lower() for cell in array]
        if {"true", "false"} & set(cells) and set(cells) <= set(booleans):
            arrays[j] = np.array([booleans[cell] for cell in cells])
            read.append(quote(names[j]))
        else:
            words.append(j)
    if words:
        known = [cell for cell in arrays[words[0]] if cell is not None]
        example = next((cell for cell in known if not is_number(cell)), known[0])
        raise TableError(
            f"{listed(quote(names[j]) for j in words)} {'are' if len(words) > 1 else 'is'} not "
            f"numeric ({quote(example)} in {quote(names[words[0]])}): use --categorical to encode "
            "it as 0 and 1, or --drop; if rows are features, use --transpose"
        )
    if read:
        notes.append(f"true and false were read as 1 and 0 in {listed(read)}")
    values = np.stack(arrays, axis=1)
    if np.isinf(values).any():
        shown = _list_counts(names, np.isinf(values))
        raise TableError(f"infinite or too large for float64: {shown}")
    return values


def _list_counts(names: list[str], found: np.ndarray) -> str:
    """Return the number of rows marked in each column, largest first, as `'a' (3), 'b' (1)`."""
    counts = Counter(dict(zip(names, found.sum(axis=0).tolist(), strict=True)))
    return listed(f"{quote(name)} ({count})" for name, count in counts.most_common() if count)


def _impute(table: Table, how: str | None, marks: set[str]) -> Table:
    """Return the table without missing values, or raise an error that shows their spellings."""
    gaps = np.isnan(table.values)
    lost = np.zeros(len(gaps), bool) if table.target is None else missing(table.target)
    if not gaps.any() and not lost.any():
        return table
    if gaps.all(axis=0).any():
        empty = listed(quote(table.names[j]) for j in np.flatnonzero(gaps.all(axis=0)))
        raise TableError(f"no values in {empty}: leave it out with --drop")
    if how is None or (how == "median" and lost.any()):
        found = [f"{plural(int(lost.sum()), 'row')} without a target"] if lost.any() else []
        found += [_list_counts(table.names, gaps)] if gaps.any() else []
        written = [quote(mark) if mark else "nothing" for mark in sorted(marks)]
        found += [f"written {listed(written)}"] if written else []
        way = "--impute drop" if lost.any() else "--impute median or --impute drop"
        raise TableError(f"missing values: {'; '.join(found)}; use {way}")
    if how == "median":
        filled = np.where(gaps, np.nanmedian(table.values, axis=0), table.values)
        note = f"{plural(int(gaps.sum()), 'missing value')} replaced by the median of the column"
        return dataclasses.replace(table, values=filled, gaps=gaps, notes=(*table.notes, note))
    keep = ~(gaps.any(axis=1) | lost)
    if not keep.any():
        raise TableError("no row is without missing values; use --impute median or --drop columns")
    return dataclasses.replace(
        table,
        values=table.values[keep],
        target=None if table.target is None else table.target[keep],
        rows=table.rows and [table.rows[i] for i in np.flatnonzero(keep)],
        labels={name: values[keep] for name, values in table.labels.items()},
        notes=(*table.notes, f"{plural(int((~keep).sum()), 'row')} with missing values left out"),
    )


def _check_informative(table: Table) -> None:
    """Raise `TableError` for a table in which no features can be selected."""
    n, d = table.values.shape
    if n < 2:
        raise TableError("the table has one row; methods compare rows")
    if d < 2:
        raise TableError(f"the table has one feature, {quote(table.names[0])}: nothing to choose")
    if (table.values == table.values[0]).all():
        raise TableError(f"all {d} features are constant")
    if table.target is not None and (table.target == table.target[0]).all():
        raise TableError(f"the target {quote(table.target_name)} has one value only")
