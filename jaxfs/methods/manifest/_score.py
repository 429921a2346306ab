"""ManiFeSt: features whose association with the others differs most between classes.

Each class gives a kernel between the *features*, K_ℓ (eq. 1). On the manifold of positive definite
matrices the two kernels have a mean M (eq. 2) and a difference D, the tangent at M that leads to K₁
(eq. 3). A feature's score is its share in |D| (eq. 4):

    r = Σ_i |λ_i| φ_i ∘ φ_i = diag |D|,    D = Φ diag(λ) Φᵀ.

**Reference** D. Cohen, T. Shnitzer, Y. Kluger, R. Talmon, *Few-Sample Feature Selection via Feature
Manifold Learning*, ICML 2023: Algorithm 1 (SPD), Algorithm 2 (SPSD), appendix C (many classes).
Proposition 1 prints the eigenvalue of D at a shared eigenvector without its factor ½; it is
½ √(λ₁λ₂) (log λ₁ − log λ₂), as section 4 and Proposition 3 have it.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import spd, spsd
from jaxfs.kernels import feature_kernel
from jaxfs.kernels._rbf import Bandwidth, Median, check_bandwidth
from jaxfs.linalg._divided_differences import abs_diagonal as absm_diagonal

GEOMETRIES = ("spd", "spsd")
AGGREGATES = ("max", "sum")
#: What is added to the diagonal of kernels by default.
RIDGE = 1e-2


class ManifestOperators(NamedTuple):
    """The kernels of two classes, their mean and their difference; all `(d, d)`.

    With `geometry="spd"` the kernels have their ridge. With `"spsd"` they are whole, while mean and
    difference are those of their leading parts of the same rank.
    """

    kernel1: Float[Array, "d d"]
    kernel2: Float[Array, "d d"]
    mean: Float[Array, "d d"]
    difference: Float[Array, "d d"]


def manifest_score(
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    bandwidth: Bandwidth = Median(1.0),
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    t: Scalar = 0.5,
    weights1: ArrayLike | None = None,
    weights2: ArrayLike | None = None,
) -> Float[Array, "d"]:
    """How differently each feature is associated with the others in two classes: diag |D|.

    **Arguments**

    - `x1`, `x2`: `(n1, d)` and `(n2, d)`, the samples of the two classes; d ≥ 2, one dtype.
    - `bandwidth`: σ of the feature kernels, the same number for both classes, or a rule applied to
      each class: `Median(factor)`, `Percentile(q, factor)`. Squared distances between features are
      sums over samples: with one number and classes of unequal sizes (or total weights) the kernels
      differ by size alone, which a rule avoids. Two features have but one distance:
      with a rule their kernels are alike and the score is 0 to rounding.
    - `geometry`: static. `"spd"`: both kernels plus `ridge`·I, Algorithm 1. `"spsd"`: Algorithm 2
      on the leading `rank` eigenvectors.
    - `ridge`: nonnegative, for `"spd"` only; 0.01 by default, 0 is the paper's score. The kernels
      have ones on their diagonal.
    - `rank`: static, for `"spsd"` only; by default the smaller numerical rank of the two kernels.
    - `t`: in [0, 1], the point of the geodesic from K₁ to K₂ where the difference is taken:
      D(t) = ½(Log_M K₁ − Log_M K₂), M = γ(t); ½ is the paper's choice.
    - `weights1`, `weights2`: `(n1,)`, `(n2,)`, nonnegative sample weights. A sample of weight zero
      is as if absent, whatever it holds.

    **Returns** `(d,)`, nonnegative, larger is more different.

    **Numerics** RBF kernels of real data are numerically singular: with `ridge=0` a kernel that is
    not positive definite in its dtype gives NaN; raise the ridge. So do a class without weight and
    options that are traced and out of range.
    At the default ridge float32 was within 2e-4 of float64, relative to the top score, on six real
    data sets of up to 6000 features (`benchmarks/precision/manifest.py`).
    `"spsd"` at the numerical rank is ill-conditioned (two correct codes differ by percents) and not
    symmetric in the classes.

    **Defaults** compared by nested cross-validation on six real sets, in float32 and float64
    (`benchmarks/defaults/manifest.py`). With `"spd"`, σ from the 5th percentile to 3 medians and
    ridges of 1e-3, 1e-2 and 1e-1 reach 68.7 to 70.9% inner accuracy in the mean over sets, the
    default 69.9: less apart than the sets are, so the median stays, and the middle ridge. On the
    outer folds it reaches 74.9%, the setting that the inner folds choose 73.8. Smaller σ, and
    `"spsd"` of rank 20, stay below 69.1 inside. σ chosen for each data set is worth more: 77.8%.
    Few relevant features among many, as in Madelon, ask for a small one: `Median(0.1)`.

    **Derivatives** in `x1`, `x2`, `bandwidth`, `ridge`, `t`: exact for `"spd"`, duplicated features
    included; identical classes are a kink, with a finite subgradient. For `"spsd"`: exact for a
    fixed rank with a spectral gap there; otherwise finite, but without meaning and possibly huge.

    **Cost** `"spd"`: one Cholesky and two `eigh` of size d. `"spsd"`: two `eigh` of size d, then
    decompositions of k×k matrices, k the rank, which is d for `rank=None`. Memory for `"spd"`: six
    d×d arrays, and two of workspace in `eigh`.

    Features 0 and 1 move together in the first class and against each other in the second:

    >>> import jax
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 30, 5))
    >>> x1, x2 = x1.at[:, 1].set(x1[:, 0]), x2.at[:, 1].set(-x2[:, 0])
    >>> sorted(manifest_score(x1, x2).argsort()[-2:].tolist())
    [0, 1]
    """
    x1, x2, weights1, weights2 = _two_classes(x1, x2, weights1, weights2)
    check_bandwidth(bandwidth)
    ridge, options = _options(x1.shape[1], geometry, ridge, rank, t)
    bandwidth, ridge, t = _as_arrays((bandwidth, ridge, t), x1.dtype)
    return _score(x1, x2, bandwidth, ridge, t, weights1, weights2, **options)


def manifest_from_kernels(
    k1: ArrayLike,
    k2: ArrayLike,
    *,
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    t: Scalar = 0.5,
) -> Float[Array, "d"]:
    """The ManiFeSt score of any two positive semi-definite feature kernels.

    **Arguments**

    - `k1`, `k2`: `(d, d)`, symmetric (of others the symmetric part is taken) and of like scale; the
      method is not limited to Gaussian kernels. `ridge` is in their units.
    - the others: as in `manifest_score`.

    **Returns** `(d,)`.

    >>> import jax.numpy as jnp
    >>> k1, k2 = jnp.eye(2), jnp.diag(jnp.array([1.0, 4.0]))
    >>> manifest_from_kernels(k1, k2, ridge=0.0).round(4).tolist()
    [0.0, 1.3863]
    """
    k1, k2 = _two_kernels(k1, k2)
    ridge, options = _options(k1.shape[-1], geometry, ridge, rank, t)
    ridge, t = _as_arrays((ridge, t), k1.dtype)
    return _score_kernels(k1, k2, ridge, t, **options)


def manifest_operators(
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    bandwidth: Bandwidth = Median(1.0),
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    t: Scalar = 0.5,
    weights1: ArrayLike | None = None,
    weights2: ArrayLike | None = None,
) -> ManifestOperators:
    """The operators behind `manifest_score`: kernels, mean M(t) and difference D(t).

    The arguments are those of `manifest_score`. The eigenvectors of the mean show what the classes
    share, those of the difference what tells them apart (the paper's Fig. 2); take them with
    `jaxfs.linalg.dominant_eigenpairs(operators.difference, k)`.
    """
    x1, x2, weights1, weights2 = _two_classes(x1, x2, weights1, weights2)
    check_bandwidth(bandwidth)
    ridge, options = _options(x1.shape[1], geometry, ridge, rank, t)
    bandwidth, ridge, t = _as_arrays((bandwidth, ridge, t), x1.dtype)
    return _operators(x1, x2, bandwidth, ridge, t, weights1, weights2, **options)


def manifest_multiclass_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    aggregate: str | None = "max",
    bandwidth: Bandwidth = Median(1.0),
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, "d"] | Float[Array, "c d"]:
    """How far each feature's associations in one class lie from the mean of all classes.

    r_ℓ = diag |D_ℓ|, D_ℓ = Log_M(K_ℓ) with M the geometric mean of the kernels K_1 … K_C, then the
    maximum or the sum over classes.

    **Arguments**

    - `x`: `(n, d)`, the samples of all classes; d ≥ 2.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `aggregate`: static. `"max"` favours features that mark one class, `"sum"` those that several
      share; `None` returns the classes apart.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.
    - the others: as in `manifest_score`.

    **Returns** `(d,)`, or `(C, d)` for `aggregate=None`. Two classes: with `"spd"` both have the
    binary score, so the maximum is it and the sum twice it; with `"spsd"`, which is not symmetric,
    each class has the binary score of that order.

    **Numerics** a class without weight, or (`"spd"`) a mean that has not converged, gives NaN, as
    does a kernel that is not positive definite. With `"spsd"` the subspaces of many classes can be
    so far apart that their mean is neither unique nor found to rounding; the score is then taken at
    the point reached (`spsd.mean` says how good it is). Labels out of range raise when `y` is
    concrete; traced, they belong to no class.

    **Derivatives** those of `manifest_score`; the mean is differentiated implicitly. `"max"` has
    kinks where two classes tie.

    **Cost** C `eigh` of size d per iteration of the mean (10 to 35), and 3 C more.

    **Reference** appendix C.
    """
    x = _checks.real(x, "x", ndim=2)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    if aggregate is not None:
        _checks.option(aggregate, "aggregate", AGGREGATES)
    if weights is not None:
        weights = _checks.weights(weights, "weights", x.shape[0], x.dtype)
    _checks.has_every_class(y, weights, "y", num_classes)
    _enough(x, "x")
    check_bandwidth(bandwidth)
    ridge, options = _options(x.shape[1], geometry, ridge, rank, 0.5)
    bandwidth, ridge = _as_arrays((bandwidth, ridge), x.dtype)
    scores = _class_scores(x, y, bandwidth, ridge, weights, num_classes=num_classes, **options)
    if aggregate is None:
        return scores
    return jnp.max(scores, axis=0) if aggregate == "max" else jnp.sum(scores, axis=0)


# ---- Computation --------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _score(x1, x2, bandwidth, ridge, t, weights1, weights2, *, geometry, rank):
    k1, k2 = _kernels(x1, x2, bandwidth, weights1, weights2)
    return _score_kernels(k1, k2, ridge, t, geometry=geometry, rank=rank)


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _score_kernels(k1, k2, ridge, t, *, geometry, rank):
    if geometry == "spd":
        return absm_diagonal(spd.difference(_add_ridge(k1, ridge), _add_ridge(k2, ridge), t))
    return spsd.absm_diagonal(spsd.difference(spsd.factor(k1, rank), spsd.factor(k2, rank), t))


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _operators(x1, x2, bandwidth, ridge, t, weights1, weights2, *, geometry, rank):
    k1, k2 = _kernels(x1, x2, bandwidth, weights1, weights2)
    if geometry == "spd":
        k1, k2 = _add_ridge(k1, ridge), _add_ridge(k2, ridge)
        return ManifestOperators(k1, k2, spd.geodesic(k1, k2, t), spd.difference(k1, k2, t))
    p1, p2 = spsd.factor(k1, rank), spsd.factor(k2, rank)
    mean = spsd.to_matrix(spsd.geodesic(p1, p2, t))
    return ManifestOperators(k1, k2, mean, spsd.to_matrix(spsd.difference(p1, p2, t)))


@functools.partial(jax.jit, static_argnames=("num_classes", "geometry", "rank"))
def _class_scores(x, y, bandwidth, ridge, weights, *, num_classes, geometry, rank):
    """r_ℓ for every class; one class is a set of weights, never an index."""
    members = (y[None, :] == jnp.arange(num_classes, dtype=y.dtype)[:, None]).astype(x.dtype)
    if weights is not None:
        members = members * weights[None, :]
    kernels = jax.vmap(lambda w: _kernel(x, bandwidth, w))(members)
    if geometry == "spsd":
        return _class_scores_spsd(spsd.factor(kernels, rank), num_classes)
    kernels = _add_ridge(kernels, ridge)
    if num_classes == 2:  # Log_M K₂ = −Log_M K₁, in closed form
        score = absm_diagonal(spd.difference(kernels[0], kernels[1], 0.5))
        return jnp.stack([score, score])
    mean = spd.mean(kernels)
    scores = absm_diagonal(spd.log(mean.mean[None], kernels))
    return jnp.where(mean.converged, scores, jnp.nan)


def _class_scores_spsd(points: spsd.SPSD, num_classes: int):
    if num_classes == 2:  # both orders, at one mean, in closed form
        swapped = jax.tree.map(lambda a: a[::-1], points)
        return spsd.absm_diagonal(spsd.difference(points, swapped))
    base = jax.tree.map(lambda a: a[None], spsd.mean(points).mean)
    return spsd.absm_diagonal(spsd.log(base, points))


def _kernels(x1, x2, bandwidth, weights1, weights2):
    """Both kernels, one after the other, so that the second reuses the first's working memory.

    Left to itself XLA computes them at once. An entry of a Gaussian kernel never exceeds 1: the
    condition is always false, but only the first kernel can tell.
    """
    k1 = _kernel(x1, bandwidth, weights1)
    return k1, _kernel(jnp.where(k1[0, 0] > 2, jnp.zeros_like(x2), x2), bandwidth, weights2)


def _kernel(x, bandwidth, weights):
    """The feature kernel of one class; NaN without weight, and for (traced) negative weights."""
    kernel = feature_kernel(x, bandwidth=bandwidth, weights=weights)
    if weights is None:
        return kernel
    return jnp.where(jnp.any(weights > 0) & jnp.all(weights >= 0), kernel, jnp.nan)


def _add_ridge(k, ridge):
    eye = jnp.broadcast_to(jnp.eye(k.shape[-1], dtype=k.dtype), k.shape)
    return k + jnp.where(ridge >= 0, ridge, jnp.nan) * eye  # a traced one cannot be refused


# ---- Arguments ----------------------------------------------------------------------------------


def _two_classes(x1, x2, weights1, weights2):
    x1, x2 = _checks.real(x1, "x1", ndim=2), _checks.real(x2, "x2", ndim=2)
    if x1.shape[1] != x2.shape[1]:
        raise _checks.fail("x1 and x2", "of one number of features", f"{x1.shape} and {x2.shape}")
    if x1.dtype != x2.dtype:
        raise _checks.fail("x1 and x2", "of one dtype", f"{x1.dtype} and {x2.dtype}")
    _enough(x1, "x1")
    _enough(x2, "x2")
    if weights1 is not None:
        weights1 = _checks.weights(weights1, "weights1", x1.shape[0], x1.dtype)
    if weights2 is not None:
        weights2 = _checks.weights(weights2, "weights2", x2.shape[0], x2.dtype)
    return x1, x2, weights1, weights2


def _enough(x, name: str) -> None:
    if x.shape[0] < 1 or x.shape[1] < 2:
        raise _checks.fail(name, "(n, d) with n ≥ 1 samples and d ≥ 2 features", f"{x.shape}")


def _two_kernels(k1, k2):
    k1, k2 = (_checks.square(_checks.real(k, n), n) for k, n in ((k1, "k1"), (k2, "k2")))
    for k, name in ((k1, "k1"), (k2, "k2")):
        if k.ndim != 2 or k.shape[-1] < 2:
            raise _checks.fail(name, "(d, d) with d ≥ 2 features", f"shape {k.shape}")
    _checks.alike(k1, k2, "k1 and k2")
    return k1, k2


def _options(d: int, geometry: str, ridge, rank: int | None, t) -> tuple[Any, dict[str, Any]]:
    """Check the options; the ridge and the static ones, with what `None` stands for."""
    _checks.option(geometry, "geometry", GEOMETRIES)
    _checks.only_if(geometry == "spd", ridge, "ridge", 'geometry="spd"')
    _checks.only_if(geometry == "spsd", rank, "rank", 'geometry="spsd"')
    ridge = RIDGE if ridge is None else ridge
    _checks.number(ridge, "ridge", low=0, scalar=True)
    _checks.number(t, "t", low=0, high=1, scalar=True)
    rank = d if rank is None else _checks.integer(rank, "rank", low=1, high=d)
    return ridge, {"geometry": geometry, "rank": rank}


def _as_arrays(options, dtype):
    """Numbers as arrays of one dtype: however they are spelt, they compile once."""
    return jax.tree.map(lambda a: jnp.asarray(a, dtype), options)
