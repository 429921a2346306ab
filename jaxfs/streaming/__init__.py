"""Filters, GC and GKL for tables larger than memory, from blocks of rows.

A source (`from_npy`, `from_parquet`, `from_blocks`) is read in a few passes and is never held as a
whole. The results are those of the functions of the same name on the whole table, to rounding;
their docstrings explain them. Nothing here runs under `jit`: the passes run on the host, and the
arithmetic on the device.

>>> import numpy as np
>>> def read():
...     for seed in range(4):
...         x = np.random.default_rng(seed).normal(size=(50, 3))
...         yield x, (x[:, 1] > 0).astype(int)
>>> source = from_blocks(read)
>>> gc_select(source, 1, num_classes=2).indices.tolist(), int(anova_score(source, 2).argmax())
([1], 1)
"""

from jaxfs.streaming._blocks import Source, from_blocks, from_npy, from_parquet
from jaxfs.streaming._selectors import (
    anova_score,
    chi2_score,
    f_regression_score,
    fisher_score,
    gc_select,
    gkl_select,
    pearson_score,
    t_score,
    variance_score,
)

__all__ = [
    "anova_score",
    "chi2_score",
    "f_regression_score",
    "fisher_score",
    "from_blocks",
    "from_npy",
    "from_parquet",
    "gc_select",
    "gkl_select",
    "pearson_score",
    "Source",
    "t_score",
    "variance_score",
]
