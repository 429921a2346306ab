"""Functions shared by the surrogates: scores of resamples, and checks of arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import matmul, safe_divide


class ResampledScores(NamedTuple):
    """Mean and variance over resamples of the scores |β| / Σ |β|, `(l, p)` each.

    `num_counted (l,)`: number of resamples that have a model; the other resamples are ignored.
    `converged (l,)`: whether all of these models reached their minimum.
    """

    mean: Float[Array, "l p"]
    variance: Float[Array, "l p"]
    num_counted: Int[Array, "l"]
    converged: Bool[Array, "l"]


def shares(a: Array, axis: int) -> Array:
    """Return |a| / Σ |a| along an axis; 0 if all entries along the axis are 0."""
    size = jnp.abs(a)
    return safe_divide(size, jnp.broadcast_to(jnp.sum(size, axis=axis, keepdims=True), size.shape))


def stream(
    x: Float[Array, "n p"],
    masks: Bool[Array, "m n"],
    chunk: int,
    full: Float[Array, "n 1"],
    fit: Callable[[Bool[Array, "b n"]], Any],
) -> ResampledScores:
    """Return the mean and variance of one label's scores over all resamples, in chunks.

    A model has the coefficients β = Xᵀ pull. `full` is the pull of the model fitted on all samples;
    moments are computed relative to the scores of this model. `fit` takes a chunk of b resamples.
    It returns their pulls `(n, b)`, which resamples have a model, and which models converged.
    """

    def scores(pull):
        return shares(matmul(x.T, pull), axis=0)

    size = -(-masks.shape[0] // chunk)
    padded = jnp.pad(masks, ((0, size * chunk - masks.shape[0]), (0, 0)))
    real = jnp.arange(size * chunk) < masks.shape[0]
    centre = scores(full)

    def add(total, part):
        present, there = part
        pull, valid, done = fit(present)
        valid = valid & there
        away = jnp.where(valid[None], scores(pull) - centre, 0)
        count, first, second, fine = total
        return (
            count + jnp.sum(valid, dtype=jnp.int32),
            first + jnp.sum(away, axis=1),
            second + jnp.sum(away * away, axis=1),
            fine & jnp.all(done | ~valid),
        ), None

    zero = jnp.zeros(x.shape[1], x.dtype)
    parts = padded.reshape(size, chunk, -1), real.reshape(size, chunk)
    start = (jnp.int32(0), zero, zero, jnp.asarray(True))
    (count, first, second, fine), _ = lax.scan(add, start, parts)
    number = count.astype(x.dtype)
    shift = first / number
    variance = (second - number * shift**2) / (number - 1)
    return ResampledScores(centre[:, 0] + shift, jnp.maximum(variance, 0), count, fine)


# ---- Arguments ----------------------------------------------------------------------------------


def check_samples(x, y, weights, *, binary: bool = False) -> tuple[Array, Array, Array, bool]:
    """Return x, y as `(n, l)` in the dtype of x, the weights, and whether y was a single label."""
    x = _checks.samples(x)
    y = _checks.array(y, "y", x.dtype)
    one = y.ndim == 1
    y = y[:, None] if one else y
    if y.ndim != 2 or y.shape[0] != x.shape[0] or y.shape[1] == 0:
        expected = f"of shape ({x.shape[0]},) or ({x.shape[0]}, l), one label a sample"
        raise _checks.fail("y", expected, f"shape {y.shape}")
    known = binary and not _checks.is_traced(y)
    if known and not bool(jnp.all(y == y.astype(bool).astype(y.dtype))):
        raise _checks.fail("y", "0 or 1", "other values")
    return x, y, _checks.sample_weights(weights, x), one


def check_masks(masks, chunk_size, w) -> tuple[Bool[Array, "m n"], int]:
    """Return which samples of positive weight are in each resample, and the size of a chunk."""
    masks = _checks.array(masks, "masks", bool)
    n = w.shape[0]
    if masks.ndim != 2 or masks.shape[1] != n or masks.shape[0] < 2:
        expected = f"of shape (B, {n}) with B ≥ 2 resamples"
        raise _checks.fail("masks", expected, f"shape {masks.shape}")
    chunk = min(_checks.integer(chunk_size, "chunk_size", low=1), masks.shape[0])
    return masks & (w > 0)[None], chunk


def without_label_axis(fit: Any, one: bool) -> Any:
    """Return the fit without the axis of labels if y was a single label (`one`)."""
    return jax.tree.map(lambda a: a[0], fit) if one else fit
