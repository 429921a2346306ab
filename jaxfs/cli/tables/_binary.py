"""Readers of binary tables: Parquet, Arrow, Excel, `.npz`, `.mat` and `.h5ad`.

The libraries that read them are imported when they are needed. A file cannot run code: pickled
objects are refused. The caller converts the errors of a damaged file, which can be any exception.
"""

import contextlib
import functools
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs._checks import listed
from jaxfs.cli.tables import _matlab
from jaxfs.cli.tables._columns import COPIES, Allowance, Columns, TableError, default_names, quote

#: The column name that pandas writes to Parquet for an unnamed index.
_INDEX = re.compile(r"__index_level_\d+__")
#: The column name that fastexcel gives to a column without a name.
_UNNAMED = re.compile(r"__UNNAMED__\d+")
#: Names of arrays that hold the names of the features.
_NAMES = frozenset({"names", "feature_names", "columns", "var_names", "features"})
#: Names of the matrix that holds the features, if a file has several matrices.
_DATA = frozenset({"x", "data"})


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Discard stderr: if a thread of polars panics, it prints a trace there."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _read_lazy(scan: str, path: Path, allowed: Allowance) -> Columns:
    """Return the columns of a file that a function of polars scans, after a check of its size."""
    import polars as pl

    with _without_stderr():
        lazy = getattr(pl, scan)(path, glob=False)
        cells = lazy.select(pl.len()).collect().item() * len(lazy.collect_schema())
        allowed.check(8 * cells, COPIES)
        return _from_frame(lazy.collect(), allowed)


read_parquet = functools.partial(_read_lazy, "scan_parquet")
read_arrow = functools.partial(_read_lazy, "scan_ipc")


def read_xlsx(path: Path, allowed: Allowance) -> Columns:
    """Return the columns of the first sheet of an Excel file; its first row holds the names."""
    import fastexcel

    with zipfile.ZipFile(path) as archive:
        allowed.check(sum(member.file_size for member in archive.infolist()), COPIES)
    with _without_stderr():
        book = fastexcel.read_excel(path)
        frame = book.load_sheet(0, header_row=0).to_polars()
    found = _from_frame(frame, allowed)
    found.names = ["" if _UNNAMED.fullmatch(name) else name.strip() for name in found.names]
    if len(book.sheet_names) > 1:
        first, *others = map(quote, book.sheet_names)
        found.notes.append(f"the first sheet, {first}, was read, and not {listed(others)}")
    return found


def _from_frame(frame: Any, allowed: Allowance) -> Columns:
    """Return the columns of a frame of polars; a stored index of pandas names the rows."""
    import polars as pl
    from polars import selectors

    index = [name for name in frame.columns if _INDEX.fullmatch(name)]
    rows = ["/".join(map(str, row)) for row in frame.select(index).iter_rows()]
    frame = frame.drop(index)
    numbers = selectors.numeric() | selectors.boolean()
    frame = frame.with_columns(numbers.cast(pl.Float64))
    arrays = [
        column.to_numpy() if column.dtype.is_float() else column.to_list() for column in frame
    ]
    found = _from_arrays(frame.columns, arrays, allowed)
    if index:
        found.rows = rows
        found.notes.append("the stored pandas index is used as row names, not as a feature")
    return found


def read_npz(path: Path, allowed: Allowance) -> Columns:
    """Return the columns of an `.npz` file: those of its matrix, and vectors of the same length.

    If there are several matrices, the one called `X` or `data` is read.
    """
    # NumPy does not close a file that is not an archive, so the file is opened and closed here.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        allowed.check(sum(member.file_size for member in file.zip.infolist()))
        arrays = {name: file[name] for name in file.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{quote(name)} is not an array")
    return _from_named(arrays, allowed)


def read_mat(path: Path, allowed: Allowance) -> Columns:
    """Return the columns of a MATLAB file up to version 7.2, by the same rules as `read_npz`."""
    with path.open("rb") as stream:
        level_4 = b"\0" in stream.read(4)
    if not level_4:
        return _from_named(_matlab.read_level_5(path, allowed), allowed)
    from scipy.io import loadmat

    arrays = {k: _dense(a, allowed) for k, a in loadmat(path).items() if k[:2] != "__"}
    return _from_named(arrays, allowed)


def read_h5ad(path: Path, allowed: Allowance) -> Columns:
    """Return the columns of an AnnData file: `X`, and `obs`, which may hold the target."""
    import anndata
    import h5py  # type: ignore[import-not-found, unused-ignore]

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
    found = _from_arrays(names, [*x.T, *extra], allowed)
    found.num_candidates, found.rows = x.shape[1], list(map(str, data.obs_names))
    return found


def _dense(array: Any, allowed: Allowance) -> Any:
    """Return a sparse matrix as a dense array, if memory allows; return anything else unchanged."""
    if not hasattr(array, "toarray"):
        return array
    n, d = array.shape
    allowed.check_matrix(n, d, "the dense form of a matrix")
    return array.toarray()


def _from_named(arrays: dict[str, np.ndarray], allowed: Allowance) -> Columns:
    matrices = {
        name: a for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "fiub" and a.size
    }
    chosen = {name: a for name, a in matrices.items() if min(a.shape) > 1} or matrices
    if len(chosen) > 1:
        chosen = {name: a for name, a in chosen.items() if name.lower() in _DATA}
    if len(chosen) != 1:
        shapes = ", ".join(f"{quote(name)} {a.shape}" for name, a in list(arrays.items())[:6])
        raise TableError(f"the file must hold one matrix, or one called X, got {shapes or 'none'}")
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
    all_names = [*(names or default_names(d)), *extra]
    found = _from_arrays(all_names, [*x.T, *extra.values()], allowed)
    found.num_candidates, found.named = d, names is not None
    return found


def _from_arrays(names: list[str], arrays: list[Any], allowed: Allowance) -> Columns:
    """Return the columns from arrays: real numbers as float64, other types as strings.

    A column in which all values are missing holds numbers.
    """
    if not arrays or not len(arrays[0]):
        raise TableError("the table is empty")
    allowed.check_matrix(len(arrays[0]), len(arrays))
    found = Columns(names, [], len(names))
    for array in arrays:
        if isinstance(array, np.ndarray) and array.dtype.kind in "fiub":
            found.arrays.append(array.astype(np.float64, copy=False))
            continue
        words = [None if value is None else str(value) for value in array]
        kind = float if all(word is None for word in words) else object
        found.arrays.append(np.array(words, dtype=kind))
    return found
