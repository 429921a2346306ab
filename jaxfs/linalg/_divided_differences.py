"""Scalar functions with divided differences that are free of cancellation.

f[a, b] = (f(a) − f(b))/(a − b) loses all digits as a → b. Each function here has a form that does
not, and can be differentiated once more: f[a, a, b] = ∂₁f[a, b] is what second derivatives need.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxfs._numerics import atanhc, eps, safe_divide, safe_log, sinhc
from jaxfs.linalg._frechet import SpectralFunction


def magnitude(x):
    """Scale of homogeneous functions (log, powers): they vary with the size of their argument."""
    return x


def _sorted(a, b, c):
    """Three nodes in rising order; divided differences are symmetric, rounding is not."""
    a, b, c = jnp.broadcast_arrays(a, b, c)
    lo, hi = jnp.minimum(a, b), jnp.maximum(a, b)
    return jnp.minimum(lo, c), jnp.maximum(lo, jnp.minimum(hi, c)), jnp.maximum(hi, c)


def second_from_first(
    first: Callable[..., Array],
    fraction: float | None = None,
    scale: Callable[[Array], Array] = magnitude,
) -> Callable[..., Array]:
    """f[a, b, c] from f[a, b] of an analytic function.

    Far nodes: the quotient over the widest gap. Near ones: with the nodes sorted,
    f[lo, mid, hi] = ∫₀¹ ∂₁f[lo + s (hi − lo), mid] ds by five Gauss points. Near is
    hi − lo ≤ fraction · scale(hi) for a function that is analytic within `scale` of its argument
    (0.1 is exact to rounding); without a fraction, where five points differ from three by less than
    rounding makes of the quotient.
    """
    rules = [np.polynomial.legendre.leggauss(m) for m in (5, 3)]
    nodes = np.concatenate([0.5 + 0.5 * x for x, _ in rules])
    (_, fine), (_, coarse) = rules

    def second(a, b, c, t):
        lo, mid, hi = _sorted(a, b, c)
        gap = hi - lo
        near = jnp.ones_like(gap, bool)
        if fraction is not None:
            near = gap <= fraction * scale(jnp.maximum(jnp.abs(lo), jnp.abs(hi)))

        def slope(s):
            x = jnp.where(near, lo + s * gap, hi)
            return jax.jvp(lambda x: first(x, mid, t), (x,), (jnp.ones_like(x),))[1]

        slopes = jax.vmap(slope)(jnp.asarray(nodes if fraction is None else nodes[:5], gap.dtype))
        integral = _weighted(0.5 * fine, slopes[:5])
        upper, lower = first(hi, mid, t), first(mid, lo, t)
        if fraction is None:
            doubt = jnp.abs(integral - _weighted(0.5 * coarse, slopes[5:]))
            near = doubt * gap <= eps(gap.dtype) * (jnp.abs(upper) + jnp.abs(lower))
        return jnp.where(near, integral, safe_divide(upper - lower, jnp.where(near, 0.0, gap)))

    return second


def _weighted(weights: np.ndarray, values: Array) -> Array:
    return jnp.tensordot(jnp.asarray(weights, values.dtype), values, 1, precision="highest")


def _log_first(a, b, t):
    """log: 2 atanh(z) / (a − b) with z = (a − b)/(a + b); plain where a and b are far apart."""
    z = safe_divide(a - b, a + b)
    near = jnp.abs(z) < 0.5
    close = safe_divide(2 * atanhc(jnp.where(near, z, 0.0)), a + b)
    far = safe_divide(safe_log(safe_divide(a, b)), jnp.where(near, 0.0, a - b))
    return jnp.where(near, close, far)


def _exp_first(a, b, t):
    """exp: e^{(a+b)/2} sinh(h)/h with h = (a − b)/2; plain where a and b are far apart."""
    near = jnp.abs(a - b) < 1
    close = jnp.exp(0.5 * (a + b)) * sinhc(jnp.where(near, 0.5 * (a - b), 0.0))
    far = safe_divide(jnp.exp(a) - jnp.exp(b), jnp.where(near, 0.0, a - b))
    return jnp.where(near, close, far)


def _power(w, t):
    """w^t for w ≥ 0 with 0^t = 0 (t > 0), 1 (t = 0), ∞ (t < 0); finite derivative in t."""
    positive = w > 0
    value = jnp.where(positive, w, jnp.ones_like(w)) ** t
    at_zero = jnp.where(t > 0, 0.0, jnp.where(t == 0, 1.0, jnp.inf)).astype(w.dtype)
    # Times t, so that its derivative in t is NaN too, and not that of a constant.
    undefined = jnp.where(w >= 0, jnp.ones_like(w), jnp.nan) * t
    return jnp.where(positive, value, jnp.where(w == 0, at_zero, undefined))


def _power_first(a, b, t):
    """w^t: m^{t−1} t sinhc(t u)/sinhc(u) with m = √(ab), u = atanh((a − b)/(a + b)).

    At a = b = 0 it is 0 for t > 1 and 1 for t = 1; for t < 1 it is infinite and taken as 0.
    """
    z = safe_divide(a - b, a + b)
    near = (jnp.abs(z) < 0.5) & (a > 0)
    z = jnp.where(near, z, 0.0)
    u = z * atanhc(z)
    # One node at a time: before they meet, they are vectors.
    log_a, log_b = (jnp.log(jnp.where(x > 0, x, jnp.ones_like(x))) for x in (a, b))
    log_mean = 0.5 * (log_a + log_b)
    close = jnp.exp((t - 1) * log_mean) * t * sinhc(t * u) / sinhc(u)
    far = safe_divide(_power(a, t) - _power(b, t), jnp.where(near, 0.0, a - b))
    far = jnp.where((a == 0) & (b == 0) & (t == 1), jnp.ones_like(far), far)
    return jnp.where(near, close, far)


def _sqrt_sum(a, b):
    return jnp.sqrt(a) + jnp.sqrt(b)


def _sqrt_first(a, b, t):
    return safe_divide(jnp.ones_like(a + b), _sqrt_sum(a, b))


def _sqrt_second(a, b, c, t):
    product = _sqrt_sum(a, b) * _sqrt_sum(b, c) * _sqrt_sum(a, c)
    return safe_divide(-jnp.ones_like(product), product)


def _inv_sqrt_first(a, b, t):
    return -1 / (jnp.sqrt(a) * jnp.sqrt(b) * _sqrt_sum(a, b))


def _inv_sqrt_second(a, b, c, t):
    roots = jnp.sqrt(a), jnp.sqrt(b), jnp.sqrt(c)
    pairs = _sqrt_sum(a, b) * _sqrt_sum(b, c) * _sqrt_sum(a, c)
    return (roots[0] + roots[1] + roots[2]) / (roots[0] * roots[1] * roots[2] * pairs)


def _abs_first(a, b, t):
    """|·|: (a + b)/(|a| + |b|), which is the sign for equal signs; 0 at a = b = 0."""
    return safe_divide(a + b, jnp.abs(a) + jnp.abs(b))


def _abs_second(a, b, c, t):
    """0 when no sign changes; else the quotient over the widest gap, which crosses zero."""
    lo, mid, hi = _sorted(a, b, c)
    crosses = (lo < 0) & (hi > 0)
    return safe_divide(
        _abs_first(hi, mid, t) - _abs_first(mid, lo, t), jnp.where(crosses, hi - lo, 0.0)
    )


SQRT = SpectralFunction(lambda w, t: jnp.sqrt(w), _sqrt_first, _sqrt_second)
INV_SQRT = SpectralFunction(lambda w, t: 1 / jnp.sqrt(w), _inv_sqrt_first, _inv_sqrt_second)
ABS = SpectralFunction(lambda w, t: jnp.abs(w), _abs_first, _abs_second)
LOG = SpectralFunction(
    lambda w, t: safe_log(w), _log_first, second_from_first(_log_first, 0.1, magnitude)
)
EXP = SpectralFunction(
    lambda w, t: jnp.exp(w), _exp_first, second_from_first(_exp_first, 0.5, jnp.ones_like)
)
POWER = SpectralFunction(_power, _power_first, second_from_first(_power_first, 0.1, magnitude))

# ---- Of two matrices a and b with a + b = R Rᵀ: functions of R⁻¹(a − b)R⁻ᵀ, inside (−1, 1) ------


def _blend(x, t):
    """(1 + x)^{1−t} (1 − x)^t: twice the point at `t` between 1 + x and 1 − x, each halved."""
    return _power(1 + x, 1 - t) * _power(1 - x, t)


def _blend_first(x, y, t):
    """The rule for products: (u v)[x, y] = ½ (u(x) + u(y)) v[x, y] + ½ (v(x) + v(y)) u[x, y]."""
    rising = (_power(1 + x, 1 - t) + _power(1 + y, 1 - t)) * _power_first(1 - x, 1 - y, t)
    falling = (_power(1 - x, t) + _power(1 - y, t)) * _power_first(1 + x, 1 + y, 1 - t)
    return 0.5 * (falling - rising)


def _half_way(x, t):
    return 0.5 * _blend(x, t) * jnp.arctanh(x)


def _half_way_first(x, y, t):
    angle_first = 0.5 * (_log_first(1 + x, 1 + y, t) + _log_first(1 - x, 1 - y, t))
    blends, angles = _blend(x, t) + _blend(y, t), jnp.arctanh(x) + jnp.arctanh(y)
    return 0.25 * (blends * angle_first + angles * _blend_first(x, y, t))


#: ½ (1 + x)^{1−t} (1 − x)^t artanh x: half the way from b to a, seen from the point at `t`.
HALF_WAY = SpectralFunction(
    _half_way, _half_way_first, second_from_first(_half_way_first, 0.1, lambda x: 1 - x)
)
