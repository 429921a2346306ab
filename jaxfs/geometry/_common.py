"""What the three geometries share: batch axes that broadcast, and the Karcher mean's two halves.

A Karcher mean minimises Σ wᵢ dist²(M, Kᵢ). `descend` finds it, and is not differentiated;
`implicit_zero` gives it the derivative of the implicit function theorem, in tangent coordinates
around the solution, where the mean is the zero of a field with a symmetric, definite Jacobian.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, safe_sqrt
from jaxfs._types import ArrayLike, Scalar


class KarcherMean(NamedTuple):
    """A mean that was found by iteration, and how well.

    - `mean`: the point that minimises Σ wᵢ dist²(mean, pointᵢ).
    - `converged`: whether `residual` ≤ d·√eps, where that sum is minimal to rounding. The iteration
      itself goes on until rounding stops it. False for a mean that is NaN, and for SPD matrices of
      condition numbers ≫ 1/√eps, whose rounding alone is larger.
    - `iterations`: how many steps were taken.
    - `residual`: the norm of Σ wᵢ Log(pointᵢ), which is 0 at the mean.
    """

    mean: Any
    converged: Bool[Array, "*b"]
    iterations: Int[Array, "*b"]
    residual: Float[Array, "*b"]


# ---- Arguments ----------------------------------------------------------------------------------


def broadcast(names: str, *arrays: Array, core: int = 2) -> tuple[Array, ...]:
    """Arrays of one dtype with their axes before the last `core` ones broadcast to each other."""
    for other in arrays[1:]:
        _checks.alike(arrays[0], other, names)
    try:
        batch = jnp.broadcast_shapes(*(x.shape[:-core] for x in arrays))
    except ValueError as error:
        shapes = " and ".join(str(x.shape) for x in arrays)
        raise _checks.fail(names, "of batch axes that broadcast", shapes) from error
    return tuple(jnp.broadcast_to(x, batch + x.shape[-core:]) for x in arrays)


def along(t: Scalar | ArrayLike, *ends: Array) -> tuple[Array, ...]:
    """The position `t` on a geodesic and its ends, with batch axes broadcast to each other."""
    t = jnp.asarray(_checks.number(t, "t", low=0, high=1), ends[0].dtype)
    t = jnp.where((t >= 0) & (t <= 1), t, jnp.nan)  # a traced one cannot be refused
    try:
        batch = jnp.broadcast_shapes(t.shape, ends[0].shape[:-2])
    except ValueError as error:
        expected = f"a number or an array that broadcasts to the batch axes {ends[0].shape[:-2]}"
        raise _checks.fail("t", expected, f"shape {t.shape}") from error
    return jnp.broadcast_to(t, batch), *(jnp.broadcast_to(x, batch + x.shape[-2:]) for x in ends)


def mean_weights(weights: ArrayLike | None, points: Array) -> Float[Array, "*b m"]:
    """Weights of the points `(..., m, d, k)`, all equal by default, divided by their sum."""
    *batch, m, _, _ = points.shape
    if weights is None:
        return jnp.full((*batch, m), 1 / m, points.dtype)
    w = _checks.weights(weights, "weights", m, points.dtype, what="point")
    return jnp.broadcast_to(w / jnp.sum(w), (*batch, m))


# ---- Arithmetic ---------------------------------------------------------------------------------


def norm(a: Float[Array, "*b m k"], *, noise: float = 0.0) -> Float[Array, "*b"]:
    """‖a‖_F, with derivative 0 at a = 0; norms up to `noise` count as 0."""
    square = jnp.sum(a * a, axis=(-2, -1))
    return safe_sqrt(jnp.where(square <= noise * noise, jnp.zeros_like(square), square))


def finite_or_zero(a: Float[Array, "*b m k"]) -> tuple[Array, Bool[Array, "*b 1 1"]]:
    """`a` with zeros in place of each matrix that is not finite, and which are.

    A singular value decomposition of NaN need not end: LAPACK's can iterate for ever.
    """
    finite = jnp.all(jnp.isfinite(a), axis=(-2, -1), keepdims=True)
    return jnp.where(finite, a, 0.0), finite


def identity_on(mask: Bool[Array, "*b k"], dtype: Any) -> Float[Array, "*b k k"]:
    """The diagonal matrix with ones where `mask` is true."""
    k = mask.shape[-1]
    eye = jnp.broadcast_to(jnp.eye(k, dtype=bool), (*mask.shape, k))
    return (eye & mask[..., None]).astype(dtype)


def weighted_sum(w: Float[Array, "m"], x: Float[Array, "m d k"]) -> Float[Array, "d k"]:
    """Σ wᵢ xᵢ."""
    return jnp.sum(w[:, None, None] * x, axis=0)


def silence(
    x: Float[Array, "m d k"], absent: Bool[Array, "m"], instead: Float[Array, "d k"]
) -> Float[Array, "m d k"]:
    """`x` with some of its matrices replaced: 0 · NaN is NaN, so a weight of zero is not enough."""
    return jnp.where(absent[:, None, None], jnp.broadcast_to(instead, x.shape), x)


# ---- The Karcher mean ---------------------------------------------------------------------------


def descend(
    look: Callable[[Array], tuple[Array, Array, Array]],
    move: Callable[[Array, Array, Array], tuple[Array, Array]],
    start: Array,
    max_iterations: int,
) -> tuple[Array, Array, Array, Array]:
    """Steepest descent by steps of Barzilai and Borwein: the point and the rest of `KarcherMean`.

    - `look(point)` returns T = Σ wᵢ Log(Kᵢ), the direction of descent; a safe step, which shortens
      T near the mean; and the longest to be tried.
    - `move(point, T, step)` returns the point reached, and T carried along to it.

    The next step is step·⟨T, T⟩/⟨T, T − T'⟩, the inverse of the curvature along the last one: on
    average it outruns the best constant step, but not at every point. Unless it set a new record,
    the safe step is taken instead. The point of the record is the answer.

    A residual ‖T‖ ≤ d·√eps leaves the sum of squares within d²·eps of its minimum; from there on,
    four points in a row without a record are rounding, and twenty are wherever they occur. NaN ends
    the loop at once.

    **Reference** B. Iannazzo, M. Porcelli, *The Riemannian Barzilai–Borwein method with nonmonotone
    line search and the matrix geometric mean computation*, IMA J. Numer. Anal. 38 (2018).
    """
    tolerance = start.shape[-2] * math.sqrt(eps(start.dtype))

    def unfinished(state):
        now, best, without, iterations = state
        patience = jnp.where(best.residual <= tolerance, 4, 20)
        ended = (without >= patience) | (now.residual == 0) | jnp.isnan(now.residual)
        return (iterations < max_iterations) & ~ended

    def advance(state):
        now, best, without, iterations = state
        point, carried = move(now.point, now.tangent, now.step)
        tangent, safe, longest = look(point)
        residual = norm(tangent)
        curvature = jnp.sum(carried * (carried - tangent)) / jnp.sum(carried * carried)
        bold = jnp.where(curvature * longest > now.step, now.step / curvature, longest)
        improved = ~(residual >= best.residual)  # NaN too: it is to be seen
        step = jnp.where(improved, jnp.clip(bold, 0.5 * safe, longest), safe)
        record = _Record(
            jnp.where(improved, point, best.point), jnp.minimum(residual, best.residual)
        )
        without = jnp.where(improved, 0, without + 1)
        return _Place(point, tangent, step, residual), record, without, iterations + 1

    tangent, safe, _ = look(start)
    zero, residual = jnp.zeros((), jnp.int32), norm(tangent)
    state = (_Place(start, tangent, safe, residual), _Record(start, residual), zero, zero)
    _, best, _, iterations = lax.while_loop(unfinished, advance, state)
    return best.point, best.residual <= tolerance, iterations, best.residual


class _Place(NamedTuple):
    point: Array
    tangent: Array
    step: Array
    residual: Array


class _Record(NamedTuple):
    point: Array
    residual: Array


def implicit_zero(field: Callable[[Array], Array], zero: Array) -> Array:
    """`zero`, a root of `field`, with the derivative of that root in all that `field` closes over.

    0 = d(field) = J dx + ∂field gives dx = −J⁻¹ ∂field; J must be symmetric and positive definite.
    """

    def solve(jacobian, y):
        # `cg` alone cannot be transposed here: it ties its start to its right-hand side.
        return lax.custom_linear_solve(jacobian, y, _conjugate_gradients, symmetric=True)

    return lax.custom_root(field, zero, lambda f, x: x, solve)


def _conjugate_gradients(matvec: Callable[[Array], Array], b: Array) -> Array:
    """`cg` to rounding: n steps leave 2 exp(−2n/√κ) of the error.

    The SPD Hessian has κ ≤ log(1/eps) for all matrices that a dtype can hold; that of subspaces
    exceeds it only at the edge of the ball in which their mean is unique. That bounds n, should
    rounding in `matvec` keep the residual from falling as far as it is asked to.
    """
    tolerance = eps(b.dtype)
    steps = math.ceil(0.5 * math.sqrt(-math.log(tolerance)) * math.log(2 / tolerance))
    return cg(matvec, b, tol=tolerance, maxiter=steps)[0]
