"""Symmetric positive definite matrices, with the affine-invariant or the log-Euclidean metric.

The affine-invariant formulas are usually written with a square root of the first matrix. Any factor
a = L Lᵀ gives the same result, and the Cholesky factor is the cheapest and the most accurate:

    C = L⁻¹ b L⁻ᵀ,   geodesic = L Cᵗ Lᵀ,   log = L log(C) Lᵀ,   exp = L exp(L⁻¹ s L⁻ᵀ) Lᵀ.

The log-Euclidean metric is flat: it is the Euclidean metric in the coordinates log a. The
derivative of the matrix logarithm maps tangent vectors to these coordinates, and the derivative of
the matrix exponential maps them back.

All functions are batched, `(..., d, d)`, with batch axes that broadcast. They keep the dtype
(float32 or float64), symmetrise their input, and have exact derivatives in both modes, also at
equal eigenvalues. A matrix with a non-finite entry, or one that is not positive definite, gives NaN
throughout. Relative errors grow like eps times the condition numbers.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._numerics import congruence, eps, matmul, sinhc, symmetrize
from jaxfs._types import ArrayLike, Scalar
from jaxfs.geometry import _karcher
from jaxfs.geometry._karcher import KarcherMean
from jaxfs.linalg import _frechet, _lapack
from jaxfs.linalg._divided_differences import EXP, HALF_WAY, LOG, POWER
from jaxfs.linalg._lapack import sandwich, solve_triangular

__all__ = ["KarcherMean", "difference", "distance", "exp", "geodesic", "inner", "log", "mean"]

METRICS = ("affine", "logeuclid")

_expm = functools.partial(_frechet.matrix_function, EXP)
_logm = functools.partial(_frechet.matrix_function, LOG)


def inner(
    a: ArrayLike, s1: ArrayLike, s2: ArrayLike, *, metric: str = "affine"
) -> Float[Array, "*b"]:
    """The inner product of two tangent vectors (symmetric matrices) at `a`.

    Affine: tr(a⁻¹ s₁ a⁻¹ s₂). Log-Euclidean: tr(Dlog(a)[s₁] Dlog(a)[s₂]).

    **Arguments**

    - `a`: `(..., d, d)`, positive definite.
    - `s1`, `s2`: `(..., d, d)`, symmetric.
    - `metric`: `"affine"` or `"logeuclid"`.

    **Reference** eq. (6) of Cohen et al., *Few-sample feature selection via feature manifold
    learning* (ManiFeSt), ICML 2023.

    >>> import jax.numpy as jnp
    >>> round(float(inner(2 * jnp.eye(2), jnp.eye(2), jnp.eye(2))), 4)
    0.5
    """
    a, s1, s2 = _same_size(a=a, s1=s1, s2=s2)
    if _affine(metric):
        chol = _cholesky(a)
        s1, s2 = _whiten(chol, s1), _whiten(chol, s2)
    else:
        s1, s2 = _derivative(_logm, a, s1), _derivative(_logm, a, s2)
    return jnp.sum(s1 * s2, axis=(-2, -1))


def distance(a: ArrayLike, b: ArrayLike, *, metric: str = "affine") -> Float[Array, "*b"]:
    """The length of the geodesic from `a` to `b`.

    Affine: ‖log(L⁻¹ b L⁻ᵀ)‖, a = L Lᵀ. Log-Euclidean: ‖log a − log b‖. (Frobenius norms.)

    **Arguments**

    - `a`, `b`: `(..., d, d)`, positive definite.
    - `metric`: `"affine"` or `"logeuclid"`.

    **Derivatives** in `a` and `b`. At a = b the distance has a kink, and its derivative is set to
    0. The first derivative of the squared distance is then exact.

    >>> import jax.numpy as jnp
    >>> round(float(distance(jnp.eye(4), jnp.e * jnp.eye(4))), 4)
    2.0
    """
    a, b = _same_size(a=a, b=b)
    difference = _logm(_whiten(_cholesky(a), b)) if _affine(metric) else _logm(a) - _logm(b)
    different = jnp.any(a != b, axis=(-2, -1), keepdims=True)
    return _karcher.norm(jnp.where(different, difference, 0 * lax.stop_gradient(difference)))


def geodesic(
    a: ArrayLike, b: ArrayLike, t: Scalar | ArrayLike, *, metric: str = "affine"
) -> Float[Array, "*b d d"]:
    """The point at `t` on the geodesic from `a` (t = 0) to `b` (t = 1).

    Affine: L (L⁻¹ b L⁻ᵀ)ᵗ Lᵀ, a = L Lᵀ. Log-Euclidean: exp((1 − t) log a + t log b).

    **Arguments**

    - `a`, `b`: `(..., d, d)`, positive definite.
    - `t`: in [0, 1]: a number, or an array that broadcasts with the batch axes. May be traced.
    - `metric`: `"affine"` or `"logeuclid"`.

    **Derivatives** in `a`, `b` and `t`, to second order.

    **Reference** eq. (7) of ManiFeSt.

    >>> import jax.numpy as jnp
    >>> geodesic(jnp.eye(2), 4 * jnp.eye(2), 0.5).round(4).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    t, a, b = _checks.along(t, *_same_size(a=a, b=b))
    if _affine(metric):
        chol = _cholesky(a)
        return _unwhiten(POWER, chol, _whiten(chol, b), t, domain=lambda w: w > 0)
    t = t[..., None, None]
    return _expm((1 - t) * _logm(a) + t * _logm(b))


def exp(a: ArrayLike, s: ArrayLike, *, metric: str = "affine") -> Float[Array, "*b d d"]:
    """The point reached from `a` in unit time along the geodesic with initial velocity `s`.

    Affine: L exp(L⁻¹ s L⁻ᵀ) Lᵀ, a = L Lᵀ. Log-Euclidean: exp(log a + Dlog(a)[s]).

    **Arguments**

    - `a`: `(..., d, d)`, positive definite.
    - `s`: `(..., d, d)`, symmetric: a tangent vector at `a`.
    - `metric`: `"affine"` or `"logeuclid"`.

    **Derivatives** in `a` and `s`: to second order (affine), first order (log-Euclidean).

    **Reference** eq. (8) of ManiFeSt; for the log-Euclidean map, eq. (3.4) of Arsigny et al.,
    *Geometric means in a novel vector space structure on SPD matrices*, SIMAX 2007.
    """
    a, s = _same_size(a=a, s=s)
    if _affine(metric):
        chol = _cholesky(a)
        return _unwhiten(EXP, chol, _whiten(chol, s))
    return _expm(_logm(a) + _derivative(_logm, a, s))


def log(a: ArrayLike, b: ArrayLike, *, metric: str = "affine") -> Float[Array, "*b d d"]:
    """The tangent vector at `a` whose geodesic reaches `b` in unit time: the inverse of `exp`.

    Affine: L log(L⁻¹ b L⁻ᵀ) Lᵀ, a = L Lᵀ. Log-Euclidean: Dexp(log a)[log b − log a].

    **Arguments**

    - `a`, `b`: `(..., d, d)`, positive definite.
    - `metric`: `"affine"` or `"logeuclid"`.

    **Derivatives** in `a` and `b`: to second order (affine), first order (log-Euclidean).

    **Reference** eq. (9) of ManiFeSt; eq. (3.4) of Arsigny et al., as for `exp`.

    >>> import jax.numpy as jnp
    >>> log(2 * jnp.eye(2), 2 * jnp.e * jnp.eye(2)).round(4).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    a, b = _same_size(a=a, b=b)
    if _affine(metric):
        chol = _cholesky(a)
        return _unwhiten(LOG, chol, _whiten(chol, b))
    log_a = _logm(a)
    return _derivative(_expm, log_a, _logm(b) - log_a)


def difference(a: ArrayLike, b: ArrayLike, t: Scalar | ArrayLike = 0.5) -> Float[Array, "*b d d"]:
    """The difference operator ½ (Log_M a − Log_M b), where M is the point at `t` on the geodesic.

    ½ (Log_M a − Log_M b) = R f(R⁻¹(a − b)R⁻ᵀ) Rᵀ, with a + b = R Rᵀ and
    f(x) = ½ (1 + x)^{1−t} (1 − x)^t artanh x. The computation needs one Cholesky factor and one
    `eigh`. The geodesic goes from `a` (t = 0) to `b` (t = 1). At t = ½ the result is
    Log_M a = −Log_M b.

    **Arguments**

    - `a`, `b`: `(..., d, d)`, positive definite.
    - `t`: in [0, 1]: a number, or an array that broadcasts with the batch axes. May be traced.

    **Returns** a symmetric matrix, tangent at M; `difference(b, a, 1 - t)` is its negative.

    **Numerics** this function whitens by a + b, whereas `geodesic` and `log` whiten by a. The
    eigenvalues x of the whitened difference correspond to the eigenvalues (1 − x)/(1 + x) of a⁻¹b.
    The error of `eigh` is eps times its largest eigenvalue. If the eigenvalues of a⁻¹b spread over
    [1/s, s], whitening by a gives a relative error of s² eps in the smallest eigenvalue. Whitening
    by a + b gives a relative error of s eps at both ends of the spectrum. On gene expression data
    with s = 2000 the error in the top score of ManiFeSt in float32 is 5e-2 with the first method
    and 5e-5 with the second. The disadvantage is that a and b must be of similar scale, as kernels
    are. The result is NaN if any |x| ≥ 1 − 4 eps: `a` or `b` is then not positive definite in its
    dtype.

    **Derivatives** in `a`, `b` and `t`, to second order.

    **Reference** eq. (3) of ManiFeSt, t = ½.
    """
    t, a, b = _checks.along(t, *_same_size(a=a, b=b))
    return difference_of(a + b, a - b, t)


def difference_of(
    total: Float[Array, "*b d d"], gap: Float[Array, "*b d d"], t: Float[Array, "*b"]
) -> Float[Array, "*b d d"]:
    """`difference(a, b, t)` from a + b and a − b, which must be symmetric."""
    chol = _cholesky(total)
    most = 1 - 4 * eps(chol.dtype)
    return _unwhiten(HALF_WAY, chol, _whiten(chol, gap), t, domain=lambda x: jnp.abs(x) < most)


def mean(
    mats: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    metric: str = "affine",
    max_iterations: int | None = None,
) -> KarcherMean[Array]:
    """The matrix M that minimises Σ wᵢ distance(M, Kᵢ)²: the geometric mean.

    Affine: the zero of Σ wᵢ log(L⁻¹ Kᵢ L⁻ᵀ) with M = L Lᵀ, found by the iteration
    M ← L exp(θ Σ wᵢ log(L⁻¹ Kᵢ L⁻ᵀ)) Lᵀ. Log-Euclidean: exp(Σ wᵢ log Kᵢ), without iteration.

    **Arguments**

    - `mats`: the Kᵢ, `(..., m, d, d)`, positive definite.
    - `weights`: `(m,)`, nonnegative, normalised to sum 1; equal by default. A matrix of weight zero
      is ignored, even if it contains NaN.
    - `metric`: `"affine"` or `"logeuclid"`.
    - `max_iterations`: static, for `"affine"` only; 200 by default.

    **Returns** a `KarcherMean`: `mean` has shape `(..., d, d)`, the other fields have shape
    `(...)`.

    **Numerics** the step θ is the Barzilai–Borwein step, safeguarded by θ = 2/(1 + β) with
    β = Σ wᵢ ½ℓᵢ coth(½ℓᵢ), where ℓᵢ is the logarithm of the condition number of L⁻¹ Kᵢ L⁻ᵀ. The
    spectrum of the Hessian lies in [1, β], so 2/(1 + β) is the best constant step. θ = 1 diverges
    for matrices that are far apart. The iteration starts at the arithmetic mean with a first step
    θ = 1. This step gives the log-Euclidean mean in the frame of the arithmetic mean, which is
    nearly the solution if the matrices commute.

    **Derivatives** in `mats` and `weights`, to second order, by the implicit function theorem: the
    loop is neither unrolled nor stored. If a matrix of weight zero is not positive definite, the
    derivative in its weight is 0.

    **Cost** one `eigh` of each matrix per iteration; the number of iterations grows with β only.

    **Reference** D. Bini, B. Iannazzo, *Computing the Karcher mean of symmetric positive definite
    matrices*, Linear Algebra Appl. 438 (2013); ManiFeSt, appendix C.

    >>> import jax.numpy as jnp
    >>> out = mean(jnp.stack([jnp.eye(2), 4 * jnp.eye(2)]))
    >>> out.mean.round(4).tolist(), bool(out.converged)
    ([[2.0, 0.0], [0.0, 2.0]], True)
    """
    mats = symmetrize(_checks.square(mats, "mats"))
    if mats.ndim < 3 or mats.shape[-3] == 0:
        raise _checks.fail("mats", "of shape (..., m, d, d) with m > 0", f"shape {mats.shape}")
    _checks.only_if(_affine(metric), max_iterations, "max_iterations", 'metric="affine"')
    most = 200 if max_iterations is None else max_iterations
    most = _checks.integer(most, "max_iterations", low=1)
    w = _karcher.mean_weights(weights, mats)
    if _affine(metric):
        return (_affine_mean if weights is None else _weighted_mean)(mats, w, most)
    m = _logeuclid_mean(mats, w)
    exact = jnp.where(jnp.isnan(m[..., 0, 0]), jnp.nan, jnp.zeros_like(m[..., 0, 0]))
    return KarcherMean(m, exact == 0, jnp.zeros(exact.shape, jnp.int32), exact)


def _same_size(**matrices: ArrayLike) -> tuple[Array, ...]:
    arrays = [_checks.square(x, name) for name, x in matrices.items()]
    return tuple(map(symmetrize, _checks.broadcast(" and ".join(matrices), *arrays)))


def _affine(metric: str) -> bool:
    return _checks.option(metric, "metric", METRICS) == "affine"


def _cholesky(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """Return L with L Lᵀ = a. All entries are NaN unless `a` is positive definite and finite."""
    return _lapack.nan_unless_finite(_lapack.cholesky(a))


def _whiten(chol: Float[Array, "*b d d"], a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """L⁻¹ a L⁻ᵀ for symmetric `a`."""
    return symmetrize(_lapack.whiten(chol, a))


def _unwhiten(fun, chol: Float[Array, "*b d d"], c: Float[Array, "*b d d"], t=None, domain=None):
    """Return L f(c) Lᵀ for symmetric `c`; NaN unless all eigenvalues of `c` are in the domain.

    The domain is an interval. It excludes singular matrices from geodesics; the matrix power alone
    would accept singular matrices.
    """
    w, v = _lapack.eigh(c)
    if domain is not None:
        w = jnp.where(domain(w[..., :1]) & domain(w[..., -1:]), w, jnp.nan)
    return symmetrize(_frechet.apply_congruence(fun, chol, c, w, v, t))


def _derivative(f, a: Float[Array, "*b d d"], s: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """Return the derivative Df(a)[s]; an entry is NaN where f(a) is NaN."""
    value, slope = jax.jvp(f, (a,), (s,))
    return jnp.where(jnp.isnan(value), jnp.nan, slope)


@functools.partial(jnp.vectorize, signature="(m,d,d),(m)->(d,d)")
def _logeuclid_mean(k: Float[Array, "m d d"], w: Float[Array, "m"]) -> Float[Array, "d d"]:
    unusable = (w == 0) & ~_is_definite(k)
    logs = _logm(_karcher.silence(k, unusable, jnp.eye(k.shape[-1], dtype=k.dtype)))
    # Replace the logarithm of an unusable matrix by the mean, so that its weight has derivative 0.
    logs = _karcher.silence(logs, unusable, lax.stop_gradient(_karcher.weighted_sum(w, logs)))
    return _expm(_karcher.weighted_sum(w, logs))


def _mean_of_one_set(
    k: Float[Array, "m d d"], w: Float[Array, "m"], *, max_iterations: int, absent: bool
):
    """Return the mean as F exp(S) Fᵀ, where the fixed point M = F Fᵀ is a constant and S is 0.

    Only the root S carries derivatives. The frame of the iteration is F⁻¹. A weight may be 0 only
    if `absent` is true.
    """
    k0, w0 = lax.stop_gradient((k, w))
    eye = jnp.eye(k.shape[-1], dtype=k.dtype)
    if absent:
        k0 = _karcher.silence(k0, w0 == 0, eye)
    start = solve_triangular(_cholesky(_karcher.weighted_sum(w0, k0)), eye)
    look = functools.partial(_affine_look, k=k0, w=w0)
    frame, *report = _karcher.descend(look, _affine_move, start, max_iterations)
    frame = jnp.where(jnp.isfinite(report[-1]), frame, jnp.nan)
    q, r = _lapack.qr(frame)
    f = solve_triangular(r.mT, q.mT, transpose=True)

    if absent:  # definite matrices stay, because the derivative in their weight is not 0
        unusable = (w == 0) & ~_is_definite(_in_frame(frame, k))
        k = _karcher.silence(k, unusable, matmul(f, f.mT))
    c = _in_frame(frame, k)

    def gradient(s):  # of ½ Σ wᵢ dist² on symmetric s; the identity on the antisymmetric part
        symmetric = symmetrize(s)
        e = eye - 0.5 * symmetric + 0.125 * matmul(symmetric, symmetric)  # exp(−½S) near 0
        return s - symmetric - symmetrize(_karcher.weighted_sum(w, _logm(matmul(e, matmul(c, e)))))

    s = 0.5 * symmetrize(_karcher.implicit_zero(gradient, jnp.zeros_like(f)))
    g = f + matmul(f, s + 0.5 * matmul(s, s))  # F exp(½S), to second order
    return symmetrize(matmul(g, g.mT)), *report


_affine_mean = _karcher.karcher_mean(functools.partial(_mean_of_one_set, absent=False))
_weighted_mean = _karcher.karcher_mean(functools.partial(_mean_of_one_set, absent=True))


def _in_frame(frame: Float[Array, "d d"], k: Float[Array, "*m d d"]) -> Float[Array, "*m d d"]:
    return symmetrize(sandwich(frame, k))


def _affine_look(frame: Float[Array, "d d"], k: Float[Array, "m d d"], w: Float[Array, "m"]):
    """Return S = Σ wᵢ log Cᵢ with Cᵢ = F⁻¹ Kᵢ F⁻ᵀ, two step lengths, and the rounding error of S.

    The step lengths, safe and longest, assume a Hessian with spectrum in [1, β]. The rounding error
    follows from an error E in C, which changes log C by E_ij log[λᵢ, λⱼ]; this divided difference
    is at most 1/√(λᵢλⱼ). If E_ij is about eps·λ₁, with λ₁ the largest eigenvalue, the norm of the
    change is at most d·eps·λ₁·mean(1/λ). For kernels of 300 features the errors of `eigh` and of
    the products were a quarter of this bound.
    """

    def add(total, matrix):
        k, w = matrix
        lam, v = _lapack.eigh(_in_frame(frame, k))
        half_ell = 0.5 * jnp.log(lam[-1] / lam[0])
        condition = jnp.cosh(half_ell) / sinhc(half_ell)  # x coth x, and 1 at 0
        terms = congruence(v, jnp.log(lam)), condition, lam[-1] * jnp.mean(1 / lam)
        return jax.tree.map(lambda a, b: a + w * b, total, terms), None

    zero = jnp.zeros((), k.dtype)
    (s, beta, spread), _ = lax.scan(add, (jnp.zeros_like(frame), zero, zero), (k, w))
    rounding = frame.shape[0] * eps(k.dtype) * spread
    return s, 2 / (1 + beta), jnp.ones_like(beta), rounding


def _affine_move(frame: Float[Array, "d d"], s: Float[Array, "d d"], step: Float[Array, ""]):
    """Return the new frame exp(−½θS) F⁻¹, and S, whose coordinates in the new frame are the same.

    The exponential is replaced by (I + U + ½U²)⁸ with U = −θS/16. This power is positive definite
    for any S, and differs from the exponential only at third order.
    """
    u = (-step / 16) * s
    p = jnp.eye(s.shape[0], dtype=s.dtype) + u + 0.5 * matmul(u, u)
    for _ in range(3):
        p = matmul(p, p)
    return matmul(p, frame), s


def _is_definite(k: Float[Array, "m d d"]) -> Bool[Array, "m"]:
    return ~jnp.isnan(_cholesky(lax.stop_gradient(k))[..., 0, 0])
