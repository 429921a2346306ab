"""The first eigenvectors of a graph, which spectral methods take for labels of its samples."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import safe_sqrt
from jaxfs.graphs import laplacian
from jaxfs.linalg import dominant_eigenpairs


def leading_eigenvectors(
    affinity: Float[Array, "n n"], number: int, present: Bool[Array, "n"]
) -> tuple[Float[Array, "k"], Float[Array, "n k"]]:
    """The smallest eigenvalues of the symmetric normalised Laplacian, and their eigenvectors.

    The trivial pair, eigenvalue 0 and u_i ∝ √δ_i with δ the degrees, is left out, also where other
    eigenvalues are 0: every vector returned is orthogonal to it.

    **Arguments**

    - `affinity`: `(n, n)`, symmetric, nonnegative; loops count in the degrees.
    - `number`: static, k ≤ n − 1.
    - `present`: `(n,)`, false for samples that are padding, whose affinities are not looked at.

    **Returns** eigenvalues `(k,)`, rising, in [0, 2], and unit eigenvectors `(n, k)`, 0 at padding.
    The entry of largest magnitude is positive, the first of them at ties.

    **Numerics** pairs beyond the samples present less one are NaN; an affinity that is not finite
    makes all NaN. Eigenvalues are good to a few eps; vectors of a repeated one are some basis.

    **Derivatives** none: constants.

    **Cost** one `eigh` of size n.
    """
    pairs = present[:, None] & present[None, :]
    affinity = jnp.where(pairs, affinity, jnp.zeros_like(affinity))
    root = safe_sqrt(jnp.sum(affinity, axis=1))
    trivial = root / jnp.linalg.norm(root)
    # 3 − λ ≥ 1 comes first from the largest; what is not wanted has 0, below all that is.
    identity = jnp.diag(present.astype(affinity.dtype))
    rest = identity - trivial[:, None] * trivial[None, :]
    w, u = dominant_eigenpairs(3 * rest - laplacian(affinity, "symmetric"), number)
    known = jnp.arange(number) < jnp.sum(present) - 1
    w, u = jnp.where(known, w, jnp.nan), jnp.where(known[None], u, jnp.nan)
    return jnp.clip(3 - w, 0, 2), jnp.where(present[:, None], u, jnp.zeros_like(u))
