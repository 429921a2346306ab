"""The real data sets, from the folder that JAXFS_DATA names (by default `data/`).

`.mat` files with `X` and `Y` are those of the scikit-feature collection; `mnist/` holds the four
IDX files of the MNIST site, gzipped.
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
    """X (n, d) float64 and class codes 0 … C−1 of a `.mat` file."""
    contents = loadmat(folder() / f"{name}.mat")
    codes = np.unique(np.ravel(contents["Y"]), return_inverse=True)[1]
    return np.asarray(contents["X"], np.float64), codes


def mnist(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784), 0 … 255 as float64, and digits; `part` is `train` or `t10k`."""
    return (
        _idx(f"{part}-images-idx3-ubyte.gz").reshape(-1, 784).astype(np.float64),
        _idx(f"{part}-labels-idx1-ubyte.gz").astype(np.int64),
    )


def _idx(name: str) -> np.ndarray:
    with gzip.open(folder() / "mnist" / name) as file:
        _, dimensions = struct.unpack(">HxB", file.read(4))
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)
