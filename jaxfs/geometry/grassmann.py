"""The Grassmann manifold: k-dimensional subspaces of ℝᵈ, as orthonormal bases `(..., d, k)`.

A subspace has many bases. The formulas of the literature choose a basis by a singular value
decomposition, which has no derivative where principal angles coincide. Here a polar factor rotates
the second basis towards the first, and all further steps are functions of a symmetric matrix:

    H = G₂ Qᵀ,  Q = polar(G₁ᵀ G₂),   D = H − G₁,   U = ¼ DᵀD = sin²(½Θ),   G₁ᵀ H = cos Θ = I − 2U.

U is accurate for tiny angles, where the arc cosine of G₁ᵀG₂ has lost half of its digits. All
functions of the angles below are analytic in U at U = 0, so no pseudo-inverse of sin Θ is needed.
The literature needs the pseudo-inverse only to compute singular vectors.

All functions are batched with batch axes that broadcast, and keep the dtype (float32 or float64).
They have exact derivatives in both modes, also at equal and at zero angles, along directions that
keep the bases orthonormal. Orthonormality itself is not checked. At a principal angle of π/2 the
shortest curve is not unique, and the functions use one of the shortest curves. Non-finite entries
give NaN.

A subspace of smaller dimension keeps the shape `(..., d, k)`: its trailing columns are zero and
count as absent. Absent columns stay zero. Two bases in one call must have the same absent columns.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._numerics import eps, matmul
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import _karcher
from jaxfs.geometry._karcher import KarcherMean
from jaxfs.linalg import _frechet, _lapack
from jaxfs.linalg._frechet import SpectralFunction, singular_values
from jaxfs.linalg._matrix_functions import polar_factor

__all__ = ["KarcherMean", "distance", "exp", "geodesic", "log", "mean", "principal_angles"]


def principal_angles(g1: ArrayLike, g2: ArrayLike) -> Float[Array, "*b k"]:
    """The principal angles between two subspaces, ascending, in [0, π/2].

    **Arguments**

    - `g1`, `g2`: `(..., d, k)`, orthonormal columns.

    **Numerics** the cosines are the singular values of G₁ᵀG₂, and the sines are the singular values
    of (I − G₁G₁ᵀ)G₂. Each angle is computed from its cosine if the angle is above π/4, and from its
    sine otherwise. Tiny angles are therefore as accurate as large angles.

    **Derivatives** of first order, for angles that are simple and not 0 or π/2; `distance` has
    derivatives at all angles.

    **Reference** Å. Björck, G. Golub, *Numerical methods for computing angles between linear
    subspaces*, Math. Comp. 27 (1973).

    >>> import jax.numpy as jnp
    >>> principal_angles(jnp.eye(3)[:, :2], jnp.eye(3)[:, 1:]).round(4).tolist()
    [0.0, 1.5708]
    """
    g1, g2 = _same_shape(g1=g1, g2=g2)
    c = matmul(g1.mT, g2)
    cosine, sine = singular_values(c), singular_values(g2 - matmul(g1, c))[..., ::-1]
    wide = cosine * cosine < 0.5
    # The unused branch gets the argument 0: arccos and arcsin have no derivative at 1.
    from_cosine = jnp.arccos(jnp.where(wide, cosine, jnp.zeros_like(cosine)))
    from_sine = jnp.arcsin(jnp.where(wide, jnp.zeros_like(sine), sine))
    return jnp.where(wide, from_cosine, from_sine)


def distance(g1: ArrayLike, g2: ArrayLike) -> Float[Array, "*b"]:
    """The length of the geodesic between two subspaces: ‖Θ‖, where Θ are the principal angles.

    **Arguments**

    - `g1`, `g2`: `(..., d, k)`, orthonormal columns.

    **Numerics** distances ≤ 2(d + k)·eps, the rounding error at 0, are 0.

    **Derivatives** in `g1` and `g2`, exact also at equal angles. At equal subspaces the distance
    has a kink, and its derivative is set to 0. The first derivative of the squared distance is then
    exact.

    >>> import jax.numpy as jnp
    >>> round(float(distance(jnp.eye(3)[:, :2], jnp.eye(3)[:, 1:])), 4)
    1.5708
    """
    g1, g2 = _same_shape(g1=g1, g2=g2)
    return _karcher.norm(_log(g1, g2), noise=2 * sum(g1.shape[-2:]) * eps(g1.dtype))


def geodesic(g1: ArrayLike, g2: ArrayLike, t: Scalar | ArrayLike) -> Float[Array, "*b d k"]:
    """The point at `t` on the geodesic from `g1` (t = 0) to the subspace of `g2` (t = 1).

    The point is G₁ cos(tΘ) + X sin(tΘ), where X sin Θ = H − G₁ cos Θ is the part of H orthogonal to
    G₁.

    **Arguments**

    - `g1`, `g2`: `(..., d, k)`, orthonormal columns.
    - `t`: in [0, 1]: a number, or an array that broadcasts with the batch axes. May be traced.

    **Returns** an orthonormal basis. At t = 0 the basis is `g1` itself; at t = 1 it is H = g2 Qᵀ,
    which has the span of `g2`. The paper's formula also rotates this basis inside its span, by O₁.

    **Derivatives** in `g1`, `g2` and `t`, to second order.

    **Reference** eq. (10) of Cohen et al., *Few-sample feature selection via feature manifold
    learning* (ManiFeSt), ICML 2023.

    >>> import jax.numpy as jnp
    >>> geodesic(jnp.eye(2)[:, :1], jnp.eye(2)[:, 1:], 0.5).round(4).tolist()
    [[0.7071...], [0.7071...]]
    """
    t, g1, g2 = _checks.along(t, *_same_shape(g1=g1, g2=g2))
    x, u = _offset(g1, g2)
    w, v = _lapack.eigh(u)
    cosine, sine = (_frechet.apply(f, u, w, v, t) for f in (_COS_T, _SIN_T))
    return matmul(g1, cosine) + matmul(x, sine)


def exp(g: ArrayLike, delta: ArrayLike) -> Float[Array, "*b d k"]:
    """The point reached from `g` in unit time along the geodesic with initial velocity `delta`.

    G cos √S + Δ S^-½ sin √S,  S = ΔᵀΔ.

    **Arguments**

    - `g`: `(..., d, k)`, orthonormal columns.
    - `delta`: `(..., d, k)`, a tangent vector: gᵀ delta = 0.

    **Returns** an orthonormal basis `(..., d, k)`.

    **Derivatives** in `g` and `delta`, to second order, with relative error eps·cosh ‖Δ‖₂. (The
    geodesic is shortest only for ‖Δ‖₂ ≤ π/2, where the error is at most 2.5 eps.)
    """
    return _exp(*_same_shape(g=g, delta=delta))[0]


def _exp(g: Float[Array, "*b d k"], delta: Float[Array, "*b d k"]) -> tuple[Array, Array]:
    """Return the point, and the velocity at that point: Δ transported along the geodesic."""
    s = matmul(delta.mT, delta)
    w, v = _lapack.eigh(s)
    w = jnp.maximum(w, 0)  # `s` is a Gram matrix; NaN stays NaN
    cosine, sinc = (_frechet.apply(f, s, w, v, None) for f in (_COS_ROOT, _SINC_ROOT))
    there = matmul(g, cosine) + matmul(delta, sinc)
    return there, matmul(delta, cosine) - matmul(g, matmul(s, sinc))


def log(g1: ArrayLike, g2: ArrayLike) -> Float[Array, "*b d k"]:
    """The tangent vector at `g1` whose geodesic reaches the subspace of `g2` in unit time.

    The vector is X Θ, with X sin Θ = H − G₁ cos Θ as in `geodesic`. Its norm is `distance(g1, g2)`.

    **Arguments**

    - `g1`, `g2`: `(..., d, k)`, orthonormal columns.

    **Returns** Δ `(..., d, k)` with g1ᵀ Δ = 0 and exp(g1, Δ) = g2 Qᵀ. Δ depends only on the span
    of `g2`, not on the choice of basis.

    **Derivatives** in `g1` and `g2`, to second order.

    >>> import jax.numpy as jnp
    >>> log(jnp.eye(2)[:, :1], jnp.eye(2)[:, 1:]).round(4).tolist()
    [[0.0], [1.5708]]
    """
    return _log(*_same_shape(g1=g1, g2=g2))


def mean(
    bases: ArrayLike, weights: ArrayLike | None = None, *, max_iterations: int = 200
) -> KarcherMean[Array]:
    """The subspace that minimises Σ wᵢ distance(M, Gᵢ)²: the zero of Σ wᵢ log(M, Gᵢ).

    **Arguments**

    - `bases`: the Gᵢ, `(..., m, d, k)`, orthonormal columns.
    - `weights`: `(m,)`, nonnegative, normalised to sum 1; equal by default. A basis of weight zero
      is ignored, even if it contains NaN.
    - `max_iterations`: static.

    **Returns** a `KarcherMean`: `mean` has shape `(..., d, k)`, the other fields have shape
    `(...)`.

    **Numerics** the iteration is M ← exp(M, θ Σ wᵢ log(M, Gᵢ)). It starts from the leading left
    singular vectors of [√wᵢ Gᵢ]. The step θ is the Barzilai–Borwein step, safeguarded by θ = 1. The
    minimum is unique if all Gᵢ lie within π/4 of one subspace; otherwise the result is a local
    minimum.

    **Derivatives** in `bases` and `weights`, to second order, by the implicit function theorem.
    They are exact for any function of the subspace; the basis does not rotate inside its span. The
    sum of squares must be strictly convex at M, which holds if all Gᵢ lie within π/4 of one
    subspace.

    **Reference** H. Karcher, *Riemannian center of mass and mollifier smoothing*, Comm. Pure Appl.
    Math. 30 (1977); O. Yair, A. Lahav, R. Talmon, *Symmetric positive semi-definite Riemannian
    geometry with application to domain adaptation*, arXiv:2007.14272 (2020).

    >>> import jax.numpy as jnp
    >>> out = mean(jnp.eye(2)[:, :, None])
    >>> jnp.abs(out.mean).round(4).tolist(), bool(out.converged)
    ([[0.7071...], [0.7071...]], True)
    """
    bases = _checks.matrices(bases, "bases")
    if bases.ndim < 3 or 0 in bases.shape[-3:] or bases.shape[-2] < bases.shape[-1]:
        expected = "of shape (..., m, d, k) with m > 0 and d ≥ k > 0"
        raise _checks.fail("bases", expected, f"shape {bases.shape}")
    max_iterations = _checks.integer(max_iterations, "max_iterations", low=1)
    return _mean(bases, _karcher.mean_weights(weights, bases), max_iterations)


def _same_shape(**bases: ArrayLike) -> tuple[Array, ...]:
    arrays = [_checks.matrices(x, name) for name, x in bases.items()]
    for name, x in zip(bases, arrays, strict=True):
        if x.shape[-2] < x.shape[-1]:
            raise _checks.fail(name, "of shape (..., d, k) with d ≥ k", f"shape {x.shape}")
    return _checks.broadcast(" and ".join(bases), *arrays)


def present(g: Float[Array, "*b d k"]) -> Bool[Array, "*b k"]:
    """A mask of the columns of a basis that are not zero."""
    return jnp.any(g != 0, axis=-2)


def rotation(g1: Float[Array, "*b d k"], g2: Float[Array, "*b d k"]) -> Float[Array, "*b k k"]:
    """Return Q = polar(G₁ᵀG₂), so that g2 Qᵀ is the basis of the span of `g2` nearest to `g1`.

    Q is the identity on columns that are absent from both bases.
    """
    absent = ~(present(g1) | present(g2))
    return polar_factor(matmul(g1.mT, g2) + _karcher.identity_on(absent, g1.dtype))


def _offset(g1: Float[Array, "*b d k"], g2: Float[Array, "*b d k"]):
    """Return X sin Θ and U = sin²(½Θ), where Θ are the principal angles."""
    d = matmul(g2, rotation(g1, g2).mT) - g1
    u = 0.25 * matmul(d.mT, d)
    return d + 2 * matmul(g1, u), u


def _log(g1: Float[Array, "*b d k"], g2: Float[Array, "*b d k"]) -> Float[Array, "*b d k"]:
    x, u = _offset(g1, g2)
    return matmul(x, _frechet.matrix_function(_ANGLE_OVER_SINE, u))


@functools.partial(jax.jit, static_argnums=0)
def _series(ratio: Callable[..., Array], t: Array | None, *nodes: Array) -> Array:
    """The divided difference over `nodes` of F(x) = 1 + r₀x (1 + r₁x (1 + …)), r_n = ratio(n, t).

    Horner's rule, (x f)[x₀ … x_j] = x_j f[x₀ … x_j] + f[x₀ … x_{j−1}], has no quotient, so equal
    nodes need no special case. For |x| ≤ ½ and |r_n| ≤ 1 each term adds one bit of accuracy.
    """
    nodes = tuple(jnp.broadcast_arrays(*nodes))
    dtype = nodes[0].dtype
    terms = jnp.finfo(dtype).nmant + 8

    def horner(i, f):
        r = ratio((terms - 1 - i).astype(dtype), t)
        below = (jnp.zeros_like(f[0]), *f[:-1])
        first, *others = (r * (x * f_j + g) for x, f_j, g in zip(nodes, f, below, strict=True))
        return 1 + first, *others

    start = (jnp.ones_like(nodes[0]), *(jnp.zeros_like(x) for x in nodes[1:]))
    return lax.fori_loop(0, terms, horner, start)[-1]


def _from_series(
    ratio: Callable[..., Array], factor: Callable[..., Array | float] = lambda t: 1.0
) -> SpectralFunction:
    """Return the function factor(t) · F with its divided differences; `_series` defines F."""

    def divided_difference(*nodes_and_t):
        *nodes, t = nodes_and_t
        return factor(t) * _series(ratio, t, *nodes)

    return SpectralFunction(*3 * [divided_difference])


# With u = sin²(½θ), Gauss's hypergeometric function gives (Abramowitz & Stegun 15.1.17, .16, .6)
#   cos tθ = F(t, −t; ½; u),   sin tθ/sin θ = t F(1+t, 1−t; 3/2; u),   θ/sin θ = F(1, 1; 3/2; u).
_COS_T = _from_series(lambda n, t: (n * n - t * t) / ((n + 0.5) * (n + 1)))
_SIN_T = _from_series(lambda n, t: ((n + 1) ** 2 - t * t) / ((n + 1.5) * (n + 1)), lambda t: t)
_ANGLE_OVER_SINE = _from_series(lambda n, t: (n + 1) / (n + 1.5))
# The series of cos √s and sin √s / √s suffer cancellation for large s. Only derivatives use them.
_COS_ROOT = _from_series(lambda n, t: -0.25 / ((n + 0.5) * (n + 1)))._replace(
    value=lambda w, t: jnp.cos(jnp.sqrt(w))
)
_SINC_ROOT = _from_series(lambda n, t: -0.25 / ((n + 1.5) * (n + 1)))._replace(
    value=lambda w, t: jnp.sinc(jnp.sqrt(w) / jnp.pi)
)


@_karcher.karcher_mean
def _mean(g: Float[Array, "m d k"], w: Float[Array, "m"], *, max_iterations: int):
    """Return the mean as exp(M, Δ), where the fixed point M is a constant and Δ is 0.

    Only the root Δ carries derivatives.
    """
    g0, w0 = lax.stop_gradient((g, w))
    heaviest = g0[jnp.argmax(w0)]
    g0 = _karcher.silence(g0, w0 == 0, heaviest)
    # The k leading eigenvectors of Σ wᵢ GᵢGᵢᵀ, from the thin matrix [√wᵢ Gᵢ].
    _, d, k = g.shape
    stacked = jnp.permute_dims(jnp.sqrt(w0)[:, None, None] * g0, (1, 0, 2)).reshape(d, -1)
    u, s, _ = _lapack.svd(stacked)
    start = jnp.where(jnp.isnan(s[0]), jnp.nan, u[:, :k])
    start = jnp.where(present(heaviest)[None], start, 0.0)
    look = functools.partial(_look, g=g0, w=w0)
    m, *report = _karcher.descend(look, _move, start, max_iterations)

    finite = jnp.all(jnp.isfinite(_logs(m, lax.stop_gradient(g))), axis=(-2, -1))
    g = _karcher.silence(g, (w == 0) & ~finite, m)

    def horizontal(delta):
        return jnp.where(present(m)[None], delta - matmul(m, matmul(m.mT, delta)), 0.0)

    def gradient(delta):  # of ½ Σ wᵢ dist² on tangent vectors; the identity on their complement
        tangent = horizontal(delta)
        descent = _karcher.weighted_sum(w, _logs(_exp(m, tangent)[0], g))
        return delta - tangent - horizontal(descent)

    zero = _karcher.implicit_zero(gradient, jnp.zeros_like(m))
    return _exp(m, horizontal(zero))[0], *report


def _look(m: Float[Array, "d k"], g: Float[Array, "m d k"], w: Float[Array, "m"]):
    """Return Σ wᵢ log(M, Gᵢ), the safe step 1, and the longest step.

    The step 1 is safe because positive curvature keeps the Hessian below 1. The Hessian has no
    positive lower bound. The longest step therefore moves by a unit distance; near the mean it is
    limited to 100.
    """
    delta = _karcher.weighted_sum(w, _logs(m, g))
    longest = 1 / jnp.maximum(_karcher.norm(delta), 0.01)
    one = jnp.ones_like(longest)
    return delta, one, jnp.maximum(longest, 1), 0 * one


def _move(m: Float[Array, "d k"], delta: Float[Array, "d k"], step: Float[Array, ""]):
    """Return the point at `step` on the geodesic along Δ, and Δ transported to that point."""
    there, velocity = _exp(m, step * delta)
    return there, velocity / step


def _logs(m: Float[Array, "d k"], g: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
    return _log(jnp.broadcast_to(m, g.shape), g)
