"""Features to which the others are correlated: a greedy choice that covers them.

    coverage(S) = Σ_j w_j max_{i ∈ S} |corr(x_i, x_j)|

is monotone and submodular, so that the greedy choice of m features has at least 1 − 1/e of the
largest coverage (Nemhauser, Wolsey and Fisher 1978).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, smallest

#: So many features are looked at together.
_TOGETHER = 32


class _Cover(NamedTuple):
    """How far every feature is covered, what each would add at most, and which are chosen."""

    covered: Float[Array, "d"]
    bounds: Float[Array, "d"]
    order: Int[Array, "m"]


def cover(
    units: Float[Array, "n d"], worth: Float[Array, "d"], allowed: Bool[Array, "d"], m: int
) -> Int[Array, "m"]:
    """The greedy choice of m features for the largest coverage, in its order.

    **Arguments**

    - `units`: columns of mean 0 and norm 1, or 0.
    - `worth`: w ≥ 0, finite.
    - `allowed`: false for features that are never chosen. If fewer than m are allowed, the places
      after them hold any.

    **Numerics** ties by rising index, to rounding.

    **Cost** O(n d²) for the first feature. What a feature adds only falls as others are chosen, so
    that later ones are sought among those whose last known gain is largest (Minoux 1978): some ten
    times the first in all, more where nothing is correlated, at worst m times.
    """
    together = min(_TOGETHER, units.shape[1])
    start = jnp.zeros_like(worth)
    every = jnp.arange(worth.size)
    most = lax.map(lambda i: _gains(units, worth, start, i[None])[0], every, batch_size=together)
    first = _Cover(start, jnp.where(allowed, most, -jnp.inf), jnp.zeros(m, jnp.int32))

    def take(t, state: _Cover) -> _Cover:
        def stale(known):
            bounds, fresh = known
            best = jnp.argmax(bounds)
            return ~fresh[best] & jnp.isfinite(bounds[best])  # or no end would come

        def refresh(known):
            bounds, fresh = known
            ranked = smallest(jnp.where(fresh, jnp.inf, -bounds), together)[1]
            ranked = jnp.where(ranked < 0, worth.size, ranked)  # which is no place
            gains = _gains(units, worth, state.covered, ranked)
            bounds = bounds.at[ranked].set(gains, mode="drop")
            return bounds, fresh.at[ranked].set(True, mode="drop")

        bounds, _ = lax.while_loop(stale, refresh, (state.bounds, jnp.zeros_like(allowed)))
        i = jnp.argmax(bounds).astype(jnp.int32)
        covered = jnp.maximum(state.covered, _correlations(units, i[None])[0])
        return _Cover(covered, bounds.at[i].set(-jnp.inf), state.order.at[t].set(i))

    return lax.fori_loop(0, m, take, first).order


def _correlations(units: Float[Array, "n d"], i: Int[Array, "b"]) -> Float[Array, "b d"]:
    return jnp.abs(matmul(jnp.take(units, i, axis=1, mode="clip").T, units))


def _gains(units, worth, covered, i: Int[Array, "b"]) -> Float[Array, "b"]:
    """What each of some features would add to the coverage."""
    more = jnp.maximum(_correlations(units, i) - covered[None], 0)
    return matmul(more, worth)
