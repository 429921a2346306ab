"""Decompositions and solves of matrices that, on a CPU, never wait for one another.

On CPU jaxlib cuts a batch of matrices into tasks for XLA's threads, and one of these threads waits
for them. When every thread waits nobody works: two independent batches on two cores (in a
derivative under `vmap`, or one on each of two devices) can stop a program for ever. A single
matrix, or a batch of little work, is computed by the thread that asks for it. Here a batch on CPU
is therefore a loop over matrices, or over parts of little work; elsewhere it is left whole.

All take `(..., m, n)`. Nothing else in the package calls `jax.numpy.linalg` or `jax.lax.linalg` for
these.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from jaxfs._numerics import matmul

#: A batch of less work than that, in floating-point operations, jaxlib does not cut.
_LITTLE = 200_000
#: More than any function here takes for a matrix (m, n), in units of m n min(m, n).
_WORK = 32


def _in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of matrices, not differentiable, under `vmap` on CPU in parts of little work."""
    one = custom_vmap(function)

    @one.def_vmap
    def several(number, batched, *arrays):
        axes = tuple(0 if b else None for b in batched)
        whole = jax.vmap(function, axes)
        size = max(
            1, _LITTLE // max(_work(a.shape[b:]) for a, b in zip(arrays, batched, strict=True))
        )

        def parts(*arrays):
            if number < size:
                return _in_turn(whole)(*arrays)  # which the next `vmap` must not make larger
            moving = [a for a, b in zip(arrays, batched, strict=True) if b]

            def run(moving):
                rest = iter(moving)
                return one(*(next(rest) if b else a for a, b in zip(arrays, batched, strict=True)))

            return lax.map(run, moving, batch_size=size - 1 if size > 2 else None)

        out = lax.platform_dependent(*arrays, cpu=parts, default=whole)
        return out, jax.tree.map(lambda _: True, out)

    return one


def _work(shape: tuple[int, ...]) -> int:
    *batch, m, n = shape
    return max(1, math.prod(batch) * _WORK * m * n * min(m, n))


def _batched(function: Callable[..., Any], *arrays: Array) -> Any:
    """`function` over the leading axes, which all arrays share."""
    lead = arrays[0].ndim - 2
    return functools.reduce(lambda f, _: jax.vmap(f), range(lead), function)(*arrays)


# ---- Without derivatives ------------------------------------------------------------------------


_one_eigh = _in_turn(lambda a: tuple(jnp.linalg.eigh(a, symmetrize_input=False)))
_one_svd = _in_turn(lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)))


@jax.jit
def eigh(a: Float[Array, "*b d d"]) -> tuple[Float[Array, "*b d"], Float[Array, "*b d d"]]:
    """Eigenvalues, ascending, and eigenvectors, of the lower triangle, as constants."""
    return _batched(_one_eigh, lax.stop_gradient(a))


@jax.jit
def svd(
    a: Float[Array, "*b m n"],
) -> tuple[Float[Array, "*b m k"], Float[Array, "*b k"], Float[Array, "*b k n"]]:
    """U, s, Vᵀ with a = U diag(s) Vᵀ, s falling, k = min(m, n), as constants."""
    return _batched(_one_svd, lax.stop_gradient(a))


# ---- With derivatives ---------------------------------------------------------------------------


def _forward(a, b):
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)


def _backward(a, b):
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True)


_one_forward, _one_backward = _in_turn(_forward), _in_turn(_backward)


@functools.partial(jax.jit, static_argnames="transpose")
def solve_triangular(
    root: Float[Array, "*b d d"], b: Float[Array, "*b d k"], *, transpose: bool = False
) -> Float[Array, "*b d k"]:
    """L⁻¹ b, or L⁻ᵀ b, of L lower triangular; differentiable to any order."""
    fixed = lax.stop_gradient(root)

    def product(x):
        return matmul(root.mT if transpose else root, x)

    def solve(_, b):
        return _batched(_one_backward if transpose else _one_forward, fixed, b)

    def solve_transposed(_, b):
        return _batched(_one_forward if transpose else _one_backward, fixed, b)

    return lax.custom_linear_solve(product, b, solve, solve_transposed)


_one_cholesky = _in_turn(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))


@jax.custom_jvp
@jax.jit
def cholesky(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """L with L Lᵀ = a, of the lower triangle; NaN for what is not positive definite."""
    return _batched(_one_cholesky, a)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    """L⁻¹ dL is lower triangular, and it and its transpose add up to L⁻¹ da L⁻ᵀ."""
    root = cholesky(*primals)
    inner = solve_triangular(root, tangents[0])
    inner = solve_triangular(root, inner.mT)
    return root, matmul(root, 0.5 * (jnp.tril(inner) + jnp.tril(inner, -1)))


def cho_solve(root: Float[Array, "*b d d"], b: Float[Array, "*b d k"]) -> Float[Array, "*b d k"]:
    """(L Lᵀ)⁻¹ b."""
    return solve_triangular(root, solve_triangular(root, b), transpose=True)


_one_qr = _in_turn(lambda a: tuple(jnp.linalg.qr(a)))


@jax.custom_jvp
@jax.jit
def qr(a: Float[Array, "*b m n"]) -> tuple[Float[Array, "*b m k"], Float[Array, "*b k n"]]:
    """Q of orthonormal columns and R upper triangular, a = Q R; differentiable if m ≥ n."""
    return _batched(_one_qr, a)


@qr.defjvp
def _qr_jvp(primals, tangents):
    """With C = da R⁻¹ and M = QᵀC, QᵀdQ is skew and has the lower triangle of M."""
    q, r = qr(*primals)
    c = solve_triangular(r.mT, tangents[0].mT).mT
    m = matmul(q.mT, c)
    lower = jnp.tril(m, -1)
    turn = lower - lower.mT
    return (q, r), (c + matmul(q, turn - m), matmul(m - turn, r))
