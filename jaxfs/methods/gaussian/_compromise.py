"""The Gaussian compromise, GC (eq. 10, sections 3.2.1 and 3.4)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs.methods.gaussian._moments import class_sum
from jaxfs.methods.gaussian._search import (
    CHOSEN,
    COPY,
    Ranking,
    Search,
    as_large,
    class_entropy,
    log_determinants,
    surprise,
    tops,
)


class CompromiseSearch(Search):
    """Search by GC: the terms are log σ²_{j|S} − log σ²_{j|y,S} (eq. 12) and the class entropy.

    The groups are the classes, the pooled within-class Gaussian, and f* (all samples).
    """

    def covariances(self, own, outer):
        pooled, total = class_sum(self.m.priors, own), self.total(own, outer)
        return jnp.concat([self.shrunk(own, pooled), pooled[None], total[None]])

    def initial_terms(self, factor):
        p = self.m.priors
        return (jnp.zeros(p.shape[0] + 1, p.dtype), jnp.zeros((), p.dtype)), ()

    def terms(self, factor, extra):
        """Return log ratios of variances, and the terms of Σ_y p_y H(f_y), which only GC.E needs.

        The rows of the log ratios are the classes, then the pooled Gaussian.
        """
        r = factor.residual
        if self.options.objective == "mi":
            ratio = jnp.log(r[-1:] / r[:-1])  # units cancel in the quotient without rounding errors
            return ratio, jnp.zeros_like(ratio[0])
        logs = jnp.log(r)
        return logs[-1:] - logs[:-1], class_entropy(logs[:-2], self.m.priors, 1)

    def compromise(self, ratio: Float[Array, "c d"]):
        """Return Ĩ of eq. 10, and whether every class is at its bound −log p_y.

        `ratio` is log|Σ*| − log|Σ_y|. The criterion is computed as its upper bound H(Y) minus the
        distance of every class from its bound.
        """
        p = self.m.priors
        bound = surprise(p)
        below = class_sum(p, jnp.maximum(bound[:, None] - 0.5 * ratio, 0))
        return class_sum(p, bound) - below, below == 0

    def rank(self, step, state, terms):
        """Rank the candidates by eq. 10, or by the fallback after saturation.

        The criterion is saturated once every candidate puts every class at its bound.
        """
        ratio = state.totals[0][:, None] + terms[0]  # log|Σ*| − log|Σ|
        value, clipped = self.compromise(ratio[:-1])
        value, wilks = value + terms[1], ratio[-1]
        priority = self.priorities(state, value + wilks)
        fallback, tied = self._fallback_key(step, wilks), jnp.where(clipped, wilks, -jnp.inf)
        unclipped = jnp.where(clipped, CHOSEN, priority)
        top, any_unclipped, *largest = tops(priority, unclipped, value, fallback, tied)
        saturated = (any_unclipped < COPY) & (top >= COPY) | (state.saturated_at < step)
        best = as_large(value, largest[0])
        if self.options.objective == "mi":  # clipped candidates tie
            best = best & as_large(tied, largest[2])
        best = jnp.where(saturated, as_large(fallback, largest[1]), best) & (priority == top)
        at = jnp.where(saturated, jnp.minimum(state.saturated_at, step), state.saturated_at)
        if self.options.fallback == "stop":
            top = jnp.where(saturated, CHOSEN, top)
        return Ranking(value + state.totals[1], best, top, at)

    def _fallback_key(self, step, wilks):
        if self.options.fallback != "random":
            return wilks
        key = jax.random.fold_in(self.options.key, step)
        return jax.random.uniform(key, wilks.shape, wilks.dtype)

    def value(self):
        cov = self.matrices()
        logdet = log_determinants(cov)
        value, _ = self.compromise(logdet[-1:] - logdet[:-2])
        if self.options.objective == "entropy":
            value = value + class_entropy(logdet[:-2], self.m.priors, cov.shape[-1])
        return value[0]
