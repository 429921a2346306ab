"""Covariances of groups of classes, as mixtures of the classes' own covariances (eq. 9).

One product with the data gives the covariances of a feature with all others in every class, and
hence in every group. No d×d matrix is formed.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import safe_sqrt
from jaxfs.methods.gaussian._moments import GaussianMoments, class_sum, column

#: Products of deviations: of each feature with itself, with one other, or of a few with each other.
Outer = Callable[[Float[Array, "c d"]], Float[Array, "c *s"]]


class AllSamples(NamedTuple):
    """One group of all samples."""

    shares: Float[Array, "c"]  # the priors of the classes
    deviations: Float[Array, "c d"]

    @property
    def priors(self) -> Float[Array, "g"]:
        return jnp.ones(1, self.shares.dtype)

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        """The covariances of the groups, from those of the classes and `outer` of the means."""
        return class_sum(self.shares, own + outer(self.deviations))[None]


class CompromiseGroups(NamedTuple):
    """The groups of GC: the classes, then the pooled within-class Gaussian, then f*."""

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
    """The groups of GKL: the classes, then for each class all others.

    Two classes are one pair, in which each is the rest of the other. In general,
    the rest of a class is the classes before it and those after it. If sets of classes with weights
    v, w and means a, b are joined, their scatter grows by vw/(v + w) (a − b)(a − b)ᵀ. These sums
    give the scatter of all classes but one in O(C); subtracting one class from the total would
    cancel.
    """

    priors: Float[Array, "g"]  # 0 for an empty group
    means: Float[Array, "g d"]
    shares: Float[Array, "c"]  # the priors of the classes
    rest: Float[Array, "c"]  # the priors of their rests
    before: Float[Array, "c d"]  # √(vw/(v + w)) (a − b) of each class and those before it
    after: Float[Array, "c d"]  # of each class and those after it
    around: Float[Array, "c d"]  # of the classes before it and those after it
    shrinkage: Float[Array, ""]

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        own = _shrunk(own, class_sum(self.shares, own), self.shrinkage)
        if own.shape[0] == 2:
            return own
        within = _each(self.shares, own) * own
        sums = _sums_around(within + outer(self.before), within + outer(self.after))
        others = _over(sums[0] + sums[1] + outer(self.around), self.rest)
        return jnp.concat([own, others])


Groups = Any  # CompromiseGroups, AllSamples or OneAgainstRest


def one_against_rest(m: GaussianMoments, shrinkage) -> OneAgainstRest:
    p, means = m.priors, m.deviations
    if p.shape[0] == 2:
        both = jnp.where(jnp.all(p > 0), p, 0)
        return OneAgainstRest(both, means, p, p, means, means, means, shrinkage)
    sums = p, p[:, None] * means
    (v, before), (w, after) = _sums_around(sums, sums)
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
    """The variances plus the ridge; a positive number for an empty group."""
    return _filled(g, g.covariances(m.variances, jnp.square) + ridge[None], 1)


def group_rows(g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]) -> Float[Array, "g d"]:
    """The covariances of feature i with every feature, from those in the classes."""
    return _filled(g, g.covariances(own, _with_feature(i)), 0)


def _filled(g: Groups, cov: Float[Array, "g d"], value: float) -> Float[Array, "g d"]:
    """`cov` with a value for empty groups of GKL, so that they have no effect."""
    if not isinstance(g, OneAgainstRest):
        return cov
    return jnp.where((g.priors > 0)[:, None], cov, value)


def group_covariances(
    m: GaussianMoments, g: Groups, indices: Int[Array, "k"]
) -> Float[Array, "g k k"]:
    """The covariances between a few features."""

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
    """a / weights; 0 where the weight is 0, because a is 0 there."""
    return a / _each(jnp.where(weights > 0, weights, 1), a)


def _shrunk(own: Float[Array, "c *s"], pooled: Float[Array, "*s"], shrinkage):
    """The covariance of each class, shrunk towards the pooled one."""
    return own + shrinkage * (pooled[None] - own)


def _sums_around(a, b):
    """For each row the sum of the earlier rows of a, and of the later rows of b, in trees.

    A product, or for many classes a loop.
    """
    classes = jax.tree.leaves(a)[0].shape[0]
    if classes <= 32:
        earlier = np.tri(classes, k=-1)
        return _sums(earlier, a), _sums(earlier.T, b)
    rows = a, jax.tree.map(jnp.flipud, b)
    zeros = jax.tree.map(lambda x: jnp.zeros_like(x[0]), rows)
    before, after = lax.scan(lambda t, x: (jax.tree.map(jnp.add, t, x), t), zeros, rows)[1]
    return before, jax.tree.map(jnp.flipud, after)


def _sums(which: np.ndarray, rows):
    """Sums of the rows for which a matrix has entries of 1, in trees."""
    dot = functools.partial(jnp.tensordot, axes=1, precision=lax.Precision.HIGHEST)
    return jax.tree.map(lambda x: dot(which.astype(x.dtype), x), rows)


def _joining(v: Float[Array, "c"], w: Float[Array, "c"]) -> Float[Array, "c 1"]:
    return safe_sqrt(_over(v * w, v + w))[:, None]
