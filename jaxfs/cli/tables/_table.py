"""From a file to a matrix of measurements with names, or one line that says why not; no JAX.

Nothing is guessed that could change the answer: a column that is no number, a missing or infinite
value, a name that two columns bear, are refused or noted, each by name and count.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from jaxfs.cli.tables import _containers, _delimited, _naming
from jaxfs.cli.tables._allowance import GIGABYTES, Allowance
from jaxfs.cli.tables._columns import Columns, TableError, is_none, is_number, listed, plural, quote

_TEXT = (".csv", ".tsv", ".txt", ".dat", ".data", ".tab")
_BINARY: dict[str, Callable[[Path, Allowance], Columns]] = {
    ".parquet": _containers.parquet,
    ".pq": _containers.parquet,
    ".npz": _containers.npz,
    ".mat": _containers.mat,
    ".h5ad": _containers.h5ad,
}
#: Names of keys: `id`, `patient_id`, `sampleIndex`.
_KEY = re.compile(
    r"(?:^|[\W_])(?i:id|index|idx|key|nr|no)(?:$|[\W_])|[a-z](?:Id|ID|Index|Key|Nr|No)$"
)
#: So many whole numbers do not rise all by chance.
_RISING = 8


@dataclasses.dataclass(frozen=True)
class Table:
    """Measurements that a method can take.

    `values (n, d)`: float64, finite. `names`: d, distinct. `target (n,)`: float64, or strings, or
    `None`. `rows`: the names of the rows, if they have any. `notes`: what the reader should know.
    `positions`: where the features stand among the columns of the file, from 1, if there is one.
    `gaps (n, d)`: true where a value was missing and filled in, if any was.
    """

    names: list[str]
    values: np.ndarray
    target: np.ndarray | None = None
    target_name: str | None = None
    rows: list[str] | None = None
    notes: tuple[str, ...] = ()
    positions: list[int] | None = None
    gaps: np.ndarray | None = None

    @property
    def imputed(self) -> dict[str, int]:
        """How many values were filled in, by feature; those of none are left out."""
        if self.gaps is None:
            return {}
        counts = self.gaps.sum(axis=0).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


def read_table(
    path: str | Path,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    impute: str | None = None,
    header: str = "auto",
    delimiter: str = "auto",
    decimal: str = "auto",
    max_gb: float = GIGABYTES,
) -> Table:
    """Read a table by the ending of its name: CSV, TSV, Parquet, `.npz`, `.mat` or `.h5ad`.

    **Arguments**

    - `target`, `drop`: columns by name, or, if no column bears that name, by position: 1 is the
      first, −1 the last.
    - `impute`: `"median"` puts the column's median where a feature is missing, `"drop"` removes the
      rows where a feature or the target is. Otherwise missing values are refused.
    - `header`, `delimiter`, `decimal`: see `_delimited.read`.
    - `max_gb`: most gigabytes that a file may become when it is decompressed.

    **Returns** a `Table`, or raises `TableError`, a `ValueError` of one line.

    The first column names the rows, and is no feature, if all of it differs and it is text or has
    no name of its own. Columns of one name are told apart as `a`, `a.2`. Columns of `true` and
    `false` are 1 and 0. All of this is noted.
    """
    if impute not in (None, "median", "drop"):
        raise TableError(f"impute must be median or drop, got {impute!r}")
    path = Path(path)
    wanted = [
        name for name in (target, *drop) if name is not None and not _naming.is_position(name)
    ]
    columns = _read(path, header, delimiter, decimal, wanted, max_gb)
    if columns.extra is None:
        columns.extra = len(columns.names)
    rows_at = _naming.row_names(columns, target, drop)
    _naming.leave_out_empty(columns)
    names = _naming.distinct(columns)
    dropped = {j for name in drop for j in _naming.find(columns, name, names, "drop")}
    target_at = None if target is None else _naming.find(columns, target, names, "target")
    if target_at is not None and len(target_at) > 1:
        raise TableError(f"{plural(len(target_at), 'column')} are called {quote(target)}")
    at = target_at[0] if target_at else None
    if at in dropped:
        raise TableError(f"{quote(target)} cannot be both the target and dropped")
    spared = dropped | {at, rows_at}
    features = [j for j in range(columns.extra) if j not in spared and names[j] is not None]
    table = _assemble(columns, [str(name) for name in names], features, at, impute)
    _check_informative(table)
    return table


def _read(
    path: Path, header: str, delimiter: str, decimal: str, wanted: list[str], max_gb: float
) -> Columns:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind not in _TEXT and kind not in _BINARY:
        known = ", ".join((*_TEXT[:3], ".parquet", ".npz", ".mat", ".h5ad"))
        raise TableError(f"the ending of {quote(path.name)} must be one of {known}")
    try:
        if not path.is_file():
            raise TableError(f"{quote(path)} is {'a folder' if path.is_dir() else 'no file'}")
        allowed = Allowance.of(path, max_gb)
        options = {"header": header, "delimiter": delimiter, "decimal": decimal}
        if kind in _BINARY:
            for name, value in options.items():
                if value != "auto":
                    raise TableError(f"{name} is for text files, and {quote(path.name)} is none")
            return _BINARY[kind](path, allowed)
        return _delimited.read(path, allowed, wanted=wanted, **options)
    except OSError as error:
        raise TableError(f"{quote(path)} cannot be read: {error.strerror or error}") from error


def _assemble(
    columns: Columns, names: list[str], features: list[int], at: int | None, impute: str | None
) -> Table:
    if not features:
        raise TableError("no feature is left beside the target, the row names and what was dropped")
    _read_booleans(columns, names, features)
    words = [j for j in features if j in columns.texts]
    if words:
        _refuse_words(columns, names, words)
    values = columns.values[:, features]
    kept = [names[j] for j in features]
    target = None if at is None else _target(columns, at)
    rows = columns.rows
    infinite = np.isinf(values).sum(axis=0)
    if infinite.any():
        raise TableError(f"infinite or too large for float64: {_counted(kept, infinite)}")
    if target is not None and target.dtype.kind == "f" and np.isinf(target).any():
        raise TableError(f"the target {quote(names[at or 0])} is infinite in places")
    notes = _keys(values, kept)
    if at in columns.texts and any(map(is_none, filter(None, columns.texts[at]))):
        notes.append(f"'none' is taken for a value of {quote(names[at])}, not for a gap")
    marks = {mark for j, found in columns.marks.items() if j in (*features, at) for mark in found}
    values, keep, gaps, told = _impute(values, kept, target, impute, marks)
    notes += told
    inexact = [names[j] for j in columns.inexact if j in features or j == at]
    if inexact:
        shown = listed(map(quote, inexact))
        notes.append(f"whole numbers too large for float64 were rounded in {shown}")
    return Table(
        names=kept,
        values=values,
        target=None if target is None else target[keep],
        target_name=None if at is None else names[at],
        rows=None if rows is None else [rows[i] for i in np.flatnonzero(keep)],
        notes=(*columns.notes, *notes),
        positions=[j + 1 for j in features],
        gaps=gaps,
    )


def _read_booleans(columns: Columns, names: list[str], features: list[int]) -> None:
    """Columns of `true` and `false`, and of nothing else, are 1 and 0."""
    read = []
    for j in features:
        cells = {cell.lower() for cell in columns.texts.get(j, ()) if cell is not None} - {"none"}
        if cells and cells <= {"true", "false"}:
            words = columns.texts.pop(j)
            columns.values[:, j] = [
                np.nan if word is None or is_none(word) else float(word.lower() == "true")
                for word in words
            ]
            read.append(names[j])
    if read:
        columns.notes.append(f"true and false were read as 1 and 0 in {listed(map(quote, read))}")


def _refuse_words(columns: Columns, names: list[str], words: list[int]) -> NoReturn:
    j = words[0]
    cells = [cell for cell in columns.texts[j] if cell is not None]
    word = next((cell for cell in cells if not is_number(cell)), cells[0])
    shown = listed(quote(names[j]) for j in words)
    verb = "are" if len(words) > 1 else "is"
    raise TableError(
        f"{shown} {verb} not numeric ({quote(word)} in {quote(names[j])}): encode, or --drop"
    )


def _target(columns: Columns, at: int) -> np.ndarray:
    """Numbers with NaN, or words with `None`, where there is no value."""
    if at in columns.texts:
        words = np.empty(len(columns.texts[at]), dtype=object)
        words[:] = columns.texts[at]
        return words
    return columns.values[:, at].copy()


def _absent(target: np.ndarray) -> np.ndarray:
    return np.array([value is None or value != value for value in target], dtype=bool)


def _counted(names: Sequence[str], counts: np.ndarray) -> str:
    """`'a' (3), 'b' (1)`, the most first."""
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    return listed(f"{quote(names[j])} ({counts[j]})" for j in order)


def _impute(
    values: np.ndarray,
    names: list[str],
    target: np.ndarray | None,
    impute: str | None,
    marks: set[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[str]]:
    """Values without gaps, which rows are kept, which values were filled in, and a note."""
    gaps = np.isnan(values)
    lost = np.zeros(len(values), bool) if target is None else _absent(target)
    counts = gaps.sum(axis=0)
    keep = np.ones(len(values), bool)
    if not gaps.any() and not lost.any():
        return values, keep, None, []
    empty = [name for name, count in zip(names, counts, strict=True) if count == len(values)]
    if empty:
        raise TableError(f"without any value: {listed(map(quote, empty))}; --drop it")
    if impute is None or (impute == "median" and lost.any()):
        found = [f"{plural(int(lost.sum()), 'row')} without a target"] if lost.any() else []
        found += [_counted(names, counts)] if gaps.any() else []
        found += [f"written {_written(marks)}"] if marks else []
        way = "--impute drop" if lost.any() else "--impute median or --impute drop"
        raise TableError(f"missing values: {'; '.join(found)}; use {way}")
    if impute == "median":
        filled = np.where(gaps, np.nanmedian(values, axis=0), values)
        note = f"{plural(int(gaps.sum()), 'missing value')} replaced by the median of the column"
        return filled, keep, gaps, [note]
    keep = ~(gaps.any(axis=1) | lost)
    if not keep.any():
        raise TableError("no row is without missing values; use --impute median or --drop columns")
    gone = int((~keep).sum())
    return values[keep], keep, None, [f"{plural(gone, 'row')} with missing values left out"]


def _written(marks: set[str]) -> str:
    """`'NA', '?', nothing`."""
    return listed([quote(mark) for mark in sorted(marks) if mark] + ["nothing"] * ("" in marks))


def _check_informative(table: Table) -> None:
    """What would leave nothing to choose."""
    n, d = table.values.shape
    if n < 2:
        raise TableError("the table has one row; methods compare rows")
    if d < 2:
        raise TableError(f"the table has one feature, {quote(table.names[0])}: nothing to choose")
    if (table.values == table.values[0]).all():
        raise TableError(f"all {d} features are constant")
    if table.target is not None and (table.target == table.target[0]).all():
        raise TableError(f"the target {quote(table.target_name)} has one value only")


def _keys(values: np.ndarray, names: Sequence[str]) -> list[str]:
    """Notes of features that may be keys of the rows, which sorted tables make predictive."""
    counting, different = [], []
    for name, column in zip(names, values.T, strict=True):
        if len(column) < 3 or not np.isfinite(column).all() or (column != np.round(column)).any():
            continue
        steps = np.diff(column)
        if column[0] in (0, 1) and (steps == 1).all():
            counting.append(f"{quote(name)} counts the rows; --drop it if it is a key")
            continue
        rising = len(column) >= _RISING and (steps > 0).all()
        if rising or (_KEY.search(name) and len(np.unique(column)) == len(column)):
            different.append(quote(name))
    if different:
        counting.append(f"{listed(different)}: different in every row; --drop what is a key")
    return counting
