"""Claims: ReliefF is faster than skrebate, and its memory does not grow as n² or n d k.

    JAXFS_DATA=… python -m benchmarks.speed.relieff

- Madelon (2600 × 500), ten neighbours: at least 20 times as fast as skrebate with the better of one
  process and one per core. Both rank the features alike (Spearman's correlation at least 0.99) if
  all features are declared continuous for skrebate. By default, skrebate treats features with at
  most ten values (13 features here) as categories, and with categories present it counts a
  difference of one standard deviation as the full range, which is another score.
- 20 000 × 1000: XLA's temporary memory beyond two copies of the data is at most 256 MiB, and one
  run completes. An n × n × d array would need 3 TB, and an n × n array 3 GB.

Install skrebate with `pip install skrebate`. It is timed once, because it does not compile.
"""

import time

import jax
import numpy as np
from scipy.stats import spearmanr
from skrebate import ReliefF

import jaxfs
from benchmarks import data, timing

NEIGHBORS = 10
LARGE = (20_000, 1000)


def against_skrebate(x, y) -> None:
    peers = {}
    for jobs in (1, -1):
        start = time.perf_counter()
        model = ReliefF(n_neighbors=NEIGHBORS, categorical_threshold=1, n_jobs=jobs)
        peer = model.fit(x, y).feature_importances_
        peers[jobs] = time.perf_counter() - start
    for dtype, bar in (("float64", 20), ("float32", 20)):
        ours, labels = jax.numpy.asarray(x.astype(dtype)), jax.numpy.asarray(y)

        def score(ours=ours, labels=labels):
            return jaxfs.relieff_score(ours, labels, num_classes=2, num_neighbors=NEIGHBORS)

        (own,) = timing.best(score, repeats=5)
        print(f"Madelon {x.shape}, {dtype}: {own:.2f} s")
        print(f"  skrebate {peers[1]:.1f} s, one process per core {peers[-1]:.1f} s")
        print(f"  ratio to the faster {timing.at_least(min(peers.values()) / own, bar)}")
        rank = spearmanr(np.asarray(score()), peer).statistic
        print(f"  1 − Spearman's correlation {timing.verdict(1 - rank, 0.01)}")


def memory() -> None:
    x = jax.random.normal(jax.random.key(0), LARGE, "float32")
    y = jax.numpy.arange(LARGE[0]) % 2
    x = x.at[:, 0].add(y.astype(x.dtype))
    score = jax.jit(lambda x, y: jaxfs.relieff_score(x, y, num_classes=2))
    compiled = score.lower(x, y).compile()
    temporary, copies = compiled.memory_analysis().temp_size_in_bytes / 2**20, 2 * x.nbytes / 2**20
    print(f"{LARGE[0]} × {LARGE[1]}, float32: {temporary:.0f} MiB of temporary memory,")
    print(f"  {copies:.0f} MiB two copies of the data, the rest", end=" ")
    print(timing.verdict(temporary - copies, 256))
    start = time.perf_counter()
    best = int(jax.numpy.argmax(compiled(x, y)))
    print(
        f"  one run {time.perf_counter() - start:.0f} s; the best feature is {best} (expected: 0)"
    )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    against_skrebate(*data.load("madelon"))
    memory()
    timing.finish()


if __name__ == "__main__":
    main()
