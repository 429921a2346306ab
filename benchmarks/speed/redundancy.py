"""Claims: mRMR is faster than mrmr-selection and selects the same features.

    python -m benchmarks.speed.redundancy

- 5000 × 1000 continuous features of 20 sources, four classes, K = 50, float64: `mrmr_select` is at
  least 50 times as fast as `mrmr_classif` with the better of one process and one per core, and its
  first 20 features are the same, in the same order.
- The times of the selectors that use bins, on the same data, are printed for information.

Install mrmr-selection with `pip install mrmr-selection`. Compilation is not timed; the package is
timed once.
"""

import time

import jax
import mrmr
import numpy as np
import pandas as pd

import jaxfs
from benchmarks import timing

N, D, K, CLASSES = 5000, 1000, 50, 4
BINNED = ("cfs_select", "fcbf_select", "jmi_select", "cmim_select")


def sample() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(N) % CLASSES
    sources = random.normal(size=(N, 20)) + 0.3 * random.normal(size=(CLASSES, 20))[y]
    return sources @ random.normal(size=(20, D)) + 3 * random.normal(size=(N, D)), y


def package(x, y) -> tuple[float, list[int]]:
    """Seconds of the faster setting, and the features that it selects."""
    frame, series, times = pd.DataFrame(x), pd.Series(y), []
    for jobs in (1, -1):
        start = time.perf_counter()
        chosen = mrmr.mrmr_classif(X=frame, y=series, K=K, n_jobs=jobs, show_progress=False)
        times.append(time.perf_counter() - start)
    print(f"  mrmr-selection {times[0]:.1f} s, one process per core {times[1]:.1f} s")
    return min(times), chosen


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    x, y = sample()
    on_device = jax.numpy.asarray(x), jax.numpy.asarray(y)

    def ours(name="mrmr_select", **options):
        return getattr(jaxfs, name)(*on_device, K, num_classes=CLASSES, **options)

    print(f"{N} × {D}, K = {K}")
    (own,) = timing.best(ours)
    print(f"  mrmr_select {own:.3f} s")
    theirs, chosen = package(x, y)
    print(f"  ratio {timing.at_least(theirs / own, 50)}")
    indices = ours().indices.tolist()
    same = next((i for i in range(K) if indices[i] != chosen[i]), K)
    print(f"  the same features, in order: the first {timing.at_least(same, 20)}")
    (information,) = timing.best(lambda: ours(relevance="mi", redundancy="mi"), repeats=1)
    print(f"  mrmr_select of information {information:.2f} s")
    for name in BINNED:
        (seconds,) = timing.best(lambda name=name: ours(name), repeats=1)
        number = int(np.sum(np.asarray(ours(name).indices) >= 0))
        print(f"  {name} {seconds:.2f} s, {number} chosen")
    timing.finish()


if __name__ == "__main__":
    main()
