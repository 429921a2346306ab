"""Public functions of a symmetric matrix: checks, then the derivatives of `_frechet.py`."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, safe_divide, symmetrize
from jaxfs._types import ArrayLike, Scalar, Static, static_function
from jaxfs.linalg import _bordered, _frechet, _lapack
from jaxfs.linalg._divided_differences import (
    ABS,
    EXP,
    INV_SQRT,
    LOG,
    POWER,
    SQRT,
    second_from_first,
)
from jaxfs.linalg._frechet import SpectralFunction
from jaxfs.linalg._leading import Eigenpairs as Eigenpairs
from jaxfs.linalg._leading import leading_eigenpairs as leading_eigenpairs


def eigh(a: ArrayLike) -> tuple[Float[Array, "*b d"], Float[Array, "*b d d"]]:
    """Eigenvalues (ascending) and eigenvectors of symmetric `a`, as constants: not differentiated.

    A matrix with a non-finite entry has NaN for eigenvalues, on every backend.
    """
    a = lax.stop_gradient(_checks.square(a, "a"))
    w, v = _lapack.eigh(_guarded(a))
    return jnp.where(_is_finite(a), w, jnp.nan), v


def _is_finite(a: Float[Array, "*b d k"]) -> Bool[Array, "*b 1"]:
    """Whether every entry of a matrix is finite."""
    return jnp.all(jnp.isfinite(a), axis=(-2, -1))[..., None]


def _guarded(a: Float[Array, "*b d k"]) -> Float[Array, "*b d k"]:
    """`a`, or the identity for one with a non-finite entry, on which LAPACK may not return."""
    identity = jnp.broadcast_to(jnp.eye(a.shape[-2], a.shape[-1], dtype=a.dtype), a.shape)
    return jnp.where(_is_finite(a)[..., None], a, identity)


def _clip_rounding(w: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Zero the eigenvalues of a semi-definite matrix that are negative by rounding alone."""
    tolerance = w.shape[-1] * eps(w.dtype) * jnp.max(jnp.abs(w), axis=-1, keepdims=True)
    return jnp.where((w < 0) & (w >= -tolerance), jnp.zeros_like(w), w)


def _apply(fun: SpectralFunction, a, t=None, *, clip: bool = False) -> Float[Array, "*b d d"]:
    a = symmetrize(a)
    w, v = eigh(a)
    return _frechet.apply(fun, a, _clip_rounding(w) if clip else w, v, t)


def sqrtm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The symmetric square root of a positive semi-definite matrix: V √w Vᵀ.

    **Arguments**

    - `a`: `(..., d, d)`.

    **Numerics** eigenvalues in [−d·eps·‖a‖, 0] count as 0; more negative ones give NaN.

    **Derivatives** exact to second order for positive definite `a`. Inside the kernel of a
    singular one the derivative is infinite; that block is taken as 0.

    >>> import jax.numpy as jnp
    >>> sqrtm(jnp.diag(jnp.array([4.0, 9.0]))).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return _apply(SQRT, _checks.square(a, "a"), clip=True)


def inv_sqrtm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The inverse square root of a positive definite matrix; NaN if it is not definite."""
    return _nan_unless_finite(_apply(INV_SQRT, _checks.square(a, "a"), clip=True))


def logm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The logarithm of a positive definite matrix; NaN if it is not definite.

    >>> import jax.numpy as jnp
    >>> logm(jnp.eye(2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _apply(LOG, _checks.square(a, "a"))


def expm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The exponential of a symmetric matrix, by its spectrum."""
    return _apply(EXP, _checks.square(a, "a"))


def powm(a: ArrayLike, t: Scalar | ArrayLike) -> Float[Array, "*b d d"]:
    """a^t for a positive semi-definite matrix and any real power.

    **Arguments**

    - `a`: `(..., d, d)`.
    - `t`: a number, or an array broadcastable to the batch axes of `a`; traced or not.

    **Numerics** rounding-level negative eigenvalues count as 0, with 0^t = 0 for t > 0; a singular
    matrix to a negative power, or an indefinite one, is NaN.

    **Derivatives** in `a` and in `t`, to second order, mixed ones included. Inside the kernel of a
    singular matrix the derivative for t < 1 is infinite and taken as 0, and so are all second ones.
    """
    a = _checks.square(a, "a")
    _checks.number(t, "t")
    try:
        t = jnp.broadcast_to(jnp.asarray(t, a.dtype), a.shape[:-2])
    except ValueError as error:
        expected = f"a number or of shape {a.shape[:-2]}, as the matrices"
        raise _checks.fail("t", expected, f"shape {np.shape(t)}") from error
    return _nan_unless_finite(_apply(POWER, a, t, clip=True))


def absm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """|a| = V |w| Vᵀ, the square root of a².

    **Derivatives** exact to second order for nonsingular `a`. At a zero eigenvalue |·| has a kink:
    the derivative inside the kernel is taken as 0, one of its subgradients.
    """
    return _apply(ABS, _checks.square(a, "a"))


def absm_diagonal(a: ArrayLike) -> Float[Array, "*b d"]:
    """The diagonal of |a|, Σ_i |w_i| v_i ∘ v_i, without forming |a|; derivatives as of `absm`.

    >>> import jax.numpy as jnp
    >>> absm_diagonal(jnp.array([[0.0, 2.0], [2.0, 0.0]])).round(4).tolist()
    [2.0, 2.0]
    """
    a = symmetrize(_checks.square(a, "a"))
    return _frechet.apply_diagonal(ABS, a, *eigh(a), None)


def dominant_eigenpairs(
    a: ArrayLike, k: int
) -> tuple[Float[Array, "*b k"], Float[Array, "*b d k"]]:
    """The k eigenvalues of largest magnitude, falling, and their eigenvectors: for pictures.

    The sign of each vector is such that its entry of largest magnitude is positive. Constants: no
    derivative passes through.
    """
    a = symmetrize(_checks.square(a, "a"))
    k = _checks.integer(k, "k", low=1, high=a.shape[-1])
    w, v = eigh(a)
    order = jnp.argsort(-jnp.abs(w), axis=-1)[..., :k]
    w = jnp.take_along_axis(w, order, axis=-1)
    v = jnp.take_along_axis(v, order[..., None, :], axis=-1)
    peak = jnp.argmax(jnp.abs(v), axis=-2, keepdims=True)
    return w, v * jnp.sign(jnp.take_along_axis(v, peak, axis=-2)) + 0.0 * w[..., None, :]


def spectral_function(
    a: ArrayLike,
    f: Callable[[Array], Array],
    divided_difference: Callable[[Array, Array], Array],
    *,
    second_divided_difference: Callable[[Array, Array, Array], Array] | None = None,
) -> Float[Array, "*b d d"]:
    """f(a) = V f(w) Vᵀ for any scalar function with a known divided difference.

    **Arguments**

    - `a`: `(..., d, d)`.
    - `f`: elementwise, of the eigenvalues. Must not close over traced values, nor the next two.
    - `divided_difference`: (f(x) − f(y))/(x − y), elementwise, and f′(x) at x = y; write it without
      cancellation (for √: 1/(√x + √y)).
    - `second_divided_difference`: f[x, y, z], used by second derivatives only. By default from the
      first, for analytic f; give it for others (|x| has a kink, so `absm` does).

    **Derivatives** of first and second order; a third one raises `NotImplementedError`.

    >>> import jax.numpy as jnp
    >>> cube = spectral_function(
    ...     2 * jnp.eye(2), lambda x: x**3, lambda x, y: x * x + x * y + y * y)
    >>> cube.tolist()
    [[8.0, 0.0], [0.0, 8.0]]
    """
    functions = [
        static_function(f, "f", "a function"),
        static_function(divided_difference, "divided_difference", "a function"),
    ]
    if (second := second_divided_difference) is not None:
        functions.append(static_function(second, "second_divided_difference", "a function"))
    fun = _spectral_function(*functions)
    return _apply(fun, _checks.square(a, "a"))


@functools.lru_cache(maxsize=128)
def _spectral_function(*functions: Static) -> SpectralFunction:
    """Wrapped once per function, so that compilation caches recognise it."""
    f, first, *more = (function.value for function in functions)
    second = more[0] if more else None
    first_t = lambda a, b, t: first(a, b)  # noqa: E731
    second_t = second_from_first(first_t) if second is None else lambda a, b, c, t: second(a, b, c)
    return SpectralFunction(lambda w, t: f(w), first_t, second_t)


def _nan_unless_finite(a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """All of a matrix or nothing: ∞ · 0 leaves NaN in some entries only."""
    return jnp.where(_is_finite(a)[..., None], a, jnp.nan)


def eigh_bordered(
    eigenvalues: ArrayLike, eigenvectors: ArrayLike, v: ArrayLike, c: ArrayLike
) -> tuple[Float[Array, "m"], Float[Array, "m m"]]:
    """The eigen-system of [[A, v], [vᵀ, c]] from that of A: one row and column more.

    **Arguments**

    - `eigenvalues`: `(n,)`, ascending, and `eigenvectors`: `(n, n)`, in columns, of symmetric A.
    - `v`: `(n,)`, `c`: a number; any, the matrix need not be definite.

    **Returns** eigenvalues `(n + 1,)`, ascending, and eigenvectors `(n + 1, n + 1)`.

    **Numerics** stable for zero couplings and repeated eigenvalues: error, relative to the norm of
    the matrix, and loss of orthogonality grow by an eps or so with each insertion. NaN gives NaN.
    Constants, as from `eigh`: no derivative passes through.

    **Cost** one product of n×n matrices, and some ten passes over n² numbers for the eigenvalues.

    **Reference** section 4.1 of Lefakis & Fleuret, *Jointly Informative Feature Selection Made
    Tractable by Gaussian Modeling*, JMLR 17, 2016, for c = 1 and well separated eigenvalues;
    `_bordered.py` says what is different here.

    >>> import jax.numpy as jnp
    >>> w, _ = eigh_bordered(jnp.ones(1), jnp.eye(1), jnp.array([2.0]), 1.0)
    >>> w.round(4).tolist()
    [-1.0, 3.0]
    """
    w, u = (
        _checks.real(eigenvalues, "eigenvalues", ndim=1),
        _checks.square(eigenvectors, "eigenvectors"),
    )
    v, c = _checks.real(v, "v", ndim=1), _checks.number(c, "c", scalar=True)
    n = w.shape[0]
    if u.shape != (n, n) or v.shape != (n,):
        expected = f"of shapes ({n}, {n}) and ({n},) for {n} eigenvalues"
        raise _checks.fail("eigenvectors and v", expected, f"{u.shape} and {v.shape}")
    for other, name in ((u, "eigenvectors"), (v, "v")):
        if other.dtype != w.dtype:
            raise _checks.fail(
                f"eigenvalues and {name}", "of one dtype", f"{w.dtype}, {other.dtype}"
            )
    return _eigh_bordered(*lax.stop_gradient((w, u, v, jnp.asarray(c, w.dtype))))


@jax.jit
def _eigh_bordered(w, u, v, c):
    new, arrow = _bordered.arrowhead(w, matmul(v[None], u)[0], c)
    vectors = jnp.concat([matmul(u, arrow[:-1]), arrow[-1:]])
    fine = jnp.isfinite(c)
    for a in (w, u, v):
        fine = fine & jnp.all(jnp.isfinite(a))
    return jnp.where(fine, new, jnp.nan), jnp.where(fine, vectors, jnp.nan)


# ---- Bases: the polar factor and the leading eigenspace ----------------------------------------


def polar(c: ArrayLike) -> Float[Array, "*b k k"]:
    """The orthogonal matrix nearest to a square one: U Vᵀ of its singular value decomposition.

    **Arguments**

    - `c`: `(..., k, k)`, nonsingular for the factor to be unique.

    **Numerics** a matrix with a non-finite entry gives NaN.

    **Derivatives** dQ = Q Ω with Ω H + H Ω = Qᵀ dC − dCᵀ Q, H = (CᵀC)^½; right at repeated singular
    values, to second order. Pairs of zero singular values, where Q is not unique, contribute 0.

    >>> import jax.numpy as jnp
    >>> polar(jnp.diag(jnp.array([3.0, -2.0]))).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    c = _checks.square(c, "c")
    u, s, vt = _lapack.svd(_guarded(lax.stop_gradient(c)))
    return jnp.where(_is_finite(c)[..., None], _polar(c, u, s, jnp.matrix_transpose(vt)), jnp.nan)


@jax.custom_jvp
def _polar(c, u, s, v):
    del c, s
    return matmul(u, jnp.matrix_transpose(v))


@_polar.defjvp
def _polar_jvp(primals, tangents):
    c, _, s, v = primals
    q = _polar(*primals)
    qdc = matmul(jnp.matrix_transpose(q), tangents[0])
    # Ω = D√(CᵀC)[QᵀdC − dCᵀQ]: the derivative of the square root solves the same Lyapunov equation.
    skew = qdc - jnp.matrix_transpose(qdc)
    gram = matmul(jnp.matrix_transpose(c), c)
    return q, matmul(q, _frechet.derivative(SQRT, gram, s * s, v, None, skew))


def leading_eigenspace(
    a: ArrayLike, k: int
) -> tuple[Float[Array, "*b d k"], Float[Array, "*b k k"]]:
    """An orthonormal basis G of the k leading eigenvectors and the core P = Gᵀ a G.

    **Arguments**

    - `a`: `(..., d, d)`, symmetric.
    - `k`: static, 1 ≤ k ≤ d.

    **Returns** G `(..., d, k)` by falling eigenvalue and P `(..., k, k)`, diagonal.

    **Derivatives** are those of the *subspace*: dG = G⊥ [(G⊥ᵀ da G)_ij / (w_j − w_i)] and
    dP = Gᵀ da G. The basis is transported without turning inside its span, so anything that does
    not depend on the choice of basis (G P Gᵀ, say) has its true first derivative whenever
    eigenvalues k and k+1 differ, however often those inside repeat; without that gap the
    derivative is finite but arbitrary. A second derivative raises `NotImplementedError`.
    """
    a = symmetrize(_checks.square(a, "a"))
    k = _checks.integer(k, "k", low=1, high=a.shape[-1])
    w, v = eigh(a)
    return _leading_eigenspace(k, a, w[..., ::-1], v[..., ::-1])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _leading_eigenspace(k, a, w, v):
    del a
    nan = 0.0 * w[..., :1, None]  # of a matrix with a non-finite entry: 0 else
    core = jnp.where(jnp.eye(k, dtype=bool), w[..., None, :k], 0.0)
    return v[..., :k] + nan, core + nan


@_leading_eigenspace.defjvp
def _leading_eigenspace_jvp(k, primals, tangents):
    a, w, v = primals
    w = _frechet.differentiable_once(w, a)
    g, rest = v[..., :k], v[..., k:]
    dag = matmul(tangents[0], g)
    gap = w[..., None, :k] - w[..., k:, None]
    dg = matmul(rest, safe_divide(matmul(jnp.matrix_transpose(rest), dag), gap))
    dp = symmetrize(matmul(jnp.matrix_transpose(g), dag))
    return _leading_eigenspace(k, *primals), (dg, dp)
