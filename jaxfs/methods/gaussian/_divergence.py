"""The Kullback–Leibler bound, GKL (sections 3.2.2 and 3.5)."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxfs._numerics import safe_sqrt
from jaxfs.linalg._lapack import cho_solve, cholesky
from jaxfs.methods.gaussian._moments import FEW_CLASSES, class_sum, column, products, put
from jaxfs.methods.gaussian._search import (
    Search,
    class_entropy,
    log_determinants,
    surprise,
    written,
)


class Cross(NamedTuple):
    """For each group b, the covariance of its partner a, transformed by the Cholesky factor of b.

    See sections 3.5.2 to 3.5.4. β_j are the regression coefficients of feature j on the chosen
    features S under b, and E_j = X_j − β_jᵀ X_S is the residual.
    """

    rows: Float[Array, "g k d"]  # L_b⁻¹ Σ_a[S, j]
    newest: Float[Array, "g d"]  # the row of the last step, as in `Factor`
    core: Float[Array, "g k k"]  # L_b⁻¹ Σ_a[S, S] L_b⁻ᵀ
    spread: Float[Array, "g d"]  # the variance of E_j under a
    shift: Float[Array, "g d"]  # the difference of the means of E_j under a and b


class DivergenceSearch(Search):
    """Search by GKL: the term of a feature is the increase of the bound of section 3.2.2.

    The groups are the classes, then for each class its rest (all other classes), its partner. Two
    classes are one pair, in which each class is the rest of the other. In general, the rest of a
    class consists of the classes before it and the classes after it. If two sets of classes with
    weights v, w and means a, b are joined, the scatter grows by vw/(v + w) (a − b)(a − b)ᵀ. Sums of
    such terms give the scatter of all rests in O(C). Subtracting one class from the total would
    cause cancellation.
    """

    def __init__(self, m, options) -> None:
        p, means = m.priors, m.deviations
        if p.shape[0] == 2:
            self.priors, self.means = jnp.where(jnp.all(p > 0), p, 0), means
        else:
            sums = p[:, None] * jnp.concat([jnp.ones_like(means[:, :1]), means], axis=1)
            (v, before), (w, after) = ((a[:, 0], a[:, 1:]) for a in _sums_around(sums, sums))
            self.rest = v + w
            here = jnp.tile((p > 0) & (self.rest > 0), 2)
            self.priors = jnp.where(here, jnp.concat([p, self.rest]), 0)  # 0 for an empty group
            self.means = jnp.concat([means, _over(before + after, self.rest)])
            before, after = _over(before, v), _over(after, w)
            # √(vw/(v + w)) (a − b) for a class and the classes before it, for a class and the
            # classes after it, and for the classes before and after a class.
            self.before = _joining(v, p) * (before - means)
            self.after = _joining(w, p) * (after - means)
            self.around = _joining(v, w) * (before - after)
        # The weight of each group in a mean over pairs; the priors of a pair add up to 1.
        self.shares = self.priors / jnp.maximum(jnp.sum(self.priors), 1)
        super().__init__(m, options)

    def covariances(self, own, outer):
        own = self.shrunk(own, class_sum(self.m.priors, own))
        if own.shape[0] == 2:
            return own
        within = _each(self.m.priors, own) * own
        before, after = _sums_around(within + outer(self.before), within + outer(self.after))
        rest = _over(before + after + outer(self.around), self.rest)
        # An empty rest has no effect, but its covariance must be positive definite.
        return jnp.concat([own, jnp.where(_each(self.rest, own) > 0, rest, own)])

    def initial_terms(self, factor):
        g, k, _ = factor.rows.shape
        cross = Cross(
            rows=factor.rows,
            newest=factor.newest,
            core=jnp.zeros((g, k, k), factor.rows.dtype),
            spread=_swap(self.variances),
            shift=self.means - _swap(self.means),
        )
        return self.prior_constant(), cross

    def terms(self, factor, extra):
        r = factor.residual
        moments = extra.spread / r, extra.shift**2 / r, 1
        if self.options.objective == "mi":  # a quotient, as in GC
            return self.bound(jnp.log(r / _swap(r)), *moments)
        logs = jnp.log(r)
        entropy = class_entropy(logs, self.shares, 1)  # the mean of p_y H(y) + p_r H(r) over pairs
        return self.bound(logs - _swap(logs), *moments) + entropy

    def update(self, extra, factor, after, step, i, cov):
        """Return the `Cross` after feature i is added.

        E_j becomes E_j − γ_j E_i with γ = row/√r_i, where `row` is the new row of the factor. With
        u = l_b(i), Cov_a(E_i, E_j) = Σ_a[i, j] − u·cross_j − (cross_i − core u)·l_b(j). This
        formula needs earlier rows only.
        """
        c = extra._replace(rows=written(extra.rows, extra.newest, step))
        r = column(factor.residual, i)
        root = jnp.sqrt(r)[:, None]
        u = column(factor.rows, i)
        core_u = jnp.einsum("gkm,gm->gk", c.core, u, precision=lax.Precision.HIGHEST)
        bend = column(c.rows, i) - core_u
        through = _swap(cov) - products(u, c.rows)
        joint = through - products(bend, factor.rows)
        spread, shift = column(c.spread, i), column(c.shift, i)
        gamma, edge = after.newest / root, bend / root
        core = put(c.core, edge, step, axis=1)
        core = put(core, put(edge, spread / r, step, axis=1), step, axis=2)
        squares = c.spread - 2 * gamma * joint + gamma**2 * spread[:, None]
        return Cross(
            rows=c.rows,
            newest=through / root,
            core=core,
            spread=jnp.maximum(squares, self.ridge[None]),
            shift=c.shift - gamma * shift[:, None],
        )

    def value(self):
        cov = self.matrices()
        delta = (self.means - _swap(self.means))[:, :, None]
        solved = cho_solve(cholesky(cov), jnp.concat([_swap(cov), delta], axis=2))
        trace = jnp.trace(solved[:, :, :-1], axis1=1, axis2=2)[:, None]
        distance = jnp.sum(solved[:, :, -1] * delta[:, :, 0], axis=1)[:, None]
        size, logdet = cov.shape[-1], log_determinants(cov)
        value = self.bound(logdet - _swap(logdet), trace, distance, size)
        if self.options.objective == "entropy":
            value = value + class_entropy(logdet, self.shares, size)
        return value[0] + self.prior_constant()

    def bound(self, ratio, trace, distance, size):
        """Return the bound of section 3.2.2 without `prior_constant`, from arrays `(2 pairs, d)`.

        For a group b with partner a, `ratio` is log|Σ_b| − log|Σ_a|, `trace` is tr(Σ_b⁻¹ Σ_a) and
        `distance` is δᵀ Σ_b⁻¹ δ. If the arrays hold the changes caused by one more feature, the
        result is the increase of the bound.
        """
        divergence = 0.5 * (trace + distance + ratio - jnp.asarray(size, ratio.dtype))
        return class_sum(_swap(self.shares), divergence)

    def prior_constant(self) -> Float[Array, ""]:
        """Return the mean of −p₁ log p₂ − p₂ log p₁ over pairs."""
        return jnp.vdot(self.shares, surprise(_swap(self.priors)))


def _swap(a: Float[Array, "g *d"]) -> Float[Array, "g *d"]:
    """Return `a` with the entries of each group and its partner exchanged."""
    return jnp.roll(a, a.shape[0] // 2, axis=0)


def _each(weights: Float[Array, "c"], like: Float[Array, "c *s"]) -> Float[Array, "c *s"]:
    return weights.reshape(-1, *[1] * (like.ndim - 1))


def _over(a: Float[Array, "c *s"], weights: Float[Array, "c"]) -> Float[Array, "c *s"]:
    """Return a / weights. Where a weight is 0, `a` is 0 and the result is 0."""
    return a / _each(jnp.where(weights > 0, weights, 1), a)


def _joining(v: Float[Array, "c"], w: Float[Array, "c"]) -> Float[Array, "c 1"]:
    return safe_sqrt(_over(v * w, v + w))[:, None]


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
