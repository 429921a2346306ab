"""Gaussian models of classes, one feature more at a time: the arithmetic of `gaussian.py`.

Every covariance that the criteria need is a mixture of the classes' own (eq. 9), so one product
with the data gives a new feature's covariance with all others, in all groups. An incremental
Cholesky factor per group turns it into the conditional variances σ²_{j|S} (section 3.4) in O(|S|)
a candidate. Nothing of size d×d is formed.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, safe_divide, safe_sqrt
from jaxfs.methods.gaussian._moments import Moments, column, products, put

# ---- Groups of classes --------------------------------------------------------------------------

#: Products of deviations: of a feature with itself, with one other, or of a few with each other.
Outer = Callable[[Float[Array, "c d"]], Float[Array, "c *s"]]


class Compromise(NamedTuple):
    """The classes, then the pooled within-class Gaussian, then f* (all samples)."""

    shares: Float[Array, "c"]  # the priors of the classes
    deviations: Float[Array, "c d"]
    shrinkage: Float[Array, ""]

    @property
    def priors(self) -> Float[Array, "g"]:
        return jnp.concat([self.shares, jnp.ones(2, self.shares.dtype)])

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        """The covariances of the groups, from those of the classes and `outer` of the means."""
        pooled = weighted_sum(self.shares, own)
        total = weighted_sum(self.shares, own + outer(self.deviations))
        return jnp.concat([_shrunk(own, pooled, self.shrinkage), pooled[None], total[None]])


def compromise_groups(m: Moments, shrinkage) -> Compromise:
    return Compromise(m.priors, m.deviations, shrinkage)


class OneAgainstAll(NamedTuple):
    """The classes, then for each class all others; two classes are one such problem, not two.

    The others are those before the class and those after it. Where sets of classes of weights v, w
    and means a, b are joined, their scatter grows by vw/(v + w) (a − b)(a − b)ᵀ: sums alone give
    the scatter of all but one class, in O(C), where a difference, all less one, would cancel.
    """

    priors: Float[Array, "g"]  # 0 for a group that is not there
    means: Float[Array, "g d"]
    shares: Float[Array, "c"]  # the priors of the classes
    rest: Float[Array, "c"]  # those of the others
    before: Float[Array, "c d"]  # √(vw/(v + w)) (a − b): each class, and those before it
    after: Float[Array, "c d"]  # each class, and those after it
    around: Float[Array, "c d"]  # those before it, and those after it
    shrinkage: Float[Array, ""]

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        """As those of `Compromise`."""
        own = _shrunk(own, weighted_sum(self.shares, own), self.shrinkage)
        within = _each(self.shares, own) * own
        sums = _sums_around(within + outer(self.before), within + outer(self.after))
        others = _over(sums[0] + sums[1] + outer(self.around), self.rest)
        pairs = self.priors.shape[0] // 2
        return jnp.concat([own[:pairs], others[:pairs]])


def one_against_all_groups(m: Moments, shrinkage) -> OneAgainstAll:
    p, means = m.priors, m.deviations
    pairs = p.shape[0] if p.shape[0] > 2 else 1
    sums = p, p[:, None] * means
    (v, before), (w, after) = _sums_around(sums, sums)
    rest = v + w
    here = (p > 0) & (rest > 0)
    groups = jnp.concat([p[:pairs], rest[:pairs]])
    others = _over(before + after, rest)
    before, after = _over(before, v), _over(after, w)
    return OneAgainstAll(
        priors=jnp.where(jnp.tile(here[:pairs], 2), groups, 0),
        means=jnp.concat([means[:pairs], others[:pairs]]),
        shares=p,
        rest=rest,
        before=_joining(v, p) * (before - means),
        after=_joining(w, p) * (after - means),
        around=_joining(v, w) * (before - after),
        shrinkage=shrinkage,
    )


Groups = Compromise | OneAgainstAll


def weighted_sum(weights: Float[Array, "c"], a: Float[Array, "c *s"]) -> Float[Array, "*s"]:
    return jnp.tensordot(weights, a, axes=1, precision=lax.Precision.HIGHEST)


def _each(weights: Float[Array, "c"], like: Float[Array, "c *s"]) -> Float[Array, "c *s"]:
    return weights.reshape(-1, *[1] * (like.ndim - 1))


def _over(a: Float[Array, "c *s"], weights: Float[Array, "c"]) -> Float[Array, "c *s"]:
    """a / weights; 0 where a weight is, and so is a."""
    return a / _each(jnp.where(weights > 0, weights, 1), a)


def _shrunk(own: Float[Array, "c *s"], pooled: Float[Array, "*s"], shrinkage):
    """Each class's covariance drawn towards the pooled one."""
    return (1 - shrinkage) * own + shrinkage * pooled[None]


def _sums_around(a, b):
    """For each row the sum of a's before it, and the sum of b's after it; of trees of arrays."""
    rows = a, jax.tree.map(jnp.flipud, b)
    zeros = jax.tree.map(lambda x: jnp.zeros_like(x[0]), rows)
    before, after = lax.scan(lambda t, x: (jax.tree.map(jnp.add, t, x), t), zeros, rows)[1]
    return before, jax.tree.map(jnp.flipud, after)


def _joining(v: Float[Array, "c"], w: Float[Array, "c"]) -> Float[Array, "c 1"]:
    return safe_sqrt(_over(v * w, v + w))[:, None]


def with_feature(i: Int[Array, ""]) -> Outer:
    return lambda a: column(a, i)[:, None] * a


def group_variances(m: Moments, g: Groups, ridge: Float[Array, "d"]) -> Float[Array, "g d"]:
    """With the ridge; 1 for a group that is not there, so that it does no harm."""
    variances = g.covariances(m.variances, jnp.square) + ridge[None]
    return jnp.where((g.priors > 0)[:, None], variances, 1)


def group_rows(g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]) -> Float[Array, "g d"]:
    """The covariances of feature i with every feature, from those in the classes."""
    cov = g.covariances(own, with_feature(i))
    return jnp.where((g.priors > 0)[:, None], cov, 0)


def group_covariances(m: Moments, g: Groups, indices: Int[Array, "k"]) -> Float[Array, "g k k"]:
    """The groups' covariances between a few features."""

    def outer(a):
        few = jnp.take(a, indices, axis=1)
        return few[:, :, None] * few[:, None, :]

    return g.covariances(m.data.covariances_among(indices), outer)


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
    return put(rows, newest, jnp.maximum(step - 1, 0), axis=1)


def extend(f: Factor, i, cov: Float[Array, "g d"], floor: Float[Array, "d"]) -> Factor:
    """The factor with feature i added; its rows are all written."""
    variance = column(f.residual, i)
    row = (cov - products(column(f.rows, i), f.rows)) / jnp.sqrt(variance)[:, None]
    return Factor(f.rows, row, jnp.maximum(f.residual - row * row, floor[None]))


def total_variances(m: Moments) -> Float[Array, "d"]:
    """The variances of all samples."""
    return weighted_sum(m.priors, m.variances + jnp.square(m.deviations))


def total_row(m: Moments, i, own: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The covariance of feature i with every feature, over all samples."""
    return weighted_sum(m.priors, own + with_feature(i)(m.deviations))


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
