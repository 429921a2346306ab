"""Filters against scikit-learn: times and differences.

    JAXFS_DATA=… python -m benchmarks.speed.filters

Claim: `mutual_information_score` (k = 3) on 2600 samples of 500 features (Madelon, or random data
if it is missing) is at least 20 times as fast as `mutual_info_classif` with its best number of
jobs, in float32 and in float64, without compilation. The ratio of CPU seconds with one job is
printed too; it does not depend on the load of the machine. The other filters have no bar, because
their scikit-learn counterparts are single matrix products as well.
"""

import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.feature_selection import (
    chi2,
    f_classif,
    f_regression,
    mutual_info_classif,
    mutual_info_regression,
)

import jaxfs
from benchmarks import data
from benchmarks.timing import at_least, best, finish


def samples() -> tuple[str, np.ndarray, np.ndarray]:
    """Name, features and labels; noise in ±½ makes Madelon's integers continuous."""
    generator = np.random.default_rng(0)
    if (Path(os.environ.get("JAXFS_DATA", "data")) / "madelon.mat").is_file():
        x, y = data.load("madelon")
        return "Madelon", x + generator.uniform(-0.5, 0.5, x.shape), y
    x, y = generator.normal(size=(2600, 500)), np.arange(2600) % 2
    return "random", x + 0.5 * y[:, None] * (np.arange(500) < 10), y


def cpu_seconds(call) -> float:
    """Smallest CPU time of three calls, summed over all threads of this process."""
    times = []
    for _ in range(3):
        start = time.process_time()
        jax.block_until_ready(call())
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    name, x, y = samples()
    labels, doubles = jnp.asarray(y), jnp.asarray(x)
    print(f"{name}, {x.shape[0]} × {x.shape[1]}")

    def ours(x):
        return jaxfs.mutual_information_score(x, labels, num_classes=2)

    arrays = {"float32": doubles.astype("float32"), "float64": doubles}
    for dtype, array in arrays.items():
        start = time.perf_counter()
        jax.block_until_ready(ours(array))
        print(f"mutual information, {dtype}: first call {time.perf_counter() - start:.1f} s")
    calls = [lambda a=a: ours(a) for a in arrays.values()]
    peers = [lambda j=j: mutual_info_classif(x, y, n_jobs=j, random_state=0) for j in (1, -1)]
    *mine, one, every = best(*calls, *peers, repeats=3)
    print(f"mutual_info_classif {one:.2f} s with one job, {every:.2f} s with one per core")
    theirs = cpu_seconds(peers[0])
    for dtype, call, seconds in zip(arrays, calls, mine, strict=True):
        print(
            f"{dtype} {seconds * 1e3:.0f} ms: {at_least(min(one, every) / seconds, 20.0)} times; "
            f"CPU {cpu_seconds(call) * 1e3:.0f} ms, {theirs / cpu_seconds(call):.1f} times"
        )
    error = np.max(np.abs(np.asarray(ours(doubles)) - peers[0]()))
    print(f"largest difference {error:.1e} (scikit-learn adds noise of 1e-10)")

    target = x[:, 0] * x[:, 1] + x[:, 2]
    positive = doubles - jnp.min(doubles)
    for label, mine, theirs in (
        (
            "mutual_information_regression_score, 50 features",
            lambda: jaxfs.mutual_information_regression_score(doubles[:, :50], target),
            lambda: mutual_info_regression(x[:, :50], target, random_state=0),
        ),
        (
            "anova_score",
            lambda: jaxfs.anova_score(doubles, labels, num_classes=2),
            lambda: f_classif(x, y),
        ),
        (
            "chi2_score",
            lambda: jaxfs.chi2_score(positive, labels, num_classes=2),
            lambda: chi2(np.asarray(positive), y),
        ),
        (
            "f_regression_score",
            lambda: jaxfs.f_regression_score(doubles, target),
            lambda: f_regression(x, target),
        ),
        ("gini_score", lambda: jaxfs.gini_score(doubles, labels, num_classes=2), None),
    ):
        seconds, *peer = best(mine, *([theirs] if theirs else []), repeats=3)
        beside = f", scikit-learn {peer[0] * 1e3:.0f} ms" if peer else ""
        print(f"{label}: {seconds * 1e3:.0f} ms{beside}")


if __name__ == "__main__":
    main()
    finish()
