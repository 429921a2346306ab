"""Speed of the permutation tests and of knockoffs: `python -m benchmarks.inference.speed`.

Times are processor seconds of a warm call, the least of ten. Set OMP_NUM_THREADS=1 and
XLA_FLAGS=--xla_cpu_multi_thread_eigen=false to measure one thread.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.feature_selection import f_classif

import jaxfs
from jaxfs.inference import AnovaScore, ReliefFScore, knockoff_select, lasso_score, permutation_test

KEY = jax.random.key(0)


def seconds(call, repeats: int = 10) -> float:
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(call())
        times.append(time.process_time() - start)
    return min(times)


def data(n: int, d: int):
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(n, d)).astype(np.float32))
    return x, random.permutation(np.arange(n) % 2)


def manifest(x, y, w):
    one = (y == 1).astype(x.dtype)
    return jaxfs.manifest_score(x, x, weights1=w * one, weights2=w * (1 - one))


def main() -> None:
    x, y = data(102, 5966)
    ours = seconds(lambda: permutation_test(KEY, AnovaScore(2), x, y))
    wide = np.asarray(x, np.float64)
    theirs = seconds(lambda: [f_classif(wide, y) for _ in range(20)]) * 50
    print(
        f"ANOVA 102 × 5966, 1000 labelings: {ours:.3f} s; f_classif {theirs:.2f} s: "
        f"{theirs / ours:.0f}×"
    )

    x, y = data(500, 500)
    score = ReliefFScore(2)
    ours = seconds(lambda: permutation_test(KEY, score, x, y))
    one = jax.jit(lambda x, y: jaxfs.relieff_score(x, y, num_classes=2, num_neighbors=10))
    labels = [jnp.asarray(np.random.default_rng(i).permutation(y)) for i in range(20)]
    loop = seconds(lambda: [one(x, y) for y in labels]) * 50
    print(
        f"ReliefF 500 × 500, 1000 labelings: {ours:.2f} s; loop of the jitted score {loop:.2f} s: "
        f"{loop / ours:.1f}×"
    )

    x, y = data(100, 500)
    number, w = 8, jnp.ones(100)
    batch = jnp.stack([jnp.asarray(np.random.default_rng(i).permutation(y)) for i in range(number)])
    many = jax.jit(jax.vmap(lambda y, x: manifest(x, y, w), (0, None)))
    plain = seconds(lambda: many(batch, x))
    ours = seconds(
        lambda: permutation_test(
            KEY, manifest, x, y, num_permutations=number - 1, chunk_size=number
        )
    )
    print(
        f"ManiFeSt 100 × 500, {number} labelings: {ours:.2f} s; one vmapped call {plain:.2f} s: "
        f"{ours / plain:.2f}×"
    )

    x, _ = data(300, 600)
    y = x[:, :30].sum(axis=1)
    ours = seconds(
        lambda: knockoff_select(KEY, lasso_score, x, y, num_copies=50).selected, repeats=1
    )
    print(f"knockoffs 300 × 600, 50 copies: {ours:.1f} s")


if __name__ == "__main__":
    main()
