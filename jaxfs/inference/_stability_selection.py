"""Stability selection: features that a score ranks among the best in most halves of the samples."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._types import ArrayLike, Record, Static, static_function
from jaxfs.inference._stability_bounds import ASSUMPTIONS, false_selection_bounds


class StabilitySelection(Record):
    """Result of stability selection.

    - `selected (d,)`: mask of the features whose frequency is at least the threshold.
    - `frequencies (d,)`: share of the 2B halves in which a feature is among the q best.
    - `simultaneous (d,)`: share of the B pairs in which it is among the q best of both halves.
    - `threshold`: τ.
    - `bound`: the bound on the expected number of false selections, the smallest of `bounds` whose
      assumption was accepted.
    - `assumption`: the name of that bound's assumption.
    - `bounds`: the bounds under the assumptions `"none"`, `"unimodal"` and `"r-concave"`.
    """

    selected: Bool[Array, "d"]
    frequencies: Float[Array, "d"]
    simultaneous: Float[Array, "d"]
    threshold: float = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    assumption: str = eqx.field(static=True)
    bounds: tuple[tuple[str, float], ...] = eqx.field(static=True)


def stability_selection(
    key: Array,
    score: Callable[[Array, Any, Array], Array],
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    num_features: int,
    num_pairs: int = 50,
    pfer: float = 1.0,
    threshold: float | None = None,
    assumption: str = "r-concave",
    weights: ArrayLike | None = None,
    chunk_size: int = 16,
) -> StabilitySelection:
    """Select the features that are among the q best in most random halves of the samples.

    The samples are split B times into two disjoint halves. A feature is selected if its frequency
    among the q best features of the 2B halves is at least τ. The expected number of false
    selections is bounded; a false feature is among the q best with probability at most q / d, as a
    random feature is.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `score`: static; `score(x, y, weights)` returns `(d,)`, as in `permutation_test`. It receives
      weight 0 for samples outside the half.
    - `x`: `(n, d)`.
    - `y`: passed to the score. If it holds integers or booleans `(n,)`, every class is split in
      halves, so that each half has all classes.
    - `num_features`: static, q < d, the number of best features of each half.
    - `num_pairs`: static, B.
    - `pfer`: the largest accepted bound on the expected number of false selections. The
      threshold is the smallest for which an accepted bound is at most `pfer`.
    - `threshold`: τ in (½, 1]; if given, `pfer` is not used.
    - `assumption`: static, the strongest accepted assumption: `"none"`, `"unimodal"` or
      `"r-concave"`. `false_selection_bounds` describes the bounds.
    - `weights`: `(n,)`, nonnegative sample weights. A sample of weight 0 is in no half.
    - `chunk_size`: static, the number of halves scored at a time.

    **Returns** `StabilitySelection`.

    **Numerics** ties go to the lowest feature index. A score of NaN is never among the best. A half
    has ⌊n_c / 2⌋ samples of each class c; the odd sample is in neither half of a pair.

    **Cost** 2B scores on n samples.

    **Reference** Shah and Samworth, *Variable selection with error control: another look at
    stability selection*, JRSS B 75, 2013; Meinshausen and Bühlmann, *Stability selection*, JRSS B
    72, 2010.

    >>> import jax
    >>> from jaxfs.inference import AnovaScore
    >>> x = jax.random.normal(jax.random.key(0), (60, 20))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> result = stability_selection(jax.random.key(1), AnovaScore(2), x, y, num_features=2)
    >>> result.selected.nonzero()[0].tolist(), result.assumption
    ([3], 'r-concave')
    """
    x = _checks.samples(x, n=2, d=2)
    n, d = x.shape
    _checks.key(key)
    function = static_function(score, "score", "a function of x, y and weights")
    q = _checks.integer(num_features, "num_features", low=1, high=d - 1)
    pairs = _checks.integer(num_pairs, "num_pairs", low=1)
    _checks.option(assumption, "assumption", ASSUMPTIONS)
    tau, name, bounds = _threshold(q, d, pairs, pfer, threshold, assumption)
    classes = jnp.zeros(n, jnp.int32)
    if y is not None:
        y = _checks.targets(y, n)
        if y.shape == (n,) and jnp.issubdtype(y.dtype, jnp.integer):
            classes = y.astype(jnp.int32)
    w = _checks.weights(weights, "weights", n, x.dtype)
    chunk = min(_checks.integer(chunk_size, "chunk_size", low=1), 2 * pairs)
    masks = complementary_halves(key, classes, w > 0, pairs)
    frequencies, both = _frequencies(function, x, y, w, masks, q, chunk)
    selected = frequencies >= tau - 1e-6  # frequencies are multiples of 1 / (2B), rounded
    return StabilitySelection(
        selected, frequencies, both, tau, bounds[name], name, tuple(bounds.items())
    )


def _threshold(q, d, pairs, pfer, threshold, assumption) -> tuple[float, str, dict[str, float]]:
    """Return τ, the assumption of the smallest accepted bound, and all bounds."""
    accepted = ASSUMPTIONS[: ASSUMPTIONS.index(assumption) + 1]

    def tightest(tau):
        bounds = false_selection_bounds(q, d, pairs, tau)
        return min(accepted, key=bounds.__getitem__), bounds

    if threshold is not None:
        tau = float(_checks.number(threshold, "threshold", low=0.5, high=1, open_low=True))
        return tau, *tightest(tau)
    limit = float(_checks.number(pfer, "pfer", low=0, open_low=True))
    least = math.inf
    for place in range(pairs + 1, 2 * pairs + 1):
        tau = place / (2 * pairs)
        name, bounds = tightest(tau)
        if bounds[name] <= limit:
            return tau, name, bounds
        least = min(least, bounds[name])
    hint = f"at least {least:.3g} for num_features = {q} of {d}; or reduce num_features"
    raise _checks.fail("pfer", hint, pfer)


@functools.partial(jax.jit, static_argnames="pairs")
def complementary_halves(
    key, classes: Int[Array, "n"], present: Bool[Array, "n"], pairs: int
) -> Bool[Array, "2b n"]:
    """Return masks of disjoint halves: rows 2j and 2j + 1 are a pair, balanced in each class."""
    n = classes.shape[0]
    code = jnp.where(present, classes, jnp.iinfo(classes.dtype).max)
    listed = jnp.sort(code)
    first, end = (jnp.searchsorted(listed, code, side=side) for side in ("left", "right"))
    half = (end - first) // 2
    index = jnp.arange(n, dtype=jnp.int32)

    def pair(key):
        lots = jax.random.bits(key, (n,), jnp.uint32)
        order = lax.sort((code, lots, index), num_keys=2)[2]
        place = jnp.zeros(n, jnp.int32).at[order].set(index) - first
        return jnp.stack([place < half, (place >= half) & (place < 2 * half)]) & present[None]

    keys = jax.vmap(lambda j: jax.random.fold_in(key, j))(jnp.arange(pairs))
    return jax.vmap(pair)(keys).reshape(2 * pairs, n)


@functools.partial(jax.jit, static_argnames=("score", "q", "chunk"))
def _frequencies(score: Static, x, y, w, masks, q: int, chunk: int):
    d = x.shape[1]

    def best(mask):
        scores = _checks.returned_scores(score.value(x, y, jnp.where(mask, w, 0)), d)
        scores = lax.stop_gradient(scores)
        known = ~jnp.isnan(scores)
        order = jnp.argsort(-jnp.where(known, scores, -jnp.inf), stable=True)
        return jnp.zeros(d, bool).at[order[:q]].set(True) & known

    chosen = lax.map(best, masks, batch_size=chunk).reshape(-1, 2, d)
    frequencies = jnp.mean(chosen, axis=(0, 1), dtype=x.dtype)
    return frequencies, jnp.mean(jnp.all(chosen, axis=1), axis=0, dtype=x.dtype)
