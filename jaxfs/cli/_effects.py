"""What single features say about the target: direction, effect size, p-value and q-value.

These describe the selected features to a reader. They do not depend on the method.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from jaxfs.cli._answer import Answer, class_name, standardize_columns
from jaxfs.cli.tables._table import Table
from jaxfs.inference import anova_test, f_regression_test

#: False discovery rate at which features count as related to the target.
_FDR = 0.05


@dataclasses.dataclass(frozen=True)
class Effects:
    """The relation of each selected feature to the target.

    `measure`, `sizes (k,)`: the effect size. It is Cohen's d for two classes, η² (the share of the
    variance between classes) for several, and the correlation for numbers. `directions`: the
    class in which the feature is highest, or whether it rises or falls with the target. `test`,
    `p_values (k,)`, `q_values (k,)`: the test of each feature, with q-values (Benjamini–Hochberg)
    over all features of the table.
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


def labels(table: Table, answer: Answer) -> tuple[np.ndarray | None, list[str]]:
    """Return the target of a method as class codes or numbers, and the names of the classes."""
    if table.target is None or answer.method.targets == "none":
        return None, []
    if not answer.classes:
        return table.target, []
    classes, codes = np.unique(table.target, return_inverse=True)
    return codes, [*map(class_name, classes)]


def effects(table: Table, answer: Answer) -> Effects | None:
    """Return the relations of the selected features to the target, or `None` without a target."""
    y, names = labels(table, answer)
    if y is None:
        return None
    x = standardize_columns(table.values)
    with jax.enable_x64(True):
        if names:
            test, found = "ANOVA", anova_test(x, y, num_classes=len(names))
        else:
            test, found = "correlation", f_regression_test(x, y)
    x = x[:, answer.order]
    measure, sizes, directions = _sizes(x, y, names, str(table.target_name))
    p, q = (np.asarray(values)[answer.order] for values in found[1:])
    return Effects(measure, sizes, directions, test, p, q)


def _sizes(
    x: np.ndarray, y: np.ndarray, names: list[str], target: str
) -> tuple[str, np.ndarray, list[str]]:
    """Return the effect size of standardised features: its name, values and directions."""
    if not names:
        r = standardize_columns(y[:, None])[:, 0] @ x / len(x)
        return "correlation", r, [f"{'rises' if v >= 0 else 'falls'} with {target}" for v in r]
    counts = np.bincount(y)
    members = (y == np.arange(len(names))[:, None]).astype(float)
    means = members @ x / counts[:, None]
    where = "higher" if len(names) == 2 else "highest"
    directions = [f"{where} in {names[c]}" for c in means.argmax(axis=0)]
    between = counts @ means**2
    if len(names) > 2:
        return "η²", between / len(x), directions
    within = np.maximum((x**2).sum(axis=0) - between, 0) / max(len(x) - 2, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return "Cohen's d", np.abs(means[1] - means[0]) / np.sqrt(within), directions
