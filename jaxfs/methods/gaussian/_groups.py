"""Covariances of groups of classes, as mixtures of the covariances of the classes (eq. 9).

One product with the data gives the covariances of a feature with all other features in every class.
The covariances in every group follow from these. No d×d matrix is formed.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import safe_sqrt
from jaxfs.methods.gaussian._moments import FEW_CLASSES, GaussianMoments, class_sum, column

#: A function that multiplies deviations: each feature with itself, each feature with one given
#: feature, or all pairs of a few features.
Outer = Callable[[Float[Array, "c d"]], Float[Array, "c *s"]]


class AllSamples(NamedTuple):
    """One group of all samples."""

    shares: Float[Array, "c"]  # the priors of the classes
    deviations: Float[Array, "c d"]

    @property
    def priors(self) -> Float[Array, "g"]:
        return jnp.ones(1, self.shares.dtype)

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        """Return the groups' covariances, from the classes' covariances and `outer` of means."""
        return class_sum(self.shares, own + outer(self.deviations))[None]


class CompromiseGroups(NamedTuple):
    """The groups of GC: the classes, the pooled within-class Gaussian, and f* (all samples)."""

    shares: Float[Array, "c"]  # the priors of the classes
    deviations: Float[Array, "c d"]
    shrinkage: Float[Array, ""]

    @property
    def priors(self) -> Float[Array, "g"]:
        return jnp.concat([self.shares, jnp.ones(2, self.shares.dtype)])

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        pooled = class_sum(self.shares, own)
        total = class_sum(self.shares, own + outer(self.deviations))
        return jnp.concat([_shrunk(own, pooled, self.shrinkage), pooled[None], total[None]])


class OneAgainstRest(NamedTuple):
    """The groups of GKL: the classes, then for each class its rest (all other classes).

    Two classes are one pair, in which each class is the rest of the other. In general, the rest of
    a class consists of the classes before it and the classes after it. If two sets of classes with
    weights v, w and means a, b are joined, the scatter grows by vw/(v + w) (a − b)(a − b)ᵀ. Sums of
    such terms give the scatter of all rests in O(C). Subtracting one class from the total would
    cause cancellation.
    """

    priors: Float[Array, "g"]  # 0 for an empty group
    means: Float[Array, "g d"]
    shares: Float[Array, "c"]  # the priors of the classes
    rest: Float[Array, "c"]  # the prior of the rest of each class
    before: Float[Array, "c d"]  # √(vw/(v + w)) (a − b) for a class and the classes before it
    after: Float[Array, "c d"]  # the same for a class and the classes after it
    around: Float[Array, "c d"]  # the same for the classes before a class and those after it
    shrinkage: Float[Array, ""]

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        own = _shrunk(own, class_sum(self.shares, own), self.shrinkage)
        if own.shape[0] == 2:
            return own
        within = _each(self.shares, own) * own
        before, after = _sums_around(within + outer(self.before), within + outer(self.after))
        return jnp.concat([own, _over(before + after + outer(self.around), self.rest)])


Groups = Any  # CompromiseGroups, AllSamples or OneAgainstRest


def one_against_rest(m: GaussianMoments, shrinkage) -> OneAgainstRest:
    p, means = m.priors, m.deviations
    if p.shape[0] == 2:
        both = jnp.where(jnp.all(p > 0), p, 0)
        return OneAgainstRest(both, means, p, p, means, means, means, shrinkage)
    sums = p[:, None] * jnp.concat([jnp.ones_like(means[:, :1]), means], axis=1)
    (v, before), (w, after) = ((a[:, 0], a[:, 1:]) for a in _sums_around(sums, sums))
    rest = v + w
    here = (p > 0) & (rest > 0)
    others = _over(before + after, rest)
    before, after = _over(before, v), _over(after, w)
    return OneAgainstRest(
        priors=jnp.where(jnp.tile(here, 2), jnp.concat([p, rest]), 0),
        means=jnp.concat([means, others]),
        shares=p,
        rest=rest,
        before=_joining(v, p) * (before - means),
        after=_joining(w, p) * (after - means),
        around=_joining(v, w) * (before - after),
        shrinkage=shrinkage,
    )


def group_variances(m: GaussianMoments, g: Groups, ridge: Float[Array, "d"]) -> Float[Array, "g d"]:
    """The variances of the groups plus the ridge; positive also for an empty group."""
    return _filled(g, g.covariances(m.variances, jnp.square) + ridge[None], 1)


def group_rows(g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]) -> Float[Array, "g d"]:
    """The groups' covariances of feature i with every feature, from the classes' covariances."""
    return _filled(g, g.covariances(own, _with_feature(i)), 0)


def _filled(g: Groups, cov: Float[Array, "g d"], value: float) -> Float[Array, "g d"]:
    """Return `cov` with `value` in the empty groups of GKL, so that these have no effect."""
    if not isinstance(g, OneAgainstRest):
        return cov
    return jnp.where((g.priors > 0)[:, None], cov, value)


def group_covariances(
    m: GaussianMoments, g: Groups, indices: Int[Array, "k"]
) -> Float[Array, "g k k"]:
    """The covariances between the given features in every group."""

    def outer(a):
        few = jnp.take(a, indices, axis=1)
        return few[:, :, None] * few[:, None, :]

    return g.covariances(m.data.covariances_among(indices), outer)


def total_row(m: GaussianMoments, i, own: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The covariance of feature i with every feature, over all samples."""
    return class_sum(m.priors, own + _with_feature(i)(m.deviations))


def _with_feature(i: Int[Array, ""]) -> Outer:
    return lambda a: column(a, i)[:, None] * a


def _each(weights: Float[Array, "c"], like: Float[Array, "c *s"]) -> Float[Array, "c *s"]:
    return weights.reshape(-1, *[1] * (like.ndim - 1))


def _over(a: Float[Array, "c *s"], weights: Float[Array, "c"]) -> Float[Array, "c *s"]:
    """Return a / weights. Where a weight is 0, `a` is 0 and the result is 0."""
    return a / _each(jnp.where(weights > 0, weights, 1), a)


def _shrunk(own: Float[Array, "c *s"], pooled: Float[Array, "*s"], shrinkage):
    """The covariance of each class, shrunk towards the pooled covariance."""
    return own + shrinkage * (pooled[None] - own)


def _sums_around(a: Float[Array, "c *s"], b: Float[Array, "c *s"]):
    """Return for each row the sum of the earlier rows of `a` and the sum of the later rows of `b`.

    The sums are matrix products, or cumulative sums for many classes.
    """
    classes = a.shape[0]
    if classes <= FEW_CLASSES:
        dot = functools.partial(jnp.tensordot, axes=1, precision=lax.Precision.HIGHEST)
        earlier = np.tri(classes, k=-1, dtype=a.dtype)
        return dot(earlier, a), dot(earlier.T, b)
    none = jnp.zeros_like(a[:1])
    before = jnp.concat([none, lax.cumsum(a[:-1])])
    return before, jnp.concat([lax.cumsum(b[1:], reverse=True), none])


def _joining(v: Float[Array, "c"], w: Float[Array, "c"]) -> Float[Array, "c 1"]:
    return safe_sqrt(_over(v * w, v + w))[:, None]
