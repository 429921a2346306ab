"""The parts of the low-rank ManiFeSt score: a thin factor of each kernel, and the joint subspace.

A feature is a point with one coordinate a sample. A Gaussian kernel K between d such points has few
large eigenvalues, and is nearly known from its columns at m landmarks L: with C = K[:, L] and
W = K[L, L] (Nyström),

    K ≈ C W⁻¹ Cᵀ ≈ F Fᵀ,   F = C W^-½ U      (d × k),

U the k leading eigenvectors of W^-½ CᵀC W^-½. The rows of C are computed in blocks, twice, and
neither K nor C is ever whole. A pass over all of K improves the factor: with V an orthonormal basis
of F, K ≈ (K V)(Vᵀ K V)⁻¹(K V)ᵀ, one step of subspace iteration.

**Reference** Y. Chen, E. Epperly, J. Tropp, R. Webber, *Randomly pivoted Cholesky: practical
approximation of a kernel matrix with few entry evaluations*, Comm. Pure Appl. Math. 78, 2025.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

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
from jaxfs.methods.manifest._part import Part

#: Entries of a block of kernel rows: enough to keep the processor busy, little beside the factors.
BLOCK = 2**21

#: Landmarks are drawn in so many blocks: more choose a little better, and take longer.
PIVOT_BLOCKS = 10


def widest() -> Any:
    """float64 where JAX has it, for what is small and ill-conditioned."""
    return jax.dtypes.canonicalize_dtype(jnp.float64)


# ---- A thin factor of a Gaussian kernel ---------------------------------------------------------


def feature_points(x: Float[Array, "n d"], w: Float[Array, "n"], part: Part, seen) -> Points:
    """The columns of `x` as points about a centre, so that distances keep their digits.

    The centre is that of the columns `seen`, the same on all devices.
    """
    columns = jnp.matrix_transpose(x)
    everyone = jnp.ones((seen.shape[0],), bool)
    return points_about(columns, w, mean_point(seen, w, everyone), part.present)


def pivots(
    key: Array, points: Points, w: Float[Array, "n"], sigma: Float[Array, ""], m: int, part: Part
) -> Int[Array, "m"]:
    """m features whose columns tell most of K: Cholesky with random pivots, in blocks.

    Each block is drawn with probabilities proportional to what the columns before it leave of the
    diagonal of K, so that crowds do not get all the landmarks and loners get one. Only the choice
    is kept: single precision is enough.
    """
    points, w, sigma = jax.tree.map(
        lambda a: lax.stop_gradient(a).astype(jnp.float32), (points, w, sigma)
    )
    size = math.ceil(m / PIVOT_BLOCKS)

    def step(state, at):
        i, key = at
        factor, left = state
        gumbel = part.mine(jax.random.gumbel(key, (part.total,), left.dtype))
        chosen, (picks, rows) = part.best(jnp.log(left) + gumbel, size, (points, factor))
        columns = _kernel(points, picks, w, sigma) - matmul(factor, rows.T)
        core = symmetrize(_kernel(picks, picks, w, sigma) - matmul(rows, rows.T))
        lift = 1e-4 * jnp.trace(core) / size + 1e-6  # of a diagonal that was 1
        root = cholesky(core + lift * jnp.eye(size, dtype=core.dtype))
        new = solve_triangular(root, columns.T).T
        factor = lax.dynamic_update_slice(factor, new, (jnp.zeros_like(i), i * size))
        # Never 0 but for those taken: landmarks are distinct even where nothing is left to tell.
        left = jnp.maximum(left - jnp.sum(new * new, axis=1), 1e-12 * jnp.sign(left))
        return (factor, left.at[part.place(chosen)].set(0.0, mode="drop")), chosen

    start = (
        jnp.zeros((part.size, PIVOT_BLOCKS * size), jnp.float32),
        part.present.astype(jnp.float32),
    )
    steps = jnp.arange(PIVOT_BLOCKS), jax.random.split(key, PIVOT_BLOCKS)
    return jnp.ravel(lax.scan(step, start, steps)[1])[:m]


def nystrom(
    points: Points,
    w: Float[Array, "n"],
    sigma: Float[Array, ""],
    landmarks: Int[Array, "m"],
    rank: int,
    part: Part,
) -> Float[Array, "d k"]:
    """F of orthogonal columns with F Fᵀ ≈ K: the leading part of C W⁻¹ Cᵀ."""
    chosen = jax.tree.map(lambda a: part.take(a, landmarks), points)
    whiten = _inverse_root(_kernel(chosen, chosen, w, sigma).astype(widest()))

    def rows(extend):
        extend = extend.astype(sigma.dtype)
        return lambda block: matmul(_kernel(block, chosen, w, sigma), extend)

    gram = _gram(rows(whiten), points, landmarks.size, part)
    vectors, _ = leading_eigenspace(gram, rank)
    factor = _by_rows(rows(matmul(whiten, vectors)), points, landmarks.size)
    return jnp.where(part.present[:, None], factor, 0.0)


def refined(
    points: Points,
    w: Float[Array, "n"],
    sigma: Float[Array, ""],
    factor: Float[Array, "d k"],
    part: Part,
) -> Float[Array, "d k"]:
    """A better factor of K by one pass over all of its rows."""
    # The result depends on the span of V alone: which basis it has is a constant.
    turn = lax.stop_gradient(part.qr(factor)[1])
    v = solve_triangular(turn.T, factor.T).T

    def product(others):
        points_there, v_there = others
        times = lambda rows: matmul(_kernel(rows, points_there, w, sigma), v_there)  # noqa: E731
        return _by_rows(times, points, part.size)

    kv = jnp.where(part.present[:, None], part.around(product, (points, v)), 0.0)
    core = symmetrize(part.sum(matmul(v.T, kv))).astype(widest())
    return matmul(kv, _inverse_root(core).astype(sigma.dtype))


def _inverse_root(core: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """core^-½ of a semi-definite matrix, with rounding-level eigenvalues lifted out of rounding."""
    tiny = 8 * eps(core.dtype) * lax.stop_gradient(jnp.trace(core))
    return inv_sqrtm(core + tiny * jnp.eye(core.shape[0], dtype=core.dtype))


def _kernel(a: Points, b: Points, w: Array, sigma: Array) -> Float[Array, "p q"]:
    return rbf(between(a, b, w), sigma)


def _blocks(points: Points, width: int, present: Bool[Array, "d"]) -> tuple[Points, Array]:
    """Points in blocks whose kernel rows of some width fit, and which are not padding."""
    d = points.level.shape[0]
    number = math.ceil(d / max(1, min(d, BLOCK // width)))
    size = math.ceil(d / number)  # blocks of like size, hence little padding

    def split(a):
        padded = jnp.pad(a, [(0, number * size - d)] + [(0, 0)] * (a.ndim - 1))
        return padded.reshape(number, size, *a.shape[1:])

    return jax.tree.map(split, points), split(present)


def _by_rows(
    function: Callable[[Points], Array], points: Points, width: int
) -> Float[Array, "d k"]:
    """`function` of all points, a block at a time; derivatives compute the blocks anew."""
    blocks, present = _blocks(points, width, jnp.ones(points.level.shape, bool))
    if present.shape[0] == 1:
        return function(points)
    out = lax.map(jax.checkpoint(function), blocks)
    return out.reshape(-1, out.shape[-1])[: points.level.shape[0]]


def _gram(
    function: Callable[[Points], Array], points: Points, width: int, part: Part
) -> Float[Array, "m m"]:
    """FᵀF of the rows F that `function` gives, a block at a time."""

    @jax.checkpoint
    def add(total, block):
        points, present = block
        rows = jnp.where(present[:, None], function(points), 0.0).astype(total.dtype)
        return total + matmul(rows.T, rows), None

    start, blocks = jnp.zeros((width, width), widest()), _blocks(points, width, part.present)
    if blocks[1].shape[0] == 1:
        gram = add(start, jax.tree.map(lambda a: a[0], blocks))[0]
    else:
        gram = lax.scan(add, start, blocks)[0]
    return symmetrize(part.sum(gram))


# ---- The joint subspace -------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def joint_score(
    part: Part,
    f1: Float[Array, "d k"],
    f2: Float[Array, "d k"],
    ridge: Float[Array, ""],
    t: Float[Array, ""],
) -> Float[Array, "d"]:
    """diag |D| of F₁F₁ᵀ + ridge·I and F₂F₂ᵀ + ridge·I, exactly, in 2k dimensions.

    Outside the span of [F₁ F₂] both kernels are ridge·I and D is 0: with Q an orthonormal basis of
    the span, D = Q D_Q Qᵀ and |D| = Q |D_Q| Qᵀ, where D_Q is the difference of the projections.
    """
    basis = part.qr(jnp.concat([f1, f2], axis=1))[0]
    return _inside(part, basis, f1, f2, ridge, t)


@joint_score.defjvp
def _joint_score_jvp(part, primals, tangents):
    """First the change within the span, with Q held fixed; then that of the span itself.

    K₁ and K₂ change outside of the span by second order only, and across its border by
    Z = (I − QQᵀ)(dK₁ − dK₂)Q. There, D = R f(R⁻¹(K₁ − K₂)R⁻ᵀ)Rᵀ changes by Z H, where
    H = R⁻ᵀ (f(x)/x) Rᵀ, since x = f = 0 outside; and |D| by Z H sign(D_Q).
    """
    f1, f2, ridge, t = primals
    df1, df2, _, _ = tangents
    basis = part.qr(jnp.concat([f1, f2], axis=1))[0]
    value, inside = jax.jvp(functools.partial(_inside, part, basis), primals, tangents)
    basis = _frechet.differentiable_once(basis, (f1, f2))
    a1, a2 = (_core(part, basis, f, ridge) for f in (f1, f2))
    across = matmul(*_border(a1, a2, t.astype(a1.dtype))).astype(f1.dtype)
    inner = lambda a, b: part.sum(matmul(a.T, b))  # noqa: E731
    z = matmul(df1, inner(f1, basis)) - matmul(df2, inner(f2, basis))
    z = z - matmul(basis, inner(basis, z))
    return value, inside + 2 * jnp.sum(matmul(z, across) * basis, axis=1)


def _inside(part, basis, f1, f2, ridge, t):
    a1, a2 = (_core(part, basis, f, ridge) for f in (f1, f2))
    size = absm(spd.difference(a1, a2, t.astype(a1.dtype))).astype(basis.dtype)
    return jnp.sum(matmul(basis, size) * basis, axis=1)


def _core(part, basis, factor, ridge):
    """Qᵀ (F Fᵀ + ridge·I) Q in the widest dtype."""
    c = part.sum(matmul(basis.T, factor)).astype(widest())
    core = symmetrize(matmul(c, c.T)) + ridge.astype(c.dtype) * jnp.eye(c.shape[0], dtype=c.dtype)
    if part.axis is None:
        return core
    # Directions of padding, where a rank near d has some: any kernel there, the same for both.
    outside = jnp.where(part.present[:, None], 0.0, lax.stop_gradient(basis))
    return core + part.sum(matmul(outside.T, outside)).astype(c.dtype)


def _border(a1, a2, t):
    """H and sign(D_Q) of the derivative above, as constants."""
    root = cholesky(a1 + a2)
    solve = functools.partial(solve_triangular, root)
    x, u = eigh(symmetrize(solve(solve(a1 - a2).T)))
    ratio = 0.5 * (1 + x) ** (1 - t) * (1 - x) ** t * atanhc(x)
    left = solve(u, transpose=True)  # R⁻ᵀ U
    ru = matmul(root, u)
    h = matmul(left * ratio[None, :], ru.T)
    values, vectors = eigh(symmetrize(congruence(ru, ratio * x)))
    return h, congruence(vectors, jnp.sign(values))
