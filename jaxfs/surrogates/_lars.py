"""Least angle regression for several labels, in arrays of a fixed size.

The rows of X are the features in the model, and s holds the signs of their correlations with the
residual. All these correlations have the same absolute value, the level. A step of length t in the
direction d = (XXᵀ)⁻¹ s lowers the level at the same rate for all of them, to level − t.

The inverse is MᵀM, where the rows of MX are orthonormal. A feature that enters adds a row to M, by
Gram–Schmidt. When a feature leaves, a reflection makes one row of MX orthogonal to all features
that stay, and this row is deleted. The matrix [M, MX] is stored, because both halves change in the
same way.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide
from jaxfs.linalg._lapack import all_finite

#: Maximum number of times that a feature leaves, as a multiple of the model size k.
_TURNS = 16


class _Path(NamedTuple):
    """The state of the path. Each feature in the model occupies a slot; an empty slot is −1."""

    slots: Int[Array, "k"]
    basis: Float[Array, "k k+n"]  # [M, MX]; 0 for an empty slot
    signs: Float[Array, "k"]  # signs of the correlations; 0 for an empty slot
    beta: Float[Array, "k"]
    residual: Float[Array, "n"]
    free: Bool[Array, "p"]  # which features may enter
    size: Int[Array, ""]  # number of features in the model
    turns: Int[Array, ""]  # number of features that have left
    done: Bool[Array, ""]


def path_end(
    a: Float[Array, "n p"], r: Float[Array, "n l"], free: Bool[Array, "p"], k: int, lasso: bool
) -> Float[Array, "l p"]:
    """Return the coefficients at which k features are in the model and one more would enter.

    Columns of `a` and `r` are centred. Only features for which `free` is true can enter.
    """
    finite = all_finite(a)
    a = jnp.where(finite, a, 0)
    known = finite[0] & (jnp.sum(r - r, axis=0) == 0)
    n, p = a.shape
    squares = jnp.sum(a**2, axis=0)

    def one(r):
        # Correlations of at most this size are rounding errors.
        floor = eps(a.dtype) * (jnp.sum(r**2) * n * jnp.max(squares)) ** 0.5
        zeros, none = functools.partial(jnp.zeros, dtype=r.dtype), jnp.int32(0)
        slots = jnp.full(k, -1, jnp.int32)
        path = lax.while_loop(
            lambda path: ~path.done & (path.turns <= _TURNS * k),
            functools.partial(_step, a, squares, floor, lasso),
            _Path(slots, zeros((k, k + n)), zeros(k), zeros(k), r, free, none, none, floor < 0),
        )
        place = path.slots[:, None] == jnp.arange(p, dtype=jnp.int32)[None]
        return _times(path.beta, place.astype(r.dtype))

    beta = jax.vmap(one, in_axes=1)(jnp.where(known[None], r, 0))
    return jnp.where(known[:, None], beta, jnp.nan)


def _step(a: Float[Array, "n p"], squares: Float[Array, "p"], floor, lasso: bool, path: _Path):
    """Move until a feature enters or leaves, or all correlations are 0."""
    k, basis = path.slots.shape[0], path.basis
    both = _times(_times(path.signs, basis[:, :k].T), basis)
    direction, along = both[:k], both[k:]
    moving = jnp.stack([path.residual, along])
    c, slope = matmul(moving, a)
    # The model's features share |c|. At the start, the level is the largest |c| of all features.
    shared = matmul(moving, along[:, None])[:, 0]
    largest = jnp.max(jnp.where(path.free, jnp.abs(c), 0))
    level = jnp.where(path.size == 0, largest, safe_divide(shared[0], shared[1]))

    entry = _entry(c, slope, level, path.free)
    shrinks = (direction * path.signs < 0) & lasso
    exit_ = -path.beta / jnp.where(shrinks, direction, 1)  # where a coefficient reaches 0
    exit_ = jnp.where(shrinks, jnp.maximum(exit_, 0), jnp.inf)
    feature, leaver = (jnp.argmin(b).astype(jnp.int32) for b in (entry, exit_))
    length = jnp.minimum(entry[feature], exit_[leaver])
    ends = length >= level - floor
    reached = ~ends & (entry[feature] < exit_[leaver])
    leaves = ~ends & ~reached

    slot = jnp.where(leaves, leaver, jnp.argmin(path.slots).astype(jnp.int32))  # or an empty slot
    here = jnp.arange(k, dtype=jnp.int32) == slot
    row = jnp.append(here.astype(a.dtype), a[:, feature])
    for _ in range(2):  # the second pass removes the rounding errors of the first
        row = row - _times(_times(row[k:], basis[:, k:].T), basis)
    square = jnp.sum(row[k:] ** 2)
    dependent = reached & (square <= eps(a.dtype) * max(16, k) * squares[feature])
    enters = reached & ~dependent & (path.size < k)
    length = jnp.where(dependent, 0, jnp.where(ends, level, length))
    sign = jnp.sign(c[feature] - length * slope[feature])

    def changed(old, new):
        """`old` with `new` in the slot if a feature enters, and 0 if one leaves."""
        this = (here if old.ndim == 1 else here[:, None]) & (enters | leaves)
        return jnp.where(this, jnp.where(enters, new, 0), old)

    index = jnp.arange(a.shape[1], dtype=jnp.int32)
    freed = leaves & (index == path.slots[leaver])
    return _Path(
        slots=changed(path.slots + 1, feature + 1) - 1,
        basis=changed(
            jnp.where(leaves, _reflected(basis, slot, here), basis), row * lax.rsqrt(square)
        ),
        signs=changed(path.signs, sign),
        beta=changed(path.beta + length * direction, 0),
        residual=path.residual - length * along,
        free=(path.free & ~(reached & (index == feature))) | freed,
        size=path.size + enters.astype(jnp.int32) - leaves.astype(jnp.int32),
        turns=path.turns + leaves.astype(jnp.int32),
        done=ends | (reached & ~dependent & ~enters),
    )


def _times(v: Float[Array, "m"], a: Float[Array, "m q"]) -> Float[Array, "q"]:
    return matmul(v[None], a)[0]


def _entry(c, slope, level, free: Bool[Array, "p"]) -> Float[Array, "p"]:
    """Return the step length at which each feature attains the level, or ∞ if it never does."""

    def meet(gap, rate):
        nearing = free & (rate > 0)
        return jnp.where(nearing, jnp.maximum(gap, 0) / jnp.where(nearing, rate, 1), jnp.inf)

    return jnp.minimum(meet(level - c, 1 - slope), meet(level + c, 1 + slope))


def _reflected(basis: Float[Array, "k m"], slot, here: Bool[Array, "k"]) -> Float[Array, "k m"]:
    """Return the basis reflected so that the column of a slot is 0 except in the slot's row."""
    normal = basis[:, slot]
    norm, corner = jnp.linalg.norm(normal), normal[slot]
    normal = normal + jnp.where(here & (corner < 0), -norm, jnp.where(here, norm, 0))
    scale = safe_divide(jnp.ones_like(norm), norm * (norm + jnp.abs(corner)))
    return basis - scale * normal[:, None] * _times(normal, basis)[None]
