"""The part of an axis that one device of a mesh holds, and what it takes to act on the whole.

Without a mesh the part is the whole, and every function here does nothing: one formula serves both.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul
from jaxfs.linalg import _lapack


class Part(NamedTuple):
    """`size` of `total` things along a mesh axis, the same number on every device.

    Where they do not divide evenly, the last ones are padding. Things are on the first axis.
    """

    total: int
    size: int
    axis: str | None = None

    @property
    def offset(self) -> Int[Array, ""] | int:
        """How many come before the first of these."""
        return 0 if self.axis is None else lax.axis_index(self.axis) * self.size

    @property
    def present(self) -> Bool[Array, "size"]:
        """Which are no padding."""
        return self.offset + jnp.arange(self.size, dtype=jnp.int32) < self.total

    def sum(self, a: Array) -> Array:
        """Of the devices' sums."""
        return a if self.axis is None else lax.psum(a, self.axis)

    def gather(self, tree: Any) -> Any:
        """Of all devices, one after the other."""
        if self.axis is None:
            return tree
        return jax.tree.map(lambda a: lax.all_gather(a, self.axis, tiled=True), tree)

    def mine(self, a: Array) -> Array:
        """Of `total` things those that are here; padding is 0."""
        if self.axis is None:
            return a
        number = lax.axis_size(self.axis) * self.size
        padded = jnp.pad(a, [(0, number - self.total)] + [(0, 0)] * (a.ndim - 1))
        return lax.dynamic_slice_in_dim(padded, self.offset, self.size)

    def place(self, chosen: Int[Array, "m"]) -> Int[Array, "m"]:
        """Where in this part things of the whole are; `size`, out of range, for those elsewhere."""
        here = chosen - self.offset
        return jnp.where((here >= 0) & (here < self.size), here, self.size)

    def take(self, a: Array, chosen: Int[Array, "m"]) -> Array:
        """Things of the whole, wherever they are."""
        if self.axis is None:
            return a[chosen]
        at = self.place(chosen)
        here = (at < self.size).reshape(-1, *[1] * (a.ndim - 1))
        return self.sum(jnp.where(here, a[jnp.minimum(at, self.size - 1)], jnp.zeros_like(a[:1])))

    def best(self, value: Float[Array, "size"], number: int, tree: Any) -> tuple[Array, Any]:
        """The `number` largest of all values: their places in the whole, and what belongs to them.

        Every device sends its own best; the best of those are the best of all.
        """
        top, at = lax.top_k(value, min(number, self.size))
        mine = at + self.offset, jax.tree.map(lambda a: a[at], tree)
        if self.axis is None:
            return mine
        order = lax.top_k(self.gather(top), number)[1]
        return jax.tree.map(lambda a: a[order], self.gather(mine))

    def around(self, function: Any, tree: Any) -> Array:
        """Σ over devices of `function` of their `tree`, which goes round: none holds them all."""
        if self.axis is None:
            return function(tree)
        number = lax.axis_size(self.axis)
        ring = [(i, (i + 1) % number) for i in range(number)]

        def turn(_, state):
            tree, out = state
            tree = jax.tree.map(lambda a: lax.ppermute(a, self.axis, ring), tree)
            return tree, out + function(tree)

        return lax.fori_loop(1, number, turn, (tree, function(tree)))[1]

    def qr(self, a: Float[Array, "size k"]) -> tuple[Float[Array, "size k"], Float[Array, "k k"]]:
        """Of the whole matrix, by rows: first every device's part, then their triangles."""
        q, r = _lapack.qr(a)
        if self.axis is None:
            return q, r
        outer, r = _lapack.qr(self.gather(r))
        rows = q.shape[1]
        here = lax.dynamic_slice_in_dim(outer, lax.axis_index(self.axis) * rows, rows)
        return matmul(q, here), r
