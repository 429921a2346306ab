"""One data set sharded over the devices of a mesh: by features for ManiFeSt, by samples for GC."""

import functools

import jax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.distributed._mesh import check_axes, on_host, placed, placed_evenly, replicated
from jaxfs.kernels._rbf import Bandwidth, Median
from jaxfs.methods.gaussian._compromise import CompromiseSearch
from jaxfs.methods.gaussian._moments import class_places, gaussian_moments
from jaxfs.methods.gaussian._select import table_arguments
from jaxfs.methods.manifest import _lowrank_score
from jaxfs.methods.manifest._shard import Shard


def sharded_manifest_score(
    key: Array,
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    rank: int,
    mesh: Mesh,
    axis: str,
    bandwidth: Bandwidth = Median(1.0, sample=2048),
    ridge: Scalar = 1e-2,
    t: Scalar = 0.5,
    landmarks: int | None = None,
    refine: int | None = None,
    block: int | None = None,
    weights1: ArrayLike | None = None,
    weights2: ArrayLike | None = None,
) -> Float[Array, "d"]:
    """Compute `manifest_lowrank_score` with the features sharded over an axis of a mesh.

    Each device holds d / devices features, and their rows of the kernels and of the factors. The
    devices exchange the landmarks and matrices of the size of the rank. With `refine` they also
    pass the factors from device to device. No device holds all features, unless the bandwidth rule
    uses all features, all features are landmarks or there are blocks. With `block` every device
    gets all features and 6·`rank` numbers for each, and computes its part of the blocks.

    **Arguments** are the same as in `manifest_lowrank_score`, and `mesh` and `axis`. `x1` and `x2`
    `(n, d)` are global arrays sharded over their second axis, or arrays that every process has.

    **Returns** `(d,)`, the scores of `manifest_lowrank_score` with the same key, up to rounding.
    They are sharded over `axis` if the number of devices divides d, and otherwise replicated.

    **Derivatives** are the same as for `manifest_lowrank_score`.

    **Cost** is the cost of `manifest_lowrank_score` divided by the number of devices. In addition,
    every device decomposes matrices of the size of the landmarks and of size
    (devices · 2 `rank`) × 2 `rank`.
    """
    check_axes(mesh, axis, single=True)
    with on_host():
        arguments, options = _lowrank_score.lowrank_arguments(
            key, x1, x2, rank, bandwidth, ridge, t, landmarks, refine, block, weights1, weights2
        )
    key, x1, x2, *others = arguments
    d = x1.shape[1]
    x1, x2 = (placed_evenly(x, 1, mesh, axis) for x in (x1, x2))
    key, others = jax.tree.map(lambda a: placed(a, mesh), (key, others))
    return _manifest_score(mesh, axis, d, tuple(options.items()), key, x1, x2, *others)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _manifest_score(mesh, axis, d, options, key, x1, x2, *others):
    def score(key, x1, x2, *others):
        shard = Shard(d, x1.shape[1], axis)
        return _lowrank_score.shard_score(shard, key, x1, x2, *others, **dict(options))

    columns = P(None, axis)
    specs = (P(), columns, columns, *(P() for _ in others))
    run = jax.shard_map(score, mesh=mesh, in_specs=specs, out_specs=P(axis), check_vma=False)
    out = run(key, x1, x2, *others)
    return out if out.shape[0] == d else replicated(out, mesh)[:d]


def sharded_gc_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    mesh: Mesh,
    axis: str,
    objective: str = "mi",
    ridge: Scalar | None = None,
    shrinkage: Scalar | None = None,
    fallback: str = "wilks",
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    key: Array | None = None,
) -> Selection:
    """Run `gc_select` with the samples sharded over a mesh axis; each step sums over the devices.

    **Arguments** are the same as in `gc_select`, and `mesh` and `axis`. `x` `(n, d)`, `y` `(n,)`
    and `weights` `(n,)` are global arrays sharded over their first axis, or arrays that every
    process has.

    **Returns** the `Selection` of `gc_select`, up to rounding, on every device. If parts of an
    array are on other hosts, its values cannot be checked; invalid values then give the same
    results as under `jit`.

    **Cost** is the cost of `gc_select` for the samples of one device, and the exchange of `(C, d)`
    numbers for each chosen feature.
    """
    check_axes(mesh, axis, single=True)
    model = objective, ridge, shrinkage, initial, fallback, key
    with on_host():
        *samples, options = table_arguments(x, y, weights, num_features, num_classes, *model)
    samples = [placed_evenly(a, 0, mesh, axis) for a in samples]
    options = jax.tree.map(lambda a: placed(a, mesh), options)
    return _gc_select(mesh, axis, options, *samples)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _gc_select(mesh, axis, options, *samples):
    def select(options, x, y, weights):
        places = class_places(y, weights, options.num_classes, x.dtype, axis)
        return CompromiseSearch(gaussian_moments(x, places, axis), options).run()

    rows = P(axis)
    specs = (P(), rows, rows, rows)
    run = jax.shard_map(select, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    return run(options, *samples)
