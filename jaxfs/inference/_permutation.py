"""Permutation tests of any score: p-values, family-wise p-values and q-values of features."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxfs import _checks
from jaxfs._types import ArrayLike, static_function
from jaxfs.inference._null import CORRECTIONS, PermutationTest, Plan, summarize
from jaxfs.inference._relabel import Blocks, all_relabelings, random_relabeling

#: Maximum number of relabelings in a default chunk, and of numbers in their copies of the data.
_CHUNK, _MEMORY = 64, 2**22


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
    x, w, blocks = _samples(x, weights, groups, strata)
    y = _checks.targets(y, x.shape[0])
    number = _checks.integer(num_permutations, "num_permutations", low=1)
    table = all_relabelings(y, blocks, number + 1)
    if table is not None:
        number = table.shape[0] - 1
    if hasattr(score, "tuned"):
        score = score.tuned(y)
    plan = _plan(key, score, x, number, sequential, correction, chunk_size)
    return _permutation_test(key, x, y, w, blocks, table, plan)


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
    x, w, blocks = _samples(x, weights, None, strata)
    number = _checks.integer(num_permutations, "num_permutations", low=1)
    plan = _plan(key, score, x, number, sequential, correction, chunk_size)
    return _structure_test(key, x, w, blocks, plan)


# ---- Arguments ----------------------------------------------------------------------------------


def _samples(x: ArrayLike, weights, groups, strata) -> tuple[Array, Array, Blocks]:
    """Return checked samples and weights, and the blocks within which labels are exchanged."""
    x = _checks.samples(x, n=2)
    n = x.shape[0]
    w = _checks.weights(weights, "weights", n, x.dtype)
    present = None if weights is None else w > 0
    groups, strata = _checks.codes(groups, "groups", n), _checks.codes(strata, "strata", n)
    return x, w, Blocks(groups, strata, present)


def _plan(key, score, x, number: int, sequential, correction, chunk_size: int | None) -> Plan:
    _checks.key(key)
    if chunk_size is None:
        entries = x.shape[1] if hasattr(score, "given") else x.size
        chunk_size = max(1, min(getattr(score, "batch", _CHUNK), _MEMORY // entries))
    return Plan(
        static_function(score, "score", "a function of x, y and weights"),
        number,
        min(_checks.integer(chunk_size, "chunk_size", low=1), number + 1),
        _checks.flag(sequential, "sequential"),
        _checks.option(correction, "correction", CORRECTIONS),
    )


# ---- Computation --------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="plan")
def _permutation_test(key, x, y, w, blocks: Blocks, table, plan: Plan) -> PermutationTest:
    n, d = x.shape
    score = plan.score.value
    shared = hasattr(score, "given")  # labelings then share work
    of_labels = score.given(x, w) if shared else jax.vmap(lambda y: score(x, y, w))
    draw = random_relabeling(blocks, n)

    def relabeling(i):
        if table is not None:
            return table[i]
        drawn = draw(jax.random.fold_in(key, i))
        return jnp.where(i == 0, jnp.arange(n, dtype=drawn.dtype), drawn)

    def scores_of(i):
        return of_labels(y[jax.vmap(relabeling)(i)])

    return summarize(scores_of, d, x.dtype, plan)


@functools.partial(jax.jit, static_argnames="plan")
def _structure_test(key, x, w, blocks: Blocks, plan: Plan) -> PermutationTest:
    n, d = x.shape
    relabel = random_relabeling(blocks, n)

    def one(i):
        keys = jax.random.split(jax.random.fold_in(key, i), d)
        mixed = jax.vmap(lambda key, column: column[relabel(key)], (0, 1), 1)(keys, x)
        return plan.score.value(jnp.where(i == 0, x, mixed), None, w)

    return summarize(jax.vmap(one), d, x.dtype, plan)
