"""Shared parts of the three geometries: small helpers and the Karcher mean.

A Karcher mean M minimises Σ wᵢ dist²(M, Kᵢ). `descend` computes M, but not its derivative.
`implicit_zero` adds the derivative by the implicit function theorem. It uses tangent coordinates
around M, in which M is the zero of a vector field with a symmetric, positive definite Jacobian.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, safe_sqrt
from jaxfs._types import ArrayLike

_Point = TypeVar("_Point")


class KarcherMean(NamedTuple, Generic[_Point]):
    """A mean computed by iteration, and a report on the convergence.

    - `mean`: the point that minimises Σ wᵢ dist²(mean, pointᵢ).
    - `converged`: whether `residual` ≤ d·√eps. The sum above is then minimal to rounding. The
      iteration itself continues until rounding errors stop the progress. `converged` is False if
      the mean is NaN. It is also False for SPD matrices with condition numbers ≫ 1/√eps, because
      their rounding errors alone exceed the limit.
    - `iterations`: the number of steps.
    - `residual`: the norm of Σ wᵢ Log(pointᵢ), which is 0 at the mean.
    """

    mean: _Point
    converged: Bool[Array, "*b"]
    iterations: Int[Array, "*b"]
    residual: Float[Array, "*b"]


def mean_weights(weights: ArrayLike | None, points: Array) -> Float[Array, "*b m"]:
    """Return the checked weights of the points `(..., m, d, k)`, scaled to sum 1.

    The weights are equal by default.
    """
    *batch, m, _, _ = points.shape
    if weights is None:
        return jnp.full((*batch, m), 1 / m, points.dtype)
    w = _checks.weights(weights, "weights", m, points.dtype, what="point")
    return jnp.broadcast_to(w / jnp.sum(w), (*batch, m))


def norm(a: Float[Array, "*b m k"], *, noise: float = 0.0) -> Float[Array, "*b"]:
    """Return ‖a‖_F, with derivative 0 at a = 0. A norm ≤ `noise` counts as 0."""
    square = jnp.sum(a * a, axis=(-2, -1))
    return safe_sqrt(jnp.where(square <= noise * noise, jnp.zeros_like(square), square))


def identity_on(mask: Bool[Array, "*b k"], dtype: Any) -> Float[Array, "*b k k"]:
    """The diagonal matrix with ones where `mask` is true."""
    eye = jnp.broadcast_to(jnp.eye(mask.shape[-1], dtype=bool), (*mask.shape, mask.shape[-1]))
    return (eye & mask[..., None]).astype(dtype)


def weighted_sum(w: Float[Array, "m"], x: Float[Array, "m d k"]) -> Float[Array, "d k"]:
    """Σ wᵢ xᵢ."""
    return jnp.sum(w[:, None, None] * x, axis=0)


def silence(
    x: Float[Array, "m d k"], absent: Bool[Array, "m"], instead: Float[Array, "d k"]
) -> Float[Array, "m d k"]:
    """Return `x` with each absent matrix replaced by `instead`.

    A weight of 0 is not enough to ignore a matrix, because 0 · NaN is NaN.
    """
    return jnp.where(absent[:, None, None], jnp.broadcast_to(instead, x.shape), x)


def karcher_mean(one: Callable[..., tuple[Array, ...]]) -> Callable[..., KarcherMean[Array]]:
    """Return a function that computes the mean of each set of points in a batch.

    The function `one` computes the mean of a single set.
    """

    @functools.partial(jax.jit, static_argnums=2)
    def mean(points: Array, w: Array, max_iterations: int) -> KarcherMean[Array]:
        each = functools.partial(one, max_iterations=max_iterations)
        for _ in range(points.ndim - 3):
            each = jax.vmap(each)
        return KarcherMean(*each(points, w))

    return mean


def descend(
    look: Callable[[Array], tuple[Array, Array, Array, Array]],
    move: Callable[[Array, Array, Array], tuple[Array, Array]],
    start: Array,
    max_iterations: int,
) -> tuple[Array, Array, Array, Array]:
    """Return the fields of a `KarcherMean`, by steepest descent with Barzilai–Borwein steps.

    `look(point)` returns the direction of descent T = Σ wᵢ Log(Kᵢ), a safe step length that reduces
    ‖T‖ near the mean, the largest allowed step length, and an estimate of the part of ‖T‖ that
    rounding errors cause. `move(point, T, step)` returns the new point, and T transported to the
    new point. The first step length is 1.

    The next step length is step·⟨T, T⟩/⟨T, T − T'⟩, the inverse of the curvature along the last
    step. On average this is faster than the best constant step, but not at every point. The loop
    takes the safe step instead if the residual is not the smallest so far. The result is the point
    with the smallest residual.

    If the residual ‖T‖ is at most d·√eps, the sum of squares is within d²·eps of its minimum. Once
    the smallest residual is below this limit, the loop ends when the residual is at most
    `rounding`, or after four points without improvement. Above the limit the loop ends after
    twenty points without improvement. NaN ends the loop at once.

    **Reference** B. Iannazzo, M. Porcelli, *The Riemannian Barzilai–Borwein method with nonmonotone
    line search and the matrix geometric mean computation*, IMA J. Numer. Anal. 38 (2018).
    """
    tolerance = start.shape[-2] * math.sqrt(eps(start.dtype))

    def unfinished(state):
        *_, iterations, ended = state
        return (iterations <= max_iterations) & ~ended

    def advance(state):
        (point, carried, step), (best, least), without, iterations, _ = state
        tangent, safe, longest, rounding = look(point)
        residual = norm(tangent)
        improved = ~(residual >= least)  # true for NaN, so that NaN reaches the result
        best, least = jnp.where(improved, point, best), jnp.minimum(residual, least)
        without = jnp.where(improved, 0, without + 1)
        patience = jnp.where(least <= tolerance, 4, 20)
        ended = (residual <= jnp.minimum(rounding, tolerance)) | ~jnp.isfinite(residual)
        curvature = jnp.sum(carried * (carried - tangent)) / jnp.sum(carried * carried)
        bold = jnp.where(curvature * longest > step, step / curvature, longest)
        bold = jnp.where(improved, jnp.clip(bold, 0.5 * safe, longest), safe)
        step = jnp.where(iterations == 0, step, bold)
        state = (*move(point, tangent, step), step), (best, least), without
        return *state, iterations + 1, ended | (without >= patience)

    zero, one = jnp.zeros((), jnp.int32), jnp.ones((), start.dtype)
    state = (start, jnp.zeros_like(start), one), (start, one * jnp.inf), zero, zero, zero > 0
    _, (best, least), _, looks, _ = lax.while_loop(unfinished, advance, state)
    return best, least <= tolerance, looks - 1, least


def implicit_zero(field: Callable[[Array], Array], zero: Array) -> Array:
    """Return `zero`, a root of `field`, with its derivative in all variables `field` closes over.

    0 = d(field) = J dx + ∂field gives dx = −J⁻¹ ∂field. The Jacobian J must be symmetric and
    positive definite.

    Conjugate gradients solve this system to rounding; n steps scale the error by 2 exp(−2n/√κ). The
    SPD Hessian has a condition number κ ≤ log(1/eps) for all matrices that a dtype can hold. The
    Hessian of subspaces exceeds this κ only near the edge of the ball in which their mean is
    unique. The maximum number of steps follows from this κ. It is reached if rounding errors in the
    products with J keep the residual above the tolerance.
    """
    tolerance = eps(zero.dtype)
    steps = math.ceil(0.5 * math.sqrt(-math.log(tolerance)) * math.log(2 / tolerance))

    def solve(jacobian, y):
        # JAX cannot transpose `cg` alone here, because the start of `cg` depends on `y`.
        return lax.custom_linear_solve(
            jacobian, y, lambda f, y: cg(f, y, tol=tolerance, maxiter=steps)[0], symmetric=True
        )

    return lax.custom_root(field, zero, lambda f, x: x, solve)
