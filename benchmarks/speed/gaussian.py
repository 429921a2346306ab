"""GC and GKL at memory bandwidth: selecting 100 features against 100 passes over the data.

    python -m benchmarks.speed.gaussian

The unit is 100 products `x_i @ X` in one compiled loop, float32, on the same array. Claims:

- At three sizes, GC.MI without its preparation takes at most 1.3 units. The preparation (sorting by
  class, centring) takes at most as long as GC.MI, and GKL.E at most 4 times as long.
- At 5000 × 1024 with 10 classes, GC.MI is at least 50 times as fast as `mrmr_selection` and
  scikit-learn's mutual information (each with all cores), preparation included, without
  compilation.
- The cost is linear in the classes: 1000 classes take at most 3 times as long as 400, that is 2.5
  times as many classes.
"""

import functools
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
    places = _moments.class_places(y, None, num_classes, x.dtype)
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


if __name__ == "__main__":
    against_passes()
    over_classes()
    against_others()
    finish()
