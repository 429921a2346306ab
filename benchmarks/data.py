"""Readers of the real data sets, in the folder that JAXFS_DATA names (by default `data/`).

The `.mat` files with `X` and `Y` come from the scikit-feature collection. `mnist/` holds the four
gzipped IDX files of the MNIST site.
"""

import gzip
import os
import struct
import sys
from pathlib import Path

import numpy as np
from scipy.io import loadmat


def folder() -> Path:
    path = Path(os.environ.get("JAXFS_DATA", "data"))
    if not path.is_dir():
        sys.exit(f"no data folder {path}: set JAXFS_DATA (see benchmarks/data.py)")
    return path


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """`X (n, d)` in float64 and the class codes 0 … C−1 of a `.mat` file."""
    contents = loadmat(folder() / f"{name}.mat")
    codes = np.unique(np.ravel(contents["Y"]), return_inverse=True)[1]
    return np.asarray(contents["X"], np.float64), codes


def mnist(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784) with values 0 … 255 in float64, and digits; `part` is `train` or `t10k`."""
    return (
        _idx(f"{part}-images-idx3-ubyte.gz").reshape(-1, 784).astype(np.float64),
        _idx(f"{part}-labels-idx1-ubyte.gz").astype(np.int64),
    )


def _idx(name: str) -> np.ndarray:
    with gzip.open(folder() / "mnist" / name) as file:
        _, dimensions = struct.unpack(">HxB", file.read(4))
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)
