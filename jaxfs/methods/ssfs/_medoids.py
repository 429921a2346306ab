"""Exact 2-medoids of numbers: two groups, each around one of its own members."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def two_medoids(v: Float[Array, "n"], present: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """Which numbers are in the upper of the two groups with the least Σ |v_i − medoid|.

    On a line the groups are separated by a gap, and a group's medoid is its median: all n − 1 gaps
    are tried, by prefix sums of the sorted numbers. Equal numbers stay together, of equally good
    gaps the lowest counts; where all numbers are equal, all are in the lower group. Numbers not
    present count nowhere. NaN gives all false.
    """
    n = v.shape[0]
    order = jnp.argsort(jnp.where(present, v, jnp.inf))
    there = jnp.sum(present)
    index = jnp.arange(n, dtype=there.dtype)
    # About the middle, so that a common offset does not cost digits.
    s = jnp.where(index < there, v[order], 0)
    s = jnp.where(index < there, s - s[there // 2], 0)
    prefix = jnp.append(jnp.zeros(1, s.dtype), jnp.cumsum(s))

    def cost(start, end):
        """Σ |s_i − median| over the sorted numbers start … end − 1."""
        middle = (start + end - 1) // 2
        below = s[middle] * (middle - start).astype(s.dtype) - (prefix[middle] - prefix[start])
        above = prefix[end] - prefix[middle] - s[middle] * (end - middle).astype(s.dtype)
        return below + above

    split = index + 1  # the size of the lower group
    following = jnp.minimum(split, n - 1)
    valid = (split < there) & (s[following] > s)
    total = cost(jnp.zeros_like(split), jnp.minimum(split, there)) + cost(
        jnp.minimum(split, there - 1), jnp.broadcast_to(there, split.shape)
    )
    last = jnp.argmin(jnp.where(valid, total, jnp.inf))
    return present & jnp.any(valid) & (v > v[order][last])
