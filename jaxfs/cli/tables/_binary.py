"""Binary tables: Parquet, `.npz`, `.mat` and `.h5ad`; no JAX.

The libraries that read them are imported when they are needed. No file may run code: pickled
objects are refused.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs.cli.tables import _matlab
from jaxfs.cli.tables._allowance import COPIES, Allowance
from jaxfs.cli.tables._columns import EXACT, Columns, TableError, numbered, quote, valid

#: The name that pandas gives in Parquet to an index without one.
_INDEX = re.compile(r"__index_level_\d+__")
#: Names of arrays that hold the names of the features.
_NAMES = frozenset({"names", "feature_names", "columns", "var_names", "features"})
#: Names of the array that holds the features, where a file has several matrices.
_DATA = frozenset({"x", "data"})


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Discard stderr, where polars prints the trace of a panic from any thread."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def read_parquet(path: Path, allowed: Allowance) -> Columns:
    """The columns of a Parquet file."""
    import polars as pl

    with valid("Parquet file"), _without_stderr():
        lazy = pl.scan_parquet(path, glob=False)
        cells = lazy.select(pl.len()).collect().item() * len(lazy.collect_schema())
        allowed.check(8 * cells, COPIES)
        frame = lazy.collect()
        index = [name for name in frame.columns if _INDEX.fullmatch(name)]
        rows = ["/".join(map(str, row)) for row in frame.select(index).iter_rows()]
        frame = frame.drop(index)
        arrays = []
        for series in frame:
            if not series.dtype.is_numeric() and series.dtype != pl.Boolean:
                arrays.append(_words(series.to_list()))
            elif series.dtype.is_integer() and not series.null_count():
                arrays.append(series.to_numpy())
            else:
                arrays.append(series.cast(pl.Float64).to_numpy())
    found = _from_arrays(frame.columns, arrays, allowed)
    if index:
        found.rows = rows
        found.notes.append("the index that pandas stored names the rows and is not a feature")
    return found


def read_npz(path: Path, allowed: Allowance) -> Columns:
    """The matrix of an `.npz`, or the one called `X` or `data`, and the vectors of its length."""
    # NumPy leaves the file open if it is not an archive: it is closed here.
    with (
        valid(".npz of plain arrays"),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        allowed.check(sum(member.file_size for member in file.zip.infolist()))
        arrays = {name: file[name] for name in file.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{quote(name)} is not an array")
    return _from_named(arrays, allowed)


def read_mat(path: Path, allowed: Allowance) -> Columns:
    """The columns of a MATLAB file up to version 7.2, under the rules for `.npz`."""
    with valid("MATLAB file"):
        if _matlab.is_level_5(path):
            arrays = _matlab.read_level_5(path, allowed)
        else:
            from scipy.io import loadmat

            arrays = {k: _dense(a, allowed) for k, a in loadmat(path).items() if k[:2] != "__"}
    return _from_named(arrays, allowed)


def read_h5ad(path: Path, allowed: Allowance) -> Columns:
    """The matrix `X` of an annotated file with its variable names; `obs` may hold the target."""
    import anndata
    import h5py  # type: ignore[import-not-found, unused-ignore]

    with valid(".h5ad file"):
        with h5py.File(path) as file:
            sizes: list[int] = []
            file.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
        allowed.check(sum(sizes))
        data = anndata.read_h5ad(path)
    if data.X is None:
        raise TableError("the file holds no matrix X")
    x = np.asarray(_dense(data.X, allowed))
    extra = [
        array if array.dtype.kind in "fiub" else column.astype(object).where(column.notna(), None)
        for array, column in ((np.asarray(column), column) for _, column in data.obs.items())
    ]
    names = [*map(str, data.var_names), *map(str, data.obs.columns)]
    found = _from_arrays(names, [*x.T, *extra], allowed, num_candidates=x.shape[1])
    found.rows = [str(name) for name in data.obs_names]
    return found


def _dense(array: Any, allowed: Allowance) -> Any:
    """A sparse matrix with its zeros, if there is memory for them; anything else unchanged."""
    if not hasattr(array, "toarray"):
        return array
    n, d = array.shape
    allowed.check_matrix(n, d, "the dense form of a matrix")
    return array.toarray()


def _words(values: Iterable[Any]) -> np.ndarray:
    """Words with `None` where one is missing, or NaN if all are."""
    words = np.array([None if value is None else str(value) for value in values], dtype=object)
    return words if any(word is not None for word in words) else np.full(len(words), np.nan)


def _from_named(arrays: dict[str, np.ndarray], allowed: Allowance) -> Columns:
    matrices = {
        name: a for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "fiub" and a.size
    }
    chosen = {name: a for name, a in matrices.items() if min(a.shape) > 1} or matrices
    if len(chosen) > 1:
        chosen = {name: a for name, a in chosen.items() if name.lower() in _DATA}
    if len(chosen) != 1:
        shapes = ", ".join(f"{quote(name)} {a.shape}" for name, a in list(arrays.items())[:6])
        raise TableError(
            f"one matrix, or one called X, is needed; the file holds {shapes or 'none'}"
        )
    ((key, x),) = chosen.items()
    n, d = x.shape
    names, extra = None, {}
    for name, array in arrays.items():
        if name == key or max(array.shape, default=0) != array.size:
            continue
        if name.lower() in _NAMES and array.size == d and array.dtype.kind == "U":
            names = [str(word).strip() for word in array.ravel()]
        elif array.size == n and array.dtype.kind in "fiubU":
            extra[name] = array.ravel()
    columns = [*x.T, *extra.values()]
    found = _from_arrays([*(names or numbered(d)), *extra], columns, allowed, num_candidates=d)
    found.named = names is not None
    return found


def _from_arrays(
    names: list[str],
    arrays: list[np.ndarray],
    allowed: Allowance,
    num_candidates: int | None = None,
) -> Columns:
    """Columns of arrays: real numbers as float64, any other type as words."""
    if not arrays or not len(arrays[0]):
        raise TableError("the table is empty")
    allowed.check_matrix(len(arrays[0]), len(arrays))
    found = Columns(names, [], len(names) if num_candidates is None else num_candidates)
    for j, array in enumerate(arrays):
        if array.dtype.kind not in "fiub":
            found.arrays.append(_words(array))
            continue
        values = array.astype(np.float64, copy=False)
        found.arrays.append(values)
        if array.dtype.kind in "iu":
            large = np.abs(values) >= EXACT
            if any(int(a) != int(b) for a, b in zip(array[large], values[large], strict=True)):
                found.inexact.append(j)
    return found
