"""Claims: the low-rank ManiFeSt score follows the exact score at small bandwidths too.

    JAXFS_DATA=… python -m benchmarks.precision.lowrank [--draws N] [--sets NAME ...]

- 30 of 50 000 features share a hidden factor in the second class (40 + 40 samples, rank 200). At
  `Median(0.25)` and `Median(0.1)` at least 95% of them are among the 30 features of highest score.
- Prostate-GE (5 966 features), rank 200: at `Median(1.0)` Spearman ≥ .998 and 93 of the top 100 in
  common with the exact score; at `Median(0.25)`, with blocks of d/4 features, 90 of the top 100;
  both in at most 0.2 of its time. CPU-seconds, compilation included on both sides.

Without blocks the kernels of Prostate-GE at `Median(0.25)` are not described by the leading
eigenpairs and the mean of the others: their spectra decay slowly beyond any small rank. Gravier and
colon are printed for comparison.
"""

import argparse
import functools
import math
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


def real(name: str, factor: float) -> None:
    """Compare with the exact score of the two classes of a data set, without and with blocks."""
    x, y = data.load(name)
    x1, x2 = x[y == 0], x[y == 1]
    rule = jaxfs.Median(factor)
    exact, seconds = timed(lambda: jaxfs.manifest_score(x1, x2, bandwidth=rule))
    rule = jaxfs.Median(factor, sample=2048)
    score = functools.partial(
        jaxfs.manifest_lowrank_score, jax.random.key(0), x1, x2, rank=RANK, bandwidth=rule
    )
    for blocks, size in (("no", None), ("four", math.ceil(x.shape[1] / 4))):
        low, spent = timed(functools.partial(score, block=size))
        common = f"{len(set(top(low, 100)) & set(top(exact, 100)))}"
        correlation, share = f"{spearmanr(low, exact).statistic:.4f}", f"{spent / seconds:.2f}"
        if name == "Prostate-GE" and (blocks == "no") == (factor == 1.0):
            common = at_least(float(common), 93 if factor == 1.0 else 90)
            share = verdict(float(share), 0.2)
            if factor == 1.0:
                correlation = at_least(1000 * float(correlation), 998)
        print(
            f"{name}, Median({factor}), {blocks} blocks: of the top 100 in common {common}"
            f"  Spearman {correlation}  time over exact {share} of {seconds:.0f} s",
            flush=True,
        )


def timed(call) -> tuple[np.ndarray, float]:
    """The scores and the CPU-seconds of a first call."""
    start = time.process_time()
    scores = np.asarray(call())
    return scores, time.process_time() - start


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=["Prostate-GE", "gravier", "colon"])
    arguments = parser.parse_args()
    for factor in (0.25, 0.1):
        recall(factor, arguments.draws)
    for name in arguments.sets:
        for factor in (1.0, 0.25):
            real(name, factor)


if __name__ == "__main__":
    main()
    finish()
