"""What single features say about the target: direction, effect size, p-value and q-value.

The output shows these numbers for each selected feature. They do not depend on the method.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np

from jaxfs.cli._answer import Answer, standardize_columns
from jaxfs.cli.tables._columns import as_text
from jaxfs.inference import anova_test, f_regression_test

#: False discovery rate at which features count as related to the target.
_FDR = 0.05


@dataclasses.dataclass(frozen=True)
class Effects:
    """The relation of each selected feature to the target.

    `measure`, `sizes (k,)`: the effect size. It is Cohen's d for two classes, η² (the share of the
    variance between classes) for several, and the correlation for numbers. `directions`: the class
    in which the mean of the feature is highest, or whether the feature rises or falls with the
    target. `test`, `p_values (k,)`, `q_values (k,)`: the test of each feature, with q-values
    (Benjamini–Hochberg) over all features of the table.
    """

    measure: str
    sizes: np.ndarray
    directions: Sequence[str]
    test: str
    p_values: np.ndarray
    q_values: np.ndarray


def significance(found: Effects, d: int) -> str:
    """Return a sentence: how many selected features are related to the target, at an FDR of 5%."""
    count, k = int((found.q_values <= _FDR).sum()), len(found.q_values)
    alone = f"Alone, {count:,} of the {k:,} selected features are related to the target"
    return f"{alone} ({found.test}, q ≤ {_FDR} over all {d:,} features)."


def labels(answer: Answer) -> tuple[np.ndarray | None, list[str]]:
    """Return the target of a method as class codes or numbers, and the names of the classes."""
    table = answer.table
    if table.target is None or answer.method.targets == "none":
        return None, []
    if not answer.classes:
        return table.target, []
    classes, codes = np.unique(table.target, return_inverse=True)
    return codes, [*map(as_text, classes)]


@functools.lru_cache(maxsize=1)
def effects(answer: Answer) -> Effects | None:
    """Return the relations of the selected features to the target, or `None` without a target."""
    table, (y, names) = answer.table, labels(answer)
    if y is None:
        return None
    x = standardize_columns(table.values)
    with jax.enable_x64(True):
        if names:
            test, found = "ANOVA", anova_test(x, y, num_classes=len(names))
        else:
            test, found = "correlation", f_regression_test(x, y)
    x = x[:, answer.order]
    f, p, q = (np.asarray(values)[answer.order] for values in found)
    if not names:
        r = standardize_columns(y[:, None])[:, 0] @ x / len(x)
        ways = [f"{'rises' if v >= 0 else 'falls'} with {table.target_name}" for v in r]
        return Effects("correlation", r, ways, test, p, q)
    counts = np.bincount(y)
    means = (y == np.arange(counts.size)[:, None]).astype(float) @ x / counts[:, None]
    where = "higher" if counts.size == 2 else "highest"
    directions = [f"{where} in {names[c]}" for c in means.argmax(axis=0)]
    if counts.size == 2:
        return Effects("Cohen's d", np.sqrt(f * (1 / counts).sum()), directions, test, p, q)
    with np.errstate(divide="ignore"):  # F may be 0
        share = 1 / (1 + (len(x) - counts.size) / (counts.size - 1) / f)
    return Effects("η²", share, directions, test, p, q)
