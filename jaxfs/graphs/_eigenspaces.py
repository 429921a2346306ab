"""Eigenvectors that do not depend on the basis in which a repeated eigenvalue's space was found.

Eigenvalues repeat where a graph is in parts, as often as there are parts, and where it is
symmetric. Any basis of the space is as good to LAPACK, and rounding, hence the order of the
samples, decides which one is returned. Here the data decide, so that permuted samples have permuted
eigenvectors:

1. Within a space the basis is that of the principal axes of the features: the eigenvectors of
   F Fᵀ compressed to the space, F the features, centred and of length one. The first explains the
   largest sum of squared correlations. It is what an infinitesimal part of F Fᵀ, added to the
   graph, would choose.
2. Axes that explain the same, as on a ring, are found by pivots: the projection of the sample that
   lies most in their space, then what is orthogonal to it, and so on.
3. Signs, and pivots that tie, are decided by a fixed sum of the features of a sample.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import linalg
from jaxfs._numerics import computed_if, eps, matmul, safe_divide, symmetrize, unit_columns

#: Number of further eigenpairs examined, in case the last one wanted lies inside an eigenspace.
MORE = 8


def gap_tolerance(dtype) -> float:
    """Eigenvalues in [0, 2] nearer to each other than this are one: 1.5e-8; in float32 1.5e-5.

    A gap of √eps leaves vectors that rounding changes by some √eps. In float32 that would join
    eigenvalues that data do tell apart; the tolerance is a hundred times their rounding there.
    """
    return max(2.0**-26, 128 * eps(dtype))


def settled(
    values: Float[Array, "m"],
    vectors: Float[Array, "n m"],
    x: Float[Array, "n p"],
    present: Bool[Array, "n"],
    number: int,
) -> Float[Array, "n k"]:
    """The first `number` of rising eigenpairs, with a basis that the data fix in each space.

    Where the last space wanted goes on beyond `MORE` pairs, all of `vectors` are looked at, which
    costs an `eigh` of their number; where it goes on beyond them, its part known counts as all.
    """
    features = unit_columns(lax.stop_gradient(x), present)
    rank = matmul(features, jnp.cos(1.0 + jnp.arange(x.shape[1], dtype=x.dtype))[:, None])[:, 0]
    total = values.shape[0]
    few = min(number + MORE, total)
    joined = values[1:] - values[:-1] <= gap_tolerance(values.dtype)
    space = jnp.cumsum(jnp.append(False, ~joined), dtype=jnp.int32)
    basis = _basis(space[:few], vectors[:, :few], features, rank, number)
    if few < total:
        last = space == space[number - 1]
        start = jnp.argmax(last)

        def with_all(vectors):
            # The space that is cut comes first, and all others are one, whose basis is not used.
            rolled = jnp.roll(vectors, -start, axis=1)
            there = jnp.roll(jnp.where(last, 0, 1), -start)
            found = jnp.roll(_basis(there, rolled, features, rank, number), start, axis=1)
            return jnp.where(last[None, :number], found, basis)

        basis = computed_if(jnp.all(joined[number - 1 : few]), with_all, vectors, basis)
    return _signed(basis, rank)


def _basis(
    space: Int[Array, "m"],
    vectors: Float[Array, "n m"],
    features: Float[Array, "n p"],
    rank: Float[Array, "n"],
    number: int,
) -> Float[Array, "n k"]:
    """The first `number` of a basis; columns of one space stand together, `space` is rising."""
    dtype = vectors.dtype
    same = space[:, None] == space[None, :]
    finite = jnp.all(jnp.isfinite(vectors))
    part = matmul(vectors.T, features)
    gram = jnp.where(same & finite, symmetrize(matmul(part, part.T)), 0)  # no NaN to LAPACK
    largest = jnp.max(jnp.sum(jnp.abs(gram), axis=1))
    gram = safe_divide(gram, jnp.broadcast_to(largest, gram.shape))
    # Explained parts are in [0, 1]; spaces are kept apart, and in their order, by steps of 2.
    steps = 2 * space.astype(dtype)
    explained, rotation = linalg.eigh(gram - jnp.diag(steps))
    explained, rotation = explained[::-1] + steps, rotation[:, ::-1]
    alone = jnp.sum(same, axis=1) == 1
    v = jnp.where(alone[None], vectors, matmul(vectors, rotation))
    tied = (space[1:] == space[:-1]) & (explained[:-1] - explained[1:] <= eps(dtype) ** 0.5)
    ties = jnp.cumsum(jnp.append(False, ~tied), dtype=jnp.int32)
    return _pivoted(ties, v, rank, number)[:, :number]


def _pivoted(
    ties: Int[Array, "m"], v: Float[Array, "n m"], rank: Float[Array, "n"], number: int
) -> Float[Array, "n m"]:
    """Columns of equal `ties` are turned, each in turn towards the sample that has most of them."""
    index = jnp.arange(ties.shape[0])

    def turn(j, v):
        rest = (ties == ties[j]) & (index >= j)
        rows = jnp.where(rest[None], v, 0)
        row = rows[_first_peak(jnp.sum(rows**2, axis=1), rank)]
        row = safe_divide(row, jnp.broadcast_to(jnp.linalg.norm(row), row.shape))
        # Householder's reflection that takes unit vector j to ±row, hence column j to ±v·row.
        normal = row.at[j].add(jnp.where(row[j] < 0, -1, 1).astype(row.dtype))
        normal = jnp.where(jnp.sum(rest) > 1, normal / jnp.linalg.norm(normal), 0)
        return v - 2 * matmul(v, normal[:, None]) * normal[None]

    return lax.fori_loop(0, number, turn, v)


def _first_peak(size: Float[Array, "n"], rank: Float[Array, "n"]) -> Int[Array, ""]:
    """Where `size` is largest, to half of the digits; where several are, the largest `rank`."""
    peak = size >= (1 - eps(size.dtype) ** 0.5) * jnp.max(size)
    return jnp.argmax(jnp.where(peak, rank, -jnp.inf))


def _signed(v: Float[Array, "n k"], rank: Float[Array, "n"]) -> Float[Array, "n k"]:
    """With a positive entry of largest magnitude."""

    def one(column):
        return column * jnp.sign(column[_first_peak(jnp.abs(column), rank)])

    return jax.vmap(one, in_axes=1, out_axes=1)(v)
