"""Leading eigenpairs of an operator that is given as a function of blocks of vectors.

The method is block Krylov iteration with restarts. Each round starts from an orthonormal block X,
computes an orthonormal basis of the space [X, A X, A² X] and projects A onto this space
(Rayleigh–Ritz). The leading Ritz vectors are the next X. The two products with A per round are as
good as a Chebyshev filter of degree two, and need no bounds on the spectrum.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, flat_draw, matmul, symmetrize
from jaxfs._types import ArrayLike, Static
from jaxfs.linalg import _lapack

#: Number of blocks that span the space of a round: X, A X and A² X.
DEPTH = 3


class Eigenpairs(NamedTuple):
    """Leading eigenpairs of a symmetric operator, with their residuals.

    - `values`: `(k,)`, descending; `vectors`: `(d, k)`, orthonormal columns. In each column, the
      entry of largest magnitude is positive.
    - `residuals`: `(k,)`, ‖A v − λ v‖. Each value differs from an eigenvalue of A by at most
      its residual.
    - `converged`: whether all residuals are within the tolerance; `iterations`: number of rounds.
    """

    values: Float[Array, "k"]
    vectors: Float[Array, "d k"]
    residuals: Float[Array, "k"]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


def leading_eigenpairs(
    key: Array,
    matvec: Callable[[Array], Array],
    d: int,
    k: int,
    *,
    start: ArrayLike | None = None,
    oversample: int | None = None,
    tolerance: float | None = None,
    max_iterations: int = 100,
    dtype: Any = None,
) -> Eigenpairs:
    """The k largest eigenvalues, and their eigenvectors, of a symmetric operator on d dimensions.

    **Arguments**

    - `key`: random key for the initial block.
    - `matvec`: maps `(d, b)` to `(d, b)`, the product of a symmetric matrix and b vectors; traced.
      The matrix itself is never needed. Calls with the same function compile once. If arrays that
      the function uses change between calls, pass a `jax.tree_util.Partial(function, arrays…)`.
    - `d`, `k`: static, 1 ≤ k ≤ d.
    - `start`: `(d, j)`, initial vectors, such as the solution of a similar problem; random vectors
      complete the block.
    - `oversample`: static; number of vectors iterated in addition to k, by default k/5 and at least
      8. Convergence depends on the gap between eigenvalues k and k + `oversample` + 1.
    - `tolerance`: the iteration ends when every residual ‖A v − λ v‖ is below `tolerance`·max|λ|.
      The default √eps leaves errors of eps·max|λ|²/gap in eigenvalues and √eps·max|λ|/gap in
      vectors.
    - `max_iterations`: static; maximum number of rounds, of two products each.
    - `dtype`: float32 or float64. The default is the dtype of `start`, or without `start` the
      default float dtype of JAX. If `start` is given, `dtype` must equal its dtype.

    **Returns** `Eigenpairs`: `values` `(k,)`, descending, `vectors` `(d, k)`, `residuals` `(k,)`,
    `converged`, `iterations`. Values are ordered with their sign: −5 comes after 1.

    **Numerics** if the iteration does not converge, `converged` is false; no error is raised. NaN
    in a product makes all values NaN.

    **Derivatives** none, as for `eigh`. To differentiate an eigenvalue, compute vᵀ A v with the
    eigenvector v held fixed: this number has the value and the derivative of the eigenvalue.

    **Cost** each round takes two products with a block of b = k + `oversample` vectors,
    about 40 d b² operations, and memory for 8 blocks. If 3 b ≥ d, the operator is applied to the
    identity and decomposed.

    >>> import jax, jax.numpy as jnp
    >>> diagonal = jnp.arange(50.0)
    >>> out = leading_eigenpairs(jax.random.key(0), lambda v: diagonal[:, None] * v, 50, 2)
    >>> out.values.round(3).tolist(), bool(out.converged)
    ([49.0, 48.0], True)
    """
    _checks.key(key)
    _checks.function(matvec, "matvec", "a function of blocks of vectors")
    d = _checks.integer(d, "d", low=1)
    k = _checks.integer(k, "k", low=1, high=d)
    more = max(8, k // 5) if oversample is None else oversample
    b = min(d, k + _checks.integer(more, "oversample", low=0))
    max_iterations = _checks.integer(max_iterations, "max_iterations", low=0)
    if start is not None:
        start = _checks.matrices(start, "start")
        if start.shape[0] != d or start.ndim != 2 or start.shape[1] > d:
            raise _checks.fail("start", f"of shape ({d}, j), j ≤ {d}", f"shape {start.shape}")
        if dtype is not None and jnp.dtype(dtype) != start.dtype:
            raise _checks.fail("dtype", f"None or that of start, {start.dtype}", dtype)
        start, dtype = lax.stop_gradient(start), start.dtype
    dtype = _checks.float_dtype(dtype, "dtype")
    tolerance = math.sqrt(eps(dtype)) if tolerance is None else tolerance
    _checks.number(tolerance, "tolerance", low=0, scalar=True)
    example = jax.ShapeDtypeStruct((d, b), dtype)
    got = jax.eval_shape(matvec, example)
    if got.shape != (d, b) or got.dtype != dtype:
        expected = f"a function of {dtype} blocks ({d}, {b}) that keeps shape and dtype"
        raise _checks.fail("matvec", expected, f"{got.dtype} of shape {got.shape}")
    matvec = _without_derivative(matvec, example)
    kind = Static(jax.tree.structure(matvec))
    return _leading_eigenpairs(
        key, matvec, start, jnp.asarray(tolerance, dtype), example, k, max_iterations, kind
    )


def _without_derivative(matvec: Callable[[Array], Array], example) -> Callable[[Array], Array]:
    """`matvec` with the arrays that it closes over, or that a `Partial` binds, made constant."""
    if not isinstance(matvec, jax.tree_util.Partial):  # in a nested Partial, arrays would be static
        matvec = jax.tree_util.Partial(matvec)
    matvec = jax.tree.map(lax.stop_gradient, matvec)
    converted, closed_over = jax.closure_convert(matvec, example)
    if not closed_over:  # keep the function that is already compiled
        return matvec
    closed_over = lax.stop_gradient(closed_over)
    return jax.tree_util.Partial(lambda v: converted(v, *closed_over))


class _Block(NamedTuple):
    x: Float[Array, "d b"]
    ax: Float[Array, "d b"]
    values: Float[Array, "b"]

    def residuals(self, k: int) -> Float[Array, "k"]:
        gap = self.ax - self.x * self.values[None, :]
        return jnp.linalg.norm(gap[:, :k], axis=0)


@functools.partial(jax.jit, static_argnames=("example", "k", "max_iterations", "kind"))
def _leading_eigenpairs(key, matvec, start, tolerance, example, k, max_iterations, kind: Static):
    del kind  # distinguishes functions whose tree structures compare equal
    d, b = example.shape
    rounds = jnp.zeros((), jnp.int32)
    if DEPTH * b >= d:  # a round would span the whole space
        everything = jnp.eye(d, dtype=example.dtype)
        block = _ritz([everything], [matvec(everything)], b)
    else:

        def unfinished(state):
            block, rounds = state
            worst = jnp.max(block.residuals(k)) / jnp.max(jnp.abs(block.values))
            return (rounds < max_iterations) & (worst > tolerance)  # NaN ends the loop

        def advance(state):
            block, rounds = state
            spaces, images = [block.x], [block.ax]
            for _ in range(DEPTH - 1):
                spaces.append(_complement(spaces, images[-1]))
                images.append(matvec(spaces[-1]))
            return _ritz(spaces, images, b), rounds + 1

        given = jnp.zeros((d, 0), example.dtype) if start is None else start[:, :b]
        random = flat_draw(jax.random.normal, key, (d, b - given.shape[1]), example.dtype)
        x = _lapack.qr(jnp.concat([given, random], axis=1))[0]
        state = _ritz([x], [matvec(x)], b), rounds
        block, rounds = lax.while_loop(unfinished, advance, state)
    residuals, vectors = block.residuals(k), block.x[:, :k]
    converged = jnp.max(residuals) <= tolerance * jnp.max(jnp.abs(block.values))
    peak = jnp.argmax(jnp.abs(vectors), axis=0, keepdims=True)
    vectors = vectors * jnp.sign(jnp.take_along_axis(vectors, peak, axis=0))
    return Eigenpairs(block.values[:k], vectors, residuals, converged, rounds)


def _complement(spaces: list[Array], new: Float[Array, "d b"]) -> Float[Array, "d b"]:
    """An orthonormal basis of the part of `new` orthogonal to `spaces`.

    For converged vectors, this part is only rounding error. A second pass makes it orthogonal too.
    """
    for _ in range(2):
        for q in spaces:
            new = new - matmul(q, matmul(q.T, new))
        new = _lapack.qr(new)[0]
    return new


def _ritz(spaces: list[Array], images: list[Array], b: int) -> _Block:
    """The leading b Ritz pairs of a space, from an orthonormal basis and its products with A."""
    q, aq = jnp.concat(spaces, axis=1), jnp.concat(images, axis=1)
    w, u = _lapack.eigh(symmetrize(matmul(q.T, aq)))
    w, u = w[::-1][:b], u[:, ::-1][:, :b]
    return _Block(matmul(q, u), matmul(aq, u), w)
