"""Claim: ManiFeSt takes the exact mean of the ten classes of MNIST by default, in seconds.

    JAXFS_DATA=… python -m benchmarks.speed.manifest_classes

The first 100 images of every digit, 784 pixels. The script prints the solver that the estimator
chooses, the CPU-seconds of the first and second score in float32 and float64, one thread, and how
well the float32 scores agree with the float64 ones: the rank correlation over the pixels that vary
(the others are equal features, whose scores tie), and how many of the best 100 pixels differ.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import time

import jax
import numpy as np
from scipy.stats import spearmanr

import jaxfs
from benchmarks import data
from benchmarks.timing import finish, verdict
from jaxfs.estimators import ManiFeSt

CLASSES, EACH, BEST = 10, 100, 100


def best(scores: np.ndarray) -> set[int]:
    return set(np.argsort(-scores, kind="stable")[:BEST].tolist())


def main() -> None:
    images, digits = data.mnist()
    rows = np.concatenate([np.flatnonzero(digits == c)[:EACH] for c in range(CLASSES)])
    x, y = images[rows] / 255, digits[rows]
    solver = ManiFeSt()._chosen_solver(x.shape[1], CLASSES)
    print(f"{x.shape[1]} pixels of {CLASSES} classes: the {solver} solver")
    scores = []
    for dtype in (np.float32, np.float64):
        seconds = []
        for _ in range(2):
            start = time.process_time()
            found = jaxfs.manifest_multiclass_score(x.astype(dtype), y, num_classes=CLASSES)
            scores.append(np.asarray(found))
            seconds.append(time.process_time() - start)
        print(f"{dtype.__name__}: first {seconds[0]:.1f} s, then {verdict(seconds[1], 60)}")
    single, double = scores[1], scores[3]
    varied = x.std(axis=0) > 0
    missed = 1e4 * (1 - spearmanr(single[varied], double[varied])[0])
    print(f"10⁴ × (1 − rank correlation) over {varied.sum()} pixels: {verdict(missed, 1)}")
    different = BEST - len(best(single) & best(double))
    print(f"pixels that differ among the best {BEST}: {verdict(different, 1)}")
    if solver != "exact":
        raise SystemExit("ManiFeSt does not use the exact mean for MNIST")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
    finish()
