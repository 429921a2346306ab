"""Scores and selections on the devices of a JAX mesh, on one host or several hosts.

Create a mesh with JAX: `jax.make_mesh((8,), ("data",))`. With several hosts, first call
`jax.distributed.initialize()` in every process. With `heartbeat_timeout_seconds=20` JAX reports a
lost process within 30 seconds; by default it takes more than a minute. Arrays may be global arrays
of any sharding (`jax.make_array_from_process_local_data`), or NumPy arrays that are the same in
every process. The results are global JAX arrays.

`map_datasets` distributes many data sets over the devices. `bucket` pads data sets of different
sizes into batches, and `unbucket` separates the results again. `sharded_manifest_score` distributes
the features of one data set, and `sharded_gc_select` distributes the samples of one data set.
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
