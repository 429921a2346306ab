"""Decompositions and linear solves of batches of matrices, without deadlocks on CPU.

On CPU, jaxlib splits a batch of matrices into tasks for the threads of XLA, and one of these
threads waits until the tasks are done. If every thread waits, no thread works. Two independent
batches on two cores (in a derivative under `vmap`, or one batch on each of two devices) can
therefore stop a program forever. A single matrix, or a small batch, is computed by the calling
thread. On CPU these functions therefore loop over the matrices of a batch, or over small parts of
the batch. On other platforms they do not split the batch.

All functions take `(..., m, n)`. No other file of the package calls `jax.numpy.linalg` or
`jax.lax.linalg` for these operations.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import matmul

#: Number of floating-point operations below which jaxlib does not split a batch into tasks.
_LITTLE = 200_000
#: Upper bound on the operations per (m, n) matrix of any function here, over m n min(m, n).
_WORK = 32


def _in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of matrices, with a `vmap` rule that on CPU splits the batch into small parts.

    The returned function is not differentiable.
    """
    one = custom_vmap(function)

    @one.def_vmap
    def several(number, batched, *arrays):
        axes = tuple(0 if b else None for b in batched)
        whole = jax.vmap(function, axes)
        shapes = (a.shape[b:] for a, b in zip(arrays, batched, strict=True))
        work = max(_WORK * math.prod(shape) * min(shape[-2:]) for shape in shapes)
        size = max(1, _LITTLE // max(1, work))

        def parts(*arrays):
            if number < size:
                return _in_turn(whole)(*arrays)  # so that an outer `vmap` can split its batch
            moving = [a for a, b in zip(arrays, batched, strict=True) if b]

            def run(moving):
                rest = iter(moving)
                return one(*(next(rest) if b else a for a, b in zip(arrays, batched, strict=True)))

            return lax.map(run, moving, batch_size=size - 1 if size > 2 else None)

        out = lax.platform_dependent(*arrays, cpu=parts, default=whole)
        return out, jax.tree.map(lambda _: True, out)

    return one


def _batched(function: Callable[..., Any], *arrays: Array) -> Any:
    """`function` mapped over the leading axes, which all arrays share."""
    for _ in range(arrays[0].ndim - 2):
        function = jax.vmap(function)
    return function(*arrays)


def sandwich(p: Array, a: Array) -> Array:
    """P a Pᵀ, with batch axes that broadcast."""
    return matmul(p, matmul(a, p.mT))


def all_finite(a: Float[Array, "*b m n"]) -> Bool[Array, "*b 1 1"]:
    """A mask of the finite matrices, by a sum, which XLA compiles much faster than `all`."""
    a = lax.stop_gradient(a)
    return jnp.sum(a - a, axis=(-2, -1), keepdims=True) == 0


def nan_unless_finite(a: Float[Array, "*b m n"]) -> Float[Array, "*b m n"]:
    """`a`, with all entries of a matrix NaN if any entry is not finite."""
    return jnp.where(all_finite(a), a, jnp.nan)


def guarded(a: Float[Array, "*b m n"]) -> tuple[Float[Array, "*b m n"], Bool[Array, "*b 1 1"]]:
    """`a` with every non-finite matrix replaced by the identity, and a mask of the finite ones.

    LAPACK may iterate forever on NaN.
    """
    finite = all_finite(a)
    identity = jnp.broadcast_to(jnp.eye(a.shape[-2], a.shape[-1], dtype=a.dtype), a.shape)
    return jnp.where(finite, a, identity), finite


_one_eigh = _in_turn(lambda a: tuple(jnp.linalg.eigh(a, symmetrize_input=False)))
_one_svd = _in_turn(lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)))


@jax.jit
def eigh(a: Float[Array, "*b d d"]) -> tuple[Float[Array, "*b d"], Float[Array, "*b d d"]]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices, without derivative.

    Only the lower triangle is read. The eigenvalues of a matrix with a non-finite entry are NaN.
    """
    a, finite = guarded(lax.stop_gradient(a))
    w, v = _batched(_one_eigh, a)
    return jnp.where(finite[..., 0], w, jnp.nan), v


@jax.jit
def svd(
    a: Float[Array, "*b m n"],
) -> tuple[Float[Array, "*b m k"], Float[Array, "*b k"], Float[Array, "*b k n"]]:
    """U, s, Vᵀ with a = U diag(s) Vᵀ, s descending, k = min(m, n), without derivative.

    The singular values of a matrix with a non-finite entry are NaN.
    """
    a, finite = guarded(lax.stop_gradient(a))
    u, s, vt = _batched(_one_svd, a)
    return u, jnp.where(finite[..., 0], s, jnp.nan), vt


_solve = functools.partial(lax.linalg.triangular_solve, left_side=True, lower=True)
#: L⁻¹ b and L⁻ᵀ b, by whether L is transposed.
_one_solve = {t: _in_turn(functools.partial(_solve, transpose_a=t)) for t in (False, True)}


@functools.partial(jax.jit, static_argnames="transpose")
def solve_triangular(
    root: Float[Array, "*b d d"], b: Float[Array, "*b d k"], *, transpose: bool = False
) -> Float[Array, "*b d k"]:
    """L⁻¹ b, or L⁻ᵀ b, for a lower triangular L; differentiable to any order."""
    fixed = lax.stop_gradient(root)
    matrix = root.mT if transpose else root
    solve = lambda _, b: _batched(_one_solve[transpose], fixed, b)  # noqa: E731
    solve_transposed = lambda _, b: _batched(_one_solve[not transpose], fixed, b)  # noqa: E731
    return lax.custom_linear_solve(lambda x: matmul(matrix, x), b, solve, solve_transposed)


_solve_right = functools.partial(lax.linalg.triangular_solve, left_side=False, lower=True)
_one_whiten = _in_turn(lambda root, a: _solve_right(root, _solve(root, a), transpose_a=True))
_one_unwhiten = _in_turn(lambda root, a: _solve_right(root, _solve(root, a, transpose_a=True)))


@jax.jit
def whiten(root: Float[Array, "*b d d"], a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """L⁻¹ a L⁻ᵀ for a lower triangular L; differentiable to any order."""
    fixed = lax.stop_gradient(root)
    solve = lambda _, a: _batched(_one_whiten, fixed, a)  # noqa: E731
    solve_transposed = lambda _, a: _batched(_one_unwhiten, fixed, a)  # noqa: E731
    return lax.custom_linear_solve(lambda x: sandwich(root, x), a, solve, solve_transposed)


_one_cholesky = _in_turn(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))


@jax.custom_jvp
@jax.jit
def cholesky(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """L with L Lᵀ = a, from the lower triangle of `a`; NaN if `a` is not positive definite."""
    return _batched(_one_cholesky, a)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    """dL, from the lower triangular M = L⁻¹ dL, which satisfies M + Mᵀ = L⁻¹ da L⁻ᵀ."""
    root = cholesky(*primals)
    inner = whiten(root, tangents[0])
    return root, matmul(root, 0.5 * (jnp.tril(inner) + jnp.tril(inner, -1)))


def cho_solve(root: Float[Array, "*b d d"], b: Float[Array, "*b d k"]) -> Float[Array, "*b d k"]:
    """(L Lᵀ)⁻¹ b for a lower triangular L."""
    return solve_triangular(root, solve_triangular(root, b), transpose=True)


_one_qr = _in_turn(lambda a: tuple(jnp.linalg.qr(a)))


@jax.custom_jvp
@jax.jit
def qr(a: Float[Array, "*b m n"]) -> tuple[Float[Array, "*b m k"], Float[Array, "*b k n"]]:
    """Q with orthonormal columns and R upper triangular, a = Q R; differentiable if m ≥ n."""
    return _batched(_one_qr, a)


@qr.defjvp
def _qr_jvp(primals, tangents):
    """dQ and dR: QᵀdQ is skew-symmetric, with the lower triangle of M = QᵀC, C = da R⁻¹."""
    q, r = qr(*primals)
    c = solve_triangular(r.mT, tangents[0].mT).mT
    m = matmul(q.mT, c)
    lower = jnp.tril(m, -1)
    turn = lower - lower.mT
    return (q, r), (c + matmul(q, turn - m), matmul(m - turn, r))
