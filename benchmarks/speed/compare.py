"""Claim: no function is more than 5% slower than in an earlier revision.

    python -m benchmarks.speed.compare [REVISION]

CPU-seconds of warm calls with the code of REVISION (by default the last commit) and with the
present code, one thread, float32, best of several calls. The two versions run in processes of their
own, in turn, and all calls are on the same data. A call that REVISION does not have is left out.
Times below a tenth of a millisecond are Python's and are not judged.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.timing import finish, verdict

ROOT = Path(__file__).parents[2]
#: Maximum ratio of the present time to the earlier one.
BAR = 1.05
#: Number of processes of each version.
ROUNDS = 4
#: CPU-seconds that each process spends on a call, at least.
BUDGET = 0.5
#: Shortest time that is judged, in seconds.
SHORTEST = 1e-4


def calls() -> dict[str, Callable[[], Any]]:
    """Every call, by name."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import jaxfs
    from jaxfs import linalg
    from jaxfs.geometry import spd

    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=(400, 300)), jnp.float32)
    x1, x2, tall = x[:200], x[200:], jnp.asarray(generator.normal(size=(4000, 300)), jnp.float32)
    y, three, binary = np.arange(400) % 2, np.arange(400) % 3, np.arange(4000) % 2
    gram = x.T @ x / 400 + jnp.eye(300, dtype=jnp.float32)
    key = jax.random.key(0)

    def two(function: Callable[..., Any], *more: Any, **options: Any) -> Callable[[], Any]:
        return lambda: function(x, y, *more, num_classes=2, **options)

    return {
        "manifest_score": lambda: jaxfs.manifest_score(x1, x2),
        "manifest_score, spsd": lambda: jaxfs.manifest_score(x1, x2, geometry="spsd", rank=50),
        "its gradient": lambda: jax.grad(lambda a: jaxfs.manifest_score(a, x2)[0])(x1),
        "manifest_lowrank_score": lambda: jaxfs.manifest_lowrank_score(key, x1, x2, rank=50),
        "three classes": lambda: jaxfs.manifest_multiclass_score(x, three, num_classes=3),
        "gc_select": lambda: jaxfs.gc_select(tall, binary, 50, num_classes=2),
        "gkl_select": lambda: jaxfs.gkl_select(tall, binary, 50, num_classes=2),
        "cca_select": lambda: jaxfs.cca_select(tall, binary, 50, num_classes=2),
        "ssfs": lambda: jaxfs.ssfs(key, x, num_pseudo_labels=2),
        "fit_dirichlet_selector": lambda: jaxfs.fit_dirichlet_selector(key, x, 20),
        "soft_knn": lambda: jaxfs.soft_knn(jnp.abs(x), 5, gamma=0.1),
        "mcfs_score": lambda: jaxfs.mcfs_score(x, num_clusters=3),
        "laplacian_score": lambda: jaxfs.laplacian_score(x),
        "relieff_score": two(jaxfs.relieff_score),
        "anova_score": two(jaxfs.anova_score),
        "fisher_score": two(jaxfs.fisher_score),
        "gini_score": two(jaxfs.gini_score),
        "mutual_information_score": two(jaxfs.mutual_information_score, estimator="knn"),
        "mrmr_select": two(jaxfs.mrmr_select, 20),
        "jmi_select": two(jaxfs.jmi_select, 20),
        "cmim_select": two(jaxfs.cmim_select, 20),
        "fcbf_select": two(jaxfs.fcbf_select, 20),
        "cfs_select": two(jaxfs.cfs_select, 20),
        "spd.mean": lambda: spd.mean(jnp.stack([gram, gram @ gram, 2 * gram])),
        "spd.log": lambda: spd.log(gram, gram @ gram),
        "spd.distance": lambda: spd.distance(gram, gram @ gram),
        "sqrtm": lambda: linalg.sqrtm(gram),
        "leading_eigenpairs": lambda: linalg.leading_eigenpairs(gram, 10),
    }


def times() -> dict[str, float]:
    """CPU-seconds of the fastest warm call of each function."""
    import jax

    found = {}
    for name, call in calls().items():
        try:
            jax.block_until_ready(jax.tree.leaves(call()))
        except (AttributeError, TypeError):  # not in this revision
            continue
        spent, best = 0.0, float("inf")
        while spent < BUDGET:
            start = time.process_time()
            jax.block_until_ready(jax.tree.leaves(call()))
            passed = time.process_time() - start
            spent, best = spent + passed, min(best, passed)
        found[name] = best
    return found


def in_process(package: Path) -> dict[str, float]:
    """The times of the package in a folder."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    single = {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join([str(package), str(ROOT)])
    done = subprocess.run(
        [sys.executable, __file__, "--times"],
        env=os.environ | single | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        cwd=package,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main(revision: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", revision, "jaxfs"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        rounds = [(in_process(Path(folder)), in_process(ROOT)) for _ in range(ROUNDS)]
    fastest = functools.partial(functools.reduce, lambda a, b: {n: min(a[n], b[n]) for n in a})
    before, after = (fastest(each) for each in zip(*rounds, strict=True))
    print(f"Milliseconds of CPU time at {revision}, now, and their ratio")
    for name in after:
        if name not in before:
            print(f"{name:26s} {'new':>9s} {1e3 * after[name]:9.3f}")
            continue
        ratio = after[name] / before[name]
        judged = f"{ratio:5.2f}" if after[name] < SHORTEST else verdict(ratio, BAR)
        print(f"{name:26s} {1e3 * before[name]:9.3f} {1e3 * after[name]:9.3f}  {judged}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--times"]:
        print(json.dumps(times()))
    else:
        main(*(sys.argv[1:] or ["HEAD"]))
        finish()
