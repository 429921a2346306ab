"""Stability selection: features that a score ranks among the best in most halves of the samples."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._types import ArrayLike, Record, Static, static_function

#: Assumptions on the distribution of the frequencies, from the weakest to the strongest.
ASSUMPTIONS = ("none", "unimodal", "r-concave")


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


# ---- Bounds on the expected number of false features --------------------------------------------

# A feature is selected if it is among the q best of d features in at least a share τ of the 2B
# halves of B complementary pairs. With θ = q / d, the bounds limit the expected number of selected
# features whose probability of being among the q best is at most θ, as for features chosen at
# random.


def false_selection_bounds(
    num_features: int, d: int, num_pairs: int, threshold: float
) -> dict[str, float]:
    """Return bounds on the expected number of false features, one for each assumption.

    The q = `num_features` best of `d` features are taken in each half of B = `num_pairs` pairs, and
    a feature is selected if its frequency is at least τ = `threshold`, in (0, 1]. A bound is
    infinite where its theorem does not apply.

    - `"none"`: q² / (d (2τ − 1)) for τ > ½. Meinshausen and Bühlmann (2010, theorem 1) assume
      exchangeable noise features; Shah and Samworth (2013, theorem 1) prove it without this.
    - `"unimodal"`: C(τ, B) q² / d, if the share of pairs in which a feature is selected in both
      halves has a unimodal distribution (Shah and Samworth 2013, theorem 2, for θ ≤ 1/√3).
    - `"r-concave"`: d min{D(θ², 2τ − 1, B, −½), D(θ, τ, 2B, −¼)}, if that share is −½-concave and
      the frequency −¼-concave (Shah and Samworth 2013, eq. 8).
    """
    d = _checks.integer(d, "d", low=2)
    q = _checks.integer(num_features, "num_features", low=1, high=d - 1)
    b = _checks.integer(num_pairs, "num_pairs", low=1)
    tau = float(_checks.number(threshold, "threshold", low=0, high=1, open_low=True, scalar=True))
    theta = q / d
    scale = q * theta
    simple = scale / (2 * tau - 1) if tau > 0.5 else math.inf
    unimodal = math.inf
    low = min(0.5 + theta**2, 0.5 + 1 / (2 * b) + 0.75 * theta**2)
    if theta <= 1 / math.sqrt(3) and tau > low:
        if tau <= 0.75:
            unimodal = scale / (2 * (2 * tau - 1 - 1 / (2 * b)))
        else:
            unimodal = scale * 4 * (1 - tau + 1 / (2 * b)) / (1 + 1 / b)
    concave = math.inf
    if tau > 0.5:
        # Frequencies are multiples of 1 / (2B): at least τ means at least the next multiple.
        place = math.ceil(2 * b * tau - 1e-9)
        both = tail_bounds(theta**2, b, -0.5)[max(place - b, 1) - 1] if place > b else 1.0
        concave = d * min(both, tail_bounds(theta, 2 * b, -0.25)[place - 1])
    return dict(zip(ASSUMPTIONS, (simple, unimodal, concave), strict=True))


@functools.lru_cache(maxsize=64)
def tail_bounds(eta: float, size: int, r: float) -> tuple[float, ...]:
    """Return D(η, t, B, r) for t = 1/B, 2/B, …, 1, with B = `size`.

    D is the largest P(X ≥ t) of an r-concave X on {0, 1/B, …, 1} with E X ≤ η. The maximum is
    attained by a mass function proportional to (a + i)^{1/r} on i = 0 … k, with an extra mass
    at k + 1 that is at most what the formula gives. Values of t up to 2η are given the bound 1.

    **Reference** Shah and Samworth 2013, section 3.3 and appendix A.4.
    """
    power, mean = 1 / r, eta * size
    start = math.ceil(2 * mean) + 1
    out = np.ones(size)
    if start > size:
        return tuple(out.tolist())
    i = np.arange(size + 1.0)
    steps = np.arange(start, size + 1)  # the candidates k
    within = i[None] <= steps[:, None]
    a = _shifts(mean, power, i, within)
    # a[k] gives mean η on 0 … k. For k < B the shift is between a[k + 1] and a[k]; for k = B it is
    # a[B].
    low, high = np.append(a[1:], a[-1]), a
    for t in range(start, size + 1):
        eligible = steps >= t - 1
        grid = _best_tail(low[eligible], high[eligible], steps[eligible], t, mean, power, i)
        out[t - 1] = min(1.0, float(grid))
    return tuple(out.tolist())


def _shifts(mean: float, power: float, i, within):
    """The shift a of each k at which the mass (a + i)^power on 0 … k has the given mean."""
    low = np.full(within.shape[0], math.log(1e-9))
    high = np.full(within.shape[0], math.log(1e9))
    for _ in range(80):
        middle = (low + high) / 2
        mass = np.where(within, (np.exp(middle)[:, None] + i[None]) ** power, 0)
        above = mass @ i / mass.sum(axis=1) > mean
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp((low + high) / 2)


def _best_tail(low, high, k, t: int, mean: float, power: float, i) -> float:
    """The largest 1 − P(X < t) over k and shifts in [low, high], by golden-section search."""
    ratio = (math.sqrt(5) - 1) / 2

    def tail(a):
        mass = (a[:, None] + i[None]) ** power
        below = (k + 1 - mean) * mass[:, :t].sum(axis=1)
        whole = np.where(i[None] <= k[:, None], (k[:, None] + 1 - i[None]) * mass, 0).sum(axis=1)
        return 1 - below / whole

    best = np.maximum(tail(low), tail(high))
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = tail(left), tail(right)
        best = np.maximum(best, np.maximum(at_left, at_right))
        low, high = (
            np.where(at_left > at_right, low, left),
            np.where(at_left > at_right, right, high),
        )
    return best.max()
