"""Claim: equal calls return equal bits, with two BLAS threads and two concurrent calls.

    python -m benchmarks.precision.repeatability [CALLS]

There are reports that OpenBLAS with several threads multiplies wrongly while another thread
decomposes a matrix. Each function is called CALLS times (2000 by default) from two Python threads,
with x64 off and on, on matrices that OpenBLAS splits between threads (64 rows or more). The results
of every call are compared bit by bit with those of the first. Finally, NumPy's matrix product and
eigendecomposition run concurrently without JAX.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "2"  # before NumPy is imported

import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402

import jaxfs  # noqa: E402
from benchmarks.timing import finish, verdict  # noqa: E402
from jaxfs.surrogates import boosting, linear, logistic  # noqa: E402

N, D = 100, 128


def calls(dtype: type) -> dict[str, Callable[[], Any]]:
    """Calls without arguments that use the same data each time."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * N, D)).astype(dtype)
    y = (x[:, 0] + rng.normal(size=2 * N) > 0).astype(np.int32)
    targets = x[:, :3] @ rng.normal(size=(3, 2)).astype(dtype)
    key = jax.random.key(0)
    few = {"num_pseudo_labels": 2, "selection": jaxfs.Stable(num_resamples=4)}
    return {
        "manifest_score": lambda: jaxfs.manifest_score(x[:N], x[N:]),
        "ssfs": lambda: jaxfs.ssfs(key, x, **few),
        "logistic": lambda: logistic.fit(x, y),
        "linear": lambda: linear.fit(x, targets),
        "boosting": lambda: boosting.fit(x[:, :16], y, num_trees=5, max_depth=3),
        "numpy": lambda: (x.T @ x, *np.linalg.eigh(x.T @ x)),
    }


def bits(answer: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(answer)]


def differing(call: Callable[[], Any], number: int) -> int:
    """Number of calls, of `number` run two at a time, whose bits differ from the first call."""
    first = bits(call())
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda _: bits(call()) != first, range(number)))


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for name in calls(np.float32):
        for x64 in (False, True):
            dtype = np.float64 if x64 else np.float32
            jax.config.update("jax_enable_x64", x64)
            call = calls(dtype)[name]
            start = time.perf_counter()
            wrong = differing(call, number)
            seconds = time.perf_counter() - start
            print(
                f"{name}, {np.dtype(dtype)}: {number} calls in {seconds:.0f} s,"
                f" differing {verdict(wrong, 0)}",
                flush=True,
            )
    finish()


if __name__ == "__main__":
    main()
