"""Gaussian models of classes, one feature more at a time: the arithmetic of `gaussian.py`.

Every covariance that the criteria need is a mixture of the classes' own (eq. 9), so one product
with the data gives a new feature's covariance with all others, in all groups. An incremental
Cholesky factor per group turns it into the conditional variances σ²_{j|S} (section 3.4) in O(|S|)
a candidate. Nothing of size d×d is formed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide
from jaxfs.methods._gaussian_moments import Moments, column, products


class Groups(NamedTuple):
    """Gaussians that are mixtures of the classes.

    Their covariances are Σ_g = Σ_c within_gc Σ_c + Σ_c between_gc (μ_c − μ_g)(μ_c − μ_g)ᵀ; a
    diagonal ridge is added to each. Means are less the overall one.
    """

    within: Float[Array, "g c"]
    between: Float[Array, "g c"]
    means: Float[Array, "g d"]
    priors: Float[Array, "g"]  # 0 for a group that is not there


def _shrunk(m: Moments, weights: Float[Array, "g c"], shrinkage) -> Float[Array, "g c"]:
    """Mixture weights when each class's covariance is drawn towards the pooled one."""
    total = jnp.sum(weights, axis=1, keepdims=True)
    return (1 - shrinkage) * weights + shrinkage * total * m.priors[None]


def compromise_groups(m: Moments, shrinkage) -> Groups:
    """The classes, then f* (all samples), then the pooled within-class Gaussian."""
    c, d = m.deviations.shape
    p = m.priors[None]
    one_class = jnp.eye(c, dtype=p.dtype)
    return Groups(
        within=_shrunk(m, jnp.concat([one_class, p, p]), shrinkage),
        between=jnp.concat([jnp.zeros_like(one_class), p, jnp.zeros_like(p)]),
        means=jnp.concat([m.deviations, jnp.zeros((2, d), p.dtype)]),
        priors=jnp.concat([m.priors, jnp.ones(2, p.dtype)]),
    )


def one_against_all_groups(m: Moments, shrinkage) -> Groups:
    """The classes, then for each class all others; two classes are one such problem, not two."""
    c = m.priors.shape[0]
    pairs = c if c > 2 else 1
    p = m.priors[:pairs]
    others = jnp.where(jnp.eye(pairs, c, dtype=bool), 0, m.priors[None])
    rest = jnp.sum(others, axis=1)
    others = safe_divide(others, jnp.broadcast_to(rest[:, None], others.shape))
    one_class = jnp.eye(pairs, c, dtype=p.dtype)
    return Groups(
        within=_shrunk(m, jnp.concat([one_class, others]), shrinkage),
        between=jnp.concat([jnp.zeros_like(one_class), others]),
        means=jnp.concat([m.deviations[:pairs], matmul(others, m.deviations)]),
        priors=jnp.where(jnp.tile((p > 0) & (rest > 0), 2), jnp.concat([p, rest]), 0),
    )


def group_variances(m: Moments, g: Groups, ridge) -> Float[Array, "g d"]:
    """With the ridge; 1 for a group that is not there, so that it does no harm."""

    def scatter(group):
        weights, mean = group
        return matmul(weights[None], jnp.square(m.deviations - mean[None]))[0]

    between = lax.map(scatter, (g.between, g.means))
    variances = matmul(g.within, m.variances) + between + ridge
    return jnp.where((g.priors > 0)[:, None], variances, 1)


def group_rows(m: Moments, g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]):
    """The same in every group, from those of the classes."""
    weights = g.between * (column(m.deviations, i)[None] - column(g.means, i)[:, None])
    both = matmul(jnp.concat([g.within, weights], axis=1), jnp.concat([own, m.deviations]))
    cov = both - jnp.sum(weights, axis=1, keepdims=True) * g.means
    return jnp.where((g.priors > 0)[:, None], cov, 0)


def group_covariances(m: Moments, g: Groups, indices: Int[Array, "k"]) -> Float[Array, "g k k"]:
    """The groups' covariances between a few features."""
    dev, mean = (jnp.take(a, indices, axis=-1) for a in (m.deviations, g.means))
    own = m.data.covariances_among(indices)
    away = dev[None] - mean[:, None]  # (g, c, k)
    scatter = jax.vmap(lambda w, a: matmul(a.T * w[None], a))(g.between, away)
    return jnp.einsum("gc,ckl->gkl", g.within, own, precision=lax.Precision.HIGHEST) + scatter


# ---- The incremental Cholesky factor ------------------------------------------------------------


class Factor(NamedTuple):
    """Per group the rows of the Cholesky factor, extended to all features, and what they leave.

    Row m of `rows` is the covariance of every feature with the m-th whitened chosen one; rows not
    yet filled are zero. The `newest` is written at the next step, before anything is read: then XLA
    updates the rows in place. `residual` is σ²_{j|S}.
    """

    rows: Float[Array, "g k d"]
    newest: Float[Array, "g d"]
    residual: Float[Array, "g d"]


def empty_factor(variances: Float[Array, "g d"], num_steps: int) -> Factor:
    groups, d = variances.shape
    rows = jnp.zeros((groups, num_steps, d), variances.dtype)
    return Factor(rows, jnp.zeros_like(variances), variances)


def write(rows: Float[Array, "g k d"], newest: Float[Array, "g d"], step) -> Float[Array, "g k d"]:
    """The rows with the one that the step before has left; at step 0 that is a row of zeros."""
    return lax.dynamic_update_index_in_dim(rows, newest, jnp.maximum(step - 1, 0), axis=1)


def extend(f: Factor, i, cov: Float[Array, "g d"], floor) -> Factor:
    """The factor with feature i added; its rows are all written."""
    variance = column(f.residual, i)
    row = (cov - products(column(f.rows, i), f.rows)) / jnp.sqrt(variance)[:, None]
    return Factor(f.rows, row, jnp.maximum(f.residual - row * row, floor))


def total_variances(m: Moments) -> Float[Array, "d"]:
    """The variances of all samples."""
    return matmul(m.priors[None], m.variances + m.deviations * m.deviations)[0]


def total_row(m: Moments, i, own: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The covariance of feature i with every feature, over all samples."""
    return matmul(m.priors[None], own + column(m.deviations, i)[:, None] * m.deviations)[0]


def is_copy(m: Moments, variances, row: Float[Array, "d"], i) -> Bool[Array, "d"]:
    """Features that are, to rounding, an affine function of feature i: |correlation| is 1.

    `variances` and `row` are those of all samples. Under a ridge a copy is a second noisy
    measurement, and may look worth having; it is not.
    """
    # Not the squares of covariances, which overflow.
    scale = jnp.sqrt(jnp.maximum(column(row, i), 0)) * jnp.sqrt(variances)
    correlation = safe_divide(row, scale)
    rounding = (8 + m.data.num_sums) * eps(row.dtype)
    return correlation * correlation >= 1 - rounding
