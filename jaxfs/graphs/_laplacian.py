"""The graph Laplacian, and its leading eigenvectors, which spectral methods take as labels.

An eigenvalue repeats where a graph has several components, once per component, and where it is
symmetric. LAPACK may return any basis of such an eigenspace; rounding, hence the order of the
samples, decides which. Here the data decide, so that permuted samples have permuted eigenvectors:

1. The basis of an eigenspace consists of the principal axes of the features: the eigenvectors of
   F Fᵀ compressed to the space, F the features, centred and of length one. The first axis explains
   the largest sum of squared correlations. An infinitesimal multiple of F Fᵀ added to the graph
   would choose the same basis.
2. Axes that explain the same, as on a ring, are found by pivots: the projection of the sample with
   the largest part in their space, then the next in the orthogonal complement, and so on.
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
#: Number of samples beyond which the affinity is not held in memory, and eigenvectors are iterated.
LARGE = 8192
#: Number of further eigenpairs examined, in case the last one wanted lies inside an eigenspace.
MORE = 8


def laplacian(weights: ArrayLike, kind: str = "unnormalized") -> Float[Array, "*b n n"]:
    """The Laplacian of a weighted graph.

    With degrees δ_i = Σ_j w_ij and Δ = diag(δ): Δ − W, Δ^-½ (Δ − W) Δ^-½ or Δ⁻¹ (Δ − W).

    **Arguments**

    - `weights`: W `(..., n, n)`, nonnegative, symmetric; the diagonal counts in the degrees.
    - `kind`: "unnormalized", "symmetric" or "random_walk"; static.

    **Returns** `(..., n, n)`.

    **Numerics** an isolated sample (degree 0) has a row and a column of zeros in all three, so the
    multiplicity of the eigenvalue 0 is the number of connected components, isolated samples and
    padding included. Diagonals are summed without the w_ii, so that large w_ii do not cancel. A
    negative degree gives NaN.

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

    The trivial pair, eigenvalue 0 and u_i ∝ √δ_i with δ the degrees, is left out, even if other
    eigenvalues are 0: every vector returned is orthogonal to it.

    **Arguments**

    - `affinity`: `(n, n)`, symmetric, nonnegative; the diagonal counts in the degrees.
    - `x`: `(n, p)`, the samples, which determine a basis where eigenvalues repeat.
    - `number`: static, k ≤ n − 1.
    - `present`: `(n,)`, false for samples that are padding, whose affinities are ignored.

    **Returns** eigenvalues `(k,)`, rising, in [0, 2], and unit eigenvectors `(n, k)`, 0 at padding.
    The entry of largest magnitude is positive.

    **Numerics** with m samples present, pairs beyond the first m − 1 are NaN. An affinity that is
    not finite makes all of them NaN. Eigenvalues have errors of a few eps. Permuted samples have
    permuted vectors, also where eigenvalues repeat.

    **Derivatives** none.

    **Cost** one `eigh` of size n; two if the last eigenvalue repeats beyond 8 more pairs.
    """
    pairs = present[:, None] & present[None, :]
    affinity = jnp.where(pairs, affinity, jnp.zeros_like(affinity))
    root = safe_sqrt(jnp.sum(affinity, axis=1))
    trivial = root / jnp.linalg.norm(root)
    # The wanted eigenvalues are 3 − λ ≥ 1, falling; the trivial pair and padding have 0.
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
    """`leading_eigenvectors` of the self-tuning affinity of any number of samples.

    **Numerics** exact up to `LARGE` samples. Beyond, subspace iteration to residuals of √eps, or
    for 100 rounds. If the last pair lies inside an eigenspace, only a part of the space is known,
    and its vectors depend on the order of the samples.

    **Cost** beyond `LARGE` samples, O(n² p) for each of some dozens of products, and the memory of
    a few rows.
    """
    if x.shape[0] <= LARGE:
        d2 = within(x, jnp.ones(x.shape[1], x.dtype), present)
        return leading_eigenvectors(self_tuning(num_neighbors, d2, present), x, number, present)
    return iterated_eigenvectors(x, num_neighbors, number, present)


def iterated_eigenvectors(x, num_neighbors: int, number: int, present: Bool[Array, "n"]):
    """The leading eigenpairs of 2 + D^-½ W D^-½ − 3 u uᵀ, u the trivial one; the others are ≥ 1."""
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
    join eigenvalues that the data distinguish; there it is a hundred times their rounding.
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

    `values` rise. If the last eigenspace extends beyond `MORE` further pairs, all `vectors` are
    used, which costs an `eigh` of their number. If it extends beyond those, the known part is
    treated as the whole space.
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
            # The last space comes first; all others count as one, whose basis is not used.
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
    """The first `number` vectors of the basis; `space`, rising, is the space of each column."""
    dtype = vectors.dtype
    same = space[:, None] == space[None, :]
    finite = jnp.all(jnp.isfinite(vectors))
    part = matmul(vectors.T, features)
    gram = jnp.where(same & finite, symmetrize(matmul(part, part.T)), 0)
    largest = jnp.max(jnp.sum(jnp.abs(gram), axis=1))
    gram = safe_divide(gram, jnp.broadcast_to(largest, gram.shape))
    # Explained parts are in [0, 1]; steps of 2 keep the spaces apart and in order.
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
    """`v` with columns of equal `ties` rotated, each towards the sample with the largest part."""
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
    """The index of the largest `size` to half of the digits; ties by the largest `rank`."""
    peak = size >= (1 - eps(size.dtype) ** 0.5) * jnp.max(size)
    return jnp.argmax(jnp.where(peak, rank, -jnp.inf))
