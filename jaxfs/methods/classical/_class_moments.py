"""Accurate means and sums of squares by class, and the statistics that `_filters.py` uses.

One sample of each class is subtracted from the class, so that large offsets do not reduce the
precision, and a feature that is constant in a class has deviations of exactly 0. Each feature is
divided by a power of two near its spread, so that squares neither overflow nor underflow.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._checks import Membership
from jaxfs._numerics import at, matmul, safe_divide, safe_sqrt
from jaxfs.kernels._distances import power_of_two


class ClassMoments(NamedTuple):
    """Weighted moments of the classes, with each feature divided by its `unit`."""

    mass: Float[Array, "c"]  # the weight of each class
    means: Float[Array, "c d"]  # class mean minus overall mean; 0 for an empty class
    squares: Float[Array, "c d"]  # Σ w (x − mean of the class)²
    residuals: Float[Array, "n d"]  # x − mean of the class; 0 for absent samples
    unit: Float[Array, "d"]

    @property
    def between(self) -> Float[Array, "d"]:
        """Σ_c m_c (μ_c − μ)²."""
        return jnp.sum(self.mass[:, None] * jnp.square(self.means), axis=0)

    @property
    def within(self) -> Float[Array, "d"]:
        return jnp.sum(self.squares, axis=0)


def class_moments(x: Float[Array, "n d"], m: Membership) -> ClassMoments:
    """Moments of every class. Values that are not finite give NaN.

    **Derivatives** in `x` and the weights: exact, because the moments do not depend on
    the origin and the unit.

    **Cost** O(n d C), as a matrix product.
    """
    x, unit = in_units(x, m.present, m.base)
    there = m.present[:, None]
    origin = lax.stop_gradient(at(x, m.first))
    from_origin = jnp.where(there, x - at(origin, m.label), 0)
    mass = jnp.where(m.mass > 0, m.mass, 1)[:, None]
    own = matmul(m.shares / mass, from_origin)
    residuals = jnp.where(there, from_origin - at(own, m.label), 0)
    means = origin - lax.stop_gradient(at(x, m.base))[None] + own
    means = jnp.where((m.mass > 0)[:, None], means - matmul(m.priors[None], means), 0)
    squares = matmul(m.shares, jnp.square(residuals))
    return ClassMoments(m.mass, means, squares, residuals, unit)


def in_units(
    x: Float[Array, "n d"], present: Bool[Array, "n"], base: Int[Array, ""]
) -> tuple[Float[Array, "n d"], Float[Array, "d"]]:
    """`x` divided by a power of two near the spread of each feature, and these powers.

    Absent samples are 0. The spread is a quarter of the largest distance from sample `base`,
    which must be present. A constant feature has the unit 1.
    """
    there = present[:, None]
    # Divide by 4 so that differences of the largest numbers do not overflow.
    quarter = lax.stop_gradient(x) / 4
    spread = jnp.max(jnp.abs(jnp.where(there, quarter - at(quarter, base)[None], 0)), axis=0)
    # Use only powers of two whose reciprocals are normal numbers.
    smallest = float(jnp.finfo(x.dtype).tiny) * 16
    unit = power_of_two(jnp.clip(spread, smallest, 1 / smallest))
    unit = jnp.where((spread > 0) & jnp.isfinite(unit), unit, 1)
    return jnp.where(there, x / unit[None], 0), unit


def quotient(a: Array, b: Array) -> Array:
    """Quotient a / b of nonnegative numbers, with 0 / 0 = 0 and a / 0 infinite for a > 0."""
    return jnp.where((b == 0) & (a > 0), jnp.inf, safe_divide(a, b))


# ---- Statistics ---------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=0)
def class_statistic(
    statistic: Callable[[ClassMoments], Float[Array, "d"]],
    x: Float[Array, "n d"],
    members: Membership,
) -> Float[Array, "d"]:
    """Compute a statistic of the class moments, such as `f_statistic`, for each feature."""
    return statistic(class_moments(x, members))


def fisher_ratio(m: ClassMoments) -> Float[Array, "d"]:
    return quotient(m.between, m.within)


def f_statistic(m: ClassMoments) -> Float[Array, "d"]:
    """F statistic of a one-way analysis of variance."""
    classes = jnp.sum(m.mass > 0, dtype=m.mass.dtype)
    freedom = jnp.sum(m.mass) - classes
    factor = jnp.where((freedom > 0) & (classes > 1), freedom / (classes - 1), jnp.nan)
    return quotient(m.between, m.within) * factor


def welch_statistic(m: ClassMoments) -> Float[Array, "d"]:
    """Absolute value of Welch's t statistic for the first two classes."""
    variance = jnp.sum(m.squares / (m.mass * (m.mass - 1))[:, None], axis=0)
    square = quotient(jnp.square(m.means[0] - m.means[1]), variance)
    return jnp.where(jnp.all(m.mass > 1), safe_sqrt(square), jnp.nan)


def variance(m: ClassMoments) -> Float[Array, "d"]:
    """Variance within the classes."""
    return m.within / jnp.sum(m.mass) * m.unit * m.unit


@jax.jit
def chi2(x: Float[Array, "n d"], members: Membership) -> Float[Array, "d"]:
    m = class_moments(x, members)
    # A mean of nonnegative numbers loses no digits by cancellation.
    counts, unit = in_units(x, members.present, members.base)
    mean = matmul((members.weights / jnp.sum(m.mass))[None], counts)[0]
    return jnp.where(jnp.min(counts, axis=0) < 0, jnp.nan, quotient(m.between, mean) * unit)


@jax.jit
def absolute_correlation(x, y, members: Membership) -> Float[Array, "d"]:
    return jnp.abs(_correlation(x, y, members)[0])


@jax.jit
def regression_f(x, y, members: Membership) -> Float[Array, "d"]:
    """F statistic of a linear regression of the target on each feature."""
    r, rest = _correlation(x, y, members)
    freedom = jnp.sum(members.mass) - 2
    return jnp.where(freedom > 0, quotient(jnp.square(r), rest) * freedom, jnp.nan)


def _correlation(x, y, members: Membership) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
    """Return r, and 1 − r² computed as the part of the target that a feature does not explain."""
    a, b = class_moments(x, members), class_moments(y[:, None], members)
    u, v = (safe_divide(m.residuals, safe_sqrt(m.within)[None]) for m in (a, b))
    r = matmul((members.weights * v[:, 0])[None], u)[0]
    rest = matmul(members.weights[None], jnp.square(v - r[None] * u))[0]
    return jnp.clip(r, -1, 1), rest
