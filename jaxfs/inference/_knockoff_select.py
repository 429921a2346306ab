"""Selection with knockoffs: the false discovery rate is controlled for any score."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Record, Static, static_function
from jaxfs.inference._knockoffs import METHODS, check_covariance, sampler


class KnockoffSelection(Record):
    """Result of a selection with m knockoff copies.

    - `selected (d,)`: mask of the selected features.
    - `statistics (m, d)`: W, the score of each feature minus the score of its copy.
    - `thresholds (m,)`: the knockoff+ threshold of each copy; infinite if nothing passes.
    - `e_values (d,)`: mean over the copies of d 1{W_j ≥ T} / (1 + #{W ≤ −T}).
    - `least`: ⌈1 / fdr⌉, the smallest number of features that can be selected.
    """

    selected: Bool[Array, "d"]
    statistics: Float[Array, "m d"]
    thresholds: Float[Array, "m"]
    e_values: Float[Array, "d"]
    least: int = eqx.field(static=True)

    @property
    def message(self) -> str:
        """A sentence on the number of selected features; not for use under `jit`."""
        number = int(self.selected.sum())
        if number:
            return f"{number} of {self.selected.size} features are selected."
        best = int(jnp.max(jnp.sum(self.statistics > 0, axis=1)))
        if best < self.least:
            return (
                f"No feature is selected: at this FDR at least {self.least} features must be "
                f"selected together, and only {best} score higher than their copies."
            )
        return "No feature is selected: too many copies score as high as the features."


def knockoff_select(
    key: Array,
    score: Callable[[Array, Any, Array], Array],
    x: ArrayLike,
    y: ArrayLike,
    *,
    fdr: float = 0.1,
    num_copies: int = 1,
    covariance: ArrayLike | None = None,
    method: str = "mvr",
    chunk_size: int = 8,
) -> KnockoffSelection:
    """Select features with a bound on the false discovery rate, by their knockoff copies.

    The score is computed on the 2d columns of features and copies: W_j = s_j − s̃_j. A feature that
    is independent of the labels given all other features has W_j > 0 or W_j < 0 with equal
    probability. With one copy the features with W_j ≥ T are selected (knockoff+),

        T = min { t > 0 : (1 + #{W ≤ −t}) / max(1, #{W ≥ t}) ≤ fdr }.

    With several copies, T is taken at fdr / 2, the e-values of the copies are averaged, and the
    features of the k largest e-values are selected, for the largest k at which the k-th is at least
    d / (k fdr) (e-BH). The selection then depends less on the random copies.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `score`: static; `score(z, y, weights)` returns `(2d,)` for `z (n, 2d)`, such as
      `inference.lasso_score`, or a filter as in `permutation_test`.
    - `x`, `covariance`, `method`, `num_copies`: as in `knockoffs`. Ten to fifty copies are usual.
    - `y`: `(n, …)`, passed to the score.
    - `fdr`: the accepted false discovery rate, in (0, 1). At least 1 / fdr features are selected,
      or none; `message` of the result explains an empty selection.
    - `chunk_size`: static, the number of copies scored at a time.

    **Returns** `KnockoffSelection`.

    **Numerics** the guarantee holds for Gaussian features with a known covariance, and
    approximately for an estimated one. Each pair of a feature and its copy is given to the score
    in random order, so that the order of the columns has no effect. If a score is NaN, W_j is NaN
    and the feature is not selected.

    **Cost** the cost of `knockoffs`, and one score of 2d columns for each copy.

    **Reference** Candès, Fan, Janson and Lv 2018, eq. 3.9 (knockoff+); Ren and Barber,
    *Derandomised knockoffs: leveraging e-values for false discovery rate control*, JRSS B 86, 2023,
    algorithm 2; Wang and Ramdas, *False discovery rate control with e-values*, JRSS B 84, 2022.

    >>> import jax
    >>> from jaxfs.inference import lasso_score
    >>> x = jax.random.normal(jax.random.key(0), (300, 40))
    >>> y = x[:, :12].sum(axis=1)
    >>> result = knockoff_select(jax.random.key(1), lasso_score, x, y, fdr=0.2)
    >>> bool(result.selected[:12].all())
    True
    """
    _checks.key(key)
    x, covariance = check_covariance(x, covariance)
    n, d = x.shape
    y = _checks.targets(y, n)
    function = static_function(score, "score", "a function of x, y and weights")
    fdr = float(_checks.number(fdr, "fdr", low=0, high=1, open_low=True, scalar=True))
    if fdr == 1:
        raise _checks.fail("fdr", "in (0, 1)", fdr)
    least = math.ceil(1 / fdr - 1e-9)
    if d < least:
        raise _checks.fail("fdr", f"at least 1 / {d}, because x has {d} features", fdr)
    _checks.option(method, "method", METHODS)
    copies = _checks.integer(num_copies, "num_copies", low=1)
    chunk = min(_checks.integer(chunk_size, "chunk_size", low=1), copies)
    w = _statistics(key, function, x, y, covariance, method, copies, chunk)
    selected, thresholds, e = _select(w, fdr)
    return KnockoffSelection(selected, w, thresholds, e, least)


@functools.partial(jax.jit, static_argnames=("score", "method", "copies", "chunk"))
def _statistics(key, score: Static, x, y, covariance, method: str, copies: int, chunk: int):
    n, d = x.shape
    draw, ones = sampler(x, covariance, method), jnp.ones(n, x.dtype)

    def one(i):
        for_copy, for_order = jax.random.split(jax.random.fold_in(key, i))
        copy = draw(for_copy)
        swap = jax.random.bernoulli(for_order, shape=(d,))
        pairs = [jnp.where(swap[None], copy, x), jnp.where(swap[None], x, copy)]
        s = score.value(jnp.concat(pairs, axis=1), y, ones)
        _checks.returned_scores(s, 2 * d, "column")
        w = s[:d] - s[d:]
        return jnp.where(swap, -w, w)

    return lax.map(one, jnp.arange(copies), batch_size=chunk)


@functools.partial(jax.jit, static_argnames="fdr")
def _select(w: Float[Array, "m d"], fdr: float):
    d = w.shape[1]
    level = fdr if w.shape[0] == 1 else fdr / 2
    known = jnp.where(jnp.isnan(w), 0, w)
    thresholds = jax.vmap(lambda w: knockoff_threshold(w, level))(known)
    passed = known >= thresholds[:, None]
    false = jnp.sum(known <= -thresholds[:, None], axis=1, dtype=w.dtype)
    e = jnp.mean(jnp.where(passed, d / (1 + false)[:, None], 0), axis=0)
    if w.shape[0] == 1:  # e-BH selects the same, up to rounding
        return passed[0], thresholds, e
    ordered = jnp.sort(e, descending=True)
    rank = jnp.arange(1, d + 1, dtype=w.dtype)
    # 1e-6: an e-value that equals its bound must not miss it by rounding.
    number = jnp.max(jnp.where(ordered * rank * fdr >= d * (1 - 1e-6), rank, 0))
    bar = jnp.where(number > 0, ordered[jnp.maximum(number, 1).astype(int) - 1], jnp.inf)
    return e >= bar, thresholds, e


def knockoff_threshold(w: Float[Array, "d"], level: float) -> Float[Array, ""]:
    """T of knockoff+: the smallest |W_j| > 0 at which the estimated FDR is at most `level`."""
    size = jnp.sort(jnp.abs(w))
    ordered = jnp.sort(w)
    d = w.shape[0]
    above = d - jnp.searchsorted(ordered, size, side="left")
    below = jnp.searchsorted(ordered, -size, side="right")
    ratio = (1 + below).astype(w.dtype) / jnp.maximum(above, 1).astype(w.dtype)
    return jnp.min(jnp.where((size > 0) & (ratio <= level * (1 + 1e-6)), size, jnp.inf))
