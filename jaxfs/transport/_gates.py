"""Soft selection of the m largest scores, by optimal transport onto the levels "in" and "out".

With two levels, the transport plan p_i = σ((s_i − τ) / T) has one unknown, the threshold τ. The
equation Σ_i p_i = m determines τ.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import safe_divide

#: Number of bisection steps.
_HALVINGS = 60


def gates(
    scores: Float[Array, "d"], m: int, temperature, present: Bool[Array, "d"] | None = None
) -> Float[Array, "d"]:
    """Soft indicators of the m largest scores: p_i = σ((s_i − τ) / T) with Σ_i p_i = m.

    **Arguments**

    - `scores`: `(d,)`, finite where present.
    - `m`: number of scores to choose, at least 1. If at most m scores are present, their p_i are 1.
    - `temperature`: T > 0, traced or not.
    - `present`: `(d,)`; absent scores have p_i = 0.

    **Derivatives** in the scores and the temperature, by the implicit function theorem; 0 if every
    indicator is 0 or 1 to rounding.

    **Cost** O(d).
    """
    if present is None:
        present = jnp.ones(scores.shape, bool)
    t = jnp.where(present, scores, jnp.zeros_like(scores)) / temperature
    fixed = lax.stop_gradient(t)

    def total(tau):
        return jnp.sum(jax.nn.sigmoid(fixed - tau), where=present)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        above = total(middle) > m
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    # Outside of this interval all indicators are 0, or all are 1, to rounding.
    far = -jnp.log(jnp.finfo(scores.dtype).eps) + jnp.log(jnp.asarray(scores.size, scores.dtype))
    low = jnp.min(jnp.where(present, fixed, jnp.inf)) - far
    high = jnp.max(jnp.where(present, fixed, -jnp.inf)) + far
    low, high = lax.fori_loop(0, _HALVINGS, halve, (low, high))
    tau = 0.5 * (low + high)
    # The derivative of a final Newton step is the derivative of τ.
    p = jax.nn.sigmoid(t - tau)
    slope = lax.stop_gradient(jnp.sum(p * (1 - p), where=present))
    tau = tau + safe_divide(jnp.sum(p, where=present) - lax.stop_gradient(total(tau)), slope)
    full = jnp.sum(present) <= m
    return jnp.where(present, jnp.where(full, jnp.ones_like(t), jax.nn.sigmoid(t - tau)), 0)
