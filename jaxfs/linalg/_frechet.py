"""The derivative of a function of a symmetric matrix, as a linear map that JAX can transpose.

For A = V diag(w) Vᵀ and f(A) = V diag(f(w)) Vᵀ, Daleckii and Krein give

    Df(A)[E]     = V (F ∘ (Vᵀ E V)) Vᵀ,                     F_ij = f[w_i, w_j],
    D²f(A)[E, G] = V S Vᵀ,   S_ij = Σ_k f[w_i, w_k, w_j] (E_ik G_kj + G_ik E_kj)

where f[·,·] and f[·,·,·] are divided differences. In the second line, E and G are expressed in the
basis V. Both derivatives are finite and right at repeated eigenvalues, where the derivative of the
eigenvectors does not exist.

The eigenvectors are therefore never differentiated. `w` and `v` are computed once and passed along
with `a` as a cache; every derivative is a derivative in `a`. Df(A) is a JAX primitive and not a
`custom_jvp` function, because reverse mode must transpose Df(A) and *then* still differentiate it
in A. JAX drops a custom rule when it linearises a function, and second derivatives (forward over
reverse) would silently miss every term of D²f(A). Df(A) is self-adjoint, so it is its own
transpose.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from jaxfs._numerics import congruence, matmul, symmetrize
from jaxfs.linalg import _lapack
from jaxfs.linalg._lapack import sandwich


class SpectralFunction(NamedTuple):
    """A scalar function with its first and second divided differences.

    `value(w, t)`, `first(a, b, t)` and `second(a, b, c, t)` take nodes, which broadcast, and a
    parameter `t`, which broadcasts to the nodes or is None. They are symmetric in the nodes.
    """

    value: Callable[..., Array]
    first: Callable[..., Array]
    second: Callable[..., Array]


@functools.cache
def parameter_derivative(fun: SpectralFunction) -> SpectralFunction:
    """∂f/∂t; its divided differences are the derivatives in t of the divided differences of f."""

    def in_parameter(g):
        def derivative(*nodes_and_t):
            *nodes, t = nodes_and_t
            shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in nodes), jnp.shape(t))
            t = jnp.broadcast_to(t, shape)
            return jax.jvp(lambda s: g(*nodes, s), (t,), (jnp.ones_like(t),))[1]

        return derivative

    return SpectralFunction(*(in_parameter(g) for g in fun))


def _like(t, ndim: int):
    """`t`, of batch shape, with axes appended so that it broadcasts to the nodes."""
    return None if t is None else t.reshape(t.shape + (1,) * ndim)


def matrix_function(fun: SpectralFunction, a: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """f(A) for A the symmetric part of `a`; NaN for a matrix with a non-finite entry."""
    a = symmetrize(a)
    return apply(fun, a, *_lapack.eigh(a), None)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def apply(fun: SpectralFunction, a, w, v, t) -> Float[Array, "*b d d"]:
    """f(A) from the cached eigen-decomposition (w, v) of `a`; differentiable in `a` and `t`."""
    del a
    return congruence(v, fun.value(w, _like(t, 1)))


@apply.defjvp
def _apply_jvp(fun, primals, tangents):
    a, w, v, t = primals
    da, _, _, dt = tangents
    tangent = derivative(fun, a, w, v, t, da)
    if t is not None:
        tangent = tangent + _like(dt, 2) * apply(parameter_derivative(fun), a, w, v, t)
    return apply(fun, a, w, v, t), tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def apply_diagonal(fun: SpectralFunction, a, w, v) -> Float[Array, "*b d"]:
    """The diagonal of f(A), computed without forming f(A)."""
    del a
    return jnp.sum(v * v * fun.value(w, None)[..., None, :], axis=-1)


@apply_diagonal.defjvp
def _apply_diagonal_jvp(fun, primals, tangents):
    a, w, v = primals
    tangent = jnp.linalg.diagonal(derivative(fun, a, w, v, None, tangents[0]))
    return apply_diagonal(fun, a, w, v), tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def apply_congruence(fun: SpectralFunction, p, a, w, v, t) -> Float[Array, "*b m m"]:
    """P f(A) Pᵀ, computed as (P V) f(w) (P V)ᵀ: two products instead of three."""
    del a
    return congruence(matmul(p, v), fun.value(w, _like(t, 1)))


@apply_congruence.defjvp
def _apply_congruence_jvp(fun, primals, tangents):
    p, a, w, v, t = primals
    dp, da, _, _, dt = tangents
    product = lambda p, a, t: sandwich(p, apply(fun, a, w, v, t))  # noqa: E731
    _, tangent = jax.jvp(product, (p, a, t), (dp, da, dt))
    return apply_congruence(fun, p, a, w, v, t), tangent


derivative_p = Primitive("spectral_derivative")


def derivative(fun: SpectralFunction, a, w, v, t, e) -> Float[Array, "*b d d"]:
    """Df(A)[E]; it is linear and self-adjoint in `e`, and differentiable in `a`, `t` and `e`."""
    parameters = () if t is None else (t,)
    return derivative_p.bind(a, w, v, e, *parameters, fun=fun)


def _derivative_impl(a, w, v, e, *t, fun):
    del a
    f1 = fun.first(w[..., :, None], w[..., None, :], _like(t[0], 2) if t else None)
    return sandwich(v, f1 * sandwich(v.mT, e))


def _derivative_jvp(primals, tangents, *, fun):
    a, w, v, e, *t = primals
    da, dw, dv, de, *dt = tangents
    # `_lapack.eigh` computes the cache under stop_gradient.
    assert all(isinstance(x, ad.Zero) for x in (dw, dv))
    out = derivative_p.bind(*primals, fun=fun)
    terms = []
    if not isinstance(de, ad.Zero):
        terms.append(derivative_p.bind(a, w, v, de, *t, fun=fun))
    if not isinstance(da, ad.Zero):
        terms.append(_second_derivative(fun, differentiable_once(w, a), v, t, e, da))
    if dt and not isinstance(dt[0], ad.Zero):
        in_t = derivative_p.bind(a, w, v, e, *t, fun=parameter_derivative(fun))
        terms.append(_like(dt[0], 2) * in_t)
    return out, functools.reduce(jnp.add, terms)  # JAX calls this only if there is a tangent


def _derivative_transpose(ct, a, w, v, e, *t, fun):
    assert ad.is_undefined_primal(e)
    zero = isinstance(ct, ad.Zero)
    out = ad.Zero(e.aval) if zero else derivative_p.bind(a, w, v, ct, *t, fun=fun)
    return None, None, None, out, *(None for _ in t)


def _derivative_batch(args, axes, *, fun):
    """Move the batch axis to the front; the implementation accepts any leading axes."""
    size = next(x.shape[i] for x, i in zip(args, axes, strict=True) if i is not None)
    front = (batching.bdim_at_front(x, i, size) for x, i in zip(args, axes, strict=True))
    return derivative_p.bind(*front, fun=fun), 0


derivative_p.def_impl(functools.partial(jax.jit, static_argnames="fun")(_derivative_impl))
derivative_p.def_abstract_eval(lambda a, w, v, e, *t, fun: e)
ad.primitive_jvps[derivative_p] = _derivative_jvp
ad.primitive_transposes[derivative_p] = _derivative_transpose
batching.primitive_batchers[derivative_p] = _derivative_batch
mlir.register_lowering(derivative_p, mlir.lower_fun(_derivative_impl, multiple_results=False))


@jax.custom_jvp
def differentiable_once(cache, a):
    """`cache`, with an error if it is differentiated in `a`.

    A derivative rule that uses an array computed from `a` under stop_gradient passes it through
    this function. Otherwise the next derivative in `a` would silently treat the array as a
    constant.
    """
    del a
    return cache


@differentiable_once.defjvp
def _differentiable_once_jvp(primals, tangents):
    raise NotImplementedError(
        "no further derivative: functions of a symmetric matrix in jaxfs.linalg can be "
        "differentiated twice, leading_eigenspace once"
    )


@jax.custom_jvp
def singular_values(a: Float[Array, "*b m n"]) -> Float[Array, "*b k"]:
    """Singular values, descending; a value that is simple and not 0 has a first derivative."""
    return _lapack.svd(a)[1]


@singular_values.defjvp
def _singular_values_jvp(primals, tangents):
    u, _, vt = _lapack.svd(primals[0])
    u, vt = differentiable_once((u, vt), primals[0])
    return singular_values(*primals), jnp.sum(u * matmul(tangents[0], vt.mT), axis=-2)


def _second_derivative(fun: SpectralFunction, w, v, t, e, g) -> Float[Array, "*b d d"]:
    """D²f(A)[E, G], summed over one k at a time so that no d×d×d array is formed."""

    def one(w, v, e, g, *t):
        e, g = sandwich(v.mT, e), sandwich(v.mT, g)

        def add_term(total, k):
            f2 = fun.second(w[:, None], w[k], w[None, :], t[0] if t else None)
            term = jnp.outer(e[:, k], g[k, :]) + jnp.outer(g[:, k], e[k, :])
            return total + f2 * term, None

        total, _ = jax.lax.scan(add_term, jnp.zeros_like(e), jnp.arange(w.shape[0]))
        return sandwich(v, total)

    signature = "(d),(d,d),(d,d),(d,d)" + ",()" * len(t) + "->(d,d)"
    return jnp.vectorize(one, signature=signature)(w, v, e, g, *t)
