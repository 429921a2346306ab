"""Ridge regression on all samples, and on resamples that leave out a group of samples.

Let A and r be the samples and labels minus their means, times √w. The coefficients β are computed
in one of two forms, depending on which matrix is smaller:

    β = M⁻¹ Aᵀ r,  M = AᵀA + αI,
    β = Aᵀ c,  c = Q r,  Q = (AAᵀ + αI)⁻¹ with the component along √w removed.

If a group G of samples is left out, c becomes c − Q z, where z is 0 outside the group and
Q_GG z = c_G. The size of these equations is the size of the group, and all labels share their
matrix. In the first form the equations are (I − T_G T_Gᵀ) z = (r − Aβ)_G, and β changes by
Hᵀ T_Gᵀ z, where HᵀH = M⁻¹ and T = [AHᵀ, √w/‖√w‖].
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import eps, matmul, safe_sqrt
from jaxfs.linalg import eigh
from jaxfs.linalg._lapack import cho_solve, cholesky, qr, solve_triangular

#: A group is small if it has at most n / _FEW samples (and at most 4 p, if p < n).
_FEW = 8


class RidgeFits(NamedTuple):
    """The fits on all samples, β = basisᵀ full, and a function for fits without a group of samples.

    `without(full, residual, groups)` takes one label and b groups `(b, n)`. It returns the change
    of `full` for each group, `(m, b)`, and whether the solver succeeded for the group, `(b,)`.
    """

    basis: Float[Array, "m p"]
    full: Float[Array, "m l"]
    residual: Float[Array, "n l"]
    without: Callable[[Array, Array, Bool[Array, "b n"]], tuple[Array, Bool[Array, "b"]]]


def ridge(a: Float[Array, "n p"], r: Float[Array, "n l"], alpha, w: Float[Array, "n"]) -> RidgeFits:
    """Fit ridge regression to centred samples and labels times √w."""
    n, p = a.shape
    unit = (safe_sqrt(w) / jnp.sqrt(jnp.sum(w)))[:, None]
    return (_few_features if p < n else _many_features)(a, r, alpha, unit)


def _few_features(a: Float[Array, "n p"], r: Float[Array, "n l"], alpha, unit) -> RidgeFits:
    n, p = a.shape
    half = _inverse_root(a.T, alpha * jnp.eye(p, dtype=a.dtype))
    t = matmul(a, half.T)
    full = matmul(t.T, r)
    t = jnp.concat([t, unit], axis=1)
    small = min(-(-n // _FEW), 4 * p)

    def block(place):
        return jnp.eye(small, dtype=a.dtype) - matmul(t[place], t[place].T)

    def by_group(full, residual, groups):
        z, found = _solve_groups(block, small, residual, groups)
        return matmul(t[:, :-1].T, z), found

    def without(full, residual, groups):
        fits = jnp.max(jnp.sum(groups, axis=1)) <= small
        afresh = functools.partial(_fit_rest, t, jnp.sqrt(alpha) * half.T)
        return lax.cond(fits, by_group, afresh, full, residual, groups)

    return RidgeFits(half, full, r - matmul(t[:, :-1], full), without)


def _many_features(a: Float[Array, "n p"], r: Float[Array, "n l"], alpha, unit) -> RidgeFits:
    # √w and the samples without weight are eigenvectors of AAᵀ with eigenvalue 0. The rounding
    # errors of 1/α could exceed the other entries of the inverse. These eigenvectors therefore get
    # an eigenvalue of average size, and √w is removed later.
    n = a.shape[0]
    trivial, level = unit * unit.T, jnp.sum(a**2) / n
    ridge = jnp.diag(jnp.where(unit[:, 0] > 0, alpha, alpha + level)) + level * trivial
    half = _inverse_root(a, ridge)
    q = matmul(half.T, half) - trivial / (alpha + level)
    c = matmul(q, r)
    small = -(-n // _FEW)

    def block(place):
        return q[place][:, place]

    def without(full, residual, groups):
        fits = jnp.max(jnp.sum(groups, axis=1)) <= small
        solve = [functools.partial(_solve_groups, block, size) for size in (small, n)]
        z, found = lax.cond(fits, *solve, residual, groups)
        return matmul(q, z), found

    return RidgeFits(a, c, c, without)


def _solve_groups(block, size: int, residual: Float[Array, "n"], groups: Bool[Array, "b n"]):
    """Solve block z = residual in each group of at most `size` samples; z `(n, b)` is 0 outside."""
    n, dtype = residual.shape[0], residual.dtype
    jitter = size * eps(dtype) * jnp.eye(size, dtype=dtype)

    def solve(group):
        place = jnp.nonzero(group, size=size, fill_value=n)[0]
        m = block(place)
        scale = jnp.where(place < n, lax.rsqrt(jnp.diagonal(m)), 0)
        m = m * scale[:, None] * scale[None, :] + jnp.diag((place == n).astype(dtype))
        right = (scale * residual[place])[:, None]
        # If samples nearly coincide, rounding could make the matrix indefinite. A jitter on the
        # diagonal prevents this, and a second solve corrects for the jitter.
        root = cholesky(m + jitter)
        v = cho_solve(root, right)
        v = v + cho_solve(root, right - matmul(m, v))
        rest = jnp.linalg.norm(right - matmul(m, v))
        z = jnp.zeros(n, dtype).at[place].add(scale * v[:, 0], mode="drop")
        return z, rest <= eps(dtype) ** 0.5 * jnp.linalg.norm(right)

    z, found = lax.map(solve, groups, batch_size=_at_once(size**2))
    return z.T, found


def _fit_rest(t: Float[Array, "n q"], penalty: Float[Array, "p p"], full, residual, groups):
    """Return the change of `full` by fitting the remaining samples, by QR, with error eps √κ.

    The remaining samples may be few. κ is the condition number.
    """
    target = matmul(penalty, full[:, None])
    penalty = jnp.pad(penalty, ((0, 0), (0, 1)))

    def solve(group):
        left = ~group[:, None]
        q, r = qr(jnp.concat([jnp.where(left, t, 0), penalty]))
        right = jnp.concat([jnp.where(left, -residual[:, None], 0), target])
        away = solve_triangular(r.T, matmul(q.T, right), transpose=True)[:-1, 0]
        return away, jnp.all(jnp.isfinite(away))

    away, found = lax.map(solve, groups, batch_size=_at_once(t.size))
    return away.T, found


def _at_once(numbers: int) -> int:
    """Return how many matrices with this number of entries fit in about 30 MB."""
    return max(1, 2**22 // numbers)


def _inverse_root(a: Float[Array, "m q"], ridge: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Return H with HᵀH = (AAᵀ + ridge)⁻¹, with error eps √κ, where κ is the condition number.

    If H were computed from AAᵀ alone, the error would be eps κ. Instead, A is rotated into the
    eigenvectors of AAᵀ; small rows of the rotated A are accurate. The matrix is computed again from
    the rotated A, and after scaling it is nearly the identity. The eigenvectors are constants for
    differentiation.
    """
    _, u = eigh(matmul(a, a.T))
    b = matmul(u.T, a)
    m = matmul(b, b.T) + matmul(u.T, matmul(ridge, u))
    s = lax.stop_gradient(lax.rsqrt(jnp.diagonal(m)))
    root = cholesky(m * s[:, None] * s[None, :])
    return solve_triangular(root, s[:, None] * u.T)
