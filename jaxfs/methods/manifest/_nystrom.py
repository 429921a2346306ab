"""Low-rank factors of the feature kernels, and the score in the subspace that the factors span.

A feature is a point with one coordinate per sample. A Gaussian kernel K between d such points has
few large eigenvalues, and its columns at m landmarks L nearly determine it. With C = K[:, L] and
W = K[L, L] the Nyström approximation is

    K ≈ C W⁻¹ Cᵀ ≈ F Fᵀ,   F = C W^-½ U      (d × k),

where U holds the k leading eigenvectors of W^-½ CᵀC W^-½. The rows of C are computed in blocks,
twice, so that neither K nor C is ever stored. A pass over all of K improves the factor: if V is an
orthonormal basis of the span of F, then K ≈ (K V)(Vᵀ K V)⁻¹(K V)ᵀ. This is one step of subspace
iteration.

**Reference** Y. Chen, E. Epperly, J. Tropp, R. Webber, *Randomly pivoted Cholesky: practical
approximation of a kernel matrix with few entry evaluations*, Comm. Pure Appl. Math. 78, 2025.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import atanhc, congruence, eps, matmul, symmetrize
from jaxfs.geometry import spd
from jaxfs.kernels import rbf
from jaxfs.kernels._distances import Points, between, mean_point, points_about
from jaxfs.linalg import _frechet, absm, eigh, inv_sqrtm, leading_eigenspace
from jaxfs.linalg._lapack import cholesky, solve_triangular
from jaxfs.methods.manifest._shard import Shard

#: Number of entries in a block of kernel rows: large enough for speed, small enough for memory.
BLOCK = 2**21

#: A function from points to rows of a matrix.
RowsOf = Callable[[Points], Float[Array, "p k"]]

#: Number of blocks in which landmarks are drawn. More blocks take longer and give slightly better
#: landmarks.
PIVOT_BLOCKS = 10


def widest_dtype() -> Any:
    """Return float64 if JAX has float64 enabled, else float32.

    Small, ill-conditioned matrices use this dtype.
    """
    return jax.dtypes.canonicalize_dtype(jnp.float64)


# ---- A low-rank factor of one kernel ------------------------------------------------------------


class LazyKernel(NamedTuple):
    """The Gaussian kernel between features, computed in blocks on demand."""

    points: Points  # the features of this device
    weights: Float[Array, "n"]
    sigma: Float[Array, ""]
    shard: Shard

    def entries(self, a: Points, b: Points) -> Float[Array, "p q"]:
        return rbf(between(a, b, self.weights), self.sigma)


def lazy_kernel(
    x: Float[Array, "n d"], weights: Float[Array, "n"], sigma: Float[Array, ""], shard: Shard, seen
) -> LazyKernel:
    """The kernel between the columns of `x`.

    The mean of the points `seen` is subtracted from all points, so that distances lose no digits.
    All devices subtract the same mean.
    """
    centre = mean_point(seen, weights, jnp.ones((seen.shape[0],), bool))
    points = points_about(jnp.matrix_transpose(x), weights, centre, shard.present)
    return LazyKernel(points, weights, sigma, shard)


def pivots(key: Array, kernel: LazyKernel, m: int) -> Int[Array, "m"]:
    """Return the indices of m landmarks, drawn in blocks by randomly pivoted Cholesky.

    The probability of a feature is proportional to the part of its diagonal entry of K that the
    landmarks of earlier blocks do not explain. Large clusters therefore do not get all landmarks,
    and isolated features also get a landmark. Only the indices are used, so float32 is enough.
    """
    shard = kernel.shard
    points, weights, sigma = jax.tree.map(
        lambda a: lax.stop_gradient(a).astype(jnp.float32), kernel[:3]
    )
    kernel = LazyKernel(points, weights, sigma, shard)
    size = math.ceil(m / PIVOT_BLOCKS)

    def step(state, at):
        i, key = at
        factor, left = state
        gumbel = shard.local(jax.random.gumbel(key, (shard.total,), left.dtype))
        score = jnp.log(left) + gumbel
        chosen, (picks, rows) = shard.top_k(score, size, (points, factor))
        columns = kernel.entries(points, picks) - matmul(factor, rows.T)
        core = symmetrize(kernel.entries(picks, picks) - matmul(rows, rows.T))
        lift = 1e-4 * jnp.trace(core) / size + 1e-6  # relative to the kernel's diagonal of ones
        root = cholesky(core + lift * jnp.eye(size, dtype=core.dtype))
        new = solve_triangular(root, columns.T).T
        factor = lax.dynamic_update_slice(factor, new, (jnp.zeros_like(i), i * size))
        # Only landmarks get 0. Landmarks are then distinct even if nothing is left to explain.
        left = jnp.maximum(left - jnp.sum(new * new, axis=1), 1e-12 * jnp.sign(left))
        return (factor, left.at[shard.local_index(chosen)].set(0.0, mode="drop")), chosen

    factor = jnp.zeros((shard.size, PIVOT_BLOCKS * size), jnp.float32)
    steps = jnp.arange(PIVOT_BLOCKS), jax.random.split(key, PIVOT_BLOCKS)
    return jnp.ravel(lax.scan(step, (factor, shard.present.astype(jnp.float32)), steps)[1])[:m]


def nystrom(kernel: LazyKernel, landmarks: Int[Array, "m"], rank: int) -> Float[Array, "d k"]:
    """Return F with orthogonal columns, where F Fᵀ ≈ K is the leading part of C W⁻¹ Cᵀ."""
    points, sigma, shard = kernel.points, kernel.sigma, kernel.shard
    chosen = jax.tree.map(lambda a: shard.take(a, landmarks), points)
    whiten = _lifted_inverse_root(kernel.entries(chosen, chosen).astype(widest_dtype()))

    def rows(extend):
        extend = extend.astype(sigma.dtype)
        return lambda block: matmul(kernel.entries(block, chosen), extend)

    gram = _gram(rows(whiten), points, landmarks.size, shard)
    vectors, _ = leading_eigenspace(gram, rank)
    factor = _blockwise(rows(matmul(whiten, vectors)), points, landmarks.size)
    return jnp.where(shard.present[:, None], factor, 0.0)


def refined(kernel: LazyKernel, factor: Float[Array, "d k"]) -> Float[Array, "d k"]:
    """Return a more accurate factor of K, from one pass over all rows of K."""
    points, shard = kernel.points, kernel.shard
    # The result depends only on the span of V, so `triangle` may be treated as a constant.
    triangle = lax.stop_gradient(shard.qr(factor)[1])
    v = solve_triangular(triangle.T, factor.T).T

    def product(others):
        points_there, v_there = others
        times = lambda rows: matmul(kernel.entries(rows, points_there), v_there)  # noqa: E731
        return _blockwise(times, points, shard.size)

    kv = jnp.where(shard.present[:, None], shard.ring_sum(product, (points, v)), 0.0)
    core = symmetrize(shard.sum(matmul(v.T, kv))).astype(widest_dtype())
    return matmul(kv, _lifted_inverse_root(core).astype(kernel.sigma.dtype))


def _lifted_inverse_root(core: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return core^-½ of a semi-definite matrix, after raising its eigenvalues above rounding."""
    tiny = 8 * eps(core.dtype) * lax.stop_gradient(jnp.trace(core))
    return inv_sqrtm(core + tiny * jnp.eye(core.shape[0], dtype=core.dtype))


def _blocks(points: Points, width: int, present: Bool[Array, "d"]) -> tuple[Points, Array]:
    """Split `points` and `present` into blocks whose kernel rows have at most `BLOCK` entries."""
    d = points.level.shape[0]
    number = math.ceil(d / max(1, min(d, BLOCK // width)))
    size = math.ceil(d / number)  # blocks of equal size need little padding

    def split(a):
        padded = jnp.pad(a, [(0, number * size - d)] + [(0, 0)] * (a.ndim - 1))
        return padded.reshape(number, size, *a.shape[1:])

    return jax.tree.map(split, points), split(present)


def _blockwise(function: RowsOf, points: Points, width: int) -> Float[Array, "d k"]:
    """Return `function(points)`, computed one block at a time. Derivatives recompute the blocks."""
    blocks, present = _blocks(points, width, jnp.ones(points.level.shape, bool))
    if present.shape[0] == 1:
        return function(points)
    out = lax.map(jax.checkpoint(function), blocks)
    return out.reshape(-1, out.shape[-1])[: points.level.shape[0]]


def _gram(function: RowsOf, points: Points, width: int, shard: Shard) -> Float[Array, "m m"]:
    """Return FᵀF for F = `function(points)`, computed one block at a time."""

    @jax.checkpoint
    def add(total, block):
        points, present = block
        rows = jnp.where(present[:, None], function(points), 0.0).astype(total.dtype)
        return total + matmul(rows.T, rows), None

    start = jnp.zeros((width, width), widest_dtype())
    gram = lax.scan(add, start, _blocks(points, width, shard.present))[0]
    return symmetrize(shard.sum(gram))


# ---- The joint subspace -------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def joint_score(shard: Shard, f1, f2, ridge, t) -> Float[Array, "d"]:
    """Return the exact diag |D| of the kernels F₁F₁ᵀ + ridge·I and F₂F₂ᵀ + ridge·I, F `(d, k)`.

    Outside the span of [F₁ F₂] both kernels are ridge·I and D is 0. If Q is an orthonormal basis of
    the span, then D = Q D_Q Qᵀ and |D| = Q |D_Q| Qᵀ, where D_Q is the difference operator of the
    kernels projected onto the span.
    """
    basis = shard.qr(jnp.concat([f1, f2], axis=1))[0]
    return _inside(shard, basis, f1, f2, ridge, t)


@joint_score.defjvp
def _joint_score_jvp(shard, primals, tangents):
    """The derivative within the span, with Q fixed, plus the derivative of the span itself.

    Outside the span K₁ and K₂ change only to second order. In the block between the span and its
    complement, K₁ − K₂ changes by Z = (I − QQᵀ)(dK₁ − dK₂)Q. In this block,
    D = R f(R⁻¹(K₁ − K₂)R⁻ᵀ)Rᵀ changes by Z H with H = R⁻ᵀ (f(x)/x) Rᵀ, because x = f = 0 outside
    the span, and |D| changes by Z H sign(D_Q).
    """
    f1, f2, ridge, t = primals
    df1, df2, _, _ = tangents
    basis = shard.qr(jnp.concat([f1, f2], axis=1))[0]
    value, inside = jax.jvp(functools.partial(_inside, shard, basis), primals, tangents)
    basis = _frechet.differentiable_once(basis, (f1, f2))
    a1, a2 = (_core(shard, basis, f, ridge) for f in (f1, f2))
    across = matmul(*_border(a1, a2, t.astype(a1.dtype))).astype(f1.dtype)
    inner = lambda a, b: shard.sum(matmul(a.T, b))  # noqa: E731
    z = matmul(df1, inner(f1, basis)) - matmul(df2, inner(f2, basis))
    z = z - matmul(basis, inner(basis, z))
    return value, inside + 2 * jnp.sum(matmul(z, across) * basis, axis=1)


def _inside(shard, basis, f1, f2, ridge, t):
    a1, a2 = (_core(shard, basis, f, ridge) for f in (f1, f2))
    size = absm(spd.difference(a1, a2, t.astype(a1.dtype))).astype(basis.dtype)
    return jnp.sum(matmul(basis, size) * basis, axis=1)


def _core(shard, basis, factor, ridge):
    """Return Qᵀ (F Fᵀ + ridge·I) Q in `widest_dtype()`."""
    c = shard.sum(matmul(basis.T, factor)).astype(widest_dtype())
    core = symmetrize(matmul(c, c.T)) + ridge.astype(c.dtype) * jnp.eye(c.shape[0], dtype=c.dtype)
    if shard.axis is None:
        return core
    # If the rank is near d, the basis includes directions of padding. Both kernels are 1 there.
    outside = jnp.where(shard.present[:, None], 0.0, lax.stop_gradient(basis))
    return core + shard.sum(matmul(outside.T, outside)).astype(c.dtype)


def _border(a1, a2, t):
    """Return H and sign(D_Q) of `_joint_score_jvp`, as constants."""
    root = cholesky(a1 + a2)
    solve = functools.partial(solve_triangular, root)
    x, u = eigh(symmetrize(solve(solve(a1 - a2).T)))
    ratio = 0.5 * (1 + x) ** (1 - t) * (1 - x) ** t * atanhc(x)
    left = solve(u, transpose=True)  # R⁻ᵀ U
    ru = matmul(root, u)
    h = matmul(left * ratio[None, :], ru.T)
    values, vectors = eigh(symmetrize(congruence(ru, ratio * x)))
    return h, congruence(vectors, jnp.sign(values))
