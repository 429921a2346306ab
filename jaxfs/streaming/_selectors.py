"""Filters, GC and GKL, computed in passes over blocks of rows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.classical import _class_moments
from jaxfs.methods.gaussian import _moments, _search
from jaxfs.methods.gaussian._compromise import CompromiseSearch
from jaxfs.methods.gaussian._divergence import DivergenceSearch
from jaxfs.methods.gaussian._moments import ClassBlocks
from jaxfs.methods.gaussian._select import check_rank, search_options
from jaxfs.streaming._blocks import Source
from jaxfs.streaming._passes import FirstPass, WithTarget, class_average, first_pass

#: Maximum size of all covariances in bytes. If they are larger, each chosen feature needs a pass.
MEMORY = 2**30

# ---- Selectors ----------------------------------------------------------------------------------


def gc_select(
    source: Source,
    num_features: int,
    *,
    num_classes: int,
    objective: str = "mi",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    fallback: str = "wilks",
    initial: ArrayLike | None = None,
    key: Array | None = None,
    memory: int = MEMORY,
) -> Selection:
    """Select features as `jaxfs.gc_select`, from a table that does not fit into memory.

    **Arguments** are the same as in `jaxfs.gc_select`, with a `source` instead of the data, the
    labels and the weights. The argument `memory` is the maximum size in bytes of the covariances of
    all classes. If these 8·C·d² bytes do not exceed `memory`, one pass computes the covariances and
    the search needs no further pass. Otherwise the search needs a pass for each chosen feature.

    **Returns** `Selection`, as `jaxfs.gc_select`.

    **Cost** with covariances in memory, two passes and n·d² multiplications; otherwise
    `num_features` + 1 passes. The default ridge needs one more pass. The peak memory is three times
    `memory`, or otherwise O(C k d), and a few blocks.
    """
    model = objective, ridge, shrinkage, initial, fallback, key
    return _select(CompromiseSearch, source, memory, num_features, num_classes, *model)


def gkl_select(
    source: Source,
    num_features: int,
    *,
    num_classes: int,
    objective: str = "entropy",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    initial: ArrayLike | None = None,
    memory: int = MEMORY,
) -> Selection:
    """Select features as `jaxfs.gkl_select`, from a table that does not fit into memory.

    `source`, `memory` and the cost are described in `gc_select`.
    """
    model = objective, ridge, shrinkage, initial
    return _select(DivergenceSearch, source, memory, num_features, num_classes, *model)


def _select(search: type[_search.Search], source: Source, memory, *arguments) -> Selection:
    """Check the arguments that both selectors share, and return the selection by `search`."""
    _checks.record(source, "source", Source, "`from_blocks`")
    d, dtype = source.num_features, jax.dtypes.canonicalize_dtype(source.dtype)
    options = search_options(d, dtype, *arguments)
    c, k = options.num_classes, options.initial.shape[0]
    whole = 8 * c * d**2 <= _checks.integer(memory, "memory", low=0)
    first = first_pass(source, c)
    check_rank(int(np.sum(first.largest != 0)), first.counts, options)
    m = _gaussian_moments(source, first, whole)
    if options.ridge is None:
        about = np.asarray(m.deviations), np.asarray(m.total)
        fourth = class_average(source, first, ClassBlocks.fourth_powers, *about)
        options = dataclasses.replace(options, ridge=_default_ridge(m, fourth.astype(dtype)))
    call = functools.partial(_call, search, m, options)
    if whole:
        return call("run")
    state, finite = call("start"), bool(np.all(np.isfinite(m.total)))
    for step in range(k):
        i, state = call("choose", np.int32(step), state)
        own = np.zeros((c, d))
        if step < k - 1 and finite:  # the last step and NaN data need no covariances
            own = class_average(source, first, ClassBlocks.covariances_with, np.int32(i))
        state = call("absorb", np.int32(step), i, state, own.astype(dtype))
    return Selection(*state[:3])


def _gaussian_moments(source: Source, first: FirstPass, whole: bool) -> _moments.GaussianMoments:
    """Return the moments of the classes, with all covariances if `whole` is true."""
    dtype = jax.dtypes.canonicalize_dtype(source.dtype)
    function = ClassBlocks.covariances if whole else ClassBlocks.variances
    found = class_average(source, first, function)
    variances = np.diagonal(found, axis1=1, axis2=2) if whole else found
    data = _moments.ClassCovariances(jnp.asarray(found, dtype)) if whole else None
    rows = _moments.LARGEST_BLOCK
    rounding = _moments.rounding_error(source.rows / rows, rows)
    arrays = first.sizes / first.sizes.sum(), first.means, variances
    return _moments_of(data, rounding, *(a.astype(dtype) for a in arrays))


_moments_of = jax.jit(_moments.moments_of)
_default_ridge = jax.jit(_search.default_ridge)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _call(search, m, options, method: str, *arguments):
    """Build a `Search` inside `jit`, and call one of its methods."""
    return getattr(search(m, options), method)(*arguments)


# ---- Filters ------------------------------------------------------------------------------------


def fisher_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """Compute `jaxfs.fisher_score` in two passes."""
    return _class_moments.fisher_ratio(_moments_by_class(source, num_classes))


def anova_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """Compute `jaxfs.anova_score` in two passes."""
    return _class_moments.f_statistic(_moments_by_class(source, num_classes))


def t_score(source: Source, num_classes: int = 2) -> Float[Array, "d"]:
    """Compute `jaxfs.t_score` in two passes."""
    if _checks.integer(num_classes, "num_classes", low=1) != 2:
        raise _checks.fail("num_classes", "2 for t_score; anova_score takes more", num_classes)
    return _class_moments.welch_statistic(_moments_by_class(source, num_classes))


def chi2_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """Compute `jaxfs.chi2_score` in two passes; negative values raise `ValueError`."""
    first = first_pass(source, _checks.integer(num_classes, "num_classes", low=2))
    if np.any(first.low < 0):
        j = int(np.nanargmin(first.low))
        raise _checks.fail("x", "nonnegative for χ²", f"{first.low[j]} in feature {j}")
    m = _scaled(source, first)
    share = first.sizes / first.sizes.sum()
    mean = jnp.asarray(share @ first.means + first.origin, m.unit.dtype)
    return _class_moments.quotient(m.between, mean / m.unit) * m.unit


def variance_score(source: Source) -> Float[Array, "d"]:
    """Compute `jaxfs.variance_score` in two passes; the targets are not used."""
    return _class_moments.variance(_scaled(source, first_pass(source, None)))


def pearson_score(source: Source) -> Float[Array, "d"]:
    """Compute `jaxfs.pearson_score` in three passes."""
    r, _, dtype = _correlation(source)
    return jnp.asarray(np.abs(r), dtype)


def f_regression_score(source: Source) -> Float[Array, "d"]:
    """Compute `jaxfs.f_regression_score` in three passes.

    1 − r² is computed by subtraction. For float32 data, the F statistic of a nearly perfect fit
    therefore has few correct digits.
    """
    r, mass, dtype = _correlation(source)
    freedom = mass - 2 if mass > 2 else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(r == 0, 0.0, np.square(r) / np.maximum(1 - np.square(r), 0))
    return jnp.asarray(quotient * freedom, dtype)


def _moments_by_class(source: Source, num_classes: int) -> _class_moments.ClassMoments:
    return _scaled(source, first_pass(source, _checks.integer(num_classes, "num_classes", low=2)))


def _scaled(source: Source, first: FirstPass) -> _class_moments.ClassMoments:
    """Return the moments of features divided by their largest values, which fit into float32."""
    dtype = jax.dtypes.canonicalize_dtype(source.dtype)
    unit, sizes = first.unit, first.sizes
    squares = class_average(source, first, ClassBlocks.variances, unit=unit) * sizes[:, None]
    means = first.means - (sizes / sizes.sum()) @ first.means
    arrays = (sizes, means / unit, squares, np.zeros((0, 0)), unit)
    return _class_moments.ClassMoments(*(jnp.asarray(a, dtype) for a in arrays))


def _correlation(source: Source) -> tuple[np.ndarray, float, np.dtype]:
    """Return the correlations r, the sum of all weights, and the dtype of the result."""
    source = WithTarget(source)
    first = first_pass(source, None)
    average = functools.partial(class_average, source, first, unit=first.unit)
    (variances,) = average(ClassBlocks.variances)
    (products,) = average(ClassBlocks.covariances_with, np.int32(source.num_features - 1))
    scale = np.sqrt(variances * variances[-1])
    r = np.divide(products, scale, out=np.zeros_like(scale), where=scale != 0)
    dtype = jax.dtypes.canonicalize_dtype(source.dtype)
    return np.clip(r, -1, 1)[:-1], float(first.sizes[0]), dtype
