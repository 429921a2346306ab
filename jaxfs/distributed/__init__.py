"""The same functions over the devices of a mesh, on one host or many.

A mesh is JAX's own, `jax.make_mesh((8,), ("data",))`; with several hosts, call
`jax.distributed.initialize()` first, in every process. With `heartbeat_timeout_seconds=20` it tells
within 30 seconds that a process was lost, by default after more than a minute. Arrays may be global
ones of any sharding (`jax.make_array_from_process_local_data`), or NumPy arrays, which must then be
the same in every process. What is returned are global JAX arrays.

`map_datasets` spreads many data sets, `bucket` and `unbucket` make batches of those of different
sizes; `sharded_manifest_score` spreads the features of one, `sharded_gc_select` its samples.
"""

from jaxfs.distributed._buckets import Bucket, bucket, unbucket
from jaxfs.distributed._datasets import map_datasets
from jaxfs.distributed._sharded import sharded_gc_select, sharded_manifest_score

__all__ = [
    "Bucket",
    "bucket",
    "map_datasets",
    "sharded_gc_select",
    "sharded_manifest_score",
    "unbucket",
]
