"""Public functions of a symmetric matrix, with the derivatives of `_frechet.py`."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, safe_divide, symmetrize
from jaxfs._types import ArrayLike, Scalar, Static, static_function
from jaxfs.linalg import _divided_differences as dd
from jaxfs.linalg import _frechet, _lapack
from jaxfs.linalg._frechet import SpectralFunction


def eigh(a: ArrayLike) -> tuple[Float[Array, "*b d"], Float[Array, "*b d d"]]:
    """Eigenvalues (ascending) and eigenvectors of symmetric `a`, without derivative.

    The eigenvalues of a matrix with a non-finite entry are NaN, on every backend.
    """
    return _lapack.eigh(_checks.square(a, "a"))


def _apply_definite(fun: SpectralFunction, a, t=None) -> Float[Array, "*b d d"]:
    """f(a), with eigenvalues set to 0 if they are negative only by rounding."""
    a = symmetrize(a)
    w, v = _lapack.eigh(a)
    tolerance = w.shape[-1] * eps(w.dtype) * jnp.max(jnp.abs(w), axis=-1, keepdims=True)
    w = jnp.where((w < 0) & (w >= -tolerance), jnp.zeros_like(w), w)
    return _frechet.apply(fun, a, w, v, t)


def sqrtm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The symmetric square root of a positive semi-definite matrix: V √w Vᵀ.

    **Arguments**

    - `a`: `(..., d, d)`.

    **Numerics** eigenvalues in [−d·eps·‖a‖, 0] count as 0; more negative eigenvalues give NaN.

    **Derivatives** exact to second order for positive definite `a`. Inside the kernel of a singular
    matrix the derivative is infinite, and 0 is used for that block.

    >>> import jax.numpy as jnp
    >>> sqrtm(jnp.diag(jnp.array([4.0, 9.0]))).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return _apply_definite(dd.SQRT, _checks.square(a, "a"))


def inv_sqrtm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The inverse square root of a positive definite matrix; NaN if it is not definite."""
    # An eigenvalue 0 makes some entries infinite and others NaN, by ∞ · 0.
    return _lapack.nan_unless_finite(_apply_definite(dd.INV_SQRT, _checks.square(a, "a")))


def logm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The logarithm of a positive definite matrix; NaN if it is not definite.

    >>> import jax.numpy as jnp
    >>> logm(jnp.eye(2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _frechet.matrix_function(dd.LOG, _checks.square(a, "a"))


def expm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """The exponential of a symmetric matrix, from its eigenvalues."""
    return _frechet.matrix_function(dd.EXP, _checks.square(a, "a"))


def powm(a: ArrayLike, t: Scalar | ArrayLike) -> Float[Array, "*b d d"]:
    """a^t for a positive semi-definite matrix and any real power.

    **Arguments**

    - `a`: `(..., d, d)`.
    - `t`: a number, or an array that broadcasts to the batch axes of `a`; traced or not.

    **Numerics** eigenvalues that are negative by rounding count as 0, with 0^t = 0 for t > 0. A
    singular matrix to a negative power, or an indefinite matrix, gives NaN.

    **Derivatives** in `a` and in `t`, to second order, including mixed derivatives. Inside the
    kernel of a singular matrix, 0 is used for the first derivative if t < 1, where the true
    derivative is infinite, and for all second derivatives.
    """
    a = _checks.square(a, "a")
    _checks.number(t, "t")
    try:
        t = jnp.broadcast_to(jnp.asarray(t, a.dtype), a.shape[:-2])
    except ValueError as error:
        expected = f"a number or of shape {a.shape[:-2]}, as the matrices"
        raise _checks.fail("t", expected, f"shape {np.shape(t)}") from error
    return _lapack.nan_unless_finite(_apply_definite(dd.POWER, a, t))


def absm(a: ArrayLike) -> Float[Array, "*b d d"]:
    """|a| = V |w| Vᵀ, the square root of a².

    **Derivatives** exact to second order for nonsingular `a`. At a zero eigenvalue |·| has a kink:
    inside the kernel, the derivative is set to 0, which is a subgradient.
    """
    return _frechet.matrix_function(dd.ABS, _checks.square(a, "a"))


def absm_diagonal(a: ArrayLike) -> Float[Array, "*b d"]:
    """The diagonal of |a|, Σ_i |w_i| v_i ∘ v_i, without forming |a|; derivatives as in `absm`.

    >>> import jax.numpy as jnp
    >>> absm_diagonal(jnp.array([[0.0, 2.0], [2.0, 0.0]])).round(4).tolist()
    [2.0, 2.0]
    """
    return dd.abs_diagonal(symmetrize(_checks.square(a, "a")))


def dominant_eigenpairs(
    a: ArrayLike, k: int
) -> tuple[Float[Array, "*b k"], Float[Array, "*b d k"]]:
    """The k eigenvalues of largest magnitude, descending, and their eigenvectors, for plots.

    The entry of largest magnitude of each vector is positive. No derivative passes through.
    """
    a = symmetrize(_checks.square(a, "a"))
    k = _checks.integer(k, "k", low=1, high=a.shape[-1])
    w, v = _lapack.eigh(a)
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
    - `f`: an elementwise function of the eigenvalues. Like the next two functions, it must not
      close over traced values.
    - `divided_difference`: (f(x) − f(y))/(x − y), elementwise, and f′(x) at x = y. Write it without
      cancellation (for √: 1/(√x + √y)).
    - `second_divided_difference`: f[x, y, z], used by second derivatives only. The default is
      computed from `divided_difference` and is right for analytic f. Pass this argument for other
      functions, such as |x|, which has a kink.

    **Derivatives** of first and second order; a third derivative raises `NotImplementedError`.

    >>> import jax.numpy as jnp
    >>> cube = spectral_function(
    ...     2 * jnp.eye(2), lambda x: x**3, lambda x, y: x * x + x * y + y * y)
    >>> cube.tolist()
    [[8.0, 0.0], [0.0, 8.0]]
    """
    functions = {"f": f, "divided_difference": divided_difference}
    if second_divided_difference is not None:
        functions["second_divided_difference"] = second_divided_difference
    static = (static_function(f, name, "a function") for name, f in functions.items())
    return _frechet.matrix_function(_spectral_function(*static), _checks.square(a, "a"))


@functools.lru_cache(maxsize=128)
def _spectral_function(*functions: Static) -> SpectralFunction:
    """One `SpectralFunction` per set of functions, so that compiled programs are reused."""
    # The parameter t, which comes last, is not used.
    f, first, *second = (lambda *given, g=function.value: g(*given[:-1]) for function in functions)
    return SpectralFunction(f, first, second[0] if second else dd.second_from_first(first))


def polar(c: ArrayLike) -> Float[Array, "*b k k"]:
    """The orthogonal matrix nearest to a square matrix: U Vᵀ of its singular value decomposition.

    **Arguments**

    - `c`: `(..., k, k)`, nonsingular for the factor to be unique.

    **Numerics** a matrix with a non-finite entry gives NaN.

    **Derivatives** dQ = Q Ω with Ω H + H Ω = Qᵀ dC − dCᵀ Q, H = (CᵀC)^½; right at repeated singular
    values, to second order. Q is not unique for pairs of zero singular values; such pairs
    contribute 0.

    >>> import jax.numpy as jnp
    >>> polar(jnp.diag(jnp.array([3.0, -2.0]))).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    return polar_factor(_checks.square(c, "c"))


def polar_factor(c: Float[Array, "*b k k"]) -> Float[Array, "*b k k"]:
    """`polar` of checked matrices."""
    c, finite = _lapack.guarded(c)
    return jnp.where(finite, _polar(c, *_lapack.svd(c)), jnp.nan)


@jax.custom_jvp
def _polar(c, u, s, vt):
    del c, s
    return matmul(u, vt)


@_polar.defjvp
def _polar_jvp(primals, tangents):
    c, _, s, vt = primals
    q = _polar(*primals)
    qdc = matmul(q.mT, tangents[0])
    # Ω = D√(CᵀC)[QᵀdC − dCᵀQ]: the derivative of the square root solves this Lyapunov equation.
    turn = _frechet.derivative(dd.SQRT, matmul(c.mT, c), s * s, vt.mT, None, qdc - qdc.mT)
    return q, matmul(q, turn)


def leading_eigenspace(
    a: ArrayLike, k: int
) -> tuple[Float[Array, "*b d k"], Float[Array, "*b k k"]]:
    """An orthonormal basis G of the k leading eigenvectors, and the core P = Gᵀ a G.

    **Arguments**

    - `a`: `(..., d, d)`, symmetric.
    - `k`: static, 1 ≤ k ≤ d.

    **Returns** G `(..., d, k)` by descending eigenvalue and P `(..., k, k)`, diagonal.

    **Derivatives** follow the *subspace*: dG = G⊥ [(G⊥ᵀ da G)_ij / (w_j − w_i)] and
    dP = Gᵀ da G. The basis does not rotate within its span. A result that does not depend on the
    choice of basis, such as G P Gᵀ, then has its true first derivative whenever eigenvalues k and
    k+1 differ, even if the first k eigenvalues repeat. If eigenvalues k and k+1 are equal, the
    derivative is finite but arbitrary. A second derivative raises `NotImplementedError`.
    """
    a = symmetrize(_checks.square(a, "a"))
    k = _checks.integer(k, "k", low=1, high=a.shape[-1])
    return leading_part(a, k, jnp.arange(a.shape[-1]) < k, least=k)


def leading_part(
    a: Float[Array, "*b d d"], k: int, keep: Bool[Array, "*#b d"], *, least: int = 0
) -> tuple[Float[Array, "*b d k"], Float[Array, "*b k k"]]:
    """`leading_eigenspace` of symmetric `a`, with zeros for the eigenvectors that are not kept.

    `keep` is true for the leading eigenvectors, up to a number that may be traced. This number is
    between the static numbers `least` and k.
    """
    w, v = _lapack.eigh(a)
    keep = jnp.broadcast_to(keep, w.shape)
    return _leading_part(k, least, a, w[..., ::-1], v[..., ::-1], keep)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _leading_part(k, least, a, w, v, keep):
    del a, least
    w, v = w[..., :k], v[..., :k]
    nan = 0 * w  # 0 for a finite matrix
    kept = keep[..., :k].astype(w.dtype) + nan
    core = jnp.where(jnp.eye(k, dtype=bool), (kept * w)[..., None, :], nan[..., None])
    return v * kept[..., None, :], core


@_leading_part.defjvp
def _leading_part_jvp(k, least, primals, tangents):
    a, w, v, keep = primals
    w = _frechet.differentiable_once(w, a)
    g, core = _leading_part(k, least, *primals)
    rest, dag = v[..., least:], matmul(tangents[0], g)
    turns = keep[..., None, :k] & ~keep[..., least:, None]
    gap = jnp.where(turns, w[..., None, :k] - w[..., least:, None], 0)
    dg = matmul(rest, safe_divide(matmul(rest.mT, dag), gap))
    return (g, core), (dg, symmetrize(matmul(g.mT, dag)))
