"""The graph Laplacian and its leading eigenvectors, which spectral methods use as labels.

The eigenvalue 0 repeats once per connected component of the graph, and other eigenvalues can repeat
if the graph is symmetric. LAPACK may return any basis of the eigenspace of a repeated eigenvalue;
rounding, and so the order of the samples, determines the basis. Here the data determine the basis,
so that permuted samples have permuted eigenvectors:

1. An axis starts from a fixed linear combination of the features, centred and scaled to length 1,
   projected onto the eigenspace. If the projection is negligible, the axis starts from the sample
   with the largest projection instead.
2. A fixed number of power iterations with F Fᵀ, where F holds the features, turns the axis towards
   the first principal axis of the features in the eigenspace. Convergence is not needed: every
   iterate is determined by the data. If the features explain nothing, the axis keeps its start.
3. The next axis is found likewise in the orthogonal complement, and so on.

The linear combination of step 1 also decides signs, and samples that tie.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, safe_divide, safe_sqrt, unit_columns
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import affinity_product, self_tuning, within
from jaxfs.linalg import _lapack, leading_eigenpairs

_KINDS = ("unnormalized", "symmetric", "random_walk")
#: Number of samples beyond which the affinity is not stored and an iteration finds eigenvectors.
LARGE = 8192
#: Number of power iterations that turn an axis towards the first principal axis.
_TURNS = 32


def laplacian(weights: ArrayLike, kind: str = "unnormalized") -> Float[Array, "*b n n"]:
    """The Laplacian of a weighted graph.

    With degrees δ_i = Σ_j w_ij and Δ = diag(δ), the three kinds are Δ − W ("unnormalized"),
    Δ^-½ (Δ − W) Δ^-½ ("symmetric") and Δ⁻¹ (Δ − W) ("random_walk").

    **Arguments**

    - `weights`: W `(..., n, n)`, nonnegative, symmetric; the diagonal counts in the degrees.
    - `kind`: "unnormalized", "symmetric" or "random_walk"; static.

    **Returns** `(..., n, n)`.

    **Numerics** an isolated sample (degree 0) has a row and a column of zeros in all kinds. The
    multiplicity of the eigenvalue 0 is therefore the number of connected components, including
    isolated samples and padding. The diagonal is summed without w_ii, so that a large w_ii does not
    cancel. A negative degree gives NaN.

    **Derivatives** in the weights; the normalisation of an isolated sample is constant.

    **Reference** von Luxburg, *A tutorial on spectral clustering*, 2007; SSFS, eq. 1.

    >>> import jax.numpy as jnp
    >>> laplacian(jnp.array([[0.0, 4.0], [4.0, 0.0]]), "symmetric").tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    w = _checks.square(weights, "weights")
    return _laplacian(w, _checks.option(kind, "kind", _KINDS))


@functools.partial(jax.jit, static_argnums=1)
def _laplacian(w: Float[Array, "*b n n"], kind: str) -> Float[Array, "*b n n"]:
    loops = jnp.broadcast_to(jnp.eye(w.shape[-1], dtype=bool), w.shape)
    others = jnp.where(loops, jnp.zeros_like(w), w)
    away = jnp.sum(others, axis=-1)
    plain = jnp.where(loops, away[..., None], -others)
    if kind == "unnormalized":
        return plain
    degree = away + jnp.diagonal(w, axis1=-2, axis2=-1)
    if kind == "random_walk":
        return safe_divide(plain, jnp.broadcast_to(degree[..., None], plain.shape))
    root = safe_sqrt(degree)
    return safe_divide(plain, root[..., :, None] * root[..., None, :])


def leading_eigenvectors(
    affinity: Float[Array, "n n"], x: Float[Array, "n p"], number: int, present: Bool[Array, "n"]
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """The smallest eigenvalues of the symmetric normalised Laplacian, and their eigenvectors.

    The trivial pair, eigenvalue 0 and u_i ∝ √δ_i with δ the degrees, is left out. Every returned
    vector is orthogonal to the trivial vector, even if other eigenvalues are 0.

    **Arguments**

    - `affinity`: `(n, n)`, symmetric, nonnegative; the diagonal counts in the degrees.
    - `x`: `(n, p)`, the samples, which determine the basis of repeated eigenvalues.
    - `number`: static, k ≤ n − 1.
    - `present`: `(n,)`, false for samples that are padding; their affinities are ignored.

    **Returns** eigenvalues `(k,)`, ascending, in [0, 2]; unit eigenvectors `(n, k)`, 0 at padding.
    The entry of largest magnitude is positive.

    **Numerics** with m samples present, pairs beyond the first m − 1 are NaN. An affinity that is
    not finite makes all pairs NaN. Eigenvalues have errors of a few eps. Permuted samples have
    permuted vectors, even if eigenvalues repeat.

    **Derivatives** none.

    **Cost** one `eigh` of size n.
    """
    affinity = jnp.where(present[:, None] & present[None, :], affinity, 0)
    degree = jnp.sum(affinity, axis=1)
    trivial = jnp.sqrt(degree) * lax.rsqrt(jnp.sum(degree))
    # In this sum, the requested pairs have eigenvalue λ ≤ 2; the trivial pair and padding, 3.
    others = trivial[:, None] * trivial[None]
    others = jnp.where(jnp.eye(present.size, dtype=bool) & ~present[None], 1, others)
    w, u = _lapack.eigh(_laplacian(affinity, "symmetric") + 3 * others)
    u = u + 0.0 * w[None]  # NaN for an affinity that is not finite
    return _known(w[:number], settled(w, u, x, present, number), present)


def _known(w: Float[Array, "k"], u: Float[Array, "n k"], present: Bool[Array, "n"]):
    """`w` and `u` with 0 at padding; NaN beyond the number of samples present minus one."""
    known = jnp.arange(1, w.shape[0] + 1, dtype=w.dtype) < jnp.sum(present.astype(w.dtype))
    w, u = jnp.where(known, w, jnp.nan), jnp.where(known[None], u, jnp.nan)
    return jnp.clip(w, 0, 2), jnp.where(present[:, None], u, jnp.zeros_like(u))


def sample_eigenvectors(
    x: Float[Array, "n p"],
    num_neighbors: int,
    number: int,
    present: Bool[Array, "n"],
    features: Float[Array, "n p"] | None = None,
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """`leading_eigenvectors` of the self-tuning affinity of `x`, for any number of samples.

    The basis of repeated eigenvalues depends on the columns of `features`, by default `x`, but not
    on their means and scales.

    **Numerics** exact up to `LARGE` samples. For more samples, subspace iteration stops at
    residuals of √eps or after 100 rounds. If the last eigenvalue repeats beyond the pairs found,
    only a part of its eigenspace is known, and its vectors depend on the order of the samples.

    **Cost** for more than `LARGE` samples, O(n² p) for each of some dozens of products, and memory
    for a few rows.
    """
    if x.shape[0] <= LARGE:
        d2 = within(x, jnp.ones(x.shape[1], x.dtype), present)
        affinity = self_tuning(num_neighbors, d2, present)
        return leading_eigenvectors(affinity, x if features is None else features, number, present)
    return iterated_eigenvectors(x, num_neighbors, number, present, features)


def iterated_eigenvectors(
    x, num_neighbors: int, number: int, present: Bool[Array, "n"], features=None
):
    """`sample_eigenvectors` from the leading eigenpairs of 2 + D^-½ W D^-½ − 3 u uᵀ.

    u is the trivial eigenvector; all other eigenvalues of this operator are ≥ 1.
    """
    affinity_times = affinity_product(x, num_neighbors, present)
    degrees = affinity_times(present[:, None].astype(x.dtype))
    root = safe_sqrt(degrees)
    trivial = root / jnp.linalg.norm(root)
    inverse = jnp.where(present[:, None], 1 / jnp.where(root > 0, root, 1.0), 0.0)

    def times(v):
        v = jnp.where(present[:, None], v, 0.0)
        out = 2 * v + inverse * affinity_times(inverse * v)
        return out - 3 * trivial * jnp.sum(trivial * v, axis=0, keepdims=True)

    found = leading_eigenpairs(
        jax.random.key(0), times, x.shape[0], number, dtype=x.dtype, max_iterations=100
    )
    values = 3 - found.values
    u = settled(values, found.vectors, x if features is None else features, present, number)
    return _known(values[:number], u, present)


# ---- Repeated eigenvalues -----------------------------------------------------------------------


def gap_tolerance(dtype) -> float:
    """Gap below which eigenvalues in [0, 2] count as equal: 1.5e-8, and 1.5e-5 in float32.

    At a gap of √eps, rounding changes vectors by about √eps. In float32 a tolerance of √eps would
    merge eigenvalues that the data distinguish. The float32 tolerance is therefore about a hundred
    times the rounding error of the eigenvalues.
    """
    return max(2.0**-26, 128 * eps(dtype))


def settled(
    values: Float[Array, "m"],
    vectors: Float[Array, "n m"],
    x: Float[Array, "n p"],
    present: Bool[Array, "n"],
    number: int,
) -> Float[Array, "n k"]:
    """The first `number` eigenvectors, with a basis of each eigenspace determined by the data.

    The entry of largest magnitude of each vector is positive. `values` are ascending. If the last
    eigenspace extends beyond all `vectors`, the known part is treated as the whole space.
    """
    features = unit_columns(lax.stop_gradient(x), present)
    rank = jnp.sum(features * jnp.cos(1.0 + jnp.arange(x.shape[1], dtype=x.dtype))[None], axis=1)
    half = eps(x.dtype) ** 0.5  # half of the digits
    index = jnp.arange(values.shape[0])
    ends = jnp.append(values[1:] - values[:-1] > gap_tolerance(x.dtype), True)

    def peak(size: Float[Array, "n"]) -> Int[Array, ""]:
        """The index of the largest entry; the highest rank decides ties to half of the digits."""
        size = lax.optimization_barrier(size)  # so that XLA compiles both calls once
        ties = size >= (1 - half) * size[jnp.argmax(size)]
        return jnp.argmax(jnp.where(ties, rank, -jnp.inf))

    def add(j, vectors):
        """Turn the basis of the eigenspace of column j so that column j becomes its next axis.

        Axes are coefficients of the columns j … last, which span the space that is left. They have
        two equal columns, because XLA compiles products with a single column slowly.
        """
        last = jnp.argmax(jnp.where(index < j, False, ends))
        space = ((index >= j) & (index <= last))[:, None]

        def inside(v: Float[Array, "n 2"]) -> Float[Array, "m 2"]:
            return jnp.where(space, matmul(vectors.T, v), 0)

        def turn(_, axis):
            v = matmul(vectors, axis)
            axis = inside(matmul(features, matmul(features.T, v))) + half * x.shape[1] * axis
            return axis * lax.rsqrt(matmul(axis.T, axis)[:1])

        sample = peak(jnp.sum(jnp.where(space.T, vectors**2, 0), axis=1))
        starts = jnp.stack([rank, (jnp.arange(rank.size) == sample).astype(x.dtype)], axis=1)
        axes = inside(starts)
        aligned = matmul(axes.T, axes)[0, 0] > half * matmul(starts.T, starts)[0, 0]
        start = jnp.where(aligned, axes[:, :1], axes[:, 1:])
        turns = jnp.where(last > j, _TURNS, 0)
        axis = lax.fori_loop(0, turns, turn, jnp.broadcast_to(start, axes.shape))

        # Reflect the basis: column j becomes the axis, of either sign, and the others stay
        # orthogonal to it. The normal of the mirror is axis − e_j, which is not small.
        here = index == j
        unit = here.astype(x.dtype)[:, None]
        axis = jnp.where(last > j, axis * -jnp.sign(axis[j])[None], -unit)
        normal = axis - unit
        away = matmul(vectors, normal)[:, 0]
        v = vectors[:, j] + away
        v = v * jnp.sign(v[peak(jnp.abs(v))])
        rest = vectors - away[:, None] * (normal[:, 0] / (1 - axis[j, 0]))[None]
        return jnp.where(here[None], v[:, None], rest)

    return lax.fori_loop(0, number, add, vectors)[:, :number]
