"""Claims: ten thousand data sets are one call, and two devices are nearly twice as fast as one.

    python -m benchmarks.scale.datasets [--picture FILE] [--number 10000]

10 000 data sets of 40 samples (20 a class) and 100 features, float64 and float32: on 2 CPU devices
at least 1.6 times as fast as the best call on one (of several batch sizes, `vmap` of all chunks in
one `lax.map`), and at most 1.7 times a loop of LAPACK's `eigh` over as many 100 × 100 matrices.
Then how time grows with the number of data sets. Two virtual devices on two cores: close everything
else.
"""

import argparse
import time

import jax
import numpy as np
import scipy.linalg

import jaxfs
from benchmarks.timing import at_least, best, finish, verdict

N, D = 20, 100
BATCHES = (1, 16, 64, 256)


def problem(number: int, dtype) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, number, N, D)).astype(dtype)


def loop_of_eigh(number: int, dtype) -> float:
    """Seconds for as many eigh, of as many kernels, by SciPy's LAPACK in one thread; best of 3."""
    x = problem(50, dtype)[0]
    kernels = [np.ascontiguousarray(k.T @ k + np.eye(D, dtype=dtype)) for k in x]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for i in range(number // 5):
            scipy.linalg.eigh(kernels[i % 50], driver="evd", check_finite=False)
        times.append(time.perf_counter() - start)
    return 5 * min(times)


def call(number: int, dtype, devices: int, batch_size: int):
    mesh = jax.make_mesh((devices,), ("data",), devices=jax.devices()[:devices])
    run = jaxfs.distributed.map_datasets(jaxfs.manifest_score, mesh, batch_size=batch_size)
    x1, x2 = problem(number, dtype)
    return lambda: run(x1, x2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--picture")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_enable_x64", True)
    for dtype in ("float64", "float32"):
        eigh = loop_of_eigh(options.number, dtype)
        one = best(*(call(options.number, dtype, 1, b) for b in BATCHES), repeats=2)
        two = best(*(call(options.number, dtype, 2, b) for b in BATCHES), repeats=2)
        print(f"{dtype}: {options.number} eigh of {D} x {D} {eigh:.2f} s")
        for b, first, second in zip(BATCHES, one, two, strict=True):
            print(f"  batches of {b:3d}: one device {first:.2f} s, two {second:.2f} s", flush=True)
        print(f"  two devices faster by {at_least(min(one) / min(two), 1.6)}")
        print(f"  over a loop of eigh {verdict(min(two) / eigh, 1.7)}", flush=True)
    sizes = [options.number // k for k in (100, 10, 3, 1)]
    times = [best(call(s, "float32", 2, 64), repeats=2)[0] for s in sizes]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    for size, seconds in zip(sizes, times, strict=True):
        print(f"{size:6d} data sets, two devices, float32: {seconds:.2f} s")
    print(f"time grows as number^{slope:.2f}")
    if options.picture:
        draw(options.picture, sizes, times, slope)
    finish()


def draw(path: str, sizes, times, slope: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
    axes.loglog(sizes, times, "o-", label=f"two devices, ∝ number^{slope:.2f}")
    axes.set_xlabel("data sets of 40 × 100")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
