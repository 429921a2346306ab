"""ManiFeSt: find the features whose associations with other features differ between classes.

Each class ℓ gives a kernel K_ℓ between the *features* (eq. 1). M is the mean of the two kernels on
the manifold of positive definite matrices (eq. 2). The difference D of the kernels is the tangent
vector at M that points to K₁ (eq. 3). The score of a feature is its entry on the diagonal of |D|
(eq. 4):

    r = Σ_i |λ_i| φ_i ∘ φ_i = diag |D|,    D = Φ diag(λ) Φᵀ.

**Reference** D. Cohen, T. Shnitzer, Y. Kluger, R. Talmon, *Few-Sample Feature Selection via Feature
Manifold Learning*, ICML 2023: Algorithm 1 (SPD), Algorithm 2 (SPSD).
Proposition 1 omits a factor ½. At an eigenvector that both kernels share, the eigenvalue of D is
½ √(λ₁λ₂) (log λ₁ − log λ₂), as in section 4 and Proposition 3.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import symmetrize
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import spd, spsd
from jaxfs.kernels import feature_kernel
from jaxfs.kernels._rbf import Bandwidth, Median, check_bandwidth
from jaxfs.linalg._divided_differences import abs_diagonal as absm_diagonal

GEOMETRIES = ("spd", "spsd")
#: The default ridge, added to the diagonal of the kernels.
RIDGE = 1e-2


class ManifestOperators(NamedTuple):
    """The kernels of two classes, their mean and their difference; all `(d, d)`.

    With `geometry="spd"` the kernels include the ridge. With `"spsd"` the kernels are not
    truncated, but the mean and the difference are computed from their leading eigenvectors only.
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
    """Score of how much each feature's associations with the others differ between two classes.

    The bandwidth decides what the score finds, and no fixed one suits all data: pass
    `bandwidth=Median(factor)` with the factor that `manifest_bandwidth` chooses, as the estimator
    `ManiFeSt` does. The score is diag |D| of eq. 4, by Algorithm 1 or Algorithm 2.

    **Arguments**

    - `x1`, `x2`: `(n1, d)` and `(n2, d)`, the samples of the two classes; d ≥ 2, one dtype.
    - `bandwidth`: σ of the feature kernels. Either one number for both classes, or a rule that is
      applied to each class: `Median(factor)`, `Percentile(q, factor)`. Squared distances between
      features are sums over samples. With one number, classes of unequal sizes (or total weights)
      therefore have different kernels because of their sizes alone; a rule avoids this. Two
      features have only one distance: with a rule both kernels are equal and the score is 0 to
      rounding.
    - `geometry`: static. `"spd"`: Algorithm 1 on both kernels plus `ridge`·I. `"spsd"`: Algorithm 2
      on the leading `rank` eigenvectors.
    - `ridge`: nonnegative, for `"spd"` only. The default is 0.01, and 0 gives the paper's score.
      Before the ridge is added, the diagonal of the kernels is 1.
    - `rank`: static, for `"spsd"` only. The default is the smaller numerical rank of the kernels.
    - `t`: in [0, 1], the point of the geodesic γ from K₁ to K₂ at which the difference is taken:
      D(t) = ½(Log_M K₁ − Log_M K₂) with M = γ(t). The paper uses ½, where D = Log_M K₁. For any t,
      Log_M K₁ = 2t D(t) and Log_M K₂ = −2(1 − t) D(t). A score from one of these logarithms alone
      would rank the features as D(t) does, but vanish at t = 0 or t = 1.
    - `weights1`, `weights2`: `(n1,)`, `(n2,)`, nonnegative sample weights. A sample of weight zero
      has no effect, even if it contains NaN.

    **Returns** `(d,)`, nonnegative, larger is more different.

    **Numerics** RBF kernels of real data are numerically singular. With `ridge=0` a kernel that is
    not positive definite in its dtype gives NaN; a larger ridge avoids this. A class without
    weight, or a traced option out of range, also gives NaN.

    At the default ridge float32 was within 2e-4 of float64, relative to the top score, on six real
    data sets of up to 6000 features (`benchmarks/precision/manifest.py`).
    `"spsd"` at the numerical rank is ill-conditioned: two correct implementations differ by
    several percent. It is not symmetric in the classes.

    **Defaults** were compared by nested cross-validation on six real data sets, in float32 and
    float64 (`benchmarks/defaults/manifest.py`). With `"spd"`, σ from the 5th percentile to 3
    medians and ridges of 1e-3, 1e-2 and 1e-1 reach a mean inner accuracy of 68.7 to 70.9%; the
    default reaches 69.9%. These differences are smaller than the differences between data sets, so
    the default is the median with the middle ridge. On the outer folds the default reaches 74.9%,
    and the setting chosen on the inner folds reaches 73.8%. Smaller σ, and `"spsd"` of rank 20,
    stay below 69.1% on the inner folds. Choosing σ for each data set helps more: 77.8%. Data with
    few relevant features among many, such as Madelon, need a small σ: `Median(0.1)`. `Median(1)`
    stays the default because no fixed bandwidth is better on average;
    `benchmarks/defaults/few_samples.py` compares it with `manifest_bandwidth`.

    **Derivatives** in `x1`, `x2`, `bandwidth`, `ridge`, `t`. For `"spd"` they are exact, including
    at duplicated features; identical classes are a kink with a finite subgradient. For `"spsd"`
    they are exact for a fixed `rank` if eigenvalues `rank` and `rank` + 1 differ; otherwise they
    are finite, but meaningless and possibly huge.

    **Cost** `"spd"`: one Cholesky and two `eigh` of size d. `"spsd"`: two `eigh` of size d, then
    decompositions of k×k matrices, where k is the rank (d for `rank=None`). Memory for `"spd"`:
    six d×d arrays, and two of workspace in `eigh`.

    Features 0 and 1 are equal in the first class and opposite in the second:

    >>> import jax
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 30, 5))
    >>> x1, x2 = x1.at[:, 1].set(x1[:, 0]), x2.at[:, 1].set(-x2[:, 0])
    >>> sorted(manifest_score(x1, x2).argsort()[-2:].tolist())
    [0, 1]
    """
    arguments, options = _two_class_arguments(
        x1, x2, bandwidth, geometry, ridge, rank, t, weights1, weights2
    )
    return _score(*arguments, **options)


def manifest_from_kernels(
    k1: ArrayLike,
    k2: ArrayLike,
    *,
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    t: Scalar = 0.5,
) -> Float[Array, "d"]:
    """ManiFeSt score of two positive semi-definite feature kernels, which need not be Gaussian.

    **Arguments**

    - `k1`, `k2`: `(d, d)`, of similar scale. Only the symmetric part is used. `ridge` is in the
      units of the kernels.
    - the others: as in `manifest_score`.

    **Returns** `(d,)`.

    >>> import jax.numpy as jnp
    >>> k1, k2 = jnp.eye(2), jnp.diag(jnp.array([1.0, 4.0]))
    >>> manifest_from_kernels(k1, k2, ridge=0.0).round(4).tolist()
    [0.0, 1.3863]
    """
    k1, k2 = (_checks.square(_checks.real(k, n), n) for k, n in ((k1, "k1"), (k2, "k2")))
    for k, name in ((k1, "k1"), (k2, "k2")):
        if k.ndim != 2 or k.shape[-1] < 2:
            raise _checks.fail(name, "(d, d) with d ≥ 2 features", f"shape {k.shape}")
    _checks.alike(k1, k2, "k1 and k2")
    ridge, options = checked_options(k1.shape[-1], geometry, ridge, rank, t)
    ridge, t = as_arrays((ridge, t), k1.dtype)
    return _score_kernels(symmetrize(k1), symmetrize(k2), ridge, t, **options)


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
    """Return the kernels, the mean M(t) (eq. 2) and the difference D(t) (eq. 3) of ManiFeSt.

    The arguments are the same as in `manifest_score`. The leading eigenvectors of the mean show the
    structure that the classes share. The leading eigenvectors of the difference show how the
    classes differ (the paper's Fig. 2). `jaxfs.linalg.dominant_eigenpairs(operators.difference, k)`
    computes the latter.
    """
    arguments, options = _two_class_arguments(
        x1, x2, bandwidth, geometry, ridge, rank, t, weights1, weights2
    )
    return _operators(*arguments, **options)


# ---- The method, in the order of the paper ------------------------------------------------------


def class_kernel(x, bandwidth, weights):
    """The feature kernel of one class (eq. 1); NaN if all weights are 0 or one is negative."""
    kernel = feature_kernel(x, bandwidth=bandwidth, weights=weights)
    return kernel if weights is None else jnp.where(valid_weights(weights), kernel, jnp.nan)


def valid_weights(weights):
    return jnp.any(weights > 0) & jnp.all(weights >= 0)


def _kernels(x1, x2, bandwidth, weights1, weights2):
    k1 = class_kernel(x1, bandwidth, weights1)
    return k1, class_kernel(computed_after(k1, x2), bandwidth, weights2)


def computed_after(first, x):
    """Return `x`, but make it depend on `first`, so that XLA computes `first` before it uses `x`.

    XLA otherwise computes both classes at once, which needs more memory. No entry of `first`
    exceeds 1, so the condition is never true, but the compiler cannot know this.
    `lax.optimization_barrier` has no effect here: the CPU compiler removes the barrier before
    scheduling. `manifest_score` allocates 6.0 d×d arrays with this condition, and 7.5 with the
    barrier or with neither.
    """
    return jnp.where(first[0, 0] > 2, jnp.zeros_like(x), x)


def add_ridge(k, ridge):
    eye = jnp.broadcast_to(jnp.eye(k.shape[-1], dtype=k.dtype), k.shape)
    return k + jnp.where(ridge >= 0, ridge, jnp.nan) * eye  # a traced ridge may be negative


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _operators(x1, x2, bandwidth, ridge, t, weights1, weights2, *, geometry, rank):
    """Return the kernels, M and D, by eqs. 2 and 3, or by eqs. 13 and 14 for `"spsd"`."""
    k1, k2 = _kernels(x1, x2, bandwidth, weights1, weights2)
    if geometry == "spd":
        k1, k2 = add_ridge(k1, ridge), add_ridge(k2, ridge)
        return ManifestOperators(k1, k2, spd.geodesic(k1, k2, t), spd.difference(k1, k2, t))
    p1, p2 = spsd.factor(k1, rank), spsd.factor(k2, rank)
    mean = spsd.to_matrix(spsd.geodesic(p1, p2, t))
    return ManifestOperators(k1, k2, mean, spsd.to_matrix(spsd.difference(p1, p2, t)))


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _score_kernels(k1, k2, ridge, t, *, geometry, rank):
    """Return r = diag |D| (eq. 4) without computing M: Algorithm 1, or Algorithm 2 for `"spsd"`."""
    if geometry == "spd":
        t, k1, k2 = _checks.along(t, k1, k2)  # NaN for a traced t out of range
        return absm_diagonal(spd.difference_of(add_ridge(k1 + k2, 2 * ridge), k1 - k2, t))
    return spsd.absm_diagonal(spsd.difference(spsd.factor(k1, rank), spsd.factor(k2, rank), t))


@functools.partial(jax.jit, static_argnames=("geometry", "rank"))
def _score(x1, x2, bandwidth, ridge, t, weights1, weights2, *, geometry, rank):
    k1, k2 = _kernels(x1, x2, bandwidth, weights1, weights2)
    return _score_kernels(k1, k2, ridge, t, geometry=geometry, rank=rank)


# ---- Arguments ----------------------------------------------------------------------------------


def _two_class_arguments(x1, x2, bandwidth, geometry, ridge, rank, t, weights1, weights2):
    """Return the checked arrays and the static options of `_score` and `_operators`."""
    x1, x2, weights1, weights2 = two_classes(x1, x2, weights1, weights2)
    check_bandwidth(bandwidth)
    ridge, options = checked_options(x1.shape[1], geometry, ridge, rank, t)
    numbers = as_arrays((bandwidth, ridge, t), x1.dtype)
    return (x1, x2, *numbers, weights1, weights2), options


def two_classes(x1, x2, weights1, weights2):
    x1, weights1 = class_samples(x1, weights1, "1")
    x2, weights2 = class_samples(x2, weights2, "2")
    if x1.shape[1] != x2.shape[1]:
        expected = "of the same number of features"
        raise _checks.fail("x1 and x2", expected, f"{x1.shape} and {x2.shape}")
    if x1.dtype != x2.dtype:
        raise _checks.fail("x1 and x2", "of one dtype", f"{x1.dtype} and {x2.dtype}")
    return x1, x2, weights1, weights2


def class_samples(x, weights, suffix: str = ""):
    """Check and return samples `(n, d)` and weights `(n,)` or `None`."""
    x = _checks.real(x, f"x{suffix}", ndim=2)
    if x.shape[0] < 1 or x.shape[1] < 2:
        expected = "(n, d) with n ≥ 1 samples and d ≥ 2 features"
        raise _checks.fail(f"x{suffix}", expected, f"{x.shape}")
    if weights is not None:
        weights = _checks.weights(weights, f"weights{suffix}", x.shape[0], x.dtype)
    return x, weights


def checked_options(
    d: int, geometry: str, ridge, rank: int | None, t
) -> tuple[Any, dict[str, Any]]:
    """Return the checked ridge and static options, with `None` replaced by the defaults."""
    _checks.option(geometry, "geometry", GEOMETRIES)
    _checks.only_if(geometry == "spd", ridge, "ridge", 'geometry="spd"')
    _checks.only_if(geometry == "spsd", rank, "rank", 'geometry="spsd"')
    ridge = RIDGE if ridge is None else ridge
    _checks.number(ridge, "ridge", low=0, scalar=True)
    _checks.number(t, "t", low=0, high=1, scalar=True)
    rank = d if rank is None else _checks.integer(rank, "rank", low=1, high=d)
    return ridge, {"geometry": geometry, "rank": rank}


def as_arrays(options, dtype):
    """Convert numbers to arrays of one dtype, so that 1, 1.0 and arrays share one program."""
    return jax.tree.map(lambda a: jnp.asarray(a, dtype), options)
