"""The computation of `test_distributed.py`, in one process or, by `python -m`, in several.

python -m tests.distributed.problem PORT RANK PROCESSES ANSWERS
"""

import sys

import jax
import numpy as np

import jaxfs
from jaxfs import distributed

N, D = 31, 23
RANK = 4


def problem() -> dict[str, np.ndarray]:
    """Data whose sizes are not divisible by the number of devices."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2 * N, D))
    y = np.arange(2 * N) % 2
    x[y == 1, 3] += 1.5
    x[y == 1, 5] *= 3
    sets = generator.normal(size=(2, 7, 12, 6))
    return {"x": x, "y": y, "sets": sets}


def padded(x, y):
    """The data with two samples of NaN and weight 0, so that four devices divide their number."""
    x = np.concatenate([x, np.full((2, D), np.nan)])
    return x, np.append(y, [0, 1]), np.repeat([1.0, 0.0], [2 * N, 2])


def of_this_process(a: np.ndarray, mesh: jax.sharding.Mesh) -> jax.Array:
    rank, number = jax.process_index(), jax.process_count()
    mine = np.split(a, number)[rank]
    return jax.make_array_from_process_local_data(jax.NamedSharding(mesh, jax.P("data")), mine)


def answers(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    """Results of the distributed functions on a mesh with the axis "data"."""
    p = problem()
    x1, x2 = p["x"][p["y"] == 0], p["x"][p["y"] == 1]
    key = jax.random.key(3)
    run = distributed.map_datasets(jaxfs.manifest_score, mesh, batch_size=2, replicate=True)
    options = {"mesh": mesh, "axis": "data"}
    score = distributed.sharded_manifest_score(key, x1, x2, rank=RANK, **options)
    x, y, weights = padded(p["x"], p["y"])
    if jax.process_count() > 1:  # each process has a part of the samples
        x, y, weights = (of_this_process(a, mesh) for a in (x, y, weights))
    chosen = distributed.sharded_gc_select(x, y, 5, num_classes=2, weights=weights, **options)
    batch = p["sets"].copy()
    batch[0, 0] = np.nan  # only the scores of this data set become NaN
    everywhere = jax.jit(lambda a: a, out_shardings=jax.NamedSharding(mesh, jax.P()))
    return {
        "batch": np.asarray(run(*batch)),
        "score": np.asarray(everywhere(score)),
        "indices": np.asarray(chosen.indices),
        "objective": np.asarray(chosen.objective),
    }


def main() -> None:
    port, rank, processes, path = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(
        f"127.0.0.1:{port}", int(processes), int(rank), initialization_timeout=60
    )
    mesh = jax.make_mesh((len(jax.devices()),), ("data",))
    np.savez(path, devices=len(jax.devices()), **answers(mesh))


if __name__ == "__main__":
    main()
