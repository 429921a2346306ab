"""Claims: GC selects from a 20 GB table within 2 GB, and no method holds an n × n array.

    python -m benchmarks.scale.samples [--rows 10000000] [--picture FILE] [--only PART …]

- `streaming`: GC selects 50 of 500 features, 10 classes, 10 million rows (20 GB in float32). The
  rows are generated in blocks, as if read from a memory-mapped file. At most 2 GB are resident, and
  the planted features are found. The script also prints how time grows with the rows.
- `memory`: temporary memory that XLA reserves in addition to the data, for compiled programs that
  are not run: GC of 1 000 000 × 500 in memory; ReliefF, the k-NN graph, the soft k-NN graph and the
  graph of SSFS at 50 000 × 1000.

Each size runs in its own process.
"""

import argparse
import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from benchmarks.scale.manifest import resident
from benchmarks.timing import at_least, finish, verdict
from jaxfs import graphs, streaming
from jaxfs.graphs import _laplacian

D, CLASSES, CHOSEN, BLOCK = 500, 10, 50, 50_000
INFORMATIVE = 20


def read(rows: int):
    """Blocks of one fixed draw, rolled by the block number: cheap, and equal in every pass."""
    generator = np.random.default_rng(0)
    y = generator.integers(CLASSES, size=BLOCK)
    x = generator.normal(size=(BLOCK, D)).astype(np.float32)
    means = generator.normal(size=(CLASSES, INFORMATIVE)).astype(np.float32)
    x[:, :INFORMATIVE] += means[y]

    def blocks():
        for start in range(0, rows, BLOCK):
            number = min(BLOCK, rows - start)
            shift = start // BLOCK
            yield np.roll(x, shift, axis=0)[:number], np.roll(y, shift)[:number]

    return blocks


def one(rows: int) -> None:
    source = streaming.from_blocks(read(rows))
    before = resident()
    start = time.perf_counter()
    chosen = streaming.gc_select(source, CHOSEN, num_classes=CLASSES)
    indices = np.asarray(chosen.indices)
    seconds = time.perf_counter() - start
    found = len(set(indices[:INFORMATIVE].tolist()) & set(range(INFORMATIVE)))
    row = {"seconds": seconds, "resident": resident(), "before": before, "found": found}
    print(json.dumps(row))


def stream(rows: int, picture: str | None) -> None:
    sizes = [rows // k for k in (50, 20, 5, 1)]
    out = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scale.samples", "--one", str(size)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=7200)
        out.append(json.loads(answer.stdout))
        print(
            f"{size:9d} rows ({size * D * 4 / 1e9:.1f} GB): {out[-1]['seconds']:.1f} s, resident "
            f"{out[-1]['resident']:.2f} GB ({out[-1]['before']:.2f} before)",
            flush=True,
        )
    times = [r["seconds"] for r in out]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"GB resident {verdict(out[-1]['resident'], 2.0)}")
    print(
        f"planted features among the first {INFORMATIVE} {at_least(out[-1]['found'], INFORMATIVE)}"
    )
    print(f"time grows as rows^{slope:.2f}")
    if picture:
        draw(picture, sizes, out, slope)


def memory() -> None:
    """Temporary memory of compiled programs, in GB."""

    def temporary(function, *shapes) -> float:
        program = jax.jit(function).lower(*shapes).compile()
        return program.memory_analysis().temp_size_in_bytes / 1e9

    def samples(n, d):
        return jax.ShapeDtypeStruct((n, d), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32)

    x, y = samples(1_000_000, 500)
    gc = temporary(lambda x, y: jaxfs.gc_select(x, y, 50, num_classes=10), x, y)
    print(f"GC, 1 000 000 x 500 in memory (2 GB): {gc:.2f} GB more")
    x, y = samples(50_000, 1000)
    relief = temporary(lambda x, y: jaxfs.relieff_score(x, y, num_classes=10), x, y)
    print(f"ReliefF, 50 000 x 1000 (0.2 GB): {relief:.2f} GB more")
    near = temporary(lambda x: graphs.nearest_neighbors(x, 10), x)
    print(f"k-NN graph, 50 000 x 1000: {near:.2f} GB more")
    learner = jaxfs.KNNGraphLearner(5, 0.01, num_candidates=32)
    soft = temporary(lambda x: tuple(learner(x)), x)
    print(f"soft k-NN graph, 50 000 x 1000: {soft:.2f} GB more")
    everyone = jax.ShapeDtypeStruct((50_000,), jnp.bool_)
    ssfs = temporary(lambda x, m: _laplacian.sample_eigenvectors(x, 2, 10, m), x, everyone)
    print(f"graph of SSFS, 50 000 x 1000: {ssfs:.2f} GB more (n x n would be 10)")


def draw(path: str, sizes, rows, slope: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    axes[0].loglog(sizes, [r["seconds"] for r in rows], "o-", label=f"∝ rows^{slope:.2f}")
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False)
    axes[1].loglog(sizes, [r["resident"] for r in rows], "o-", label="resident")
    axes[1].loglog(sizes, [s * D * 4 / 1e9 for s in sizes], "s--", label="the table")
    axes[1].set_ylabel("GB")
    axes[1].legend(frameon=False)
    for a in axes:
        a.set_xlabel(f"rows of {D} features")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--picture")
    parser.add_argument("--one", type=int)
    parser.add_argument("--only", nargs="*", choices=("streaming", "memory"), default=None)
    options = parser.parse_args()
    if options.one:
        return one(options.one)
    if options.only is None or "memory" in options.only:
        memory()
    if options.only is None or "streaming" in options.only:
        stream(options.rows, options.picture)
    return finish()


if __name__ == "__main__":
    main()
