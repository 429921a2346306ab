"""Claims: the command answers within seconds from a cold start, and `import jaxfs` costs little.

    python -m benchmarks.speed.command

- `jaxfs select` selects 20 features of a generated CSV of 200 × 5000 by `manifest`
  (`solver="auto"`), `relieff` and `gc`; by `auto` it compares methods and chooses the number. Each
  runs in its own process with an empty compilation cache and takes at most the seconds of processor
  time in `SECONDS`, including start-up, reading and compilation. A second run with a full cache is
  printed for comparison.
- `import jaxfs` takes at most 1.3 times as long as `import jax, equinox, optax`, and loads none of
  the packages in `HEAVY`. Each time is the best of several processes, which alternate.

On a machine with other load, the processor time is more reliable than the wall time; both are
printed. XLA and BLAS use one thread, because idle threads of theirs also use processor time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import timing

SHAPE = (200, 5000)
INFORMATIVE = 10
#: Largest processor time of a method, in seconds. The largest time of "auto", which runs on all
#: cores, is one of the clock.
SECONDS = {"manifest": 8.0, "relieff": 5.0, "gc": 5.0, "auto": 60.0}
RATIO = 1.3
REPEATS = 5
HEAVY = (
    "matplotlib", "typer", "jinja2", "pandas", "polars", "xgboost", "sklearn.linear_model",
)  # fmt: skip


def write_table(path: Path) -> None:
    """Write noise, with some columns shifted between two classes."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=SHAPE)
    labels = np.arange(SHAPE[0]) % 2
    values[:, :INFORMATIVE] += 1.5 * labels[:, None]
    with path.open("w") as file:
        file.write(",".join([*(f"gene_{j}" for j in range(SHAPE[1])), "kind"]) + "\n")
        for row, label in zip(values.tolist(), labels, strict=True):
            file.write(",".join([*map(repr, row), "ab"[label]]) + "\n")


def timed(command: list[str], environment: dict[str, str]) -> tuple[str, float, float]:
    """Return the output of a process, its wall time and its processor time."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, os.times()
    if done.returncode:
        sys.exit(done.stderr)
    used = after.children_user + after.children_system
    return done.stdout, wall, used - before.children_user - before.children_system


def selections(folder: Path) -> None:
    table = folder / "table.csv"
    write_table(table)
    print(f"jaxfs select, {SHAPE[0]} × {SHAPE[1]} CSV of {table.stat().st_size / 2**20:.0f} MB")
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    single = {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for method, seconds in SECONDS.items():
        environment = os.environ | single | {"JAXFS_CACHE_DIR": str(folder / f"cache-{method}")}
        command = [sys.executable, "-m", "jaxfs_command", "select", str(table), "--target", "kind"]
        command += ["--method", method, "-k", "auto" if method == "auto" else "20", "--json"]
        for cache in ("cold", "warm"):
            text, wall, used = timed(command, environment)
            found = {item["column"] for item in json.loads(text)["selected"]}
            right = len(found & set(range(1, INFORMATIVE + 1)))  # columns count from 1
            print(f"  {method:8}, {cache} cache: {used:.1f} s of processor, {wall:.1f} s,")
            if cache == "cold":
                judged = wall if method == "auto" else used
                print(f"    judged: {timing.verdict(judged, seconds)}")
            print(f"    {right} of the {INFORMATIVE} informative features among {len(found)}")


def imports() -> None:
    commands = {"jax, equinox, optax": [], "jaxfs": []}
    for _ in range(REPEATS):
        for names, times in commands.items():
            # A clock inside the process would miss the start of the interpreter.
            _, wall, used = timed([sys.executable, "-c", f"import {names}"], dict(os.environ))
            times.append((used, wall))
    best = {names: min(times) for names, times in commands.items()}
    for names, (used, wall) in best.items():
        print(f"import {names}: {used:.2f} s of processor, {wall:.2f} s")
    ratio = best["jaxfs"][0] / best["jax, equinox, optax"][0]
    print(f"  ratio of processor times {timing.verdict(ratio, RATIO)}")
    code = f"import sys, jaxfs; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    loaded, _, _ = timed([sys.executable, "-c", code], dict(os.environ))
    print(f"  heavy modules loaded: {loaded.split()} {timing.verdict(len(loaded.split()), 0)}")


def main() -> None:
    imports()
    with tempfile.TemporaryDirectory() as folder:
        selections(Path(folder))
    timing.finish()


if __name__ == "__main__":
    main()
