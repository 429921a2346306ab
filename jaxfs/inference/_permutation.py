"""Permutation tests of any score: p-values, family-wise p-values and q-values of features."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._types import ArrayLike, Static, static_function
from jaxfs.inference import _multiplicity
from jaxfs.inference._null import NullSummary, summarize
from jaxfs.inference._relabel import Blocks, all_relabelings, check_blocks, random_relabeling

#: Maximum number of relabelings in a default chunk, and of numbers in their copies of the data.
_CHUNK, _MEMORY = 64, 2**22


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


def permutation_test(
    key: Array,
    score: Callable[[Array, Any, Array], Array],
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_permutations: int = 999,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    sequential: bool = False,
    correction: str = "bh",
    chunk_size: int | None = None,
) -> PermutationTest:
    """Return p-values of features: the probability of so large a score if labels are random.

    The labels are exchanged B times at random, and the score of every feature is computed again.
    If the labels do not depend on the data, the given labels are one of 1 + B equally likely ones:

        p = (1 + #{null scores ≥ score}) / (1 + B),

    and P(p ≤ α) ≤ α. `fwer_p_values` compare a score with the largest null score of all features
    in each relabeling: if all features with such a p ≤ α are selected, the probability of any false
    selection is at most α. `q_values` adjust the p-values to control the false discovery rate.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `score`: static; `score(x, y, weights)` returns `(d,)`, larger is better. Wrap scores that
      have other arguments: `lambda x, y, w: gini_score(x, y, num_classes=2, weights=w)`. Pass the
      same function in every call, not a new lambda, so that it is compiled once. A score with a
      method `given(x, weights)` that maps labels `(b, n)` to scores `(b, d)`, such as
      `inference.AnovaScore` and `inference.ReliefFScore`, does the work that does not depend on the
      labels only once.
    - `x`: `(n, d)`.
    - `y`: `(n,)` or `(n, …)`, any labels or targets; passed to the score.
    - `num_permutations`: static, B ≥ 1. The smallest possible p-value is 1 / (1 + B), and the
      smallest q-value of k equally good features is d / (k (1 + B)).
    - `groups`: `(n,)`, integers. Labels are exchanged between whole groups, such as patients with
      several samples. They must be constant within each group.
    - `strata`: `(n,)`, integers. Labels are exchanged only within a stratum, such as a batch or
      a site.
    - `weights`: `(n,)`, nonnegative sample weights, passed to the score. A sample of weight 0 keeps
      its label and is ignored.
    - `sequential`: static. If true, the test of a feature stops at its 20th null score ≥ its own
      score: p = 20 / l if this was relabeling l. The p-value has the same guarantee. The
      computation ends when all features have stopped. This saves time if no feature is relevant,
      and allows a large B.
    - `correction`: static, the method of `q_values`: `"bh"` or `"by"`.
    - `chunk_size`: static, the number of relabelings scored at a time. It changes speed and memory,
      not the relabelings.

    **Returns** `PermutationTest`.

    **Numerics** If there are at most B + 1 distinct relabelings, each is used once, and the
    p-values are exact. If labels, groups or strata are traced, relabelings are always drawn, and
    a group has the label of its first sample. A score that is NaN for any relabeling has NaN as
    p-value; it has no effect on other features. Scores within 100 eps of each other are ties, and
    count as null scores ≥ score.

    **Derivatives** none: the results are constants for differentiation.

    **Cost** the cost of 1 + B scores, `chunk_size` of which run together under `vmap`; memory for
    `chunk_size` scores and for what their computation needs.

    **Reference** Phipson and Smyth, *Permutation p-values should never be zero*, 2010; Westfall and
    Young, *Resampling-based multiple testing*, 1993, section 2.3 (single-step maxT); Besag and
    Clifford, *Sequential Monte Carlo p-values*, Biometrika 78, 1991.

    >>> import jax
    >>> from jaxfs.inference import AnovaScore
    >>> x = jax.random.normal(jax.random.key(0), (40, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> result = permutation_test(jax.random.key(1), AnovaScore(num_classes=2), x, y)
    >>> (result.fwer_p_values <= 0.05).nonzero()[0].tolist()
    [3]
    """
    x, w, present = _samples(x, weights)
    n = x.shape[0]
    y = _checks.targets(y, n)
    blocks = check_blocks(n, groups, strata, present)
    number = _checks.integer(num_permutations, "num_permutations", low=1)
    table = all_relabelings(y, blocks, number + 1)
    if table is not None:
        number = table.shape[0] - 1
    if hasattr(score, "tuned"):
        score = score.tuned(y)
    options = _options(key, score, sequential, correction)
    entries = x.shape[1] if hasattr(score, "given") else x.size
    chunk = _chunk_size(chunk_size, number, entries, getattr(score, "batch", _CHUNK))
    return _permutation_test(key, x, y, w, blocks, table, number=number, chunk=chunk, **options)


def structure_test(
    key: Array,
    score: Callable[[Array, Any, Array], Array],
    x: ArrayLike,
    *,
    num_permutations: int = 999,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    sequential: bool = False,
    correction: str = "bh",
    chunk_size: int | None = None,
) -> PermutationTest:
    """Return p-values of features for a score without labels, such as `laplacian_score`.

    The values of every feature are permuted independently of all other features. The features keep
    their distributions and lose their dependence. The p-values are valid if all features are
    mutually independent: they test whether a feature has a larger score than in data
    without structure.

    **Arguments** as in `permutation_test`; the score is called as `score(x, None, weights)`.
    `strata (n,)`: values are permuted only within a stratum. Values of samples of weight 0 stay in
    place.

    **Returns** `PermutationTest`.

    **Numerics**, **Derivatives** as in `permutation_test`; relabelings are never enumerated.

    **Cost** 1 + B scores, and B d sorts of n numbers.

    >>> import jax, jaxfs
    >>> x = jax.random.normal(jax.random.key(0), (40, 4))
    >>> x = x.at[:, 1].set(x[:, 0] + 0.1 * x[:, 1])
    >>> score = lambda x, y, w: jaxfs.mcfs_score(x, num_clusters=2)
    >>> result = structure_test(jax.random.key(1), score, x, num_permutations=99)
    >>> result.p_values.shape
    (4,)
    """
    x, w, present = _samples(x, weights)
    blocks = check_blocks(x.shape[0], None, strata, present)
    number = _checks.integer(num_permutations, "num_permutations", low=1)
    options = _options(key, score, sequential, correction)
    chunk = _chunk_size(chunk_size, number, x.size)
    return _structure_test(key, x, w, blocks, number=number, chunk=chunk, **options)


# ---- Arguments ----------------------------------------------------------------------------------


def _samples(x: ArrayLike, weights: ArrayLike | None):
    """Return checked samples, weights, and the samples present (`None` for all of them)."""
    x = _checks.real(x, "x", ndim=2)
    if x.shape[0] < 2 or x.shape[1] < 1:
        raise _checks.fail("x", "(n, d) with n ≥ 2 samples and d ≥ 1 features", f"{x.shape}")
    if weights is None:
        return x, jnp.ones(x.shape[0], x.dtype), None
    w = _checks.weights(weights, "weights", x.shape[0], x.dtype)
    return x, w, w > 0


def _options(key, score, sequential, correction) -> dict[str, Any]:
    _checks.key(key)
    return {
        "score": static_function(score, "score", "a function of x, y and weights"),
        "sequential": _checks.flag(sequential, "sequential"),
        "correction": _checks.option(correction, "correction", _multiplicity.METHODS),
    }


def _chunk_size(asked: int | None, number: int, entries: int, most: int = _CHUNK) -> int:
    if asked is None:
        asked = max(1, min(most, _MEMORY // entries))
    return min(_checks.integer(asked, "chunk_size", low=1), number + 1)


# ---- Computation --------------------------------------------------------------------------------

_STATIC = ("score", "number", "chunk", "sequential", "correction")


@functools.partial(jax.jit, static_argnames=_STATIC)
def _permutation_test(
    key, x, y, w, blocks: Blocks, table, *, score: Static, number, chunk, sequential, correction
) -> PermutationTest:
    n, d = x.shape
    of_labels = bind_labels(score.value, x, w)
    draw = random_relabeling(blocks, n)

    def relabeling(i):
        if table is not None:
            return table[i]
        drawn = draw(jax.random.fold_in(key, i))
        return jnp.where(i == 0, jnp.arange(n, dtype=drawn.dtype), drawn)

    def scores_of(i):
        return of_labels(y[jax.vmap(relabeling)(i)])

    return _finished(summarize(scores_of, d, x.dtype, number, chunk, sequential), correction)


@functools.partial(jax.jit, static_argnames=_STATIC)
def _structure_test(
    key, x, w, blocks: Blocks, *, score: Static, number, chunk, sequential, correction
) -> PermutationTest:
    n, d = x.shape
    relabel = random_relabeling(blocks, n)

    def one(i):
        keys = jax.random.split(jax.random.fold_in(key, i), d)
        mixed = jax.vmap(lambda key, column: column[relabel(key)], (0, 1), 1)(keys, x)
        return score.value(jnp.where(i == 0, x, mixed), None, w)

    found = summarize(jax.vmap(one), d, x.dtype, number, chunk, sequential)
    return _finished(found, correction)


def bind_labels(score: Any, x: Array, w: Array) -> Callable[[Array], Array]:
    """Return the scores `(b, d)` as a function of b labelings; `score.given` shares their work."""
    if hasattr(score, "given"):
        return score.given(x, w)
    return jax.vmap(lambda y: score(x, y, w))


def _finished(found: NullSummary, correction: str) -> PermutationTest:
    gap = found.scores - found.mean
    flat = found.deviation == 0
    z = jnp.where(flat & (gap == 0), 0, gap / found.deviation)
    q = _multiplicity.adjusted(found.p_values, correction)
    return PermutationTest(
        found.scores,
        found.mean,
        found.deviation,
        z,
        found.p_values,
        found.fwer_p_values,
        q,
        found.number,
    )
