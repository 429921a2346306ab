"""Leading eigenpairs of an operator that is known by what it does to a few vectors at a time.

Block Krylov with restarts: from an orthonormal block X the space [X, A X, A² X] is made
orthonormal, A is projected onto it (Rayleigh and Ritz), and the leading vectors found there are the
next X. Two products with A per round do what a Chebyshev filter of degree two would, without its
bounds on the spectrum.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, symmetrize

#: Blocks in the space of a round: the start and two products.
DEPTH = 3


class Eigenpairs(NamedTuple):
    """Leading eigenpairs of a symmetric operator, and how good they are.

    - `values`: `(k,)`, falling; `vectors`: `(d, k)`, orthonormal columns, the entry of largest
      magnitude of each positive.
    - `residuals`: `(k,)`, ‖A v − λ v‖. An eigenvalue of A lies within it of each of `values`.
    - `converged`: whether all residuals are within the tolerance; `iterations`: rounds taken.
    """

    values: Float[Array, "k"]
    vectors: Float[Array, "d k"]
    residuals: Float[Array, "k"]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


class _Block(NamedTuple):
    x: Float[Array, "d b"]
    ax: Float[Array, "d b"]
    values: Float[Array, "b"]


def iterate(
    matvec: Callable[[Array], Array], start: Float[Array, "d b"], k: int, tolerance, max_iterations
) -> Eigenpairs:
    """The k leading eigenpairs from a block of at least k vectors to start with."""
    d, b = start.shape
    if DEPTH * b >= d:  # the space of a round would be everything
        everything = jnp.eye(d, dtype=start.dtype)
        block, rounds = _ritz([everything], [matvec(everything)], b), jnp.zeros((), jnp.int32)
    else:
        x = jnp.linalg.qr(start)[0]

        def unfinished(state):
            block, rounds = state
            worst = jnp.max(_residuals(block, k)) / jnp.max(jnp.abs(block.values))
            return (rounds < max_iterations) & (worst > tolerance)  # NaN ends it

        def advance(state):
            block, rounds = state
            return _round(matvec, block, b), rounds + 1

        first = _ritz([x], [matvec(x)], b)
        block, rounds = lax.while_loop(unfinished, advance, (first, jnp.zeros((), jnp.int32)))
    residuals = _residuals(block, k)
    values, vectors = block.values[:k], block.x[:, :k]
    converged = jnp.max(residuals) <= tolerance * jnp.max(jnp.abs(block.values))
    peak = jnp.argmax(jnp.abs(vectors), axis=0, keepdims=True)
    vectors = vectors * jnp.sign(jnp.take_along_axis(vectors, peak, axis=0))
    return Eigenpairs(values, vectors, residuals, converged, rounds)


def _round(matvec: Callable[[Array], Array], block: _Block, b: int) -> _Block:
    """Products with A, each made orthogonal to all before it, then the best b vectors of all."""
    spaces, images = [block.x], [block.ax]
    for _ in range(DEPTH - 1):
        spaces.append(_complement(spaces, images[-1]))
        images.append(matvec(spaces[-1]))
    return _ritz(spaces, images, b)


def _complement(spaces: list[Array], new: Float[Array, "d b"]) -> Float[Array, "d b"]:
    """An orthonormal basis of what is new in `new`, twice so that it is orthogonal to rounding.

    Of converged vectors nothing is new but rounding; the second turn makes that orthogonal, too.
    """
    for _ in range(2):
        for q in spaces:
            new = new - matmul(q, matmul(q.T, new))
        new = jnp.linalg.qr(new)[0]
    return new


def _ritz(spaces: list[Array], images: list[Array], b: int) -> _Block:
    """The leading b Ritz pairs of a space with an orthonormal basis, and the images of both."""
    q, aq = jnp.concat(spaces, axis=1), jnp.concat(images, axis=1)
    core = symmetrize(matmul(q.T, aq))
    finite = jnp.all(jnp.isfinite(core))
    # On NaN LAPACK need not return.
    safe = jnp.where(finite, core, jnp.eye(core.shape[0], dtype=core.dtype))
    w, u = jnp.linalg.eigh(safe, symmetrize_input=False)
    w, u = jnp.where(finite, w[::-1][:b], jnp.nan), u[:, ::-1][:, :b]
    return _Block(matmul(q, u), matmul(aq, u), w)


def _residuals(block: _Block, k: int) -> Float[Array, "k"]:
    gap = block.ax - block.x * block.values[None, :]
    return jnp.linalg.norm(gap[:, :k], axis=0)
