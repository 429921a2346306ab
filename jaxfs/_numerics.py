"""Safe arithmetic: precise products, roots and quotients with finite derivatives, fast selection.

The docstring of a helper names the NaN or the loss of digits that the helper prevents. All helpers
keep the dtype of their input and work under jit, vmap and grad.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int


def eps(dtype) -> float:
    """The machine epsilon of a floating dtype, as a Python float (weakly typed in JAX)."""
    return float(jnp.finfo(dtype).eps)


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` at full precision.

    By default, accelerators multiply float32 matrices in reduced precision, with about three
    decimal digits. This is not enough if eigenvalues of the product are passed to a logarithm.
    """
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


@jax.custom_jvp
def gram(a: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """`aᵀ a`, with a derivative of one matrix product: aᵀȧ plus its transpose."""
    return matmul(a.T, a)


@gram.defjvp
def _gram_jvp(primals, tangents):
    half = matmul(primals[0].T, tangents[0])
    return gram(*primals), half + half.T


def symmetrize(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """½(a + aᵀ), because products such as `p @ s @ p.T` are symmetric only up to rounding."""
    return 0.5 * (a + jnp.matrix_transpose(a))


def congruence(p: Float[Array, "*b m k"], s: Float[Array, "*b k"]) -> Float[Array, "*b m m"]:
    """`p diag(s) pᵀ`, computed with one matrix product."""
    return matmul(p * s[..., None, :], jnp.matrix_transpose(p))


def computed_if(
    needed: Bool[Array, ""], compute: Callable[[Array], Array], operand: Array, otherwise: Array
) -> Array:
    """`compute(operand)` if `needed`, else `otherwise`, by a loop of at most one iteration.

    Under `vmap`, `lax.cond` would always compute both branches. XLA moves operations that do not
    depend on the loop state out of the loop. The loop therefore makes `operand` depend on its
    state, and all costly work of `compute` must depend on `operand`.
    """
    _, found = lax.while_loop(
        lambda state: state[0],
        lambda state: (~state[0], compute(jnp.where(state[0], operand, 0))),
        (needed, otherwise),
    )
    return found


def map_chunks(f: Callable[[Any], Any], rows: Any, size: int) -> Any:
    """`f` of every row of the arrays in `rows`, under `vmap` for at most `size` rows at a time.

    All chunks have the same size: copies of the last row fill the last chunk. A smaller last chunk,
    as `lax.map` makes with `batch_size`, would be compiled separately.
    """
    number = jax.tree.leaves(rows)[0].shape[0]
    chunks = math.ceil(number / max(1, size))
    if chunks == 1:
        return jax.vmap(f)(rows)
    length = math.ceil(number / chunks)
    more = chunks * length - number

    def fill(a):
        return jnp.concat([a, jnp.broadcast_to(a[-1:], (more, *a.shape[1:]))])

    out = lax.map(f, jax.tree.map(fill, rows), batch_size=length)
    return jax.tree.map(lambda a: a[:number], out)


def safe_divide(a: Array, b: Array) -> Array:
    """a / b, or 0 where b is 0; the derivative is 0 there, not NaN.

    With a single `where` around the quotient, the derivative would still contain 0 · ∞ = NaN.

    Pass `b` in the shape of `a`. If `b` is smaller and is broadcast, XLA multiplies by 1/b instead,
    and the result is not the correctly rounded quotient.
    """
    zero = b == 0
    quotient = a / jnp.where(zero, jnp.ones_like(b), b)
    return jnp.where(zero, jnp.zeros_like(quotient), quotient)


def nan_unless(known: Bool[Array, ""], tree):
    """The arrays of `tree` if `known`; otherwise floats become NaN and integers −1."""
    missing = lambda a: -1 if jnp.issubdtype(a.dtype, jnp.integer) else jnp.nan  # noqa: E731
    return jax.tree.map(lambda a: jnp.where(known, a, missing(a)), tree)


def safe_sqrt(a: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """√a, with derivative 0 (not ∞) at a = 0, which is a subgradient of a norm at the origin.

    Negative entries give NaN, as in `jnp.sqrt`.
    """
    zero = a == 0
    return jnp.where(zero, jnp.zeros_like(a), jnp.sqrt(jnp.where(zero, jnp.ones_like(a), a)))


def safe_log(a: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log a for a > 0, NaN elsewhere; the derivative is finite wherever the value is finite."""
    positive = a > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, a, jnp.ones_like(a))), jnp.nan)


@jax.jit
def decay(d2: Float[Array, "*s"], scale: Array) -> Float[Array, "*s"]:
    """exp(−d2 / scale), with its limit at scale 0; `scale` broadcasts to `d2`.

    The derivative of a quotient squares the divisor, and the square of a small scale underflows to
    0. The code therefore first divides by the scale as a constant, and then by scale / constant,
    which is 1. Where the exponential underflows, no division is made, because the derivative would
    contain ∞ · 0 = NaN.
    """
    tiny = float(jnp.finfo(d2.dtype).tiny)
    limit = (scale < tiny) | (d2 > -2 * math.log(tiny) * scale)
    scale = jnp.where(scale < tiny, 1.0, scale)
    unit = lax.stop_gradient(scale)
    quotient = (jnp.where(limit, 0.0, d2) / unit) * (1 / (1 + (scale - unit) / unit))
    at_limit = jnp.where(d2 > 0, 0.0, 1.0 + lax.stop_gradient(d2))  # 1 at d2 = 0; NaN stays NaN
    return jnp.where(limit, at_limit, jnp.exp(-quotient))


#: Coefficients of the power series in z² of atanh(z)/z, 1/(2k+1), and of sinh(z)/z, 1/(2k+1)!.
ATANHC = tuple(1 / (2 * k + 1) for k in range(14))
SINHC = tuple(1 / math.factorial(2 * k + 1) for k in range(10))


def even_series(z: Array, coefficients: tuple[float, ...]) -> Array:
    """Σ_k c_k z^{2k} by Horner's rule."""
    z2 = z * z
    total = jnp.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * z2 + c
    return total


def sinhc(z: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """sinh(z) / z, with exact value 1 at 0 and no cancellation in the derivative near 0."""
    small = jnp.abs(z) < 1.0
    far = jnp.where(small, jnp.ones_like(z), z)
    return jnp.where(small, even_series(jnp.where(small, z, 0.0), SINHC), jnp.sinh(far) / far)


def centred(x: Float[Array, "n p"], w) -> tuple[Float[Array, "n p"], Float[Array, "p"]]:
    """Samples minus their weighted mean, and the mean; samples of weight 0 become 0.

    The mean is subtracted twice, because a single sum of many large numbers loses the last digits.
    """
    there = (w > 0)[:, None]
    share = (w / jnp.sum(w))[:, None]
    # Sums, because XLA compiles a product of one row and a matrix slowly.
    x = jnp.where(there, x, 0)
    first = jnp.sum(share * x, axis=0, keepdims=True)
    x = jnp.where(there, x - first, 0)
    second = jnp.sum(share * x, axis=0, keepdims=True)
    return jnp.where(there, x - second, 0), (first + second)[0]


def standard_columns(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> Float[Array, "n p"]:
    """Columns with mean 0 and variance 1 over the samples present.

    Constant columns and absent samples become 0.
    """
    return jnp.sqrt(jnp.sum(present.astype(x.dtype))) * unit_columns(x, present)


def varied(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> Bool[Array, "p"]:
    """A mask of the columns that are not constant over the samples present."""
    there = present[:, None]
    low, high = jnp.where(there, x, jnp.inf), jnp.where(there, x, -jnp.inf)
    return jnp.max(high, axis=0) > jnp.min(low, axis=0)


def unit_columns(a: Float[Array, "n m"], present: Bool[Array, "n"]) -> Float[Array, "n m"]:
    """Columns minus their mean over the samples present, scaled to length 1; 0 if constant.

    Entries of a constant column minus their mean are rounding errors, all equal. Other columns have
    mean 0 after two subtractions, up to rounding. The mean thus tells which columns are constant.
    """
    there = present[:, None]
    number = jnp.sum(present.astype(a.dtype))
    share, centre = 1 / number, jnp.where(there, a, 0)
    for _ in range(2):  # the second pass removes the rounding error of a large mean
        centre = jnp.where(there, centre - jnp.sum(share * centre, axis=0)[None], 0)
    largest = jnp.maximum(jnp.max(centre, axis=0), -jnp.min(centre, axis=0))
    centre = centre / jnp.where(largest == 0, 1, largest)[None]
    total, square = jnp.sum(centre, axis=0), jnp.sum(jnp.square(centre), axis=0)
    constant = total * total >= 0.5 * number * square
    return centre * jnp.where(constant, 0, lax.rsqrt(jnp.where(constant, 1, square)))[None]


#: Standard deviation of a normal distribution over its median absolute deviation.
_NORMAL = 1.4826


@jax.jit
def standard_scores(s: Float[Array, "*m d"]) -> Float[Array, "*m d"]:
    """Scores minus their median over the features, divided by their median absolute deviation.

    If more than half of the scores are equal, the standard deviation replaces the median absolute
    deviation. A constant score becomes 0. Infinity becomes the largest or smallest finite score,
    and NaN is left out.
    """
    finite, missing = jnp.isfinite(s), jnp.isnan(s)
    high = jnp.max(jnp.where(finite, s, -jnp.inf), axis=-1, keepdims=True)
    low = jnp.min(jnp.where(finite, s, jnp.inf), axis=-1, keepdims=True)
    varied = high > low
    low, high = jnp.where(varied, low, 0), jnp.where(varied, high, 1)
    unit = (jnp.clip(s, low, high) - low) / (high - low)  # its squares neither overflow nor vanish
    number = jnp.sum((~missing).astype(s.dtype), axis=-1, keepdims=True)
    centre = unit - _median(unit, number)
    spread = _NORMAL * _median(jnp.abs(centre), number)
    square = jnp.where(missing, 0, jnp.square(centre))
    deviation = safe_sqrt(jnp.sum(square, axis=-1, keepdims=True) / number)
    spread = jnp.where(spread > 0, spread, deviation)
    z = safe_divide(centre, jnp.broadcast_to(spread, s.shape))
    return jnp.where(missing, jnp.nan, jnp.where(varied, z, 0))


def _median(s: Float[Array, "*m d"], number: Float[Array, "*m 1"]) -> Float[Array, "*m 1"]:
    """Median of the `number` entries that are not NaN; compiles faster than `jnp.nanmedian`."""
    middle = jnp.maximum(number - 1, 0) / 2
    places = jnp.concat([jnp.floor(middle), jnp.ceil(middle)], axis=-1).astype(jnp.int32)
    pair = jnp.take_along_axis(jnp.sort(s, axis=-1), places, axis=-1, mode="promise_in_bounds")
    return jnp.mean(pair, axis=-1, keepdims=True)


def flat_draw(sample: Callable[..., Array], key, shape: tuple[int, ...], dtype) -> Array:
    """`sample(key, shape, dtype)` of `jax.random`, drawn as one row.

    The numbers are the same, and XLA compiles them 0.1 to 0.4 seconds faster.
    """
    return sample(key, (math.prod(shape),), dtype).reshape(shape)


def rank_present(present: Bool[Array, "n"]) -> Int[Array, "n"]:
    """Position of each sample among those present, so that padding does not change a draw."""
    return jnp.maximum(jnp.cumsum(present, dtype=jnp.int32) - 1, 0)


def at(row: Array, places: Int[Array, "*s"]) -> Array:
    """`row[places]` for indices in 0 … n − 1, without a check of bounds or signs in the loop."""
    return row.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def smallest(values: Float[Array, "n"], k: int) -> tuple[Float[Array, "k"], Int[Array, "k"]]:
    """The k smallest values, ascending, and their indices; ties are in ascending index order.

    On CPU, XLA's `top_k` of float64 sorts all values, which is slow. In float64 this function
    therefore stores the minimum of each group of √n values. Each step takes the smallest of these
    minima, and updates the minimum of that group only. In float32, `top_k` is as fast as these
    steps, and compiles in a quarter of the time.

    **Arguments**

    - `values`: `(n,)`, without NaN; infinite values are never returned with an index.
    - `k`: static, at most n.

    **Returns** values `(k,)` and indices `(k,)`. If there are fewer than k finite values, the
    remaining entries are infinity and −1.

    **Cost** O(n + k√n) in float64, O(n log k) in float32.
    """
    if values.dtype == jnp.float32:
        found, indices = lax.top_k(0 - values, k)  # 0 − (−0) is 0: `top_k` distinguishes −0 and 0
        indices = indices.astype(jnp.result_type(int))
        return 0 - found, jnp.where(jnp.isinf(found), -1, indices)
    n = values.shape[0]
    size = max(1, round(n**0.5))
    groups = jnp.pad(values, (0, -n % size), constant_values=jnp.inf).reshape(-1, size)

    def take(state, _):
        minima, value, index = state
        winner = jnp.argmin(minima)
        group, place = at(groups, winner), winner * size + jnp.arange(size)

        def later(value, index):
            """The group, with infinity for entries already taken: those up to (value, index)."""
            return jnp.where((group > value) | ((group == value) & (place > index)), group, jnp.inf)

        left = later(value, index)
        value, index = jnp.min(left), winner * size + jnp.argmin(left)
        minima = jnp.where(jnp.arange(minima.size) == winner, jnp.min(later(value, index)), minima)
        return (minima, value, index), (value, index)

    start = (jnp.min(groups, axis=1), jnp.asarray(-jnp.inf, values.dtype), jnp.asarray(-1))
    _, (found, indices) = lax.scan(take, start, length=k)
    return found, jnp.where(jnp.isinf(found), -1, indices)


@jax.custom_jvp
def attained(
    values: Float[Array, "*s"], present: Bool[Array, "*s"], v: Float[Array, ""]
) -> Float[Array, ""]:
    """`v`, which is one of the `values` present, with the derivative of that entry.

    If several entries equal `v`, the derivative is the mean of their derivatives. This is a
    subgradient that does not depend on the order of the entries.
    """
    del values, present
    return v


@attained.defjvp
def _attained_jvp(primals, tangents):
    values, present, v = primals
    hit = present & (values == v)
    total = jnp.sum(tangents[0], where=hit)
    # Return `attained` and not `v`, so that a second derivative also depends on `values`.
    return attained(*primals), total / jnp.maximum(jnp.sum(hit, dtype=values.dtype), 1)
