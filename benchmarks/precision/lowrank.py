"""Claims: the low-rank ManiFeSt score follows the exact score at small bandwidths too.

    JAXFS_DATA=… python -m benchmarks.precision.lowrank [--draws N] [--skip-exact]

- 30 of 50 000 features share a hidden factor in the second class (40 + 40 samples, rank 200). At
  `Median(0.25)` and `Median(0.1)` at least 95% of them are among the 30 features of highest score.
- Prostate-GE (5 966 features, rank 200): at `Median(1.0)` Spearman ≥ .998 and 93 of the top 100 in
  common with the exact score; at `Median(0.25)` 90 of the top 100; in at most 0.2 of its time,
  compilation included on both sides.

The kernels of the planted data are nearly the identity: the leading eigenpairs are the few small
clusters, and all other eigenvalues are close to their mean. The kernels of Prostate-GE at
`Median(0.25)` are not: their spectra decay slowly beyond any small rank. Blocks of similar features
find 87 of its top 100 there, where the eigenpairs alone find 30, and 91 at `Median(1.0)`: both bars
for the top 100 are missed, and the time is 0.26 of that of the exact score, above its bar.
"""

import argparse
import time

import jax
import numpy as np
from scipy.stats import spearmanr

import jaxfs
from benchmarks import data
from benchmarks.selection import top
from benchmarks.timing import at_least, finish, verdict

RANK = 200
NUM_PLANTED = 30


def planted(seed: int, d: int = 50_000, n: int = 40, noise: float = 0.1):
    """Independent features, of which some follow a hidden factor in the second class."""
    generator = np.random.default_rng(seed)
    x1, x2 = generator.normal(size=(2, n, d)).astype(np.float32)
    chosen = generator.choice(d, NUM_PLANTED, replace=False)
    hidden = generator.normal(size=(n, 1)).astype(np.float32)
    x2[:, chosen] = hidden + np.float32(noise) * x2[:, chosen]
    return x1, x2, set(chosen.tolist())


def recall(factor: float, draws: int) -> None:
    found = []
    start = time.process_time()
    for seed in range(draws):
        x1, x2, chosen = planted(seed)
        scores = jaxfs.manifest_lowrank_score(
            jax.random.key(seed), x1, x2, rank=RANK, bandwidth=jaxfs.Median(factor, sample=2048)
        )
        found.append(len(chosen & set(top(np.asarray(scores), NUM_PLANTED))))
    seconds = (time.process_time() - start) / draws
    percent = 100 * float(np.mean(found)) / NUM_PLANTED
    print(
        f"Median({factor}): planted features found {found}, percent {at_least(percent, 95.0)},"
        f" {seconds:.1f} CPU-seconds a draw",
        flush=True,
    )


def prostate(factor: float, common_bar: float, correlation_bar: float | None) -> None:
    x, y = data.load("Prostate-GE")
    x1, x2 = x[y == 0], x[y == 1]
    start = time.process_time()
    low = np.asarray(
        jaxfs.manifest_lowrank_score(
            jax.random.key(0), x1, x2, rank=RANK, bandwidth=jaxfs.Median(factor, sample=2048)
        )
    )
    middle = time.process_time()
    exact = np.asarray(jaxfs.manifest_score(x1, x2, bandwidth=jaxfs.Median(factor)))
    share = (middle - start) / (time.process_time() - middle)
    common = len(set(top(low, 100)) & set(top(exact, 100)))
    correlation = 100 * spearmanr(low, exact).statistic
    told = f"{correlation:.1f}"
    if correlation_bar is not None:
        told = at_least(correlation, correlation_bar)
    print(
        f"Prostate-GE, Median({factor}): Spearman, percent {told}"
        f"  of the top 100 in common {at_least(common, common_bar)}"
        f"  low rank over exact {verdict(share, 0.2)}",
        flush=True,
    )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--skip-exact", action="store_true")
    arguments = parser.parse_args()
    for factor in (0.25, 0.1):
        recall(factor, arguments.draws)
    if not arguments.skip_exact:
        prostate(1.0, 93, 99.8)
        prostate(0.25, 90, None)


if __name__ == "__main__":
    main()
    finish()
