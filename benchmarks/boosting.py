"""Shared code of the AdaBoost experiments: MNIST's 4 and 9, and the errors of many boosted models.

The stumps are f_j ≥ 128 with both signs, for T = 30 rounds, over the M pixels with the best scores.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import data
from jaxfs.surrogates import adaboost

DIGITS = (4, 9)
THRESHOLD = 128 / 255
ROUNDS = 30


class Digits(NamedTuple):
    """Images (n, 784) float32 in [0, 1], and 0 for a 4, 1 for a 9."""

    x: np.ndarray
    y: np.ndarray


def digits(part: str = "train") -> Digits:
    x, y = data.mnist(part)
    keep = np.isin(y, DIGITS)
    return Digits((x[keep] / 255).astype(np.float32), (y[keep] == DIGITS[1]).astype(np.int32))


def draw(rng: np.random.Generator, y, counts: tuple[int, int]) -> np.ndarray:
    """Indices of `counts` samples of class 0 and of class 1, with the classes alternating."""
    parts = [rng.permutation(np.flatnonzero(y == c))[:m] for c, m in enumerate(counts)]
    places = [(np.arange(m) + 0.5) / m for m in counts]
    return np.concatenate(parts)[np.argsort(np.concatenate(places), kind="stable")]


@jax.jit
def errors(x, y, weights, train, orders, counts, test_x, test_y):
    """The balanced test error of every model, (combinations, numbers of features).

    `train (b, n)` are rows of `x`. `weights (b, n)` are 0 for rows that a model does not see.
    `orders (b, k)` are the k best pixels of each ranking, and `counts (m,)` the numbers of them to
    use. `vmap` boosts all numbers of features of a ranking at once; `lax.map` loops over rankings.
    """
    sets = jnp.arange(orders.shape[1])[None] < counts[:, None]

    def one(combination):
        rows, w, order = combination
        own, codes, seen = x[rows][:, order], y[rows], test_x[:, order]

        def error(features):
            model = adaboost.fit(
                own, codes, num_rounds=ROUNDS, thresholds=THRESHOLD, features=features, weights=w
            )
            wrong = adaboost.predict(model, seen) != test_y
            return 0.5 * sum(jnp.mean(wrong, where=test_y == c) for c in (0, 1))

        return jax.vmap(error)(sets)

    return lax.map(one, (train, weights, orders), batch_size=4)
