"""Claims: bounds on the cost of ManiFeSt in units of `scipy.linalg.eigh` (float64) of the same d.

    python -m benchmarks.speed.manifest

- The geometry alone takes at most 2.7 (float64) and 1.5 (float32).
- The whole call, with distances and exact medians, takes at most 3.0 and 1.8.
- 64 data sets of d = 100 in one vmapped call take at most 2.8 times a loop of 64 `eigh`.
- The gradient takes at most 4 times the value.
- `manifest_bandwidth` takes at most 2.5 float32 scores at d = 300 and 1.0 at d = 1000, for 20
  samples of each class, in CPU time.
- At most 8 d×d arrays are alive at the peak, by XLA's count. LAPACK's workspace for `eigh`, two
  more arrays, is not part of this count.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import jaxfs
from benchmarks.timing import best, finish, verdict

BARS = {"float64": (2.7, 3.0), "float32": (1.5, 1.8)}


def classes(d: int, dtype, seed: int = 0, n: int = 40):
    generator = np.random.default_rng(seed)
    return tuple(jnp.asarray(generator.normal(size=(n, d)), dtype) for _ in range(2))


def single(d: int, dtype: str) -> None:
    x1, x2 = classes(d, dtype)
    operators = jaxfs.manifest_operators(x1, x2)
    k1, k2 = operators.kernel1, operators.kernel2
    reference = np.asarray(k1, np.float64)
    score = jax.jit(jaxfs.manifest_score)
    geometry = jax.jit(lambda a, b: jaxfs.manifest_from_kernels(a, b, ridge=0.0))
    gradient = jax.jit(jax.grad(lambda a, b: jnp.sum(jaxfs.manifest_score(a, b)), (0, 1)))
    unit, alone, whole, slope = best(
        lambda: scipy.linalg.eigh(reference),
        lambda: geometry(k1, k2),
        lambda: score(x1, x2),
        lambda: gradient(x1, x2),
        repeats=5 if d >= 1000 else 15,  # short calls vary more
    )
    memory = score.lower(x1, x2).compile().memory_analysis()
    arrays = memory.temp_size_in_bytes / (d * d * np.dtype(dtype).itemsize)
    print(
        f"{dtype} d={d:5d}  geometry {verdict(alone / unit, BARS[dtype][0])}"
        f"  whole {verdict(whole / unit, BARS[dtype][1])}"
        f"  gradient/value {verdict(slope / whole, 4.0)}  d×d arrays {verdict(arrays, 8.0)}"
    )


def many(dtype: str, count: int = 64, d: int = 100) -> None:
    data = [classes(d, dtype, seed) for seed in range(count)]
    x1, x2 = (jnp.stack(x) for x in zip(*data, strict=True))
    reference = np.asarray(jaxfs.kernels.feature_kernel(x1[0], bandwidth=jaxfs.Median(1.0)))
    reference = reference.astype(np.float64)
    batched = jax.jit(jax.vmap(jaxfs.manifest_score))
    unit, own = best(
        lambda: [scipy.linalg.eigh(reference) for _ in range(count)], lambda: batched(x1, x2)
    )
    print(f"{dtype} {count} data sets of d={d} in one call {verdict(own / unit, 2.8)}")


def choice(d: int, bar: float, n: int = 20) -> None:
    """The extra cost of `bandwidth="auto"`, in CPU time, which other programs disturb less."""
    x1, x2 = classes(d, "float32", n=n)
    x, y = jnp.concat([x1, x2]), jnp.repeat(jnp.arange(2), n)
    key = jax.random.key(0)

    def cpu(call) -> float:
        jax.block_until_ready(call())
        times = []
        for _ in range(7):
            start = time.process_time()
            jax.block_until_ready(call())
            times.append(time.process_time() - start)
        return min(times)

    unit = cpu(lambda: jaxfs.manifest_score(x1, x2))
    for combine in (None, "relieff"):
        own = cpu(lambda c=combine: jaxfs.manifest_bandwidth(key, x, y, num_classes=2, combine=c))
        print(f"float32 d={d:5d}  bandwidth/score, combine={combine}: {verdict(own / unit, bar)}")


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("unit: one scipy.linalg.eigh in float64 of the same d; without compilation")
    for dtype in BARS:
        for d in (500, 1000, 2000):
            single(d, dtype)
        many(dtype)
    choice(300, 2.5)
    choice(1000, 1.0)


if __name__ == "__main__":
    main()
    finish()
