"""Scalar functions with divided differences that are free of cancellation.

The quotient f[a, b] = (f(a) − f(b))/(a − b) loses all digits as a → b. For each function, this file
has a formula of f[a, b] that keeps the digits. The formula can be differentiated once more, because
second derivatives need f[a, a, b] = ∂₁f[a, b].
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxfs._numerics import ATANHC, SINHC, eps, even_series, safe_divide, safe_log, sinhc
from jaxfs.linalg import _lapack
from jaxfs.linalg._frechet import SpectralFunction, apply_diagonal


def _sorted(a, b, c):
    """Three nodes in ascending order, so that rounding does not depend on the order given."""
    a, b, c = jnp.broadcast_arrays(a, b, c)
    lo, hi = jnp.minimum(a, b), jnp.maximum(a, b)
    return jnp.minimum(lo, c), jnp.maximum(lo, jnp.minimum(hi, c)), jnp.maximum(hi, c)


def second_from_first(
    first: Callable[..., Array], near: Callable[[Array], Array] | None = None
) -> Callable[..., Array]:
    """A function that computes f[a, b, c] from f[a, b], for an analytic function f.

    The nodes are sorted to lo ≤ mid ≤ hi. For far nodes, the result is the quotient
    (f[hi, mid] − f[mid, lo])/(hi − lo). For near nodes, it is the integral
    f[lo, mid, hi] = ∫₀¹ ∂₁f[lo + s (hi − lo), mid] ds by five Gauss points. Nodes are near if
    hi − lo ≤ near(max(|lo|, |hi|)). The integral is exact to rounding if `near` returns at most a
    tenth of the distance within which f is analytic. Without `near`, nodes are near if the
    integrals by five and by three points differ by less than the rounding error of the quotient.
    """

    def weighted(weights: np.ndarray, values: Array) -> Array:
        return jnp.tensordot(jnp.asarray(weights, values.dtype), values, 1, precision="highest")

    def second(a, b, c, t):
        # `numpy.polynomial` is used here, not at import of jaxfs, because its import takes time.
        rules = [np.polynomial.legendre.leggauss(m) for m in (5, 3)]
        nodes = np.concatenate([0.5 + 0.5 * x for x, _ in rules])
        (_, fine), (_, coarse) = rules
        lo, mid, hi = _sorted(a, b, c)
        gap = hi - lo
        close = jnp.ones_like(gap, bool)
        if near is not None:
            close = gap <= near(jnp.maximum(jnp.abs(lo), jnp.abs(hi)))

        def slope(s):
            x = jnp.where(close, lo + s * gap, hi)
            return jax.jvp(lambda x: first(x, mid, t), (x,), (jnp.ones_like(x),))[1]

        slopes = jax.vmap(slope)(jnp.asarray(nodes if near is None else nodes[:5], gap.dtype))
        integral = weighted(0.5 * fine, slopes[:5])
        upper, lower = first(hi, mid, t), first(mid, lo, t)
        if near is None:
            doubt = jnp.abs(integral - weighted(0.5 * coarse, slopes[5:]))
            close = doubt * gap <= eps(gap.dtype) * (jnp.abs(upper) + jnp.abs(lower))
        return jnp.where(close, integral, safe_divide(upper - lower, jnp.where(close, 0.0, gap)))

    return second


def _log_first(a, b, t):
    """f[a, b] of log: 2 atanh(z) / (a − b), z = (a − b)/(a + b); the quotient if |z| ≥ ¼."""
    z = safe_divide(a - b, a + b)
    near = jnp.abs(z) < 0.25
    close = safe_divide(2 * even_series(jnp.where(near, z, 0.0), ATANHC), a + b)
    far = safe_divide(safe_log(safe_divide(a, b)), jnp.where(near, 0.0, a - b))
    return jnp.where(near, close, far)


def _exp_first(a, b, t):
    """f[a, b] of exp: e^{(a+b)/2} sinh(h)/h, h = (a − b)/2; the quotient if |a − b| ≥ 1."""
    near = jnp.abs(a - b) < 1
    close = jnp.exp(0.5 * (a + b)) * even_series(jnp.where(near, 0.5 * (a - b), 0.0), SINHC)
    far = safe_divide(jnp.exp(a) - jnp.exp(b), jnp.where(near, 0.0, a - b))
    return jnp.where(near, close, far)


def _power(w, t):
    """w^t for w ≥ 0, where 0^t is 0 (t > 0), 1 (t = 0) or ∞ (t < 0).

    The derivative in t is finite. A negative w gives NaN.
    """
    positive = w > 0
    value = jnp.where(positive, w, jnp.ones_like(w)) ** t
    at_zero = jnp.where(t > 0, 0.0, jnp.where(t == 0, 1.0, jnp.inf)).astype(w.dtype)
    # The factor t makes the derivative in t NaN too; the derivative of a constant would be 0.
    undefined = jnp.where(w >= 0, jnp.ones_like(w), jnp.nan) * t
    return jnp.where(positive, value, jnp.where(w == 0, at_zero, undefined))


def _power_first(a, b, t):
    """f[a, b] of w^t: m^{t−1} t sinhc(t u)/sinhc(u), m = √(ab), u = atanh((a − b)/(a + b)).

    At a = b = 0 the result is 0 for t > 1 and 1 for t = 1. For t < 1 the true value is infinite,
    and the function returns 0.
    """
    z = safe_divide(a - b, a + b)
    near = (jnp.abs(z) < 0.25) & (a > 0)
    z = jnp.where(near, z, 0.0)
    u = z * even_series(z, ATANHC)
    # Separate logarithms are cheaper: a and b are vectors, and only their sum is a matrix.
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
    x, y, z = jnp.sqrt(a), jnp.sqrt(b), jnp.sqrt(c)
    pairs = _sqrt_sum(a, b) * _sqrt_sum(b, c) * _sqrt_sum(a, c)
    return (x + y + z) / (x * y * z * pairs)


def _abs_first(a, b, t):
    """f[a, b] of |·|: (a + b)/(|a| + |b|), which is ±1 for equal signs; 0 at a = b = 0."""
    return safe_divide(a + b, jnp.abs(a) + jnp.abs(b))


def _abs_second(a, b, c, t):
    """f[a, b, c] of |·|: 0 without a sign change, else the quotient over the widest gap."""
    lo, mid, hi = _sorted(a, b, c)
    crosses = (lo < 0) & (hi > 0)
    rise = _abs_first(hi, mid, t) - _abs_first(mid, lo, t)
    return safe_divide(rise, jnp.where(crosses, hi - lo, 0.0))


SQRT = SpectralFunction(lambda w, t: jnp.sqrt(w), _sqrt_first, _sqrt_second)
INV_SQRT = SpectralFunction(lambda w, t: 1 / jnp.sqrt(w), _inv_sqrt_first, _inv_sqrt_second)
ABS = SpectralFunction(lambda w, t: jnp.abs(w), _abs_first, _abs_second)
LOG = SpectralFunction(
    lambda w, t: safe_log(w), _log_first, second_from_first(_log_first, lambda x: 0.1 * x)
)
EXP = SpectralFunction(
    lambda w, t: jnp.exp(w),
    _exp_first,
    second_from_first(_exp_first, lambda x: jnp.full_like(x, 0.5)),
)
POWER = SpectralFunction(_power, _power_first, second_from_first(_power_first, lambda x: 0.1 * x))


def abs_diagonal(a: Float[Array, "*b d d"]) -> Float[Array, "*b d"]:
    """The diagonal of |a| for symmetric `a`; NaN for a matrix with a non-finite entry."""
    return apply_diagonal(ABS, a, *_lapack.eigh(a))


def _artanh(x):
    """artanh x; the power series for |x| < ¼, where the difference of logarithms loses digits."""
    near = jnp.abs(x) < 0.25
    series = x * even_series(jnp.where(near, x, 0.0), ATANHC)
    return jnp.where(near, series, 0.5 * (jnp.log(1 + x) - jnp.log(1 - x)))


def _half_way(x, t):
    """½ e^g artanh x with g = (1 − t) log(1 + x) + t log(1 − x), for |x| < 1.

    `HALF_WAY` is this function of R⁻¹(a − b)R⁻ᵀ with a + b = R Rᵀ. The factor e^g is 1 + x at t = 0
    and 1 − x at t = 1.
    """
    return 0.5 * jnp.exp((1 - t) * jnp.log(1 + x) + t * jnp.log(1 - x)) * _artanh(x)


def _half_way_first(x, y, t):
    """f[x, y] of `_half_way`, by the product rule of divided differences.

    The rule is (u v)[x, y] = ½ (u(x) + u(y)) v[x, y] + ½ (v(x) + v(y)) u[x, y]. With
    s = ½ log(1 − x²), the exponent of u = e^g is g = s + (1 − 2t) artanh x. The chain rule gives
    e^g[x, y] = g[x, y] (e^g(x) − e^g(y))/(g(x) − g(y)).
    """
    (angle, rise), (other_angle, other_rise) = (
        (_artanh(v), 0.5 * (jnp.log(1 + v) + jnp.log(1 - v))) for v in (x, y)
    )

    def quotient(z, close, far):
        """artanh(z)/z · close if |z| < ¼, else far/(x − y)."""
        near = jnp.abs(z) < 0.25
        series = even_series(jnp.where(near, z, 0.0), ATANHC) * close
        return jnp.where(near, series, far / jnp.where(near, 1.0, x - y))

    between = 2 / ((1 - x) * (1 + y) + (1 + x) * (1 - y))  # 1/(1 − xy), without cancellation
    angle_first = quotient((x - y) * between, between, angle - other_angle)
    slope = -(x + y) / ((1 - x) * (1 + x) + (1 - y) * (1 + y))
    rise_first = quotient((x - y) * slope, slope, rise - other_rise)
    g, h = rise + (1 - 2 * t) * angle, other_rise + (1 - 2 * t) * other_angle
    u, v = jnp.exp(0.5 * g), jnp.exp(0.5 * h)
    near = jnp.abs(g - h) < 2
    middle = u * v * even_series(jnp.where(near, 0.5 * (g - h), 0.0), SINHC)
    middle = jnp.where(near, middle, (u * u - v * v) / jnp.where(near, 1.0, g - h))
    blend_first = middle * (rise_first + (1 - 2 * t) * angle_first)
    return 0.25 * ((u * u + v * v) * angle_first + (angle + other_angle) * blend_first)


#: ½ (1 + x)^{1−t} (1 − x)^t artanh x: half of the logarithm from b to a, at parameter `t`.
HALF_WAY = SpectralFunction(
    _half_way, _half_way_first, second_from_first(_half_way_first, lambda x: 0.1 * (1 - x))
)
