"""Scores and selections over the devices of a mesh, on one host or many.

A mesh is that of JAX, `jax.make_mesh((8,), ("data",))`. With several hosts, call
`jax.distributed.initialize()` first, in every process. With `heartbeat_timeout_seconds=20` it
reports a lost process within 30 seconds, by default after more than a minute. Arrays may be global
arrays of any sharding (`jax.make_array_from_process_local_data`), or NumPy arrays that are the same
in every process. The results are global JAX arrays.

`map_datasets` distributes many data sets; `bucket` and `unbucket` make batches of data sets of
different sizes. `sharded_manifest_score` shards the features of one data set, `sharded_gc_select`
its samples.
"""

from jaxfs.distributed._datasets import Bucket, bucket, map_datasets, unbucket
from jaxfs.distributed._sharded import sharded_gc_select, sharded_manifest_score

__all__ = [
    "Bucket",
    "bucket",
    "map_datasets",
    "sharded_gc_select",
    "sharded_manifest_score",
    "unbucket",
]
