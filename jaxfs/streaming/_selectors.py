"""Filters, GC and GKL from passes over blocks of rows."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.classical import _class_moments as _classical_class_moments
from jaxfs.methods.gaussian import _criteria, _search
from jaxfs.methods.gaussian import _select as _gaussian_select
from jaxfs.methods.gaussian._moments import (
    LARGEST_BLOCK,
    Covariances,
    Elsewhere,
    Moments,
    Rows,
    num_sums,
    summary,
)
from jaxfs.methods.gaussian._search import Search
from jaxfs.streaming._blocks import Source as Source
from jaxfs.streaming._blocks import from_blocks as from_blocks
from jaxfs.streaming._blocks import from_npy as from_npy
from jaxfs.streaming._blocks import from_parquet as from_parquet
from jaxfs.streaming._passes import Sums, add_up, average, targets_with

#: Bytes that the classes' covariances may take; beyond, every chosen feature costs a pass.
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
    """`jaxfs.gc_select` of a table that does not fit into memory.

    **Arguments** those of `jaxfs.gc_select`, with a `source` for the data, the labels and the
    weights; and `memory`: where the covariances of all classes, 8·C·d² bytes, take no more, they
    are computed in one pass, and the search needs no other. Otherwise each chosen feature takes a
    pass.

    **Returns** `Selection`, as `jaxfs.gc_select`.

    **Cost** two passes and n·d² multiplications, or `num_features` + 1 passes; the default ridge
    takes one more. Memory: `memory` three times, or some O(C k d), and a few blocks.
    """
    _gaussian_select.check_fallback(fallback, key)
    settings = (num_features, num_classes, objective, ridge, shrinkage, initial)
    search = _search.gc_search
    return _select(source, search, settings, {"fallback": fallback}, key, memory)


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
    """`jaxfs.gkl_select` of a table that does not fit into memory; otherwise as `gc_select`."""
    settings = (num_features, num_classes, objective, ridge, shrinkage, initial)
    return _select(source, _gkl, settings, {}, None, memory)


def _gkl(m, ridge, shrinkage, initial, key, **options) -> Search:
    return _search.gkl_search(m, ridge, shrinkage, initial, **options)


def _select(source, search: Callable[..., Search], settings, more, key, memory) -> Selection:
    _checks.record(source, "source", Source, "`from_blocks`")
    dtype = jax.dtypes.canonicalize_dtype(source.dtype)
    given, options = _gaussian_select.settings(source.num_features, dtype, *settings)
    options.update(more)
    c, k = options.pop("num_classes"), options["num_features"]
    _checks.integer(memory, "memory", low=0)
    sums = add_up(source, c)
    _gaussian_select.check_rank(int(np.sum(sums.reach != 0)), sums.counts, k, *given[:2])
    terms = num_sums(source.rows / LARGEST_BLOCK, LARGEST_BLOCK)
    whole = 8 * c * source.num_features**2 <= memory
    found = average(source, sums, Rows.covariances if whole else Rows.variances)
    variances = np.array([np.diagonal(a) for a in found]) if whole else found
    data = Covariances(jnp.asarray(found, dtype), terms) if whole else Elsewhere(terms)
    m = _moments_of(sums, variances, data, dtype)
    ridge, *others = given
    if ridge is None:
        units = np.asarray(m.deviations), np.asarray(_criteria.deviation(m))
        fourth = average(source, sums, Rows.fourth_powers, *units)
        ridge = _criteria.default_ridge(m, jnp.asarray(fourth, dtype))
    static = search, tuple(options.items())
    arguments = (m, ridge, *others, key)
    if whole:
        return _all_steps(*static, *arguments)
    carry = _start(*static, *arguments)
    for step in range(k):
        i, chosen = _choose(*static, *arguments, np.int32(step), carry)
        own = np.zeros((c, source.num_features))
        if step < k - 1 and bool(m.finite):  # after the last nothing is chosen, nor beside NaN
            own = average(source, sums, Rows.covariances_with, np.int32(i))
        carry = _absorb(*static, *arguments, chosen, own.astype(dtype))
    return _finish(*static, *arguments, carry)


def _moments_of(sums: Sums, variances, data, dtype) -> Moments:
    arrays = (sums.sizes / sums.sizes.sum(), sums.means, variances, sums.reach)
    return summary(data, *(jnp.asarray(a, dtype) for a in arrays))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _all_steps(search, options, m, *given):
    options = dict(options)
    return _search.run(search(m, *given, **options), m, options["num_features"])


@functools.partial(jax.jit, static_argnums=(0, 1))
def _start(search, options, m, ridge, shrinkage, initial, key):
    return search(m, ridge, shrinkage, initial, key, **dict(options)).start


@functools.partial(jax.jit, static_argnums=(0, 1))
def _choose(search, options, m, ridge, shrinkage, initial, key, step, carry):
    return search(m, ridge, shrinkage, initial, key, **dict(options)).choose(step, carry)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _absorb(search, options, m, ridge, shrinkage, initial, key, chosen, own):
    return search(m, ridge, shrinkage, initial, key, **dict(options)).absorb(chosen, own)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _finish(search, options, m, ridge, shrinkage, initial, key, carry):
    return search(m, ridge, shrinkage, initial, key, **dict(options)).finish(carry)


# ---- Filters ------------------------------------------------------------------------------------


def fisher_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """`jaxfs.fisher_score`, in two passes."""
    return _classical_class_moments.fisher_ratio(_class_moments(source, num_classes))


def anova_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """`jaxfs.anova_score`, in two passes."""
    return _classical_class_moments.f_statistic(_class_moments(source, num_classes))


def t_score(source: Source, num_classes: int = 2) -> Float[Array, "d"]:
    """`jaxfs.t_score`, in two passes."""
    if _checks.integer(num_classes, "num_classes", low=1) != 2:
        raise _checks.fail("num_classes", "2 for t_score; anova_score takes more", num_classes)
    return _classical_class_moments.welch_statistic(_class_moments(source, num_classes))


def chi2_score(source: Source, num_classes: int) -> Float[Array, "d"]:
    """`jaxfs.chi2_score`, in two passes; negative values raise."""
    sums = add_up(source, _checks.integer(num_classes, "num_classes", low=2))
    if np.any(sums.low < 0):
        j = int(np.nanargmin(sums.low))
        raise _checks.fail("x", "nonnegative for χ²", f"{sums.low[j]} in feature {j}")
    m = _scaled(source, sums)
    share = sums.sizes / sums.sizes.sum()
    mean = jnp.asarray(share @ sums.means + sums.origin, m.unit.dtype)
    return _classical_class_moments.quotient(m.between, mean / m.unit) * m.unit


def variance_score(source: Source) -> Float[Array, "d"]:
    """`jaxfs.variance_score`, in two passes; the targets are not looked at."""
    m = _scaled(source, add_up(source, None))
    return m.within / jnp.sum(m.mass) * m.unit * m.unit


def pearson_score(source: Source) -> Float[Array, "d"]:
    """`jaxfs.pearson_score`, in four passes."""
    r, _, dtype = _correlation(source)
    return jnp.asarray(np.abs(r), dtype)


def f_regression_score(source: Source) -> Float[Array, "d"]:
    """`jaxfs.f_regression_score`, in four passes.

    1 − r² is taken as it is: of float32 data, a nearly perfect fit has an F of few digits.
    """
    r, mass, dtype = _correlation(source)
    if mass <= 2:
        return jnp.full(r.shape, jnp.nan, dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(r == 0, 0.0, np.square(r) / np.maximum(1 - np.square(r), 0) * (mass - 2))
    return jnp.asarray(np.where(np.isnan(r), np.nan, f), dtype)


def _class_moments(source: Source, num_classes: int) -> _classical_class_moments.ClassMoments:
    return _scaled(source, add_up(source, _checks.integer(num_classes, "num_classes", low=2)))


def _scaled(source: Source, sums: Sums) -> _classical_class_moments.ClassMoments:
    """In units of each feature's spread, so that float32 holds what float64 has found."""
    dtype = jax.dtypes.canonicalize_dtype(source.dtype)
    unit = sums.unit
    squares = average(source, sums, Rows.variances, unit=unit) * sums.sizes[:, None]
    means = sums.means - (sums.sizes / sums.sizes.sum()) @ sums.means
    arrays = (sums.sizes, means / unit, squares, np.zeros((0, 0)), unit)
    return _classical_class_moments.ClassMoments(*(jnp.asarray(a, dtype) for a in arrays))


def _correlation(source: Source) -> tuple[np.ndarray, float, np.dtype]:
    """r, the weight of all samples, and the dtype to answer in."""
    sums = add_up(source, None)
    squares = average(source, sums, Rows.variances, unit=sums.unit)[0] * sums.sizes[0]
    product, square = targets_with(source, sums)
    scale = np.sqrt(squares * square)
    r = np.divide(product, scale, out=np.zeros_like(scale), where=scale != 0)
    r = np.where(np.isnan(product) | np.isnan(scale), np.nan, np.clip(r, -1, 1))
    return r, float(sums.sizes[0]), jax.dtypes.canonicalize_dtype(source.dtype)
