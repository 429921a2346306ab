"""Null distributions of scores, summarised in chunks of relabelings, and q-values.

Relabeling 0 is the given data, so that the observed scores and the null scores come from one
compiled program.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps
from jaxfs._types import ArrayLike, Static

#: Corrections of p-values for the number of features.
CORRECTIONS = ("bh", "by")
#: Exceedances after which the sequential test of a feature stops (h of Besag and Clifford).
EXCEEDANCES = 20
#: Scores that differ by less than this multiple of eps, relative to the observed score, are ties.
#: Two relabelings that swap classes have the same score up to rounding.
_TIES = 100


class PermutationTest(NamedTuple):
    """Result of a permutation test of d features.

    - `scores (d,)`: the scores of the given data.
    - `null_mean (d,)`, `null_deviation (d,)`: mean and standard deviation (B − 1 in its
      denominator) of the B null scores of a feature.
    - `z (d,)`: (score − null mean) / null deviation; 0 if the score equals all null scores.
    - `p_values (d,)`: p-value of each feature, never 0.
    - `fwer_p_values (d,)`: p-values adjusted for the family-wise error rate.
    - `q_values (d,)`: p-values adjusted for the false discovery rate.
    - `num_permutations`: B, the number of relabelings used. It differs from the requested number
      if all relabelings were enumerated, or if a sequential test stopped early.
    """

    scores: Float[Array, "d"]
    null_mean: Float[Array, "d"]
    null_deviation: Float[Array, "d"]
    z: Float[Array, "d"]
    p_values: Float[Array, "d"]
    fwer_p_values: Float[Array, "d"]
    q_values: Float[Array, "d"]
    num_permutations: Int[Array, ""]


class Plan(NamedTuple):
    """The settings of a test that are static under `jit`."""

    score: Static
    number: int
    chunk: int
    sequential: bool
    correction: str


class _State(NamedTuple):
    done: Int[Array, ""]  # relabelings computed
    observed: Float[Array, "d"]
    origin: Float[Array, "d"]  # a score of each feature, subtracted from its null scores
    total: Float[Array, "d"]
    squares: Float[Array, "d"]
    #: Exceedances by the feature's own null scores (NaN if one was NaN), and by the largest of all.
    number: Float[Array, "2 d"]
    stopped: Int[Array, "2 d"]  # relabeling at which a sequential test stopped; 0 if not yet


def summarize(
    scores_of: Callable[[Int[Array, "c"]], Float[Array, "c d"]], d: int, dtype, plan: Plan
) -> PermutationTest:
    """Compare the d scores of relabeling 0 with those of the relabelings 1 … `plan.number`.

    The memory is that of the scores of one chunk.
    """
    _, number, chunk, sequential, correction = plan

    def step(state: _State) -> _State:
        index = state.done + jnp.arange(chunk, dtype=jnp.int32)
        scores = lax.stop_gradient(scores_of(jnp.minimum(index, number)))
        _checks.returned_scores(scores[0], d)
        null = ((index >= 1) & (index <= number))[:, None]
        first = state.done == 0
        observed = jnp.where(first, scores[0], state.observed)
        origin = jnp.where(first, scores[min(1, chunk - 1)], state.origin)
        best = jnp.max(jnp.where(jnp.isnan(scores), -jnp.inf, scores), axis=1, keepdims=True)
        values = jnp.stack(jnp.broadcast_arrays(scores, best))
        # Scores that differ by rounding are ties. An infinite score has no such margin.
        slack = _TIES * eps(dtype) * jnp.abs(observed)
        bar = jnp.where(jnp.isfinite(observed), observed - slack, observed)
        exceed = (null[None] & (values >= bar[None, None])).astype(dtype)
        exceed = jnp.where(jnp.isnan(values), jnp.nan, exceed)
        exceedances, stopped = state.number + jnp.sum(exceed, axis=1), state.stopped
        if sequential:
            so_far = state.number[:, None] + jnp.cumsum(exceed, axis=1)
            reached = so_far >= EXCEEDANCES
            at = jnp.where(reached[:, -1], index[jnp.argmax(reached, axis=1)], 0)
            exceedances, stopped = so_far[:, -1], jnp.where(stopped > 0, stopped, at)
        away = jnp.where(null, scores - origin[None], 0)
        return _State(
            state.done + chunk,
            observed,
            origin,
            state.total + jnp.sum(away, axis=0),
            state.squares + jnp.sum(jnp.square(away), axis=0),
            exceedances,
            stopped,
        )

    def unfinished(state: _State):
        running = (state.stopped[0] == 0) & ~jnp.isnan(state.number[0])
        return (state.done <= number) & (jnp.any(running) if sequential else True)

    zeros, counts = jnp.zeros(d, dtype), jnp.zeros((2, d), dtype)
    start = _State(jnp.int32(0), zeros, zeros, zeros, zeros, counts, counts.astype(jnp.int32))
    end = lax.while_loop(unfinished, step, start)

    used = jnp.minimum(end.done - 1, number)
    b = used.astype(dtype)
    shift = end.total / b
    variance = jnp.maximum(end.squares - end.total * shift, 0) / jnp.maximum(b - 1, 1)
    mean, deviation = end.origin + shift, jnp.sqrt(variance)
    gap = end.observed - mean
    z = jnp.where((deviation == 0) & (gap == 0), 0, gap / deviation)
    # h / l if the h-th exceedance was relabeling l
    early = EXCEEDANCES / jnp.maximum(end.stopped, 1).astype(dtype)
    p = jnp.where(end.stopped > 0, early, (1 + end.number) / (1 + number))
    p, fwer = jnp.where(jnp.isnan(end.number[:1]), jnp.nan, p)
    q = adjusted(p, correction)
    return PermutationTest(end.observed, mean, deviation, z, p, fwer, q, used)


# ---- q-values -----------------------------------------------------------------------------------


def q_values(p_values: ArrayLike, *, method: str = "bh") -> Float[Array, "d"]:
    """Return the q-value of each feature: the smallest FDR at which the feature is selected.

    Let p_(1) ≤ … ≤ p_(m) be the sorted p-values. The q-value of the i-th is the minimum over j ≥ i
    of c m p_(j) / j, and at most 1. If the features with q ≤ α are selected, the false discovery
    rate, the expected share of false features among the selected, is at most α.

    **Arguments**

    - `p_values`: `(d,)`, in [0, 1]; may be traced.
    - `method`: static. `"bh"` (Benjamini and Hochberg): c = 1, valid for independent p-values and
      for positively dependent ones. `"by"` (Benjamini and Yekutieli): c = Σ_{i ≤ m} 1/i, valid for
      any dependence.

    **Returns** `(d,)`, in [0, 1].

    **Numerics** a p-value of NaN gives NaN, and does not count in m.

    **Cost** two sorts.

    **Reference** Benjamini and Hochberg, *Controlling the false discovery rate*, JRSS B 57, 1995;
    Benjamini and Yekutieli, *The control of the false discovery rate in multiple testing under
    dependency*, Annals of Statistics 29, 2001, theorem 1.3.

    >>> import jax.numpy as jnp
    >>> q_values(jnp.array([0.01, 0.04, 0.03, 0.5])).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.5]
    """
    p = _checks.real(p_values, "p_values", ndim=1)
    if not p.size:
        raise _checks.fail("p_values", "(d,) with d ≥ 1 features", f"shape {p.shape}")
    if not _checks.is_traced(p) and bool(((p < 0) | (p > 1)).any()):
        raise _checks.fail("p_values", "in [0, 1]", f"{float(p.min())} to {float(p.max())}")
    return adjusted(p, _checks.option(method, "method", CORRECTIONS))


@functools.partial(jax.jit, static_argnames="method")
def adjusted(p: Float[Array, "d"], method: str) -> Float[Array, "d"]:
    """Compute `q_values` without checks."""
    known = ~jnp.isnan(p)
    m = jnp.sum(known, dtype=p.dtype)
    rank = jnp.arange(1, p.shape[0] + 1, dtype=p.dtype)
    order = jnp.argsort(p)  # NaN comes last
    factor = m
    if method == "by":
        factor = m * jnp.sum(jnp.where(rank <= m, 1 / rank, 0))
    scaled = jnp.where(rank <= m, factor * p[order] / rank, jnp.inf)
    least = jnp.minimum(lax.cummin(scaled, reverse=True), 1)
    return jnp.where(known, jnp.zeros_like(p).at[order].set(least), jnp.nan)
