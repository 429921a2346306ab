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

from jaxfs._numerics import congruence, eps, flat_draw, matmul, safe_divide, symmetrize
from jaxfs.geometry import spd
from jaxfs.kernels import rbf
from jaxfs.kernels._distances import Points, between, mean_point, points_about
from jaxfs.linalg import _frechet, absm, eigh, inv_sqrtm, leading_eigenspace
from jaxfs.linalg._divided_differences import ABS, HALF_WAY
from jaxfs.linalg._lapack import cho_solve, cholesky, qr, solve_triangular
from jaxfs.methods.manifest._shard import Shard

#: Number of entries in a block of kernel rows: large enough for speed, small enough for memory.
BLOCK = 2**21

#: A function from points to rows of a matrix.
RowsOf = Callable[[Points], Float[Array, "p k"]]

#: Number of blocks in which landmarks are drawn. More blocks take longer and give slightly better
#: landmarks.
PIVOT_BLOCKS = 10

#: Landmarks are drawn from 2 √(d m) candidates: their distances to each other are then about as
#: many as the distances between d features and m landmarks, which are needed twice.
CANDIDATES = 2.0

#: Exponent of the number of neighbours in the probability of a landmark. A cluster of 30 among
#: 50 000 features got one of 800 landmarks in 12 of 12 draws with 4, and in 10 of 12 with 2.
CROWDING = 4.0


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


def num_candidates(d: int, m: int) -> int:
    """Return the number of features from which m landmarks are drawn."""
    return min(d, math.ceil(CANDIDATES * math.sqrt(d * m)))


def pivot_draws(key: Array, d: int) -> Float[Array, "2 b d"]:
    """Return the random numbers with which `pivots` draws landmarks, for two classes.

    They come from one call: a call of `jax.random` takes long to compile.
    """
    return flat_draw(jax.random.gumbel, key, (2, 1 + PIVOT_BLOCKS, d), jnp.float32)


def pivots(draws: Float[Array, "b d"], kernel: LazyKernel, m: int) -> Int[Array, "m"]:
    """Return the indices of m landmarks, drawn in blocks by randomly pivoted Cholesky.

    The landmarks are drawn from a random set of candidates. The probability of a candidate is
    proportional to the part of its diagonal entry of K that the landmarks of earlier blocks do not
    explain, so that large clusters do not get all landmarks. It also grows with the number of
    candidates nearby: at small bandwidths most features have no neighbour, and the leading
    eigenvectors are the few small clusters. Only the indices are used, so float32 is enough.
    """
    shard = kernel.shard
    points, weights, sigma = jax.tree.map(
        lambda a: lax.stop_gradient(a).astype(jnp.float32), kernel[:3]
    )
    kernel = LazyKernel(points, weights, sigma, shard)
    size = math.ceil(m / PIVOT_BLOCKS)
    number = num_candidates(shard.total, m)
    candidates = lax.top_k(draws[0], number)[1]
    points = jax.tree.map(lambda a: shard.take(a, candidates), points)
    squares = lambda rows: jnp.sum(kernel.entries(rows, points) ** 2, axis=1)[:, None]  # noqa: E731
    neighbours = _blockwise(squares, points, number)[:, 0]  # a candidate is its own neighbour
    # A cluster of more than number/m candidates gets landmarks anyway.
    crowding = CROWDING * jnp.log(jnp.minimum(neighbours, number / m))

    def step(state, at):
        i, noise = at
        factor, left = state
        score = jnp.log(left) + crowding + noise
        chosen = lax.top_k(score, size)[1]
        picks, rows = jax.tree.map(lambda a: a[chosen], (points, factor))
        columns = kernel.entries(points, picks) - matmul(factor, rows.T)
        core = symmetrize(kernel.entries(picks, picks) - matmul(rows, rows.T))
        lift = 1e-4 * jnp.trace(core) / size + 1e-6  # relative to the kernel's diagonal of ones
        root = cholesky(core + lift * jnp.eye(size, dtype=core.dtype))
        new = solve_triangular(root, columns.T).T
        factor = lax.dynamic_update_slice(factor, new, (jnp.zeros_like(i), i * size))
        # Only landmarks get 0. Landmarks are then distinct even if nothing is left to explain.
        left = jnp.maximum(left - jnp.sum(new * new, axis=1), 1e-12 * jnp.sign(left))
        return (factor, left.at[chosen].set(0.0)), candidates[chosen]

    factor = jnp.zeros((number, PIVOT_BLOCKS * size), jnp.float32)
    steps = jnp.arange(PIVOT_BLOCKS), draws[1:, :number]
    return jnp.ravel(lax.scan(step, (factor, jnp.ones((number,), jnp.float32)), steps)[1])[:m]


def nystrom(kernel: LazyKernel, landmarks: Int[Array, "m"], rank: int) -> Float[Array, "d k"]:
    """Return F with orthogonal columns, where F Fᵀ ≈ K is the leading part of C W⁻¹ Cᵀ."""
    points, sigma, shard = kernel.points, kernel.sigma, kernel.shard
    chosen = jax.tree.map(lambda a: shard.take(a, landmarks), points)
    whiten = inv_sqrtm(_lifted(kernel.entries(chosen, chosen).astype(widest_dtype()), sigma.dtype))

    def rows(extend):
        extend = extend.astype(sigma.dtype)
        return lambda block: matmul(kernel.entries(block, chosen), extend)

    gram = _gram(rows(whiten), points, landmarks.size, shard)
    vectors, _ = leading_eigenspace(gram, rank)
    factor = _blockwise(rows(matmul(whiten, vectors)), points, landmarks.size)
    return jnp.where(shard.present[:, None], factor, 0.0)


def refined(kernel: LazyKernel, factor: Float[Array, "d k"]) -> Float[Array, "d k"]:
    """Return a more accurate factor of K, from one pass over all rows of K."""
    shard = kernel.shard
    # The result depends only on the span of V, so `triangle` may be treated as a constant.
    triangle = lax.stop_gradient(shard.qr(factor)[1])
    v = solve_triangular(triangle.T, factor.T).T
    kv = kernel_product(kernel, v)
    core = symmetrize(shard.sum(matmul(v.T, kv))).astype(widest_dtype())
    return matmul(kv, inv_sqrtm(_lifted(core, kernel.sigma.dtype)).astype(kernel.sigma.dtype))


def kernel_product(kernel: LazyKernel, v: Float[Array, "d k"]) -> Float[Array, "d k"]:
    """Return K v, from blocks of rows of K."""
    points, shard = kernel.points, kernel.shard

    def product(others):
        points_there, v_there = others
        times = lambda rows: matmul(kernel.entries(rows, points_there), v_there)  # noqa: E731
        return _blockwise(times, points, shard.size)

    return jnp.where(shard.present[:, None], shard.ring_sum(product, (points, v)), 0.0)


def _lifted(core: Float[Array, "k k"], dtype) -> Float[Array, "k k"]:
    """Return a semi-definite matrix of entries rounded to `dtype`, with its eigenvalues raised."""
    tiny = 2 * eps(dtype) * lax.stop_gradient(jnp.trace(core))
    return core + tiny * jnp.eye(core.shape[0], dtype=core.dtype)


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
    """Return the exact diag |D| of two kernels with low-rank factors F₁, F₂ `(d, k)`.

    A kernel is F Fᵀ + c (I − P) + ridge·I, where P is the projection onto the span of F, and
    c = (d − tr F Fᵀ)/(d − k) is the mean of the eigenvalues that F drops: the diagonal of a
    Gaussian kernel is 1, so its trace d is known. Outside the span of [F₁ F₂] both kernels are
    multiples of I, and D is δ·I. If Q is an orthonormal basis of the span, then
    |D| = |δ| I + Q (|D_Q| − |δ| I) Qᵀ, where D_Q is the difference operator of the kernels
    projected onto the span.
    """
    basis = shard.qr(jnp.concat([f1, f2], axis=1))[0]
    return _inside(shard, basis, f1, f2, ridge, t)


@joint_score.defjvp
def _joint_score_jvp(shard, primals, tangents):
    """The derivative within the span, with Q fixed, plus the derivative of the span itself.

    Outside the span a kernel stays a multiple of I to first order. In the block between the span
    and its complement, it changes by Z = (I − QQᵀ) dF (Fᵀ − c F⁺) Q.
    """
    f1, f2, ridge, t = primals
    basis = shard.qr(jnp.concat([f1, f2], axis=1))[0]
    value, inside = jax.jvp(functools.partial(_inside, shard, basis), primals, tangents)
    basis = _frechet.differentiable_once(basis, (f1, f2))
    kernels = [_projected(shard, basis, f, ridge) for f in (f1, f2)]
    across = _border(kernels[0], kernels[1], t)
    z = jnp.zeros_like(basis)
    for f, df, kernel, onward in zip((f1, f2), tangents[:2], kernels, across, strict=True):
        c = _coordinates(shard, basis, f)
        side = c.T - (kernel.level - ridge.astype(c.dtype)) * _pseudo_inverse(c)
        z += matmul(df, matmul(side, onward).astype(df.dtype))
    z = z - matmul(basis, shard.sum(matmul(basis.T, z)))
    return value, inside + 2 * jnp.sum(z * basis, axis=1)


class _Projected(NamedTuple):
    """A kernel in the span, QᵀKQ, and its one eigenvalue outside, in `widest_dtype()`."""

    core: Float[Array, "j j"]
    level: Float[Array, ""]


def _inside(shard, basis, f1, f2, ridge, t):
    k1, k2 = (_projected(shard, basis, f, ridge) for f in (f1, f2))
    t = t.astype(k1.core.dtype)
    outside = jnp.abs(_difference_outside(k1.level, k2.level, t))
    size = absm(spd.difference(k1.core, k2.core, t)) - _times_identity(outside, k1.core)
    size = size.astype(basis.dtype)
    return outside.astype(basis.dtype) + jnp.sum(matmul(basis, size) * basis, axis=1)


def _projected(shard, basis, factor, ridge):
    c = _coordinates(shard, basis, factor)
    core, ridge = symmetrize(matmul(c, c.T)), ridge.astype(c.dtype)
    if factor.shape[1] < shard.total:
        tail = _mean_tail(shard, factor)
        core = core + _times_identity(ridge + tail, core) - tail * _projection(c)
        return _Projected(core, ridge + tail)
    core = core + _times_identity(ridge, core)
    if shard.axis is not None:
        # The basis includes directions of padding. Both kernels are 1 there, for a ridge of 0.
        padding = jnp.where(shard.present[:, None], 0.0, lax.stop_gradient(basis))
        core = core + shard.sum(matmul(padding.T, padding)).astype(c.dtype)
    return _Projected(core, ridge)


def _times_identity(a, like):
    return a * jnp.eye(like.shape[0], dtype=like.dtype)


def _coordinates(shard, basis, factor):
    return shard.sum(matmul(basis.T, factor)).astype(widest_dtype())


def _mean_tail(shard: Shard, factor: Float[Array, "d k"]) -> Float[Array, ""]:
    """Return the mean of the eigenvalues of the kernel that its factor drops.

    Each feature's share of the trace, 1 − ‖F_i‖², is taken first: their sum loses no digits. It is
    not negative, except by rounding.
    """
    left = jnp.where(shard.present, 1 - jnp.sum(factor * factor, axis=1), 0.0)
    total = shard.sum(jnp.sum(left.astype(widest_dtype())))
    return jnp.maximum(total / (shard.total - factor.shape[1]), 0.0)


@jax.custom_jvp
def _projection(c: Float[Array, "j k"]) -> Float[Array, "j j"]:
    """Return the projection onto the span of the columns of c."""
    basis = qr(c)[0]
    return matmul(basis, basis.T)


@_projection.defjvp
def _projection_jvp(primals, tangents):
    """The derivative is Z + Zᵀ with Z = (I − P) dC C⁺."""
    (c,), (dc,) = primals, tangents
    p = _projection(c)
    z = matmul(dc, _frechet.differentiable_once(_pseudo_inverse(c), c))
    z = z - matmul(p, z)
    return p, z + z.T


def _pseudo_inverse(c: Float[Array, "j k"]) -> Float[Array, "k j"]:
    """Return (CᵀC)⁻¹Cᵀ, with eigenvalues of CᵀC raised above rounding."""
    c = lax.stop_gradient(c)
    return cho_solve(cholesky(_lifted(symmetrize(matmul(c.T, c)), c.dtype)), c.T)


def _difference_outside(a, b, t):
    """Return `spd.difference` of the 1 × 1 matrices a and b; 0 for two zeros."""
    return (a + b) * HALF_WAY.value(safe_divide(a - b, a + b), t)


def _border(k1, k2, t):
    """Return M₁ and M₂: blocks Z₁, Z₂ between complement and span change |D| by Z₁M₁ + Z₂M₂.

    With K₁ + K₂ = R Rᵀ, R⁻¹(K₁ − K₂)R⁻ᵀ = U diag(x) Uᵀ and T = R U, D is T f(x) Tᵀ. Outside the
    span x is a number y. The block of D changes by
    [(Z₁ − Z₂) T⁻ᵀ f[x, y] + (Z₁ + Z₂) T⁻ᵀ (f(x) − x f[x, y])] Tᵀ, and that of |D| by this times
    |·|[D_Q, δ]. All are constants of the derivative.
    """
    (a1, b1), (a2, b2) = lax.stop_gradient((k1, k2))
    t = lax.stop_gradient(t).astype(a1.dtype)
    root = cholesky(a1 + a2)
    solve = functools.partial(solve_triangular, root)
    x, u = eigh(symmetrize(solve(solve(a1 - a2).T)))
    ru = matmul(root, u)
    f, slope = HALF_WAY.value(x, t), HALF_WAY.first(x, safe_divide(b1 - b2, b1 + b2), t)
    values, vectors = eigh(symmetrize(congruence(ru, f)))
    size = congruence(vectors, ABS.first(values, _difference_outside(b1, b2, t), None))
    left, right = solve(u, transpose=True), matmul(ru.T, size)  # T⁻ᵀ and Tᵀ |·|[D_Q, δ]
    apart, together = slope, f - x * slope
    return [matmul(left * (together + s * apart)[None, :], right) for s in (1, -1)]
