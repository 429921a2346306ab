"""Symmetric positive semi-definite matrices of fixed rank k: a subspace and a small SPD matrix.

A matrix a = G P Gᵀ has an orthonormal basis G `(..., d, k)` and a positive definite core P
`(..., k, k)` (the structure-space representation). G is a point of the Grassmann manifold, and P is
a point of the SPD manifold; P depends on the choice of G. Before two such matrices are compared,
the second basis is rotated towards the first: with Q = polar(G₁ᵀG₂), the pair (G₂Qᵀ, Q P₂ Qᵀ)
represents the same matrix. The bases and the cores are then compared on their own manifolds. After
`factor`, only k × k matrices are decomposed.

A numerical rank smaller than k does not change shapes: the absent columns of G are zero, and the
absent block of P is the identity. The logarithm of the identity is 0, and its powers are the
identity. All points in one call are first reduced to the smallest rank among them.

All functions are batched with batch axes that broadcast, and keep the dtype (float32 or float64).
They have exact first derivatives in both modes, along directions that keep the rank. This holds
for every result that does not depend on the choice of basis. Non-finite entries give NaN.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, symmetrize
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import _karcher, grassmann, spd
from jaxfs.geometry._karcher import KarcherMean
from jaxfs.linalg import _frechet, leading_eigenspace
from jaxfs.linalg._divided_differences import ABS
from jaxfs.linalg._lapack import sandwich
from jaxfs.linalg._matrix_functions import leading_part

__all__ = [
    "KarcherMean",
    "SPSD",
    "Tangent",
    "absm_diagonal",
    "difference",
    "factor",
    "geodesic",
    "inner",
    "log",
    "mean",
    "rank",
    "to_matrix",
]


class SPSD(NamedTuple):
    """The matrix `basis @ core @ basis.T`, of rank at most k.

    - `basis`: `(..., d, k)`; the columns up to the rank are orthonormal, the others are zero.
    - `core`: `(..., k, k)`, positive definite; the identity on the absent columns.
    """

    basis: Float[Array, "*b d k"]
    core: Float[Array, "*b k k"]


class Tangent(NamedTuple):
    """The symmetric matrix `basis @ core @ basis.T`; its eigenvalues may have any sign.

    - `basis`: `(..., d, k)`, as in `SPSD`.
    - `core`: `(..., k, k)`, symmetric; 0 on the absent columns.
    """

    basis: Float[Array, "*b d k"]
    core: Float[Array, "*b k k"]


def factor(a: ArrayLike, k: int) -> SPSD:
    """Return the leading part of rank k of a positive semi-definite matrix.

    **Arguments**

    - `a`: `(..., d, d)`.
    - `k`: static, 1 ≤ k ≤ d.

    **Returns** an `SPSD`: the basis holds the k leading eigenvectors, and the core is the diagonal
    matrix of their eigenvalues, in descending order.

    **Numerics** an eigenvalue that is negative or ≤ d·eps·max(eigenvalues) counts as absent.

    **Derivatives** of first order in `a`. The derivatives of `to_matrix(factor(a, k))` are exact if
    eigenvalues k and k+1 differ, or along directions that keep a rank ≤ k.

    **Reference** appendix A.2 of Cohen et al., *Few-sample feature selection via feature manifold
    learning* (ManiFeSt), ICML 2023.

    >>> import jax.numpy as jnp
    >>> point = factor(jnp.diag(jnp.array([1.0, 0.0, 4.0])), 3)
    >>> point.core.tolist()
    [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> int(rank(point))
    2
    """
    a = _checks.square(a, "a")
    point = SPSD(*leading_eigenspace(a, k))
    w = jnp.linalg.diagonal(point.core)
    noise = w <= a.shape[-1] * eps(a.dtype) * w[..., :1]  # false for NaN, so that NaN is kept
    return _truncate(point, jnp.sum(~noise, axis=-1))


def to_matrix(point: SPSD | Tangent) -> Float[Array, "*b d d"]:
    """The matrix G P Gᵀ of a point.

    >>> import jax.numpy as jnp
    >>> to_matrix(factor(jnp.diag(jnp.array([1.0, 2.0, 4.0])), 2)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]
    """
    g, p = _point(point, "point", (SPSD, Tangent))
    return symmetrize(sandwich(g, p))


def rank(point: SPSD) -> Int[Array, "*b"]:
    """The rank of a point: the number of columns of the basis that are not zero."""
    return jnp.sum(grassmann.present(_point(point, "point").basis), axis=-1)


def inner(
    point: SPSD,
    delta1: ArrayLike,
    s1: ArrayLike,
    delta2: ArrayLike,
    s2: ArrayLike,
    *,
    weight: Scalar = 1.0,
) -> Float[Array, "*b"]:
    """The inner product of two tangent vectors (Δ₁, S₁) and (Δ₂, S₂) at the point (G, P).

    tr(Δ₁ᵀ Δ₂) + m tr(P⁻¹ S₁ P⁻¹ S₂): the sum of the inner products on the Grassmann manifold and on
    the positive definite matrices.

    **Arguments**

    - `point`: basis G and core P.
    - `delta1`, `delta2`: `(..., d, k)`, tangent at G, that is Gᵀ Δ = 0, as `grassmann.log` returns;
      not checked.
    - `s1`, `s2`: `(..., k, k)`, symmetric.
    - `weight`: the factor m > 0 of the second part.

    **Returns** `(...)`. The value does not depend on the choice of the basis: (G O, Oᵀ P O) with
    (Δ O, Oᵀ S O) gives the same for any orthogonal O.

    **Reference** eq. (11) of ManiFeSt.

    >>> import jax.numpy as jnp
    >>> point = factor(jnp.diag(jnp.array([2.0, 0.0])), 1)
    >>> delta, s = jnp.array([[0.0], [3.0]]), jnp.array([[1.0]])
    >>> float(inner(point, delta, s, delta, s, weight=4.0))
    10.0
    """
    g, p = _point(point, "point")
    delta1, delta2 = _checks.matrices(delta1, "delta1"), _checks.matrices(delta2, "delta2")
    _, delta1, delta2 = _checks.broadcast("basis, delta1 and delta2", g, delta1, delta2)
    _checks.number(weight, "weight", low=0, open_low=True)
    cores = spd.inner(p, s1, s2)
    return jnp.sum(delta1 * delta2, axis=(-2, -1)) + jnp.asarray(weight, cores.dtype) * cores


def geodesic(a: SPSD, b: SPSD, t: Scalar | ArrayLike) -> SPSD:
    """The point at `t` on the curve from `a` (t = 0) to `b` (t = 1).

    γ_G(t) γ_P(t) γ_G(t)ᵀ, with γ_G the Grassmann geodesic from G₁ to G₂ and γ_P the SPD geodesic
    from P₁ to Q P₂ Qᵀ. This curve approximates the geodesic, which has no closed form.

    **Arguments**

    - `a`, `b`: of the same d and k. Both are reduced to the smaller of their ranks.
    - `t`: in [0, 1]: a number, or an array that broadcasts with the batch axes. May be traced.

    **Derivatives** of first order in `a`, `b` and `t`.

    **Reference** eq. (12) of ManiFeSt (eq. (13), the mean operator, for t = ½); S. Bonnabel,
    R. Sepulchre, *Riemannian metric and geometric mean for positive semidefinite matrices of fixed
    rank*, SIMAX 31 (2010).

    >>> import jax.numpy as jnp
    >>> a = factor(jnp.diag(jnp.array([1.0, 0.0])), 1)
    >>> b = factor(jnp.diag(jnp.array([0.0, 4.0])), 1)
    >>> jnp.abs(to_matrix(geodesic(a, b, 0.5))).round(4).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    a, b = _same_rank(a, b)
    basis = grassmann.geodesic(a.basis, b.basis, t)
    return SPSD(basis, spd.geodesic(a.core, _turn(b, a.basis).core, t))


def log(a: SPSD, b: SPSD) -> Tangent:
    """The difference operator from `a` to `b`: the SPD logarithm of the cores, in the basis of `b`.

    The result is H Log_P₁(Q P₂ Qᵀ) Hᵀ with H = G₂ Qᵀ = γ_G(1).

    **Arguments**

    - `a`: the base point, often a mean.
    - `b`: of the same d and k. Both are reduced to the smaller of their ranks.

    **Returns** a symmetric matrix whose range is within the range of `b`, as a `Tangent`.

    **Derivatives** of first order in `a` and `b`.

    **Reference** eq. (14) of ManiFeSt.
    """
    a, b = _same_rank(a, b)
    h, p = _turn(b, a.basis)
    return Tangent(h, spd.log(a.core, p))


def difference(a: SPSD, b: SPSD, t: Scalar | ArrayLike = 0.5) -> Tangent:
    """`spd.difference` of the cores, in the basis of `a`: G₁ [½(Log_M P₁ − Log_M Q P₂ Qᵀ)] G₁ᵀ.

    **Arguments**

    - `a`, `b`: of the same d and k. Both are reduced to the smaller of their ranks.
    - `t`: in [0, 1]: a number, or an array that broadcasts with the batch axes. May be traced.

    **Returns** a symmetric matrix whose range is within the range of `a`, as a `Tangent`. At t = ½
    the result equals `log(geodesic(a, b, 0.5), a)`, but needs one k × k decomposition less.

    **Derivatives** of first order in `a`, `b` and `t`.

    **Reference** eqs. (13) and (14) of ManiFeSt, t = ½.
    """
    a, b = _same_rank(a, b)
    return Tangent(a.basis, spd.difference(a.core, _turn(b, a.basis).core, t))


def absm_diagonal(s: Tangent) -> Float[Array, "*b d"]:
    """The diagonal of |G S Gᵀ|, by one k × k decomposition; derivatives as in `linalg.absm`."""
    g, core = _point(s, "s", (SPSD, Tangent))
    return jnp.sum(matmul(g, _frechet.matrix_function(ABS, core)) * g, axis=-1)


def mean(
    points: SPSD, weights: ArrayLike | None = None, *, max_iterations: int = 200
) -> KarcherMean[SPSD]:
    """The mean of many matrices: the mean of the subspaces, and the mean of the rotated cores.

    The basis G is the Grassmann mean of the Gᵢ. The core P is the SPD mean of Qᵢ Pᵢ Qᵢᵀ, where
    Qᵢ = polar(Gᵀ Gᵢ) rotates each basis towards G.

    **Arguments**

    - `points`: bases `(..., m, d, k)` and cores `(..., m, k, k)`; all are reduced to the smallest
      rank among the points with positive weight.
    - `weights`: `(m,)`, nonnegative, normalised to sum 1; equal by default. A point of weight zero
      is ignored, even if it contains NaN.
    - `max_iterations`: static; the maximum for each of the two means.

    **Returns** a `KarcherMean` whose `mean` is an `SPSD`. `converged` is True if both means have
    converged; `iterations` is the sum over both means, and `residual` is the larger residual. For
    two points of equal weight the mean is `geodesic(a, b, 0.5)`, eq. (13) of ManiFeSt.

    **Derivatives** of first order in `points` and `weights`; see `grassmann.mean`.

    **Reference** O. Yair, A. Lahav, R. Talmon, *Symmetric positive semi-definite Riemannian
    geometry with application to domain adaptation*, arXiv:2007.14272 (2020).
    """
    points = _point(points, "points")
    if points.basis.ndim < 3 or points.basis.shape[-3] == 0:
        expected = "of bases of shape (..., m, d, k) with m > 0"
        raise _checks.fail("points", expected, f"shape {points.basis.shape}")
    w = _karcher.mean_weights(weights, points.basis)
    points = _silence(points, w)
    ranks = jnp.where(w == 0, points.core.shape[-1], rank(points))
    smallest = jnp.min(ranks, axis=-1, keepdims=True)
    points = _truncate(points, jnp.broadcast_to(smallest, ranks.shape))
    g = grassmann.mean(points.basis, weights, max_iterations=max_iterations)
    target = jnp.broadcast_to(g.mean[..., None, :, :], points.basis.shape)
    p = spd.mean(_turn(points, target).core, weights, max_iterations=max_iterations)
    return KarcherMean(
        SPSD(g.mean, p.mean),
        g.converged & p.converged,
        g.iterations + p.iterations,
        jnp.maximum(g.residual, p.residual),
    )


def _point(x: SPSD | Tangent, name: str, kinds: tuple[type, ...] = (SPSD,)) -> SPSD:
    if not isinstance(x, kinds):
        raise _checks.fail(name, "an SPSD, as `factor` makes them", type(x).__name__)
    g, p = _checks.matrices(x.basis, f"{name}.basis"), _checks.square(x.core, f"{name}.core")
    if g.shape[-2] < g.shape[-1] or p.shape != (*g.shape[:-2], g.shape[-1], g.shape[-1]):
        expected = "a basis (..., d, k), d ≥ k, with a core (..., k, k)"
        raise _checks.fail(name, expected, f"shapes {g.shape} and {p.shape}")
    _checks.alike(g, p, name, axes=slice(0))
    return SPSD(g, p)


def _turn(point: SPSD, g: Float[Array, "*b d k"]) -> SPSD:
    """Return the same matrix, represented in the basis of its range that is nearest to `g`."""
    q = grassmann.rotation(g, point.basis)
    return SPSD(matmul(point.basis, q.mT), symmetrize(sandwich(q, point.core)))


def _same_rank(a: SPSD, b: SPSD) -> tuple[SPSD, SPSD]:
    a, b = _point(a, "a"), _point(b, "b")
    factors = (_checks.broadcast("a and b", *pair) for pair in zip(a, b, strict=True))
    a, b = (SPSD(*point) for point in zip(*factors, strict=True))
    smallest = jnp.minimum(rank(a), rank(b))
    return _truncate(a, smallest), _truncate(b, smallest)


def _silence(points: SPSD, w: Float[Array, "*b m"]) -> SPSD:
    """Return `points` with each non-finite point of weight 0 replaced, because 0 · NaN is NaN."""
    finite = [jnp.all(jnp.isfinite(x), axis=(-2, -1)) for x in points]
    keep = ((w != 0) | (finite[0] & finite[1]))[..., None, None]
    d, k = points.basis.shape[-2:]
    eyes = (jnp.broadcast_to(jnp.eye(d, k, dtype=w.dtype)[: x.shape[-2]], x.shape) for x in points)
    return SPSD(*(jnp.where(keep, x, eye) for x, eye in zip(points, eyes, strict=True)))


def _truncate(point: SPSD, to_rank: Int[Array, "*b"]) -> SPSD:
    """Return the leading part of rank `to_rank`, in the eigenbasis of the core."""
    g, p = point
    there = grassmann.present(g)
    both = there[..., :, None] & there[..., None, :]
    p = jnp.where(both, symmetrize(p), 0.0)  # so that absent columns come last
    k = g.shape[-1]
    keep = jnp.broadcast_to(jnp.arange(k), (*to_rank.shape, k)) < to_rank[..., None]
    v, core = leading_part(p, k, keep)
    return SPSD(matmul(g, v), core + _karcher.identity_on(~keep, p.dtype))
