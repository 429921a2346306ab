"""GC and GKL: greedy selection of features that are *jointly* informative under Gaussian models.

With a Gaussian f_y for every class, prior p_y, and f* the Gaussian of all samples, a set of k
features has entropies H = ½ log|Σ| + k/2 log 2πe (natural logarithms). The Gaussian compromise is
(eq. 10)

    GC.E:   H̃ = Σ_y p_y min(H(f*), H(f_y) − log p_y)
    GC.MI:  Ĩ = H̃ − Σ_y p_y H(f_y) = Σ_y p_y min(½ log|Σ*| − ½ log|Σ_y|, −log p_y)  ≤ H(Y)

and the Kullback–Leibler bound (section 3.2.2), for class y against the rest r, averaged over y,

    GKL.E:  p_y KL(y‖r) + p_r KL(r‖y) + p_y H(y) + p_r H(r) − p_y log p_r − p_r log p_y
    GKL.MI: the same without the two entropies.

Covariances are 1/N, p_y = N_y/N, and every group (class, rest, all) has the same ridge on its
diagonal, so that eq. 9 holds for the classes and f*. The default ridge is in the units of each
feature: GC.MI and GKL.MI then do not depend on units. Features are added one at a time, the best
first; ties, to rounding, go to the lowest index.

**Reference** L. Lefakis, F. Fleuret, *Jointly Informative Feature Selection Made Tractable by
Gaussian Modeling*, JMLR 17, 2016. Its Table 2 starts the search at s* = 0, where it may select
nothing: here at −∞. Its bound (19) swaps the largest and smallest eigenvalue and leaves out p_y;
even corrected it saves nothing here, where all candidates are updated in one pass. The constant of
section 3.2.2 is −p₁ log p₂ − p₂ log p₁.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.gaussian import _criteria, _moments, _search

OBJECTIVES = ("mi", "entropy")
FALLBACKS = ("wilks", "random", "stop")


def gc_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    objective: str = "mi",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    fallback: str = "wilks",
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    key: Array | None = None,
) -> Selection:
    """The features that together tell most about the class, by the Gaussian compromise (eq. 10).

    **Arguments**

    - `x`: `(n, d)`. With `"mi"` and the default ridge its units do not matter: features multiplied
      by numbers of their own give the same selection. With `"entropy"`, or a ridge of yours, they
      do; standardise `x` if they mean nothing.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_features`: static; at most the number of features that vary.
    - `num_classes`: static, C ≥ 2.
    - `objective`: static. `"mi"` (GC.MI) or `"entropy"` (GC.E).
    - `ridge`: nonnegative, added to the diagonal of every covariance, in the units of x². `None`:
      for each feature 0.1 of its kurtosis E(x − μ)⁴/σ⁴ times its variance σ², which is 0.3 σ² of a
      Gaussian one, and more of one that is nearly always at rest: where its variance is 0 in some
      classes, that tells little. 0 needs more samples in every class than features are selected.
    - `shrinkage`: in [0, 1]: Σ_y becomes (1 − s) Σ_y + s Σ_W, Σ_W = Σ_y p_y Σ_y the pooled one.
      `None`: 0.3 with the default ridge; 0, the paper's covariances, with a ridge of yours.
    - `fallback`: static; what goes on where the criterion is saturated. `"wilks"`: the largest
      log|Σ*| − log|Σ_W|; `"random"`: at random, as in the paper, with a `key`; `"stop"`: no more.
    - `initial`: `(m,)`, distinct features to begin with, in this order, m ≤ `num_features`.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 where there was nothing left to
    choose; `objective (k,)`, the criterion with that many features, NaN at −1; `saturated_at`, how
    many were chosen before a step where every class was at its bound −log p_y with every candidate:
    Ĩ was H(Y) for all and could not rank them, and the fallback chose this feature and those that
    follow; `num_features` if that was not reached.

    **Numerics** features that do not vary are never chosen, and copies of a chosen one (affine ones
    too) only when nothing else is left. Without a ridge, or with one below the rounding of the
    variances, neither is a feature that within a class is a combination of those chosen. Candidates
    that all put every class at its bound are told apart by the `"wilks"` criterion. Any NaN or
    infinity in `x`, or variances that overflow: all indices are −1. Under `jit`, samples with
    labels out of range are as if absent, and so are classes without samples.

    **Defaults** by the accuracy of a linear SVM and QDA with 10, 25, 50 and 100 features on
    training folds of thirteen sets (`benchmarks/defaults/gaussian.py`), no worse than with 0.3 of
    the mean variance for all features, which depends on units: GC.MI +0.2 ± 0.3 points, GKL.E
    +1.1 ± 0.7. With 0.3 of each feature's own variance GC.MI takes rare pixels of MNIST: 63% there
    where this has 79%.

    **Cost** for each feature chosen one pass over `x` and O(C k) a candidate; memory (C + 2) k d
    numbers and two copies of `x`.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> gc_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices[0].item()
    3
    """
    check_fallback(fallback, key)
    arguments, options = problem(
        x, y, num_features, num_classes, objective, ridge, shrinkage, initial, weights
    )
    return _search.gc_select(*arguments, key, fallback=fallback, **options)


def gkl_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    objective: str = "entropy",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Selection:
    """The features that together set each class apart from the rest, by the bound of section 3.2.2.

    Arguments and answer are those of `gc_select`, except that `objective` is `"entropy"` (GKL.E,
    the paper's best) or `"mi"` (GKL.MI), and that there is no saturation: no `fallback`, no `key`,
    and `saturated_at` is `num_features`. GKL.E, the default, has units whatever the ridge, as
    entropies do: a feature multiplied by ten is chosen earlier, and noise in small units first of
    all. Standardise `x`, or take `"mi"`, where units mean nothing.

    **Cost** as `gc_select`, with four arrays `(k, C, d)` for one.
    """
    arguments, options = problem(
        x, y, num_features, num_classes, objective, ridge, shrinkage, initial, weights
    )
    return _search.gkl_select(*arguments, **options)


def gc_objective(
    x: ArrayLike,
    y: ArrayLike,
    indices: ArrayLike,
    *,
    num_classes: int,
    objective: str = "mi",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, ""]:
    """The Gaussian compromise of any set of features: eq. 10, constants included.

    **Arguments** those of `gc_select`; `indices (k,)` are distinct features of `x`.

    **Numerics** covariances that are not positive definite, and an index of −1, give NaN.

    **Derivatives** in `x`, `ridge`, `shrinkage` and positive `weights`; where f* and a class tie, a
    subgradient.
    """
    arguments, options = _subset(x, y, indices, num_classes, objective, ridge, shrinkage, weights)
    return _criteria.gc_objective(*arguments, **options)


def gkl_objective(
    x: ArrayLike,
    y: ArrayLike,
    indices: ArrayLike,
    *,
    num_classes: int,
    objective: str = "entropy",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, ""]:
    """The Kullback–Leibler bound of any set of features, constants included; as `gc_objective`."""
    arguments, options = _subset(x, y, indices, num_classes, objective, ridge, shrinkage, weights)
    return _criteria.gkl_objective(*arguments, **options)


# ---- Arguments ----------------------------------------------------------------------------------


def _data(x, y, num_classes, weights):
    x = _checks.real(x, "x", ndim=2)
    if 0 in x.shape:
        raise _checks.fail("x", "(n, d) with n ≥ 1 samples and d ≥ 1 features", f"{x.shape}")
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    if weights is not None:
        weights = _checks.weights(weights, "weights", x.shape[0], x.dtype)
    _checks.has_every_class(y, weights, "y", num_classes)
    return x, y, weights


def _model(dtype, num_classes, objective, ridge, shrinkage):
    """The ridge and the shrinkage as arrays, and the options."""
    _checks.option(objective, "objective", OBJECTIVES)
    if ridge is not None:
        _checks.number(ridge, "ridge", low=0, scalar=True)
        ridge = jnp.asarray(ridge, dtype)
    if shrinkage is None:
        shrinkage = _criteria.SHRINKAGE if ridge is None else 0.0
    _checks.number(shrinkage, "shrinkage", low=0, high=1, scalar=True)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    options: dict[str, Any] = {"num_classes": num_classes, "objective": objective}
    return ridge, jnp.asarray(shrinkage, dtype), options


def settings(d: int, dtype, num_features, num_classes, objective, ridge, shrinkage, initial):
    """The ridge, the shrinkage and the features to begin with, as arrays; and the options."""
    ridge, shrinkage, options = _model(dtype, num_classes, objective, ridge, shrinkage)
    k = _checks.integer(num_features, "num_features", low=1, high=d)
    start = jnp.full(k, -1, jnp.int32)
    if initial is not None:
        given = _indices(initial, "initial", d, most=k)
        start = start.at[: given.shape[0]].set(given)
    return (ridge, shrinkage, start), {"num_features": k, **options}


def check_fallback(fallback: str, key) -> None:
    _checks.option(fallback, "fallback", FALLBACKS)
    if (key is None) == (fallback == "random"):
        raise _checks.fail("key", 'given exactly if fallback="random"', key)
    if key is not None:
        _checks.key(key)


def problem(x, y, num_features, num_classes, objective, ridge, shrinkage, initial, weights):
    x, y, weights = _data(x, y, num_classes, weights)
    given, options = settings(
        x.shape[1], x.dtype, num_features, num_classes, objective, ridge, shrinkage, initial
    )
    ridge, shrinkage, start = given
    if not any(map(_checks.is_traced, (x, y, weights, ridge, shrinkage))):
        present = jnp.ones(y.shape, bool) if weights is None else weights > 0
        varying = int(_moments.count_varying(x, present))
        counts = np.bincount(np.asarray(y)[np.asarray(present)], minlength=num_classes)
        check_rank(varying, counts, options["num_features"], ridge, shrinkage)
    return (x, y, ridge, shrinkage, start, weights), options


def _subset(x, y, indices, num_classes, objective, ridge, shrinkage, weights):
    x, y, weights = _data(x, y, num_classes, weights)
    ridge, shrinkage, options = _model(x.dtype, num_classes, objective, ridge, shrinkage)
    indices = _indices(indices, "indices", x.shape[1], most=x.shape[1])
    return (x, y, indices, ridge, shrinkage, weights), options


def _indices(value, name: str, d: int, *, most: int) -> Int[Array, "k"]:
    out = _checks.array(value, name)
    if out.size == 0 and name == "initial":
        return jnp.zeros(0, jnp.int32)
    if not jnp.issubdtype(out.dtype, jnp.integer) or out.ndim != 1 or not 1 <= out.size <= most:
        expected = f"a vector of 1 to {most} feature indices"
        raise _checks.fail(name, expected, f"shape {out.shape}, dtype {out.dtype}")
    if not _checks.is_traced(out):
        concrete = np.asarray(out)
        if concrete.min() < 0 or concrete.max() >= d or len(set(concrete.tolist())) < concrete.size:
            raise _checks.fail(name, f"distinct features in 0 … {d - 1}", concrete.tolist())
    return out.astype(jnp.int32)


def check_rank(varying: int, counts: np.ndarray, k: int, ridge, shrinkage) -> None:
    """Enough features that vary, and enough samples; `counts` are those of the classes."""
    if k > varying:
        raise _checks.fail("num_features", f"at most {varying}, the features that vary", k)
    if ridge is None or ridge > 0:
        return
    have = int(counts.sum()) - len(counts) if shrinkage > 0 else int(counts.min()) - 1
    if have < k:
        expected = f"positive to select {k} features, more than the rank {have} of a covariance"
        raise _checks.fail("ridge", expected, f"{float(ridge)}")
