"""Claims: one call scores ten thousand data sets, and two devices are nearly twice as fast as one.

    python -m benchmarks.scale.datasets [--picture FILE] [--number 10000]

10 000 data sets of 40 samples (20 per class) and 100 features, in float64 and float32. Two CPU
devices are at least 1.6 times as fast as the best call on one device. The best call is that of
several batch sizes, and of one or two BLAS threads, on a tenth of the data sets. The time is at
most 1.7 times that of a loop of LAPACK's `eigh` over as many 100 × 100 feature kernels. The script
also prints how time grows with the number of data sets. It uses two virtual devices on two cores:
stop other programs.
"""

import argparse
import time

import jax
import numpy as np
import scipy.linalg
import threadpoolctl

import jaxfs
from benchmarks.timing import at_least, best, finish, verdict

N, D = 20, 100
BATCHES = (1, 16, 64)


def problem(number: int, dtype) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, number, N, D)).astype(dtype)


def loop_of_eigh(number: int, dtype) -> float:
    """Seconds of `number` LAPACK `eigh` (SciPy) of feature kernels of these data; best of 3.

    The kernels matter: LAPACK is faster on matrices with repeated eigenvalues.
    """
    kernels = [
        np.asfortranarray(jaxfs.kernels.feature_kernel(x, bandwidth=jaxfs.Median(1.0)))
        for x in problem(50, dtype)[0]
    ]
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


def settings(number: int, dtype, devices: int) -> tuple[int, int]:
    """The best number of BLAS threads and batch size, measured on a tenth of the data sets."""
    seconds = {}
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            calls = [call(number // 10, dtype, devices, b) for b in BATCHES]
            for b, t in zip(BATCHES, best(*calls, repeats=2), strict=True):
                seconds[threads, b] = t
                print(f"  {devices} devices, {threads} threads, batches of {b:3d}: {10 * t:.1f} s")
    return min(seconds, key=seconds.get)


def compare(number: int, dtype) -> None:
    print(f"{dtype}, seconds for {number} data sets, from a tenth of them", flush=True)
    chosen = {devices: settings(number, dtype, devices) for devices in (1, 2)}
    with threadpoolctl.threadpool_limits(1):
        eigh = loop_of_eigh(number, dtype)
    times = {}
    for devices, (threads, batch_size) in chosen.items():
        with threadpoolctl.threadpool_limits(threads):
            times[devices] = best(call(number, dtype, devices, batch_size), repeats=3)[0]
    print(f"{dtype}: {number} eigh of {D} x {D} {eigh:.2f} s; scores of all data sets on one")
    print(f"  device {times[1]:.2f} s, on two {times[2]:.2f} s")
    print(f"  two devices faster by {at_least(times[1] / times[2], 1.6)}")
    print(f"  over a loop of eigh {verdict(times[2] / eigh, 1.7)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--picture")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_enable_x64", True)
    for dtype in ("float64", "float32"):
        compare(options.number, dtype)
    sizes = [options.number // k for k in (100, 10, 3, 1)]
    with threadpoolctl.threadpool_limits(1):
        times = [best(call(s, "float32", 2, 16), repeats=2)[0] for s in sizes]
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
