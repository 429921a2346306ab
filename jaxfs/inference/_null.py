"""Null distributions of scores, summarised in chunks of relabelings: memory O(chunk · d).

Relabeling 0 is the given data, so that the observed scores and the null scores come from one
compiled program.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps
from jaxfs._types import Static
from jaxfs.inference import _multiplicity

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


class _Counts(NamedTuple):
    """Exceedances so far, and the relabeling at which a sequential test stopped (0 if not yet).

    The number is NaN if a score was NaN.
    """

    number: Float[Array, "d"]
    stopped: Int[Array, "d"]


class _State(NamedTuple):
    done: Int[Array, ""]  # relabelings computed
    observed: Float[Array, "d"]
    origin: Float[Array, "d"]  # a score of each feature, subtracted from its null scores
    total: Float[Array, "d"]
    squares: Float[Array, "d"]
    own: _Counts
    top: _Counts


def summarize(
    scores_of: Callable[[Int[Array, "c"]], Float[Array, "c d"]], d: int, dtype, plan: Plan
) -> PermutationTest:
    """Compare the d scores of relabeling 0 with those of the relabelings 1 … `plan.number`."""
    _, number, chunk, sequential, correction = plan

    def step(state: _State) -> _State:
        index = state.done + jnp.arange(chunk, dtype=jnp.int32)
        scores = lax.stop_gradient(scores_of(jnp.minimum(index, number)))
        _checks.returned_scores(scores[0], d)
        null = ((index >= 1) & (index <= number))[:, None]
        first = state.done == 0
        observed = jnp.where(first, scores[0], state.observed)
        origin = jnp.where(first, scores[min(1, chunk - 1)], state.origin)
        bar = _bar(observed)[None]

        def counted(counts: _Counts, values) -> _Counts:
            exceed = jnp.where(null & (values >= bar), jnp.ones_like(bar), 0)
            exceed = jnp.where(jnp.isnan(values), jnp.nan, exceed)
            if not sequential:
                return counts._replace(number=counts.number + jnp.sum(exceed, axis=0))
            so_far = counts.number[None] + jnp.cumsum(exceed, axis=0)
            reached = so_far >= EXCEEDANCES
            at = jnp.where(reached[-1], index[jnp.argmax(reached, axis=0)], 0)
            return _Counts(so_far[-1], jnp.where(counts.stopped > 0, counts.stopped, at))

        best = jnp.max(jnp.where(jnp.isnan(scores), -jnp.inf, scores), axis=1, keepdims=True)
        away = jnp.where(null, scores - origin[None], 0)
        return _State(
            state.done + chunk,
            observed,
            origin,
            state.total + jnp.sum(away, axis=0),
            state.squares + jnp.sum(jnp.square(away), axis=0),
            counted(state.own, scores),
            counted(state.top, best),
        )

    def unfinished(state: _State):
        running = (state.own.stopped == 0) & ~jnp.isnan(state.own.number)
        return (state.done <= number) & (jnp.any(running) if sequential else True)

    zeros = jnp.zeros(d, dtype)
    counts = _Counts(zeros, jnp.zeros(d, jnp.int32))
    start = _State(jnp.int32(0), zeros, zeros, zeros, zeros, counts, counts)
    end = lax.while_loop(unfinished, step, start)

    used = jnp.minimum(end.done - 1, number)
    b = used.astype(dtype)
    shift = end.total / b
    variance = jnp.maximum(end.squares - end.total * shift, 0) / jnp.maximum(b - 1, 1)
    mean, deviation = end.origin + shift, jnp.sqrt(variance)
    gap = end.observed - mean
    z = jnp.where((deviation == 0) & (gap == 0), 0, gap / deviation)
    p = _p_values(end.own, number)
    fwer = jnp.where(jnp.isnan(p), jnp.nan, _p_values(end.top, number))
    q = _multiplicity.adjusted(p, correction)
    return PermutationTest(end.observed, mean, deviation, z, p, fwer, q, used)


def _bar(observed: Float[Array, "d"]) -> Float[Array, "d"]:
    """The score from which a null score counts as an exceedance."""
    slack = _TIES * eps(observed.dtype) * jnp.abs(observed)
    return jnp.where(jnp.isfinite(observed), observed - slack, observed)


def _p_values(counts: _Counts, number: int) -> Float[Array, "d"]:
    """(1 + exceedances) / (1 + B), or h / l if the h-th exceedance was relabeling l."""
    early = EXCEEDANCES / jnp.maximum(counts.stopped, 1).astype(counts.number.dtype)
    p = jnp.where(counts.stopped > 0, early, (1 + counts.number) / (1 + number))
    return jnp.where(jnp.isnan(counts.number), jnp.nan, p)
