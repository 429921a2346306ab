"""The first eigenvectors of a graph, which spectral methods take for labels of its samples."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import safe_sqrt
from jaxfs.graphs._eigenspaces import settled
from jaxfs.graphs._neighbors import laplacian
from jaxfs.kernels import self_tuning_affinity, squared_distances
from jaxfs.kernels._self_tuning import rows_of_affinity
from jaxfs.linalg import dominant_eigenpairs, leading_eigenpairs

#: Beyond so many samples the affinity is not held, and its leading eigenvectors are iterated.
LARGE = 8192


def leading_eigenvectors(
    affinity: Float[Array, "n n"], x: Float[Array, "n p"], number: int, present: Bool[Array, "n"]
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """The smallest eigenvalues of the symmetric normalised Laplacian, and their eigenvectors.

    The trivial pair, eigenvalue 0 and u_i ∝ √δ_i with δ the degrees, is left out, also where other
    eigenvalues are 0: every vector returned is orthogonal to it.

    **Arguments**

    - `affinity`: `(n, n)`, symmetric, nonnegative; loops count in the degrees.
    - `x`: `(n, p)`, the samples, which fix a basis where eigenvalues repeat (`_eigenspaces`).
    - `number`: static, k ≤ n − 1.
    - `present`: `(n,)`, false for samples that are padding, whose affinities are not looked at.

    **Returns** eigenvalues `(k,)`, rising, in [0, 2], and unit eigenvectors `(n, k)`, 0 at padding.
    The entry of largest magnitude is positive.

    **Numerics** pairs beyond the samples present less one are NaN; an affinity that is not finite
    makes all NaN. Eigenvalues are good to a few eps. Permuted samples have permuted vectors, also
    where eigenvalues repeat.

    **Derivatives** none: constants.

    **Cost** one `eigh` of size n; two where the last eigenvalue repeats beyond 8 more pairs.
    """
    pairs = present[:, None] & present[None, :]
    affinity = jnp.where(pairs, affinity, jnp.zeros_like(affinity))
    root = safe_sqrt(jnp.sum(affinity, axis=1))
    trivial = root / jnp.linalg.norm(root)
    # 3 − λ ≥ 1 comes first from the largest; what is not wanted has 0, below all that is.
    identity = jnp.diag(present.astype(affinity.dtype))
    rest = identity - trivial[:, None] * trivial[None, :]
    matrix = 3 * rest - laplacian(affinity, "symmetric")
    w, u = dominant_eigenpairs(matrix, matrix.shape[0])
    return _known(w[:number], settled(3 - w, u, x, present, number), present)


def _known(w: Float[Array, "k"], u: Float[Array, "n k"], present: Bool[Array, "n"]):
    """3 − w, and `u` with 0 at padding; NaN beyond the samples present less one."""
    known = jnp.arange(w.shape[0]) < jnp.sum(present) - 1
    w, u = jnp.where(known, w, jnp.nan), jnp.where(known[None], u, jnp.nan)
    return jnp.clip(3 - w, 0, 2), jnp.where(present[:, None], u, jnp.zeros_like(u))


def sample_eigenvectors(
    x: Float[Array, "n p"], num_neighbors: int, number: int, present: Bool[Array, "n"]
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """`leading_eigenvectors` of the self-tuning affinity of samples, however many they are.

    **Numerics** up to `LARGE` samples exact. Beyond, subspace iteration to residuals of √eps, or as
    they are after 100 rounds; an eigenspace that the last pair cuts is known in part only, and its
    vectors then depend on the order of the samples.

    **Cost** beyond, O(n² p) for each of some dozens of products, and memory for some rows.
    """
    if x.shape[0] <= LARGE:
        distances = squared_distances(x, mask=present)
        affinity = self_tuning_affinity(distances, num_neighbors, mask=present)
        return leading_eigenvectors(affinity, x, number, present)
    return iterated_eigenvectors(x, num_neighbors, number, present)


def iterated_eigenvectors(x, num_neighbors: int, number: int, present: Bool[Array, "n"]):
    """The eigenpairs of 2 + D^-½ W D^-½ − 3 u uᵀ, u the trivial one: then all others are ≥ 1."""
    affinity = rows_of_affinity(x, num_neighbors, present)
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
