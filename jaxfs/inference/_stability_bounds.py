"""Bounds on the expected number of false features that stability selection selects.

A feature is selected if it is among the q best of d features in at least a share τ of the 2B
halves of B complementary pairs. With θ = q / d, the bounds limit the expected number of selected
features whose probability of being among the q best is at most θ, as for features chosen at random.
"""

import functools
import math

import numpy as np

from jaxfs import _checks

#: Assumptions on the distribution of the frequencies, from the weakest to the strongest.
ASSUMPTIONS = ("none", "unimodal", "r-concave")


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
