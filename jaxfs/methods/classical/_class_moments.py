"""Accurate means and sums of squares by class, and the statistics that `_filters.py` uses.

One sample of each class is subtracted from the class, so that large offsets do not reduce the
precision, and a feature that is constant in a class has deviations of exactly 0. Each feature is
divided by a power of two near its spread, so that squares neither overflow nor underflow.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import matmul, safe_divide, safe_sqrt
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


class Membership(NamedTuple):
    """Class of each sample. A sample with weight 0 or a label out of range is absent."""

    present: Bool[Array, "n"]
    label: Int[Array, "n"]
    shares: Float[Array, "c n"]  # weight of each sample in its class, 0 in other classes
    mass: Float[Array, "c"]
    priors: Float[Array, "c"]
    first: Int[Array, "c"]  # the first sample of each class
    base: Int[Array, ""]  # the first sample that is present


def membership(y: Any, w: Any, num_classes: int, xp: Any = jnp) -> Membership:
    """Compute `Membership` with the array module `xp`: `jax.numpy` or `numpy`."""
    member = (y[None] == xp.arange(num_classes, dtype=y.dtype)[:, None]) & (w > 0)[None]
    present = xp.any(member, axis=0)
    shares = xp.where(member, w[None], xp.zeros_like(w[None]))
    mass = xp.sum(shares, axis=1)
    label = xp.clip(y, 0, num_classes - 1)
    first, base = xp.argmax(member, axis=1), xp.argmax(present)
    return Membership(present, label, shares, mass, mass / xp.sum(mass), first, base)


def known_membership(y, w, num_classes: int) -> Membership:
    """Compute `membership` with NumPy, without compilation, if labels and weights are concrete."""
    if _checks.is_traced(y) or _checks.is_traced(w):
        return _traced_membership(y, w, num_classes)
    return membership(np.asarray(y), np.asarray(w), num_classes, np)


_traced_membership = jax.jit(membership, static_argnums=2)


def class_moments(x: Float[Array, "n d"], m: Membership) -> ClassMoments:
    """Moments of every class. Values that are not finite give NaN.

    **Derivatives** in `x` and the weights: exact, because the moments do not depend on
    the origin and the unit.

    **Cost** O(n d C), as a matrix product.
    """
    x, unit = in_units(x, m.present, m.base)
    known, there = (m.mass > 0)[:, None], m.present[:, None]
    origin = lax.stop_gradient(jnp.where(known, x[m.first], 0))
    x_own = jnp.where(there, x - origin[m.label], 0)
    own = safe_divide(matmul(m.shares, x_own), jnp.broadcast_to(m.mass[:, None], origin.shape))
    residuals = jnp.where(there, x_own - own[m.label], 0)

    base = lax.stop_gradient(x[m.base])[None]
    means = jnp.where(known, origin - base + own, 0)
    mean = jnp.sum(m.priors[:, None] * means, axis=0, keepdims=True)
    squares = matmul(m.shares, jnp.square(residuals))
    return ClassMoments(m.mass, jnp.where(known, means - mean, 0), squares, residuals, unit)


def overall_moments(x: Float[Array, "n d"], w: Float[Array, "n"]) -> ClassMoments:
    """Moments of all samples as one class."""
    return class_moments(x, membership(jnp.zeros(x.shape[0], jnp.int32), w, 1))


def in_units(
    x: Float[Array, "n d"], present: Bool[Array, "n"], base: Int[Array, ""]
) -> tuple[Float[Array, "n d"], Float[Array, "d"]]:
    """`x` divided by a power of two near the spread of each feature, and these powers.

    Absent samples are 0. The spread is a quarter of the largest distance from sample `base`,
    which must be present. A constant feature has the unit 1.
    """
    there = present[:, None]
    finite = jnp.where(jnp.isfinite(x), x, jnp.nan)
    # Divide by 4 so that differences of the largest numbers do not overflow.
    quarter = lax.stop_gradient(finite) / 4
    away = jnp.where(there, quarter - quarter[base][None], 0)
    spread = jnp.max(jnp.abs(away), axis=0)
    # Use only powers of two whose reciprocals are normal numbers.
    smallest = float(jnp.finfo(x.dtype).tiny) * 16
    unit = power_of_two(jnp.clip(spread, smallest, 1 / smallest))
    unit = jnp.where((spread > 0) & jnp.isfinite(unit), unit, jnp.ones_like(unit))
    return jnp.where(there, finite / unit[None], 0), unit


def quotient(a: Array, b: Array) -> Array:
    """Quotient a / b of nonnegative numbers, with 0 / 0 = 0 and a / 0 infinite for a > 0."""
    ratio = safe_divide(a, b)
    return jnp.where((b == 0) & (a > 0), jnp.full_like(ratio, jnp.inf), ratio)


# ---- Statistics ---------------------------------------------------------------------------------


def class_statistic(
    statistic: Callable[[ClassMoments], Float[Array, "d"]], x, y, w, num_classes: int
) -> Float[Array, "d"]:
    """Compute a statistic of the class moments, such as `f_statistic`, for each feature."""
    return _statistic(statistic, x, known_membership(y, w, num_classes))


@functools.partial(jax.jit, static_argnums=0)
def _statistic(statistic, x, members: Membership) -> Float[Array, "d"]:
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


@functools.partial(jax.jit, static_argnums=3)
def chi2(x, y, w, num_classes: int) -> Float[Array, "d"]:
    members = membership(y, w, num_classes)
    m = class_moments(x, members)
    # A mean of nonnegative numbers loses no digits by cancellation.
    counts, unit = in_units(x, members.present, members.base)
    share = jnp.where(members.present, w, 0) / jnp.sum(m.mass)
    score = quotient(m.between, matmul(share[None], counts)[0]) * unit
    return jnp.where(jnp.any(counts < 0, axis=0), jnp.nan, score)


@jax.jit
def variance(x, w) -> Float[Array, "d"]:
    m = overall_moments(x, w)
    return m.within / jnp.sum(m.mass) * m.unit * m.unit


@jax.jit
def correlation(x, y, w) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
    """Return r, and 1 − r² computed as the part of the target that a feature does not explain."""
    a, b = overall_moments(x, w), overall_moments(y[:, None], w)
    u, v = (safe_divide(m.residuals, safe_sqrt(m.within)[None]) for m in (a, b))
    r = matmul((w * v[:, 0])[None], u)[0]
    rest = matmul(w[None], jnp.square(v - r[None] * u))[0]
    return jnp.clip(r, -1, 1), rest
