"""Filters, GC and GKL for tables larger than memory, computed from blocks of rows.

The functions read a source (`from_npy`, `from_parquet`, `from_blocks`) in a few passes and never
hold the whole table. Up to rounding, each function gives the same result as the function of the
same name in `jaxfs` on the whole table; see its docstring. The functions cannot be called under
`jit`: the passes run on the host, and the arithmetic runs on the device.

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
