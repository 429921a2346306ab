"""Scores that use a graph of the samples: the Laplacian score, SPEC and MCFS.

All scores use the same graphs: a dense affinity matrix of heat-kernel or adaptive k-NN weights.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._checks import presence
from jaxfs._numerics import matmul, safe_divide, safe_sqrt, varied
from jaxfs._types import ArrayLike
from jaxfs.graphs import (
    adaptive_weights,
    dirichlet_energies,
    knn_adjacency,
    laplacian,
    nearest_neighbors,
)
from jaxfs.graphs._laplacian import leading_eigenvectors
from jaxfs.kernels import self_tuning_affinity, squared_distances
from jaxfs.kernels._distances import squarable
from jaxfs.surrogates import linear

#: Default number of neighbours for each kind of graph.
NEIGHBORS = {"heat": 2, "adaptive": 5}
#: Default number of features in each regression of MCFS.
_FEATURES_IN_MODEL = 50


def laplacian_score(
    x: ArrayLike,
    *,
    graph: str = "heat",
    num_neighbors: int | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "p"]:
    """Laplacian score: smoothness of each feature on a graph of the samples, 1 − ½ f̃ᵀLf̃ / f̃ᵀΔf̃.

    Δ holds the degrees of the graph W, and L = Δ − W. f̃ is the feature minus its mean weighted by
    the degrees. The quotient is the paper's score, in [0, 2], where smaller is better; here larger
    is better.

    **Arguments**

    - `x`: `(n, p)`, n ≥ 3.
    - `graph`: static. "heat": exp(−‖x_i − x_j‖² / σ_i σ_j), where σ_i is the distance to the
      neighbour of rank `num_neighbors` (2 by default). "adaptive": weights of
      `graphs.adaptive_weights` for the `num_neighbors` nearest samples (5 by default), averaged
      over both directions.
    - `num_neighbors`: static.
    - `mask`: `(n,)`, false or 0 for samples that are padding.

    **Returns** `(p,)`, in [0, 1]; 0 for a constant feature.

    **Numerics** the graph is built from the data as given: standardise features of different units.
    NaN in a sample present makes all scores NaN, because it affects the distances. A traced
    mask that leaves too few samples also gives NaN.

    **Derivatives** in `x`, also through the graph ("adaptive": with fixed lists of neighbours).

    **Cost** O(n² p).

    **Reference** He, Cai and Niyogi, *Laplacian score for feature selection*, 2005; SSFS, eq. 2.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [0.1, -1.0], [0.2, 1.0], [9.0, -1.0], [9.1, 1.0], [9.2, -1.0]])
    >>> laplacian_score(x).round(2).tolist()
    [1.0, 0.77]
    """
    x, present, graph, k = _arguments(x, graph, num_neighbors, mask, 3)
    return _spec_score(x, present, "phi2", 1, None, graph, k)


def spec_score(
    x: ArrayLike,
    *,
    ranking: str = "phi2",
    power: int = 1,
    num_eigenvectors: int | None = None,
    graph: str = "heat",
    num_neighbors: int | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "p"]:
    """SPEC score: smoothness of each feature on a graph of the samples, by its eigenvectors.

    Let λ_j, ξ_j be the eigenpairs of the symmetric normalised Laplacian 𝓛, 0 = λ_1 ≤ λ_2 ≤ …, and
    f̂ = Δ^½ f / ‖Δ^½ f‖, α_j = f̂ᵀξ_j. The paper defines, with γ(λ) = λ^power,

        φ₁ = f̂ᵀ γ(𝓛) f̂ = Σ_j γ(λ_j) α_j²        φ₂ = φ₁ / (1 − α_1²)
        φ₃ = Σ_{j = 2 … k} (γ(2) − γ(λ_j)) α_j²

    Smaller is better for φ₁ and φ₂, larger for φ₃. Here larger is always better: the score is
    1 − φ₁/γ(2), 1 − φ₂/γ(2) or φ₃/γ(2). With power 1, 1 − ½φ₂ is `laplacian_score`.

    **Arguments**

    - `x`: `(n, p)`, n ≥ 3.
    - `ranking`: static, "phi1", "phi2" or "phi3". Only φ₂ does not depend on the mean of a feature.
    - `power`: static, at least 1; a larger power penalises nearly smooth features less.
    - `num_eigenvectors`: static, the k of φ₃, in [2, n], including the trivial ξ_1; use the
      number of clusters. Required for "phi3", an error otherwise.
    - `graph`, `num_neighbors`, `mask`: as in `laplacian_score`.

    **Returns** `(p,)`, in [0, 1]; 0 for a constant feature, which φ₁ would otherwise rank first.

    **Numerics** as in `laplacian_score`. γ(𝓛) f̂ is computed by repeated products. φ₃ needs one
    `eigh`, and is NaN if fewer than k samples are present.

    **Derivatives** φ₁ and φ₂ are differentiable in `x`, also through the graph; φ₃ is treated as
    constant.

    **Cost** O(n² p power); for φ₃ O(n² p + n³).

    **Reference** Zhao and Liu, *Spectral feature selection for supervised and unsupervised
    learning*, 2007, section 4.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [0.1, -1.0], [0.2, 1.0], [9.0, -1.0], [9.1, 1.0], [9.2, -1.0]])
    >>> spec_score(x, ranking="phi3", num_eigenvectors=2).round(2).tolist()
    [0.49, 0.21]
    """
    x, present, graph, k = _arguments(x, graph, num_neighbors, mask, 3)
    _checks.option(ranking, "ranking", ("phi1", "phi2", "phi3"))
    power = _checks.integer(power, "power", low=1)
    if (num_eigenvectors is None) == (ranking == "phi3"):
        expected = 'given exactly if ranking="phi3"'
        raise _checks.fail("num_eigenvectors", expected, num_eigenvectors)
    if num_eigenvectors is not None:
        _checks.integer(num_eigenvectors, "num_eigenvectors", low=2, high=x.shape[0])
    return _spec_score(x, present, ranking, power, num_eigenvectors, graph, k)


def mcfs_score(
    x: ArrayLike,
    *,
    num_clusters: int,
    num_nonzero: int | None = None,
    graph: str = "heat",
    num_neighbors: int | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "p"]:
    """Multi-cluster feature selection (MCFS): max_i |β_im| over sparse regressions β_i.

    The targets v_i are the first non-trivial solutions of L v = λ Δ v, of unit length. Each
    target is regressed on the features by least angle regression with the lasso's rule, up to
    `num_nonzero` features.

    **Arguments**

    - `x`: `(n, p)`, n ≥ 4.
    - `num_clusters`: static, the number of eigenvectors; at most n − 1.
    - `num_nonzero`: static, the number of features that each regression may use, by default 50; use
      the number that you want to select. The other features score 0.
    - `graph`, `num_neighbors`, `mask`: as in `laplacian_score`.

    **Returns** `(p,)`, nonnegative.

    **Numerics** as in `surrogates.linear.lars`: constant features and later duplicates score 0.
    Features are not scaled: standardise those of different units. NaN in a sample present makes all
    scores NaN.

    **Derivatives** none: the scores are treated as constants.

    **Cost** O(n² p + n³), and O(np) for each feature that enters a regression.

    **Reference** Cai, Zhang and He, *Unsupervised feature selection for multi-cluster data*, 2010;
    SSFS, section 2.1 and appendix F.3 (absolute coefficients; one implementation omits the absolute
    value).

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (40, 4)).at[:20, 2].add(8.0)
    >>> int(jnp.argmax(mcfs_score(x, num_clusters=1)))
    2
    """
    x, present, graph, k = _arguments(x, graph, num_neighbors, mask, 4)
    number = _checks.integer(num_clusters, "num_clusters", low=1, high=x.shape[0] - 1)
    if mask is not None and not _checks.is_traced(present) and int(jnp.sum(present)) <= number:
        expected = f"true for more than num_clusters = {number} samples"
        raise _checks.fail("mask", expected, int(jnp.sum(present)))
    nonzero = _FEATURES_IN_MODEL if num_nonzero is None else num_nonzero
    nonzero = _checks.integer(nonzero, "num_nonzero", low=1)
    return _mcfs_score(lax.stop_gradient(x), present, number, nonzero, graph, k)


def _arguments(x, graph: str, num_neighbors: int | None, mask, least: int):
    x = _checks.real(x, "x", ndim=2)
    n = x.shape[0]
    if n < least or x.shape[1] < 1:
        expected = f"(n, p) with n ≥ {least} samples and p ≥ 1 features"
        raise _checks.fail("x", expected, f"{x.shape}")
    _checks.option(graph, "graph", tuple(NEIGHBORS))
    k = min(NEIGHBORS[graph], n - 2) if num_neighbors is None else num_neighbors
    k = _checks.integer(k, "num_neighbors", low=1, high=n - min_samples(graph, 0))
    present = np.ones(n, bool) if mask is None else presence(mask, n)
    if mask is not None and not _checks.is_traced(present):
        there, least = int(jnp.sum(present)), min_samples(graph, k)
        if there < least:
            raise _checks.fail("mask", f"true for at least {least} samples", there)
    return x, present, graph, k


def min_samples(graph: str, k: int) -> int:
    """Number of samples needed for k neighbours; adaptive weights need one more neighbour."""
    return k + 1 if graph == "heat" else k + 2


def _affinity(
    x: Float[Array, "n p"], present: Bool[Array, "n"], graph: str, k: int
) -> Float[Array, "n n"]:
    if graph == "heat":
        return self_tuning_affinity(squared_distances(x, mask=present), k, mask=present)
    near = nearest_neighbors(x, k + 1, mask=present)
    w = knn_adjacency(near.indices[:, :k], adaptive_weights(near.squared_distances))
    return jnp.where(jnp.sum(present) >= min_samples(graph, k), w, jnp.nan)


@functools.partial(jax.jit, static_argnames=("ranking", "power", "num_eigenvectors", "graph", "k"))
def _spec_score(x, present, ranking: str, power: int, num_eigenvectors: int | None, graph, k: int):
    x = jnp.where(present[:, None], x, jnp.zeros_like(x))
    if num_eigenvectors is not None:
        x = lax.stop_gradient(x)
    w = _affinity(x, present, graph, k)
    w = jnp.where(present[:, None] & present[None, :], w, jnp.zeros_like(w))
    degree = jnp.sum(w, axis=1)[:, None]
    away, mean = x, jnp.zeros_like(x[0])  # f̃, and the mean weighted by the degrees
    for _ in range(2):  # the second pass removes the rounding error of a large mean
        shift = jnp.sum(degree * away, axis=0) / jnp.sum(degree)
        away, mean = away - shift[None], mean + shift
    spread = jnp.sum(degree * away**2, axis=0)  # f̃ᵀΔf̃
    norm = spread if ranking == "phi2" else spread + jnp.sum(degree) * mean**2
    # 𝓛 Δ^½ removes constants, so Δ^½ f̃ can replace Δ^½ f.
    u = safe_sqrt(degree) * away
    if num_eigenvectors is not None:
        eigenvalues, vectors = leading_eigenvectors(w, x, num_eigenvectors - 1, present)
        share = (1 - (eigenvalues / 2) ** power)[:, None] * matmul(vectors.T, u) ** 2
        score = safe_divide(jnp.sum(share, axis=0), norm)
    else:
        if power == 1:
            energy = dirichlet_energies(away, w)
        else:
            # The energy is u_aᵀ u_a or u_aᵀ 𝓛 u_a with u_a = 𝓛^a Δ^½ f̃: half the powers are enough.
            matrix = laplacian(w, "symmetric")
            for _ in range(power // 2):
                u = matmul(matrix, u)
            energy = jnp.sum(u * (matmul(matrix, u) if power % 2 else u), axis=0)
        score = 1 - safe_divide(energy, norm) / 2**power
    known = jnp.all(squarable(x)) & jnp.all(jnp.isfinite(degree))
    constant = ~varied(x, present) | (spread == 0)
    return jnp.where(known, jnp.where(constant, 0, score), jnp.nan)


@functools.partial(jax.jit, static_argnames=("number", "num_nonzero", "graph", "k"))
def _mcfs_score(x, present, number: int, num_nonzero: int, graph: str, k: int):
    x = jnp.where(present[:, None], x, jnp.zeros_like(x))
    w = _affinity(x, present, graph, k)
    _, u = leading_eigenvectors(w, x, number, present)
    root = safe_sqrt(jnp.sum(jnp.where(present[None], w, jnp.zeros_like(w)), axis=1))
    v = safe_divide(u, jnp.broadcast_to(root[:, None], u.shape))
    v = safe_divide(v, jnp.broadcast_to(jnp.linalg.norm(v, axis=0), v.shape))
    beta = linear.lars(x, v, num_nonzero, weights=present).coefficients
    return jnp.max(jnp.abs(beta), axis=0)
