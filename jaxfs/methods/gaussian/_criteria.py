"""The criteria GC (eq. 10) and GKL (section 3.2.2), and their values for given features."""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs.linalg._lapack import cho_solve, cholesky
from jaxfs.methods.gaussian import _groups
from jaxfs.methods.gaussian._moments import (
    GaussianMoments,
    class_places,
    class_sum,
    gaussian_moments,
)

#: The default ridge, in units of a feature's variance times its kurtosis; the default shrinkage.
RIDGE, SHRINKAGE = 0.1, 0.3


def _surprise(p: Float[Array, "c"]) -> Float[Array, "c"]:
    """Return −log p, or 0 for an empty class."""
    return jnp.log(1 / jnp.where(p > 0, p, 1))


def compromise(ratio: Float[Array, "c d"], p: Float[Array, "c"]):
    """Return Ĩ of eq. 10, and whether every class is at its bound −log p_y.

    `ratio` is log|Σ*| − log|Σ_y|. The criterion is computed as its upper bound H(Y) minus the
    distance of every class from its bound.
    """
    bound = _surprise(p)
    below = class_sum(p, jnp.maximum(bound[:, None] - 0.5 * ratio, 0))
    return class_sum(p, bound) - below, below == 0


def class_entropy(logdet: Float[Array, "c d"], p: Float[Array, "c"], size):
    """Return Σ_y p_y H(f_y), which is H̃ − Ĩ; `size` is the number of features."""
    constant = jnp.asarray(size, logdet.dtype) * (0.5 * math.log(2 * math.pi * math.e))
    return 0.5 * class_sum(p, logdet) + constant


def divergence(ratio, trace, distance, p: Float[Array, "g"], size):
    """Return the bound of section 3.2.2 without `prior_constant`, from arrays `(2 pairs, d)`.

    The rows are first the classes, then the rest of each class. A class and its rest are partners.
    For a group b with partner a, `ratio` is log|Σ_b| − log|Σ_a|, `trace` is tr(Σ_b⁻¹ Σ_a) and
    `distance` is δᵀ Σ_b⁻¹ δ. If the arrays hold the changes caused by one more feature, the result
    is the increase of the bound.
    """
    divergence = 0.5 * (trace + distance + ratio - jnp.asarray(size, p.dtype))
    return class_sum(swap(p) / _num_pairs(p), divergence)


def pair_entropy(logdet: Float[Array, "g d"], p: Float[Array, "g"], size):
    """Return the mean of p_y H(y) + p_r H(r) over pairs, which is GKL.E − GKL.MI."""
    return class_entropy(logdet, p / _num_pairs(p), size)


def prior_constant(p: Float[Array, "g"]) -> Float[Array, ""]:
    """Return the mean of −p₁ log p₂ − p₂ log p₁ over pairs."""
    return jnp.vdot(p, _surprise(swap(p))) / _num_pairs(p)


def _num_pairs(p: Float[Array, "g"]) -> Float[Array, ""]:
    return jnp.maximum(jnp.sum(p), 1)  # the priors of a pair add up to 1


def swap(a: Float[Array, "g *d"]) -> Float[Array, "g *d"]:
    """Return `a` with the entries of each group and its partner exchanged."""
    return jnp.roll(a, a.shape[0] // 2, axis=0)


def default_ridge(m: GaussianMoments, fourth: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The default ridge of each feature.

    `fourth` holds the class means of the fourth powers of the features, in units of the standard
    deviation. A feature that is nearly always constant has variance 0 in many classes, and
    therefore seems very informative under Gaussian models. Such a feature has a large kurtosis,
    which has no units, and so gets a large ridge.
    """
    ridge = RIDGE * m.total * class_sum(m.priors, fourth)
    return jnp.where(m.total != 0, ridge, 1)  # never chosen; 1 avoids a division by 0


def ridge_of_each(m: GaussianMoments, ridge) -> Float[Array, "d"]:
    """Return the ridge of each feature, by default for `None`; NaN without a finite variance."""
    if ridge is None:
        ridge = default_ridge(m, m.data.fourth_powers(m.deviations, m.total))
    return jnp.where(jnp.isfinite(m.total), ridge, jnp.nan)


def _subset(m: GaussianMoments, g: _groups.Groups, indices, ridge):
    """Return the groups' covariances of the given features, plus the ridge.

    The result is NaN if an index is out of range.
    """
    d = m.total.shape[0]
    inside = jnp.clip(indices, 0, d - 1)
    cov = _groups.group_covariances(m, g, inside)
    eye = jnp.eye(indices.shape[0], dtype=cov.dtype)[None]
    cov = jnp.where((g.priors > 0)[:, None, None], cov + ridge[None, inside, None] * eye, eye)
    known = jnp.all((indices >= 0) & (indices < d)) & jnp.all(jnp.isfinite(m.total))
    return jnp.where(known, cov, jnp.nan)


def _logdet(cov: Float[Array, "g k k"]) -> Float[Array, "g 1"]:
    diagonal = jnp.diagonal(cholesky(cov), axis1=1, axis2=2)
    return 2 * jnp.sum(jnp.log(diagonal), axis=1, keepdims=True)


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def compromise_of(x, y, weights, indices, ridge, shrinkage, *, num_classes, objective):
    m = gaussian_moments(x, class_places(y, weights, num_classes, x.dtype))
    g = _groups.CompromiseGroups(m.priors, m.deviations, shrinkage)
    logdet = _logdet(_subset(m, g, indices, ridge_of_each(m, ridge)))
    value, _ = compromise(logdet[-1:] - logdet[:-2], m.priors)
    if objective == "entropy":
        value = value + class_entropy(logdet[:-2], m.priors, indices.shape[0])
    return value[0]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def divergence_of(x, y, weights, indices, ridge, shrinkage, *, num_classes, objective):
    m = gaussian_moments(x, class_places(y, weights, num_classes, x.dtype))
    g = _groups.one_against_rest(m, shrinkage)
    cov = _subset(m, g, indices, ridge_of_each(m, ridge))
    means = jnp.take(g.means, indices, axis=1, mode="clip")
    delta = (means - swap(means))[:, :, None]
    solved = cho_solve(cholesky(cov), jnp.concat([swap(cov), delta], axis=2))
    trace = jnp.trace(solved[:, :, :-1], axis1=1, axis2=2)[:, None]
    distance = jnp.sum(solved[:, :, -1] * delta[:, :, 0], axis=1)[:, None]
    size, logdet = indices.shape[0], _logdet(cov)
    value = divergence(logdet - swap(logdet), trace, distance, g.priors, size)
    if objective == "entropy":
        value = value + pair_entropy(logdet, g.priors, size)
    return value[0] + prior_constant(g.priors)
