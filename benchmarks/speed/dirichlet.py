"""Claims: the Dirichlet selector trains in less than a minute, and its energy needs little memory.

    python -m benchmarks.speed.dirichlet

Printed are the seconds of the first call, which compiles, and of the second call of
`fit_dirichlet_selector` on 1000 samples of 500 features, with 20 selected, 500 steps and 4
restarts. Then follow the temporary memory of the network's energy and its gradient, compiled for 10
000 samples of 500 features with 20 selected, and that of the whole fit for 20 000 samples, without
the data, with a short run. Bars are ratios to the limits of 60 s and 100 MiB.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from benchmarks import timing


def seconds(seed: int, x: np.ndarray) -> float:
    start = time.perf_counter()
    jax.block_until_ready(
        jaxfs.fit_dirichlet_selector(
            jax.random.key(seed), x, 20, num_steps=500, num_restarts=4
        ).indices
    )
    return time.perf_counter() - start


def temporary_mebibytes(n: int, d: int, m: int) -> float:
    learner = jaxfs.KNNGraphLearner(5, 0.01, num_candidates=32)

    def energy(logits, x, key):
        model = jaxfs.DirichletSelector(jaxfs.UniqueFeatureSelector(logits), learner)
        return model(x, 0.5, key=key)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((d, m), (n, d))]
    program = jax.jit(jax.value_and_grad(energy)).lower(*shapes, jax.random.key(0)).compile()
    return program.memory_analysis().temp_size_in_bytes / 2**20


def large(n: int, d: int, **options) -> tuple[float, float]:
    """Temporary MiB of a fit to n samples, and seconds of 40 steps without compilation."""

    def fit(key, x):
        return jaxfs.fit_dirichlet_selector(key, x, 20, num_steps=40, **options).indices

    x = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    program = jax.jit(fit).lower(jax.random.key(0), x).compile()
    start = time.perf_counter()
    jax.block_until_ready(program(jax.random.key(0), x))
    passed = time.perf_counter() - start
    return program.memory_analysis().temp_size_in_bytes / 2**20, passed


def main() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 500)).astype(np.float32)
    first, second = seconds(0, x), seconds(1, x)
    print(f"fit, first call  {first:5.1f} s, of a minute {timing.verdict(first / 60, 1)}")
    print(f"fit, second call {second:5.1f} s")
    size = temporary_mebibytes(10_000, 500, 20)
    print(f"energy and gradient {size:.0f} MiB, of 100 {timing.verdict(size / 100, 1)}", flush=True)
    for objective in (jaxfs.Coverage(), jaxfs.Energy(), jaxfs.Energy(refresh_every=10)):
        mebibytes, passed = large(20_000, 500, objective=objective)
        print(f"20 000 × 500, {objective}: {mebibytes:.0f} MiB next to the data,")
        print(f"  {passed:.1f} s for 40 steps of 4 restarts, evaluation included", flush=True)
    timing.finish()


if __name__ == "__main__":
    main()
