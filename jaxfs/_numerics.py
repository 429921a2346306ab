"""Arithmetic that must not surprise: safe roots and quotients, eps rules, precise products.

Each helper says which NaN or which loss of digits it prevents. Everything here is elementwise or
a single product, keeps the dtype of its input and composes with jit, vmap and grad.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


def eps(dtype) -> float:
    """The machine epsilon of a floating dtype, as a Python float (weakly typed in JAX)."""
    return float(jnp.finfo(dtype).eps)


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` at full precision.

    Accelerators multiply float32 in reduced precision unless told otherwise: three decimal digits
    are not enough under a logarithm of eigenvalues.
    """
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


@jax.custom_jvp
def gram(a: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """`aᵀ a`, with a derivative of one product in place of two: aᵀȧ and its transpose."""
    return matmul(a.T, a)


@gram.defjvp
def _gram_jvp(primals, tangents):
    half = matmul(primals[0].T, tangents[0])
    return gram(*primals), half + half.T


def symmetrize(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """½(a + aᵀ): products such as `p @ s @ p.T` are symmetric only up to rounding."""
    return 0.5 * (a + jnp.matrix_transpose(a))


def scale_columns(a: Float[Array, "*b m k"], s: Float[Array, "*b k"]) -> Float[Array, "*b m k"]:
    """`a @ diag(s)` without the diagonal matrix."""
    return a * s[..., None, :]


def congruence(p: Float[Array, "*b m k"], s: Float[Array, "*b k"]) -> Float[Array, "*b m m"]:
    """`p diag(s) pᵀ`, in one product."""
    return matmul(scale_columns(p, s), jnp.matrix_transpose(p))


def computed_if(
    needed: Bool[Array, ""], compute: Callable[[Array], Array], operand: Array, otherwise: Array
) -> Array:
    """`compute(operand)` if it is needed, else `otherwise`: a loop of at most one turn.

    `cond` would compute always under `vmap`. The operand asks for the state so that XLA does not
    move the computation out of the loop: all that is costly must depend on it.
    """
    _, found = lax.while_loop(
        lambda state: state[0],
        lambda state: (~state[0], compute(jnp.where(state[0], operand, 0))),
        (needed, otherwise),
    )
    return found


def safe_divide(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is zero; the derivative there is zero, not NaN.

    A single `where` around the quotient would still send 0 · ∞ through the derivative.
    """
    zero = b == 0
    quotient = a / jnp.where(zero, jnp.ones_like(b), b)
    return jnp.where(zero, jnp.zeros_like(quotient), quotient)


def nan_unless(known: Bool[Array, ""], tree):
    """The arrays of `tree` if `known`; otherwise NaN, and −1 for integers."""

    def replaced(a: Array) -> Array:
        return jnp.where(known, a, -1 if jnp.issubdtype(a.dtype, jnp.integer) else jnp.nan)

    return jax.tree.map(replaced, tree)


def safe_sqrt(a: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """√a with derivative 0 (not ∞) at a = 0: the subgradient of a norm at the origin.

    Negative entries give NaN, as √ does.
    """
    zero = a == 0
    return jnp.where(zero, jnp.zeros_like(a), jnp.sqrt(jnp.where(zero, jnp.ones_like(a), a)))


def safe_log(a: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log a for a > 0, NaN elsewhere; the derivative is finite where the value is."""
    positive = a > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, a, jnp.ones_like(a))), jnp.nan)


def _even_series(z: Array, coefficients: tuple[float, ...]) -> Array:
    """Σ_k c_k z^{2k} by Horner's rule."""
    z2 = z * z
    total = jnp.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * z2 + c
    return total


_ATANHC = tuple(1.0 / (2 * k + 1) for k in range(14))


def atanhc(z: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """atanh(z) / z for |z| < 1, with exact value 1 at 0.

    The quotient's derivative cancels for small z, so the series serves |z| < ¼ (14 terms leave
    less than 1e-17).
    """
    small = jnp.abs(z) < 0.25
    far = jnp.where(small, jnp.full_like(z, 0.5), z)
    return jnp.where(small, _even_series(jnp.where(small, z, 0.0), _ATANHC), jnp.arctanh(far) / far)


def _factorial_inverses(n: int) -> tuple[float, ...]:
    """1/(2k+1)! for k < n: the coefficients of sinh(z)/z in z²."""
    out, value = [], 1.0
    for k in range(n):
        out.append(value)
        value /= (2 * k + 2) * (2 * k + 3)
    return tuple(out)


_SINHC = _factorial_inverses(10)


def sinhc(z: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """sinh(z) / z, with exact value 1 at 0 and a derivative that does not cancel there."""
    small = jnp.abs(z) < 1.0
    far = jnp.where(small, jnp.ones_like(z), z)
    return jnp.where(small, _even_series(jnp.where(small, z, 0.0), _SINHC), jnp.sinh(far) / far)


def centred(x: Float[Array, "n p"], w) -> tuple[Float[Array, "n p"], Float[Array, "p"]]:
    """Samples less their mean, which the intercept takes over, 0 for those absent; and the mean.

    Twice: one sum of many large numbers is not good to their last digits.
    """
    there = (w > 0)[:, None]
    share = (w / jnp.sum(w))[None]
    x = jnp.where(there, x, 0)
    first = matmul(share, x)
    x = jnp.where(there, x - first, 0)
    second = matmul(share, x)
    return jnp.where(there, x - second, 0), (first + second)[0]


def standard_columns(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> Float[Array, "n p"]:
    """Columns of mean 0 and variance 1 over the samples present; 0 if constant or absent."""
    return jnp.sqrt(jnp.sum(present).astype(x.dtype)) * unit_columns(x, present)


def varied(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> Bool[Array, "p"]:
    """Which columns are not constant on the samples present."""
    there = present[:, None]
    low, high = jnp.where(there, x, jnp.inf), jnp.where(there, x, -jnp.inf)
    return jnp.max(high, axis=0) > jnp.min(low, axis=0)


def unit_columns(a: Float[Array, "n m"], present: Bool[Array, "n"]) -> Float[Array, "n m"]:
    """Columns less their mean over the samples present, of length one; 0 if constant."""
    centre, _ = centred(a, present.astype(a.dtype))
    centre = jnp.where(varied(a, present)[None], centre, 0)
    for length in (lambda c: jnp.max(jnp.abs(c), axis=0), lambda c: jnp.linalg.norm(c, axis=0)):
        centre = safe_divide(centre, jnp.broadcast_to(length(centre), centre.shape))
    return centre
