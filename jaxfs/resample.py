"""Parts of the samples, drawn at random, as masks: every resample keeps the shape of the data."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels import presence


def subsample_masks(
    key: Array,
    num_resamples: int,
    num_samples: int,
    *,
    fraction: Scalar = 0.95,
    mask: ArrayLike | None = None,
) -> Bool[Array, "b n"]:
    """Masks of random parts of the samples, drawn without replacement.

    **Arguments**

    - `key`: of `jax.random`.
    - `num_resamples`, `num_samples`: static.
    - `fraction`: in (0, 1], of the samples that are present; rounded to a whole number of samples,
      at least one, and not all of them unless it is 1.
    - `mask`: `(n,)`, false or 0 for samples that are padding, in no resample.

    **Returns** `(B, n)`, true for the samples of each resample; padding does not change which.

    >>> import jax
    >>> subsample_masks(jax.random.key(0), 3, 10, fraction=0.7).sum(axis=1).tolist()
    [7, 7, 7]
    """
    num_resamples = _checks.integer(num_resamples, "num_resamples", low=1)
    num_samples = _checks.integer(num_samples, "num_samples", low=1)
    _checks.number(fraction, "fraction", low=0, high=1, open_low=True, scalar=True)
    present = presence(mask, num_samples)
    # Each sample has a key of its own, by its place among those present: padding changes no lot.
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.cumsum(present))
    lots = jax.vmap(lambda key: jax.random.uniform(key, (num_resamples,)))(keys).T
    lots = jnp.where(present[None], lots, 2.0)
    rank = jnp.argsort(jnp.argsort(lots, axis=1), axis=1)
    there = jnp.sum(present)
    fraction = jnp.asarray(fraction, lots.dtype)
    size = jnp.round(fraction * there.astype(lots.dtype))
    size = jnp.where(fraction < 1, jnp.minimum(size, (there - 1).astype(size.dtype)), size)
    return (rank < jnp.maximum(size, 1).astype(rank.dtype)) & present[None]
