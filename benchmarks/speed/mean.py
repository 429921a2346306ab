"""Claim: the mean of three kernels of 300 features takes at most 30 times as long as one `eigh`.

    python -m benchmarks.speed.mean

The script times `spd.mean` of the ManiFeSt kernels of three classes, with 200 samples in total, and
`eigh` of one of these kernels, both in float32. Each time is the best of five calls in one run,
with one thread.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from benchmarks.timing import best, finish, verdict
from jaxfs.geometry import spd
from jaxfs.kernels import feature_kernel

N, D = 200, 300


def main() -> None:
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    kernels = jnp.stack([feature_kernel(x[i::3], bandwidth=jaxfs.Median(1.0)) for i in range(3)])
    kernels = kernels + 1e-2 * jnp.eye(D)
    mean, eigh = jax.jit(spd.mean), jax.jit(jnp.linalg.eigh)
    ours, unit = best(lambda: mean(kernels), lambda: eigh(kernels[0]))
    out = mean(kernels)
    print(
        f"{ours * 1e3:.0f} ms, {int(out.iterations)} steps, residual {float(out.residual):.1e}; "
        f"in units of one eigh, {unit * 1e3:.1f} ms: {verdict(ours / unit, 30)}"
    )


if __name__ == "__main__":
    main()
    finish()
