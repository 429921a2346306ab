"""The criteria GC and GKL from determinants and traces, and of a given set of features."""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs._numerics import matmul
from jaxfs.linalg._lapack import cho_solve, cholesky
from jaxfs.methods.gaussian import _groups
from jaxfs.methods.gaussian._groups import Groups
from jaxfs.methods.gaussian._moments import Moments, moments

#: The default ridge, in units of a feature's variance times its kurtosis, and shrinkage.
RIDGE, SHRINKAGE = 0.1, 0.3

# ---- The criteria -------------------------------------------------------------------------------


def _entropy_constant(size, dtype):
    """k/2 log 2πe."""
    return jnp.asarray(size, dtype) * (0.5 * math.log(2 * math.pi * math.e))


def _surprise(p: Float[Array, "c"]) -> Float[Array, "c"]:
    """−log p, and 0 for a class that is not there."""
    return -jnp.log(jnp.where(p > 0, p, 1))


def compromise(ratio: Float[Array, "c d"], p: Float[Array, "c"]):
    """Ĩ of eq. 10 from log|Σ*| − log|Σ_y|; and whether every class is at its bound."""
    bound = _surprise(p)[:, None]
    gap = 0.5 * ratio
    clipped = jnp.all((gap >= bound) | (p == 0)[:, None], axis=0)
    return matmul(p[None], jnp.minimum(gap, bound))[0], clipped


def class_entropy(logdet: Float[Array, "c d"], p: Float[Array, "c"], size):
    """Σ_y p_y H(f_y): what H̃ has more than Ĩ."""
    return 0.5 * matmul(p[None], logdet)[0] + _entropy_constant(size, logdet.dtype)


def divergence(ratio, trace, distance, p: Float[Array, "g"], size):
    """The bound of section 3.2.2 less `prior_constant`, from arrays `(2 pairs, d)`.

    First the classes, then their rests; `ratio` is log|Σ_b| − log|Σ_a|, `trace` tr(Σ_b⁻¹ Σ_a) and
    `distance` δᵀ Σ_b⁻¹ δ, b the group and a its partner. The terms of one more feature give the
    increase of the bound.
    """
    divergence = 0.5 * (trace + distance + ratio - jnp.asarray(size, p.dtype))
    return matmul(swap(p)[None], divergence)[0] / _num_pairs(p)


def pair_entropy(logdet: Float[Array, "g d"], p: Float[Array, "g"], size):
    """p_y H(y) + p_r H(r), in the mean over pairs: what GKL.E has more than GKL.MI."""
    return class_entropy(logdet, p / _num_pairs(p), size)


def prior_constant(p: Float[Array, "g"]) -> Float[Array, ""]:
    """−p₁ log p₂ − p₂ log p₁, in the mean over pairs."""
    return jnp.vdot(p, _surprise(swap(p))) / _num_pairs(p)


def _num_pairs(p: Float[Array, "g"]) -> Float[Array, ""]:
    return jnp.maximum(jnp.sum(p), 1)  # the priors of a pair add up to 1


def swap(a: Float[Array, "g *d"]) -> Float[Array, "g *d"]:
    """Every group's entry for its partner's."""
    return jnp.roll(a, a.shape[0] // 2, axis=0)


def deviation(m: Moments) -> Float[Array, "d"]:
    """The standard deviations of the features; 1 for constants."""
    return jnp.sqrt(jnp.where(m.varies, _groups.total_variances(m), 1))


def default_ridge(m: Moments, fourth: Float[Array, "c d"]) -> Float[Array, "d"]:
    """In each feature's own units, from fourth powers in units of its `deviation`.

    Under Gaussians a feature that is nearly always at rest seems to tell much, as its variance is 0
    in many classes. Its kurtosis gives it away, whatever its units.
    """
    ridge = RIDGE * jnp.square(deviation(m)) * matmul(m.priors[None], fourth)[0]
    return jnp.where(m.varies, ridge, 1)  # a constant is never chosen: any number but 0 will do


def regularisation(m: Moments, ridge, shrinkage):
    """The ridge (a number or the default rule) and the shrinkage.

    Traced values that are out of range could not be refused: they turn into NaN.
    """
    if ridge is None:
        ridge = default_ridge(m, m.data.fourth_powers(m.deviations, deviation(m)))
    ridge = jnp.broadcast_to(jnp.where(ridge >= 0, ridge, jnp.nan), m.varies.shape)
    shrinkage = jnp.where((shrinkage >= 0) & (shrinkage <= 1), shrinkage, jnp.nan)
    return ridge, shrinkage


# ---- The criterion of a given set ---------------------------------------------------------------


def _subset(m: Moments, g: Groups, indices, ridge):
    """The groups' covariances with the ridge; NaN for an index that is none, as −1."""
    d = m.varies.shape[0]
    inside = jnp.clip(indices, 0, d - 1)
    cov = _groups.group_covariances(m, g, inside)
    eye = jnp.eye(indices.shape[0], dtype=cov.dtype)[None]
    cov = jnp.where((g.priors > 0)[:, None, None], cov + ridge[None, inside, None] * eye, eye)
    return jnp.where(jnp.all((indices >= 0) & (indices < d)) & m.finite, cov, jnp.nan)


def _logdet(cov: Float[Array, "g k k"]) -> Float[Array, "g 1"]:
    diagonal = jnp.diagonal(cholesky(cov), axis1=1, axis2=2)
    return 2 * jnp.sum(jnp.log(diagonal), axis=1, keepdims=True)


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gc_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m = moments(x, y, weights, num_classes)
    ridge, shrinkage = regularisation(m, ridge, shrinkage)
    g = _groups.compromise_groups(m, shrinkage)
    logdet = _logdet(_subset(m, g, indices, ridge))
    value, _ = compromise(logdet[-1:] - logdet[:-2], m.priors)
    if objective == "entropy":
        value = value + class_entropy(logdet[:-2], m.priors, indices.shape[0])
    return value[0]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gkl_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m = moments(x, y, weights, num_classes)
    ridge, shrinkage = regularisation(m, ridge, shrinkage)
    g = _groups.one_against_all_groups(m, shrinkage)
    cov = _subset(m, g, indices, ridge)
    means = jnp.take(g.means, jnp.clip(indices, 0, m.varies.shape[0] - 1), axis=1)
    delta = (means - swap(means))[:, :, None]
    solved = cho_solve(cholesky(cov), jnp.concat([swap(cov), delta], axis=2))
    trace = jnp.trace(solved[:, :, :-1], axis1=1, axis2=2)[:, None]
    distance = jnp.sum(solved[:, :, -1] * delta[:, :, 0], axis=1)[:, None]
    size, logdet = indices.shape[0], _logdet(cov)
    value = divergence(logdet - swap(logdet), trace, distance, g.priors, size)
    if objective == "entropy":
        value = value + pair_entropy(logdet, g.priors, size)
    return value[0] + prior_constant(g.priors)
