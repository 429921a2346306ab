"""Least angle regression for several labels, in arrays of a fixed size.

The columns of X are the features in the model, and s holds the signs of their correlations with the
residual. All these correlations have the same absolute value, the level. A step of length t in the
direction d = (XᵀX)⁻¹ s lowers the level at the same rate for all of them, to level − t.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul
from jaxfs.linalg._lapack import cho_solve, cholesky

#: Maximum number of times that a feature leaves, as a multiple of the model size k.
_TURNS = 16


class _Path(NamedTuple):
    """The state of the path. Each feature in the model occupies a slot; an empty slot is −1."""

    slots: Int[Array, "k"]
    columns: Float[Array, "k n"]
    gram: Float[Array, "k k"]
    signs: Float[Array, "k"]  # signs of the correlations; 0 for an empty slot
    beta: Float[Array, "k"]
    residual: Float[Array, "n"]
    free: Bool[Array, "p"]  # which features may enter
    turns: Int[Array, ""]
    done: Bool[Array, ""]


def path_end(
    a: Float[Array, "n p"], r: Float[Array, "n l"], free: Bool[Array, "p"], k: int, lasso: bool
) -> Float[Array, "l p"]:
    """Return the coefficients at which k features are in the model and one more would enter.

    Columns of `a` and `r` are centred. Only features for which `free` is true can enter.
    """
    known = jnp.all(jnp.isfinite(a)) & jnp.all(jnp.isfinite(r), axis=0)
    a = jnp.where(jnp.all(jnp.isfinite(a)), a, 0)

    def one(r):
        # Correlations of at most this size are rounding errors.
        floor = eps(a.dtype) * (jnp.sum(r**2) * a.shape[0] * jnp.max(jnp.sum(a**2, axis=0))) ** 0.5
        path = lax.while_loop(
            lambda path: ~path.done & (path.turns <= _TURNS * k),
            functools.partial(_step, a, floor, lasso),
            _Path(
                slots=jnp.full(k, -1, jnp.int32),
                columns=jnp.zeros((k, r.shape[0]), r.dtype),
                gram=jnp.zeros((k, k), r.dtype),
                signs=jnp.zeros(k, r.dtype),
                beta=jnp.zeros(k, r.dtype),
                residual=r,
                free=free,
                turns=jnp.int32(0),
                done=jnp.asarray(False),
            ),
        )
        place = jnp.where(path.slots < 0, a.shape[1], path.slots)  # out of range: ignored
        return jnp.zeros(a.shape[1], a.dtype).at[place].set(path.beta, mode="drop")

    beta = jax.vmap(one, in_axes=1)(jnp.where(known[None], r, 0))
    return jnp.where(known[:, None], beta, jnp.nan)


def _step(a: Float[Array, "n p"], floor, lasso: bool, path: _Path) -> _Path:
    """Move until a feature enters or leaves, or all correlations are 0."""
    used = path.slots >= 0
    solve = _solver(path.gram, used)
    direction = solve(path.signs)
    along = matmul(direction[None], path.columns)[0]
    c, slope = matmul(jnp.stack([path.residual, along]), a)
    level = _level(c, path)
    entry = _entry(c, slope, level, path.free)
    exit_ = _exit(direction, path) if lasso else jnp.full_like(direction, jnp.inf)
    feature, slot = jnp.argmin(entry), jnp.argmin(exit_)

    length = jnp.minimum(entry[feature], exit_[slot])
    ends = length >= level - floor
    enters = ~ends & (entry[feature] < exit_[slot])
    column = a[:, feature]
    rest = (
        column - matmul(solve(matmul(path.columns, column[:, None])[:, 0])[None], path.columns)[0]
    )
    tolerance = eps(a.dtype) * max(16, path.slots.shape[0])
    dependent = enters & (jnp.sum(rest**2) <= tolerance * jnp.sum(column**2))

    length = jnp.where(dependent, 0, jnp.where(ends, level, length))
    moved = path._replace(
        beta=path.beta + length * direction,
        residual=path.residual - length * along,
        free=path.free.at[feature].set(path.free[feature] & ~dependent),
        done=ends | (enters & ~dependent & jnp.all(used)),
    )
    sign = jnp.sign(c[feature] - length * slope[feature])
    moved = _choose(
        enters & ~dependent & ~jnp.all(used), _enter(moved, feature, column, sign), moved
    )
    return _choose(~ends & ~enters, _leave(moved, slot), moved)


def _solver(gram: Float[Array, "k k"], used: Bool[Array, "k"]):
    """Return a solver for the Gram matrix of the model's features; identity for empty slots."""
    both = used[:, None] & used[None, :]
    root = cholesky(jnp.where(both, gram, jnp.eye(used.shape[0], dtype=gram.dtype)))
    return lambda right: cho_solve(root, right[:, None])[:, 0]


def _level(c: Float[Array, "p"], path: _Path) -> Float[Array, ""]:
    """Return the |correlation| shared by the model's features; at the start, the largest of all."""
    used = path.slots >= 0
    inside = jnp.max(jnp.where(used, jnp.abs(c[path.slots]), 0))
    return jnp.where(jnp.any(used), inside, jnp.max(jnp.where(path.free, jnp.abs(c), 0)))


def _entry(c, slope, level, free: Bool[Array, "p"]) -> Float[Array, "p"]:
    """Return the step length at which each feature attains the level, or ∞ if it never does."""

    def meet(gap, rate):
        nearing = free & (rate > 0)
        return jnp.where(nearing, jnp.maximum(gap, 0) / jnp.where(nearing, rate, 1), jnp.inf)

    return jnp.minimum(meet(level - c, 1 - slope), meet(level + c, 1 + slope))


def _exit(direction: Float[Array, "k"], path: _Path) -> Float[Array, "k"]:
    """Return the step length at which each coefficient reaches 0, or ∞ if it moves away from 0."""
    nearing = direction * path.signs < 0
    distance = -path.beta / jnp.where(nearing, direction, 1)
    return jnp.where(nearing, jnp.maximum(distance, 0), jnp.inf)


def _enter(path: _Path, feature, column: Float[Array, "n"], sign) -> _Path:
    """Put a feature into the first empty slot."""
    slot = jnp.argmin(path.slots)
    columns = path.columns.at[slot].set(column)
    products = matmul(columns, column[:, None])[:, 0]
    return path._replace(
        slots=path.slots.at[slot].set(feature.astype(jnp.int32)),
        columns=columns,
        gram=path.gram.at[slot].set(products).at[:, slot].set(products),
        signs=path.signs.at[slot].set(sign),
        free=path.free.at[feature].set(False),
    )


def _leave(path: _Path, slot) -> _Path:
    return path._replace(
        slots=path.slots.at[slot].set(-1),
        columns=path.columns.at[slot].set(0),
        signs=path.signs.at[slot].set(0),
        beta=path.beta.at[slot].set(0),
        free=path.free.at[path.slots[slot]].set(True),
        turns=path.turns + 1,
    )


def _choose(condition: Bool[Array, ""], yes: _Path, no: _Path) -> _Path:
    return jax.tree.map(functools.partial(jnp.where, condition), yes, no)
