"""What the tables of clustering accuracies share: the counts of features, k-means, summaries."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from sklearn.cluster import KMeans

from jaxfs import evaluate

#: SSFS, section 5.1.
FEATURE_COUNTS = (2, 5, 10, 20, 30, 40, 50, 100, 150, 200, 250, 300)
NUM_RUNS = 20
#: From here on a mean over counts is taken: fewer features say more of luck than of a ranking.
FEWEST = 10


def standardized(x) -> np.ndarray:
    """Features of mean 0 and variance 1; constant ones are 0."""
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=0)
    deviation = x.std(axis=0)
    return x / np.where(deviation > 0, deviation, 1)


def accuracies(x, y, order) -> np.ndarray:
    """(counts, runs): k-means on the first 2, 5, 10 … features of `order`, z-scored."""
    return subset_accuracies(x, y, [order[:count] for count in FEATURE_COUNTS])


def random_accuracies(x, y) -> np.ndarray:
    """(counts, runs) of features drawn anew for every count, as the paper's baseline."""
    orders = [np.random.default_rng(c).permutation(x.shape[1]) for c in FEATURE_COUNTS]
    return subset_accuracies(x, y, [o[:c] for o, c in zip(orders, FEATURE_COUNTS, strict=True)])


def all_accuracies(x, y) -> np.ndarray:
    """(1, runs) of all features."""
    return subset_accuracies(x, y, [np.arange(x.shape[1])])


def subset_accuracies(x, y, subsets: Sequence[np.ndarray]) -> np.ndarray:
    """(subsets, runs): the accuracy of k-means, k the number of classes, seeds 0 … 19."""
    x, k = standardized(x), len(np.unique(y))
    clusters = [
        KMeans(k, n_init=1, random_state=run).fit_predict(x[:, chosen])
        for chosen in subsets
        for run in range(NUM_RUNS)
    ]
    match = jax.vmap(lambda c: evaluate.clustering_accuracy(y, c, num_classes=k))
    return np.asarray(match(np.stack(clusters)), np.float64).reshape(-1, NUM_RUNS)


class Summary(NamedTuple):
    """In per cent: the best mean over runs, and the mean over runs and counts ≥ 10.

    `mean_deviation` is that of the runs, each averaged over its counts.
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
    """Of accuracies (counts, runs), or (1, runs) where the features do not depend on a count."""
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
    """(methods, sets) accuracies → mean rank of each method, 1 the best, ties shared."""
    above = (values[None] > values[:, None]).sum(axis=1)
    tied = (values[None] == values[:, None]).sum(axis=1)
    return (above + 0.5 * (tied + 1)).mean(axis=1)
