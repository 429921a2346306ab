"""Shared code of the tables of clustering accuracies: feature counts, k-means, summaries."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from sklearn.cluster import KMeans

from jaxfs import evaluate

#: Numbers of features in section 5.1 of the SSFS paper.
FEATURE_COUNTS = (2, 5, 10, 20, 30, 40, 50, 100, 150, 200, 250, 300)
NUM_RUNS = 20
#: Smallest count in the mean over counts: smaller counts depend more on luck than on the ranking.
FEWEST = 10


def standardized(x) -> np.ndarray:
    """Features scaled to mean 0 and variance 1; constant features become 0."""
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=0)
    deviation = x.std(axis=0)
    return x / np.where(deviation > 0, deviation, 1)


def accuracies(x, y, order) -> np.ndarray:
    """Accuracies (counts, runs) of k-means on the first 2, 5, 10 … z-scored features."""
    return subset_accuracies(x, y, [order[:count] for count in FEATURE_COUNTS])


def random_accuracies(x, y) -> np.ndarray:
    """Accuracies (counts, runs) of random features, drawn separately for every count."""
    orders = [np.random.default_rng(c).permutation(x.shape[1]) for c in FEATURE_COUNTS]
    return subset_accuracies(x, y, [o[:c] for o, c in zip(orders, FEATURE_COUNTS, strict=True)])


def all_accuracies(x, y) -> np.ndarray:
    """Accuracies (1, runs) of all features."""
    return subset_accuracies(x, y, [np.arange(x.shape[1])])


def subset_accuracies(x, y, subsets: Sequence[np.ndarray]) -> np.ndarray:
    """Accuracies (subsets, runs) of k-means, k the number of classes, with the seeds 0 … 19."""
    x, k = standardized(x), len(np.unique(y))
    clusters = [
        KMeans(k, n_init=1, random_state=run).fit_predict(x[:, chosen])
        for chosen in subsets
        for run in range(NUM_RUNS)
    ]
    match = jax.vmap(lambda c: evaluate.clustering_accuracy(y, c, num_classes=k))
    return np.asarray(match(np.stack(clusters)), np.float64).reshape(-1, NUM_RUNS)


class Summary(NamedTuple):
    """The best mean over runs, and the mean over runs and counts ≥ 10, in per cent.

    `mean_deviation` is the standard deviation over runs, each averaged over its counts.
    """

    best: float
    best_deviation: float
    best_count: int | None
    mean: float
    mean_deviation: float

    def __str__(self) -> str:
        count = "(all)" if self.best_count is None else f"({self.best_count})"
        return (
            f"best {self.best:5.1f} ± {self.best_deviation:3.1f} {count:6s}"
            f"mean {self.mean:5.1f} ± {self.mean_deviation:3.1f}"
        )


def summary(table: np.ndarray) -> Summary:
    """Summary of accuracies (counts, runs); (1, runs) if the features do not depend on a count."""
    table = 100 * table
    i = int(np.argmax(table.mean(axis=1)))
    per_run = table.mean(axis=0)
    if len(table) > 1:
        per_run = table[np.array(FEATURE_COUNTS) >= FEWEST].mean(axis=0)
    return Summary(
        table[i].mean(),
        table[i].std(),
        FEATURE_COUNTS[i] if len(table) > 1 else None,
        per_run.mean(),
        per_run.std(),
    )


def ranks(values: np.ndarray) -> np.ndarray:
    """Mean rank of each method from accuracies (methods, sets); 1 is best, ties share ranks."""
    above = (values[None] > values[:, None]).sum(axis=1)
    tied = (values[None] == values[:, None]).sum(axis=1)
    return (above + 0.5 * (tied + 1)).mean(axis=1)
