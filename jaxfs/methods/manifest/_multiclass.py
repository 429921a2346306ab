"""ManiFeSt of many classes: the difference of each class's kernel from the mean of all kernels.

M is the geometric mean of the feature kernels K_1 … K_C. Each class has its own difference operator
D_ℓ = Log_M(K_ℓ) and its own score r_ℓ = diag |D_ℓ|.

**Reference** D. Cohen, T. Shnitzer, Y. Kluger, R. Talmon, *Few-Sample Feature Selection via Feature
Manifold Learning*, ICML 2023, appendix C.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import symmetrize
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import spd, spsd
from jaxfs.kernels._rbf import Bandwidth, Median, check_bandwidth
from jaxfs.linalg._divided_differences import abs_diagonal as absm_diagonal
from jaxfs.methods.manifest._score import (
    add_ridge,
    as_arrays,
    checked_options,
    class_kernel,
    class_samples,
)

AGGREGATES = ("max", "sum")


class ManifestMulticlassOperators(NamedTuple):
    """The kernels of C classes, their mean, and the difference of each kernel from the mean.

    - `kernels`, `differences`: `(C, d, d)`.
    - `mean`: `(d, d)`.

    With `geometry="spd"` the kernels include the ridge. With `"spsd"` the kernels are not
    truncated, but the mean and the differences are computed from their leading eigenvectors only.
    """

    kernels: Float[Array, "c d d"]
    mean: Float[Array, "d d"]
    differences: Float[Array, "c d d"]


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
    """Score of how much each feature's associations in a class differ from the mean of all classes.

    The score of class ℓ is r_ℓ = diag |D_ℓ|, D_ℓ = Log_M(K_ℓ), where M is the geometric mean of the
    kernels K_1 … K_C. The result is the maximum or the sum of r_ℓ over the classes.

    **Arguments**

    - `x`: `(n, d)`, the samples of all classes; d ≥ 2.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `aggregate`: static. `"max"` favours features specific to one class, `"sum"` features that
      distinguish several classes. `None` returns the score of each class.
    - `weights`: `(n,)`, nonnegative sample weights. A sample of weight zero has no effect.
    - the others: as in `manifest_score`.

    **Returns** `(d,)`, or `(C, d)` for `aggregate=None`. For two classes and `"spd"` both rows are
    the binary score; the maximum is then the binary score, and the sum is twice the binary score.
    `"spsd"` is not symmetric: the row of a class is the binary score with that class as `x1`.

    **Numerics** NaN if a class has no weight, if a kernel is not positive definite, or (`"spd"`) if
    the mean has not converged. With `"spsd"` the subspaces of many classes can be so far apart that
    their mean is not unique and the iteration does not converge. The score then uses the best
    iterate; `spsd.mean` reports its residual. Concrete labels out of range raise an error; traced
    labels out of range belong to no class.

    **Derivatives** as in `manifest_score`; the mean is differentiated implicitly. `"max"` has kinks
    where two classes tie.

    **Cost** C `eigh` of size d in each of the 5 to 30 iterations of the mean, and 2 C more.
    """
    _check_aggregate(aggregate)
    arguments, options = _arguments(x, y, num_classes, bandwidth, geometry, ridge, rank, weights)
    return _scores(*arguments, aggregate=aggregate, **options)


def manifest_multiclass_from_kernels(
    kernels: ArrayLike,
    *,
    aggregate: str | None = "max",
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
) -> Float[Array, "d"] | Float[Array, "c d"]:
    """ManiFeSt score of the positive semi-definite feature kernels of two or more classes.

    **Arguments**

    - `kernels`: `(C, d, d)`, one kernel per class, of similar scale; C ≥ 2, d ≥ 2. Only the
      symmetric part is used. `ridge` is in the units of the kernels.
    - the others: as in `manifest_multiclass_score`.

    **Returns** `(d,)`, or `(C, d)` for `aggregate=None`.

    >>> import jax.numpy as jnp
    >>> kernels = jnp.stack([jnp.diag(jnp.array([1.0, a])) for a in (1.0, 4.0, 16.0)])
    >>> manifest_multiclass_from_kernels(kernels, ridge=0.0).round(4).tolist()
    [0.0, 5.5452]
    """
    kernels = _checks.square(_checks.real(kernels, "kernels", ndim=3), "kernels")
    if kernels.shape[0] < 2 or kernels.shape[-1] < 2:
        expected = "(c, d, d) with c ≥ 2 classes and d ≥ 2 features"
        raise _checks.fail("kernels", expected, f"shape {kernels.shape}")
    _check_aggregate(aggregate)
    ridge, options = checked_options(kernels.shape[-1], geometry, ridge, rank, 0.5)
    ridge = as_arrays(ridge, kernels.dtype)
    return _kernel_scores(symmetrize(kernels), ridge, aggregate=aggregate, **options)


def manifest_multiclass_operators(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    bandwidth: Bandwidth = Median(1.0),
    geometry: str = "spd",
    ridge: Scalar | None = None,
    rank: int | None = None,
    weights: ArrayLike | None = None,
) -> ManifestMulticlassOperators:
    """Return the kernels of all classes, their geometric mean M, and the differences D_ℓ from it.

    The arguments are those of `manifest_multiclass_score`, whose class scores are diag |D_ℓ|. The
    leading eigenvectors of the mean show the structure that all classes share. Those of D_ℓ show
    what is specific to class ℓ (the paper's Fig. 8).

    **Numerics** and **Derivatives** as in `manifest_multiclass_score`; if that score is NaN, the
    mean and the differences are NaN. The result holds 2 C + 1 matrices.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> x, y = jax.random.normal(jax.random.key(0), (30, 4)), jnp.arange(30) % 3
    >>> operators = manifest_multiclass_operators(x, y, num_classes=3)
    >>> operators.mean.shape, operators.differences.shape
    ((4, 4), (3, 4, 4))
    """
    arguments, options = _arguments(x, y, num_classes, bandwidth, geometry, ridge, rank, weights)
    return _operators(*arguments, **options)


# ---- The method ---------------------------------------------------------------------------------


def _kernels(x, y, bandwidth, weights, num_classes):
    def kernel(label):  # a class is selected by weights of 0 and 1
        member = (y == label).astype(x.dtype)
        return class_kernel(x, bandwidth, member if weights is None else member * weights)

    # `lax.map` compiles and stores the work of one class at a time; `vmap` needs memory for all.
    return lax.map(kernel, jnp.arange(num_classes, dtype=y.dtype))


@functools.partial(jax.jit, static_argnames=("num_classes", "aggregate", "geometry", "rank"))
def _scores(x, y, bandwidth, ridge, weights, *, num_classes, aggregate, geometry, rank):
    kernels = _kernels(x, y, bandwidth, weights, num_classes)
    return _kernel_scores(kernels, ridge, aggregate=aggregate, geometry=geometry, rank=rank)


@functools.partial(jax.jit, static_argnames=("aggregate", "geometry", "rank"))
def _kernel_scores(kernels, ridge, *, aggregate, geometry, rank):
    """Return r_ℓ for every class ℓ, or the maximum or sum of r_ℓ over the classes."""
    if geometry == "spd":
        scores = _spd_scores(add_ridge(kernels, ridge))
    else:
        scores = spsd.absm_diagonal(_spsd_operators(kernels, rank)[1])
    if aggregate is None:
        return scores
    return jnp.max(scores, axis=0) if aggregate == "max" else jnp.sum(scores, axis=0)


def _spd_scores(kernels):
    if kernels.shape[0] == 2:  # Log_M K₂ = −Log_M K₁, in closed form
        score = absm_diagonal(spd.difference(kernels[0], kernels[1]))
        return jnp.stack([score, score])
    mean = _spd_mean(kernels)
    return lax.map(lambda k: absm_diagonal(spd.log(mean, k)), kernels)


def _spd_mean(kernels):
    mean = spd.mean(kernels)
    return jnp.where(mean.converged, mean.mean, jnp.nan)


@functools.partial(jax.jit, static_argnames=("num_classes", "geometry", "rank"))
def _operators(x, y, bandwidth, ridge, weights, *, num_classes, geometry, rank):
    kernels = _kernels(x, y, bandwidth, weights, num_classes)
    if geometry == "spsd":
        point, tangents = _spsd_operators(kernels, rank)
        mean, differences = spsd.to_matrix(point), spsd.to_matrix(tangents)
        return ManifestMulticlassOperators(kernels, mean, differences)
    kernels = add_ridge(kernels, ridge)
    if num_classes == 2:
        difference = spd.difference(kernels[0], kernels[1])
        mean = spd.geodesic(kernels[0], kernels[1], 0.5)
        return ManifestMulticlassOperators(kernels, mean, jnp.stack([difference, -difference]))
    mean = _spd_mean(kernels)
    differences = lax.map(lambda k: spd.log(mean, k), kernels)
    return ManifestMulticlassOperators(kernels, mean, differences)


def _spsd_operators(kernels, rank) -> tuple[spsd.SPSD, spsd.Tangent]:
    points = spsd.factor(kernels, rank)
    if kernels.shape[0] == 2:  # both orders of the classes, in closed form
        first, second = (jax.tree.map(lambda a, i=i: a[i], points) for i in (0, 1))
        swapped = jax.tree.map(lambda a: a[::-1], points)
        return spsd.geodesic(first, second, 0.5), spsd.difference(points, swapped)
    mean = spsd.mean(points).mean
    return mean, spsd.log(jax.tree.map(lambda a: a[None], mean), points)


# ---- Arguments ----------------------------------------------------------------------------------


def _check_aggregate(aggregate: str | None) -> None:
    if aggregate is not None:
        _checks.option(aggregate, "aggregate", AGGREGATES)


def _arguments(
    x, y, num_classes, bandwidth, geometry, ridge, rank, weights
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the checked arrays and the static options of `_scores` and `_operators`."""
    x, weights = class_samples(x, weights)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    _checks.has_every_class(y, weights, "y", num_classes)
    check_bandwidth(bandwidth)
    ridge, options = checked_options(x.shape[1], geometry, ridge, rank, 0.5)
    bandwidth, ridge = as_arrays((bandwidth, ridge), x.dtype)
    return (x, y, bandwidth, ridge, weights), options | {"num_classes": num_classes}
