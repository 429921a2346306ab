"""GC and GKL at memory bandwidth: selecting 100 features against 100 passes over the data.

    python -m benchmarks.speed.gaussian

The unit is 100 products `x_i @ X` in one compiled loop, float32, on the same array. Claims:

- At three sizes, GC.MI without its preparation takes at most 1.3 units. The preparation (sorting by
  class, centring) takes at most as long as GC.MI, and GKL.E at most 4 times as long.
- At 5000 × 1024 with 10 classes, GC.MI is at least 50 times as fast as `mrmr_selection` and
  scikit-learn's mutual information (each with all cores), preparation included, without
  compilation.
- At 5000 × 1000 with 10 classes, the first call of GC.MI for 50 features, compilation included,
  takes no more CPU time than one fit of fastcan 0.6. `python -m benchmarks.speed.gaussian fastcan
  [PYTHON]` measures this alone; PYTHON is an interpreter that has fastcan, by default this one.
- The cost is linear in the classes: 1000 classes take at most 3 times as long as 400, that is 2.5
  times as many classes.
"""

import functools
import os
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from benchmarks.timing import best, finish, verdict
from jaxfs.methods.gaussian import _moments

SIZES = ((50_000, 2048, 10), (5_000, 4096, 10), (12_180, 3780, 2))
K = 100


def problem(n: int, d: int, num_classes: int):
    """Correlated features, of which the first few separate the classes."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, num_classes, n)
    x = generator.standard_normal((n, d), dtype=np.float32)
    x[:, 1:] += 0.5 * x[:, :-1]
    x[:, :200] += 0.2 * generator.standard_normal((num_classes, 200), dtype=np.float32)[y]
    return jnp.asarray(x), jnp.asarray(y)


def _prepared(x, y, num_classes: int):
    places = _moments.class_places(y, jnp.ones(y.shape, x.dtype), num_classes, x.dtype)
    return _moments.gaussian_moments(x, places)


@jax.jit
def passes(x):
    return jax.lax.fori_loop(0, K, lambda i, total: total + x[:, i] @ x, jnp.zeros(x.shape[1]))


def compiled(select, num_classes: int):
    return jax.jit(lambda x, y: select(x, y, K, num_classes=num_classes))


def against_passes() -> None:
    for n, d, c in SIZES:
        x, y = problem(n, d, c)
        gc, gkl = compiled(jaxfs.gc_select, c), compiled(jaxfs.gkl_select, c)
        prepare = jax.jit(lambda x, y, c=c: _prepared(x, y, c))
        unit, whole, other, before = best(
            lambda x=x: passes(x),
            lambda x=x, y=y, gc=gc: gc(x, y),
            lambda x=x, y=y, gkl=gkl: gkl(x, y),
            lambda x=x, y=y, prepare=prepare: prepare(x, y),
            repeats=9,
        )
        print(
            f"{n:6d} × {d} × {c:2d}: 100 passes {unit:.2f} s; GC.MI {whole:.2f} s, without the "
            f"preparation {verdict((whole - before) / unit, 1.3)} passes, with it "
            f"{whole / unit:.2f}; preparing {verdict(before / (whole - before), 1.0)} of the rest; "
            f"GKL.E {verdict((other - before) / (whole - before), 4.0)} of it",
            flush=True,
        )


def over_classes() -> None:
    problems = {c: problem(20_000, 256, c) for c in (400, 1000)}
    for select in (jaxfs.gc_select, jaxfs.gkl_select):
        calls = [
            functools.partial(select, *data, 20, num_classes=c) for c, data in problems.items()
        ]
        few, many = best(*calls)
        print(
            f"20 000 × 256, 20 features, {select.__name__}: 400 classes {few:.2f} s, 1000 classes "
            f"{many:.2f} s: {verdict(many / few, 3.0)} times",
            flush=True,
        )


def against_others() -> None:
    import pandas as pd
    from mrmr import mrmr_classif
    from sklearn.feature_selection import mutual_info_classif

    x, y = problem(5000, 1024, 10)
    gc = compiled(jaxfs.gc_select, 10)
    (ours,) = best(lambda: gc(x, y))
    frame, labels = pd.DataFrame(np.asarray(x)), pd.Series(np.asarray(y))
    rivals = {
        "mrmr_selection": lambda: mrmr_classif(frame, labels, K=K, show_progress=False, n_jobs=-1),
        "mutual_info_classif": lambda: mutual_info_classif(frame, labels, n_jobs=-1),
    }
    for name, call in rivals.items():
        with warnings.catch_warnings(action="ignore"):
            seconds = []
            for _ in range(2):
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
        ratio = min(seconds) / ours
        print(
            f"5000 × 1024 × 10, 100 features: GC.MI {ours:.3f} s, {name} {min(seconds):.1f} s: "
            f"{ratio:.0f} times; 50 / that {verdict(50 / ratio, 1.0)}",
            flush=True,
        )


#: Programs that print CPU-seconds. Each runs in its own process, and imports come before the clock.
DATA = """
import time, numpy as np
generator = np.random.default_rng(0)
y = generator.integers(0, 10, 5000)
x = generator.standard_normal((5000, 1000), dtype=np.float32)
x[:, 1:] += 0.5 * x[:, :-1]
x[:, :200] += 0.2 * generator.standard_normal((10, 200), dtype=np.float32)[y]
"""
OURS = """
import jax, jaxfs
x = jax.numpy.asarray(x)
jax.block_until_ready(jax.jit(lambda a: a + 1)(1.0))
start = time.process_time()
jax.block_until_ready(jaxfs.gc_select(x, y, 50, num_classes=10))
print(time.process_time() - start)
"""
FASTCAN = """
from fastcan import FastCan
start = time.process_time()
FastCan(50, verbose=0).fit(x, np.eye(10)[y][:, :9])
print(time.process_time() - start)
"""


def against_fastcan(python: str = sys.executable) -> None:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    single = {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def seconds(interpreter: str, program: str) -> float:
        command = [interpreter, "-c", DATA + program]
        runs = [
            subprocess.run(
                command, env=os.environ | single, capture_output=True, text=True, check=True
            )
            for _ in range(3)
        ]
        return min(float(run.stdout) for run in runs)

    if subprocess.run([python, "-c", "import fastcan"], capture_output=True).returncode:
        print(f"fastcan is not installed for {python}: not compared")
        return
    ours, theirs = seconds(sys.executable, OURS), seconds(python, FASTCAN)
    print(
        f"5000 × 1000 × 10, 50 features, CPU-seconds, one thread: first call of GC.MI {ours:.2f}, "
        f"fastcan {theirs:.2f}: {verdict(ours / theirs, 1.0)} times",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["fastcan"]:
        against_fastcan(*sys.argv[2:])
    else:
        against_passes()
        over_classes()
        against_others()
        against_fastcan()
    finish()
