"""Claim: the first call of a function, compilation included, takes seconds.

    python -m benchmarks.speed.first_call [NAME ...]

CPU-seconds of the first and of the second call, one thread, float32, 200 samples of 300 features
(two classes of 100 for ManiFeSt), each in a process of its own in which JAX has already run a small
program. The unit for ManiFeSt and for the sum is a plain transcription of the paper in `jax.numpy`
(median, Cholesky, two `eigh`), compiled in the same run.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.timing import finish, verdict

N, D = 200, 300

#: Sum over all calls of `jaxfs`: seconds, and units of the plain program. The seconds were set on a
#: machine on which the plain program took 1.55 s; the ratio holds on every machine.
TOTAL, TOTAL_RATIO = 45.0, 29.0
#: Bars of single calls (first, second).
BARS = {"fit_dirichlet_selector": (8.0, 3.0)}
#: Bars in units of the plain program.
RATIOS = {
    "manifest_score": ("plain ManiFeSt", 1.3),
    "gradient of manifest_score": ("plain gradient", 1.5),
}


def plain_manifest(x1, x2):
    """ManiFeSt as the paper writes it, with a ridge, for two classes; no checks, no weights."""
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    def kernel(x):
        norms = jnp.sum(x * x, axis=0)
        squared = jnp.maximum(norms[:, None] + norms[None] - 2 * x.T @ x, 0)
        d = squared.shape[0]
        sigma = jnp.median(jnp.sqrt(squared)[jnp.triu_indices(d, 1)])
        return jnp.exp(-squared / (2 * sigma**2)) + 1e-3 * jnp.eye(d, dtype=x.dtype)

    k1, k2 = kernel(x1), kernel(x2)
    root = jnp.linalg.cholesky(k1)
    half = solve_triangular(root, k2, lower=True)
    w, u = jnp.linalg.eigh(solve_triangular(root, half.T, lower=True))
    p = root @ u
    difference = (p * (-0.5 * jnp.sqrt(w) * jnp.log(w))) @ p.T
    e, v = jnp.linalg.eigh(difference)
    return (v * v) @ jnp.abs(e)


def calls() -> dict[str, Callable[[], Any]]:
    """Every call, by name, on fresh arrays."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import jaxfs
    from jaxfs.surrogates import models

    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=(N, D)), jnp.float32)
    distances = jnp.abs(x[:, :50])
    two, three = np.arange(N) % 2, np.arange(N) % 3
    x1, x2 = x[: N // 2], x[N // 2 :]
    key = jax.random.key(0)
    paper = {
        "selection": jaxfs.Stable(num_resamples=50),
        "scoring": models.BoostedTrees(),
        "ranking": "score",
    }

    def gradient(score):
        return jax.grad(lambda a: jnp.sum(score(a, x2) * jnp.arange(D)))(x1)

    return {
        "plain ManiFeSt": lambda: jax.jit(plain_manifest)(x1, x2),
        "plain gradient": lambda: gradient(jax.jit(plain_manifest)),
        "manifest_score": lambda: jaxfs.manifest_score(x1, x2),
        "gradient of manifest_score": lambda: gradient(jaxfs.manifest_score),
        "manifest_multiclass_score": lambda: jaxfs.manifest_multiclass_score(
            x, three, num_classes=3
        ),
        "manifest_lowrank_score": lambda: jaxfs.manifest_lowrank_score(key, x1, x2, rank=50),
        "gc_select": lambda: jaxfs.gc_select(x, two, 20, num_classes=2),
        "gkl_select": lambda: jaxfs.gkl_select(x, two, 20, num_classes=2),
        "ssfs": lambda: jaxfs.ssfs(key, x, num_pseudo_labels=2),
        "ssfs, the paper's rules": lambda: jaxfs.ssfs(key, x, num_pseudo_labels=2, **paper),
        "fit_dirichlet_selector": lambda: jaxfs.fit_dirichlet_selector(key, x, 20),
        "soft_knn": lambda: jaxfs.soft_knn(distances, 5, gamma=0.1),
        "mcfs_score": lambda: jaxfs.mcfs_score(x, num_clusters=3),
        "laplacian_score": lambda: jaxfs.laplacian_score(x),
        "relieff_score": lambda: jaxfs.relieff_score(x, two, num_classes=2),
        "mutual_information_score": lambda: jaxfs.mutual_information_score(
            x, two, num_classes=2, estimator="knn"
        ),
        "mrmr_select": lambda: jaxfs.mrmr_select(x, two, 20, num_classes=2),
        "cca_select": lambda: jaxfs.cca_select(x, two, 20, num_classes=2),
        "anova_score": lambda: jaxfs.anova_score(x, two, num_classes=2),
    }


def measure(name: str) -> None:
    """Print the CPU-seconds of the first and the second call."""
    import jax

    call = calls()[name]
    jax.block_until_ready(jax.jit(lambda a: a + 1)(1.0))
    for _ in range(2):
        start = time.process_time()
        jax.block_until_ready(jax.tree.leaves(call()))
        print(time.process_time() - start)


def in_process(name: str) -> tuple[float, float]:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    single = {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.speed.first_call", "--measure", name]
    done = subprocess.run(
        command, env=os.environ | single, capture_output=True, text=True, check=True
    )
    first, second = map(float, done.stdout.split())
    return first, second


def main(names: list[str]) -> None:
    found = {}
    print(f"CPU-seconds of the first and second call, {N} x {D}, float32, one thread")
    for name in names or calls():
        first, second = found[name] = in_process(name)
        bars = BARS.get(name)
        told = [verdict(t, b) for t, b in zip((first, second), bars, strict=True)] if bars else []
        print(f"{name:28s} {first:6.2f} {second:6.3f}  {' '.join(told)}", flush=True)
    for name, (unit, bar) in RATIOS.items():
        if {name, unit} <= set(found):
            print(f"{name} / {unit}: {verdict(found[name][0] / found[unit][0], bar)}")
    ours = [first for name, (first, _) in found.items() if not name.startswith("plain")]
    if not names:
        print(f"sum over {len(ours)} calls: {verdict(sum(ours), TOTAL)}")
        unit = found["plain ManiFeSt"][0]
        print(f"sum / plain ManiFeSt: {verdict(sum(ours) / unit, TOTAL_RATIO)}")
    finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        main(sys.argv[1:])
