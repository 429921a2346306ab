"""The graph Laplacian and its leading eigenvectors, which spectral methods use as labels.

The eigenvalue 0 repeats once per connected component of the graph, and other eigenvalues can repeat
if the graph is symmetric. LAPACK may return any basis of the eigenspace of a repeated eigenvalue;
rounding, and so the order of the samples, determines the basis. Here the data determine the basis,
so that permuted samples have permuted eigenvectors:

1. The basis of an eigenspace consists of the principal axes of the features. These are the
   eigenvectors of F Fᵀ restricted to the eigenspace, where F holds the features, centred and scaled
   to length 1. The first axis explains the largest sum of squared correlations. Adding an
   infinitesimal multiple of F Fᵀ to the graph would give the same basis.
2. Several axes can explain equal sums, for example on a ring. Pivots then determine the axes. The
   first axis is the projection of the sample that has the largest projection onto their space. The
   next axis is found likewise in the orthogonal complement, and so on.
3. A fixed linear combination of the features of a sample decides signs, and pivots that tie.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import (
    computed_if,
    eps,
    matmul,
    safe_divide,
    safe_sqrt,
    symmetrize,
    unit_columns,
)
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import within
from jaxfs.kernels._self_tuning import affinity_rows, self_tuning
from jaxfs.linalg import _lapack, leading_eigenpairs

_KINDS = ("unnormalized", "symmetric", "random_walk")
#: Number of samples beyond which the affinity is not stored and an iteration finds eigenvectors.
LARGE = 8192
#: Number of additional eigenpairs examined, because the last requested eigenvalue may repeat.
MORE = 8


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

    **Cost** one `eigh` of size n; two if the last eigenvalue repeats in more than 8 further pairs.
    """
    pairs = present[:, None] & present[None, :]
    affinity = jnp.where(pairs, affinity, jnp.zeros_like(affinity))
    root = safe_sqrt(jnp.sum(affinity, axis=1))
    trivial = root / jnp.linalg.norm(root)
    # In this matrix, the requested pairs have eigenvalue 3 − λ ≥ 1; trivial pair and padding, 0.
    identity = jnp.diag(present.astype(affinity.dtype))
    rest = identity - trivial[:, None] * trivial[None, :]
    w, u = _lapack.eigh(symmetrize(3 * rest - _laplacian(affinity, "symmetric")))
    w, u = w[::-1], u[:, ::-1] + 0.0 * w[None]  # NaN for an affinity that is not finite
    return _known(w[:number], settled(3 - w, u, x, present, number), present)


def _known(w: Float[Array, "k"], u: Float[Array, "n k"], present: Bool[Array, "n"]):
    """3 − w, and `u` with 0 at padding; NaN beyond the number of samples present minus one."""
    known = jnp.arange(w.shape[0]) < jnp.sum(present) - 1
    w, u = jnp.where(known, w, jnp.nan), jnp.where(known[None], u, jnp.nan)
    return jnp.clip(3 - w, 0, 2), jnp.where(present[:, None], u, jnp.zeros_like(u))


def sample_eigenvectors(
    x: Float[Array, "n p"], num_neighbors: int, number: int, present: Bool[Array, "n"]
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """`leading_eigenvectors` of the self-tuning affinity of `x`, for any number of samples.

    **Numerics** exact up to `LARGE` samples. For more samples, subspace iteration stops at
    residuals of √eps or after 100 rounds. If the last eigenvalue repeats beyond the pairs found,
    only a part of its eigenspace is known, and its vectors depend on the order of the samples.

    **Cost** for more than `LARGE` samples, O(n² p) for each of some dozens of products, and memory
    for a few rows.
    """
    if x.shape[0] <= LARGE:
        d2 = within(x, jnp.ones(x.shape[1], x.dtype), present)
        return leading_eigenvectors(self_tuning(num_neighbors, d2, present), x, number, present)
    return iterated_eigenvectors(x, num_neighbors, number, present)


def iterated_eigenvectors(x, num_neighbors: int, number: int, present: Bool[Array, "n"]):
    """`sample_eigenvectors` from the leading eigenpairs of 2 + D^-½ W D^-½ − 3 u uᵀ.

    u is the trivial eigenvector; all other eigenvalues of this operator are ≥ 1.
    """
    affinity = affinity_rows(x, num_neighbors, present)
    degrees = affinity.times(present[:, None].astype(x.dtype))
    root = safe_sqrt(degrees)
    trivial = root / jnp.linalg.norm(root)
    inverse = jnp.where(present[:, None], 1 / jnp.where(root > 0, root, 1.0), 0.0)

    def times(v):
        v = jnp.where(present[:, None], v, 0.0)
        out = 2 * v + inverse * affinity.times(inverse * v)
        return out - 3 * trivial * jnp.sum(trivial * v, axis=0, keepdims=True)

    found = leading_eigenpairs(
        jax.random.key(0), times, x.shape[0], number, dtype=x.dtype, max_iterations=100
    )
    u = settled(3 - found.values, found.vectors, x, present, number)
    return _known(found.values, u, present)


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

    The entry of largest magnitude of each vector is positive.

    `values` are ascending. If the last eigenspace extends beyond `MORE` further pairs, the function
    uses all `vectors`, at the cost of an `eigh` of size m. If the space extends beyond all
    `vectors`, the known part is treated as the whole space.
    """
    features = unit_columns(lax.stop_gradient(x), present)
    rank = matmul(features, jnp.cos(1.0 + jnp.arange(x.shape[1], dtype=x.dtype))[:, None])[:, 0]
    total = values.shape[0]
    few = min(number + MORE, total)
    joined = values[1:] - values[:-1] <= gap_tolerance(values.dtype)
    space = jnp.cumsum(jnp.append(False, ~joined), dtype=jnp.int32)
    basis = _basis(space[:few], vectors[:, :few], features, rank, number)
    if few < total:
        last = space == space[number - 1]
        start = jnp.argmax(last)

        def with_all(vectors):
            # The last space comes first. All other spaces count as one; its basis is not used.
            rolled = jnp.roll(vectors, -start, axis=1)
            there = jnp.roll(jnp.where(last, 0, 1), -start)
            found = jnp.roll(_basis(there, rolled, features, rank, number), start, axis=1)
            return jnp.where(last[None, :number], found, basis)

        basis = computed_if(jnp.all(joined[number - 1 : few]), with_all, vectors, basis)

    def signed(column):
        return column * jnp.sign(column[_first_peak(jnp.abs(column), rank)])

    return jax.vmap(signed, in_axes=1, out_axes=1)(basis)


def _basis(
    space: Int[Array, "m"],
    vectors: Float[Array, "n m"],
    features: Float[Array, "n p"],
    rank: Float[Array, "n"],
    number: int,
) -> Float[Array, "n k"]:
    """The first `number` vectors of the basis; `space` numbers the eigenspace of each column."""
    dtype = vectors.dtype
    same = space[:, None] == space[None, :]
    finite = jnp.all(jnp.isfinite(vectors))
    part = matmul(vectors.T, features)
    gram = jnp.where(same & finite, symmetrize(matmul(part, part.T)), 0)
    largest = jnp.max(jnp.sum(jnp.abs(gram), axis=1))
    gram = safe_divide(gram, jnp.broadcast_to(largest, gram.shape))
    # Explained fractions are in [0, 1]; subtracting 2 per space keeps the spaces apart and ordered.
    steps = 2 * space.astype(dtype)
    explained, rotation = _lapack.eigh(gram - jnp.diag(steps))
    explained, rotation = explained[::-1] + steps, rotation[:, ::-1]
    alone = jnp.sum(same, axis=1) == 1
    v = jnp.where(alone[None], vectors, matmul(vectors, rotation))
    tied = (space[1:] == space[:-1]) & (explained[:-1] - explained[1:] <= eps(dtype) ** 0.5)
    ties = jnp.cumsum(jnp.append(False, ~tied), dtype=jnp.int32)
    return _pivoted(ties, v, rank, number)[:, :number]


def _pivoted(
    ties: Int[Array, "m"], v: Float[Array, "n m"], rank: Float[Array, "n"], number: int
) -> Float[Array, "n m"]:
    """`v` with columns of equal `ties` rotated to pivots: see step 2 at the top of the file."""
    index = jnp.arange(ties.shape[0])

    def turn(j, v):
        rest = (ties == ties[j]) & (index >= j)
        rows = jnp.where(rest[None], v, 0)
        row = rows[_first_peak(jnp.sum(rows**2, axis=1), rank)]
        row = safe_divide(row, jnp.broadcast_to(jnp.linalg.norm(row), row.shape))
        # The Householder reflection that maps unit vector j to ±row, hence column j to ±v·row.
        normal = row.at[j].add(jnp.where(row[j] < 0, -1, 1).astype(row.dtype))
        normal = jnp.where(jnp.sum(rest) > 1, normal / jnp.linalg.norm(normal), 0)
        return v - 2 * matmul(v, normal[:, None]) * normal[None]

    return lax.fori_loop(0, number, turn, v)


def _first_peak(size: Float[Array, "n"], rank: Float[Array, "n"]) -> Int[Array, ""]:
    """The index of the largest `size`; sizes equal to half of the digits are tied.

    The largest `rank` decides ties.
    """
    peak = size >= (1 - eps(size.dtype) ** 0.5) * jnp.max(size)
    return jnp.argmax(jnp.where(peak, rank, -jnp.inf))
