"""One device's shard of an array axis, and the collective operations on the whole axis.

Without a mesh the shard is the whole axis and no operation communicates. The same formulas
therefore work on one device and on several devices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul
from jaxfs.linalg import _lapack


class Shard(NamedTuple):
    """The `size` entries of an axis of `total` entries that one device of a mesh holds.

    All devices hold `size` entries. If `total` is not a multiple of `size`, the last entries are
    padding. The sharded axis is the first axis of every array.
    """

    total: int
    size: int
    axis: str | None = None  # the name of the mesh axis

    @property
    def offset(self) -> Int[Array, ""] | int:
        """The global index of the first local entry."""
        return 0 if self.axis is None else lax.axis_index(self.axis) * self.size

    @property
    def present(self) -> Bool[Array, "size"]:
        """A mask of the local entries that are data; False for padding."""
        return self.offset + jnp.arange(self.size, dtype=jnp.int32) < self.total

    def sum(self, a: Array) -> Array:
        """The sum of `a` over the devices."""
        return a if self.axis is None else lax.psum(a, self.axis)

    def gather(self, tree: Any) -> Any:
        """The arrays of all devices, concatenated."""
        return jax.tree.map(lambda a: lax.all_gather(a, self.axis, tiled=True), tree)

    def whole(self, tree: Any) -> Any:
        """The arrays of all devices, concatenated, without the padding."""
        if self.axis is None:
            return tree
        return jax.tree.map(lambda a: a[: self.total], self.gather(tree))

    def local(self, a: Array) -> Array:
        """Return the local entries of an array of all `total` entries; 0 for padding."""
        if self.axis is None:
            return a
        at = self.offset + jnp.arange(self.size, dtype=jnp.int32)
        return jnp.where(self.present, a[jnp.minimum(at, self.total - 1)], 0)

    def map(self, function: Callable[[Array], Array], a: Array) -> Array:
        """Return `function` of every row of the replicated `a`; the devices share the rows."""
        if self.axis is None:
            return lax.map(function, a)
        number = lax.axis_size(self.axis)
        each = -(-a.shape[0] // number)
        at = lax.axis_index(self.axis) * each + jnp.arange(each, dtype=jnp.int32)
        at = jnp.minimum(at, a.shape[0] - 1)
        return self.gather(lax.map(function, a[at]))[: a.shape[0]]

    def local_index(self, chosen: Int[Array, "m"]) -> Int[Array, "m"]:
        """Convert global to local indices; entries of other devices get the index `size`."""
        here = chosen - self.offset
        return jnp.where((here >= 0) & (here < self.size), here, self.size)

    def take(self, a: Array, chosen: Int[Array, "m"]) -> Array:
        """Return the entries of `a` with the given global indices, on every device."""
        if self.axis is None:
            return a[chosen]
        at = self.local_index(chosen)
        here = (at < self.size).reshape(-1, *[1] * (a.ndim - 1))
        return self.sum(jnp.where(here, a[jnp.minimum(at, self.size - 1)], jnp.zeros_like(a[:1])))

    def ring_sum(self, function: Callable[[Any], Array], tree: Any) -> Array:
        """Return the sum of `function(tree)` over the trees of all devices.

        The devices pass their trees around a ring, so that no device holds all trees at once.
        """
        out = function(tree)
        if self.axis is None:
            return out
        number = lax.axis_size(self.axis)
        ring = [(i, (i + 1) % number) for i in range(number)]

        def turn(_, state):
            tree, out = state
            tree = jax.tree.map(lambda a: lax.ppermute(a, self.axis, ring), tree)
            return tree, out + function(tree)

        return lax.fori_loop(1, number, turn, (tree, out))[1]

    def qr(self, a: Float[Array, "size k"]) -> tuple[Float[Array, "size k"], Float[Array, "k k"]]:
        """Return the QR decomposition of the whole matrix: the local rows of Q, and R.

        Each device decomposes its own rows. A second decomposition combines the triangular factors.
        """
        q, r = _lapack.qr(a)
        if self.axis is None:
            return q, r
        outer, r = _lapack.qr(self.gather(r))
        rows = q.shape[1]
        here = lax.dynamic_slice_in_dim(outer, lax.axis_index(self.axis) * rows, rows)
        return matmul(q, here), r
