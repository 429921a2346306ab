"""Claims: batched AdaBoost is faster than a scikit-learn loop, and both agree.

    JAXFS_DATA=… python -m benchmarks.speed.adaboost

- The heat map of `benchmarks.papers.report_runs`: 3 rankings of pixels × 8 numbers of samples
  × 10 repeats × 8 numbers of pixels, 1920 models of 30 rounds, fitted and tested. It is at least 20
  times as fast as a loop over scikit-learn's `AdaBoostClassifier` of depth-1 trees, on the same
  thresholded pixels. The loop is timed on one repeat of one ranking and extrapolated.
- The stumps are the same: with `criterion="gini"`, all thresholds and float64, the predictions
  equal scikit-learn's. This is tested on 400 images of 4 and 9 with random weights, which leave no
  ties.

float32 except for the last claim; compilation is not timed. The rankings are random, which does not
affect the time.
"""

import time

import jax
import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks import boosting, timing
from jaxfs.surrogates import adaboost

NUM_FEATURES = (5, 10, 15, 20, 30, 50, 75, 100)
NUM_SAMPLES = (10, 20, 40, 70, 100, 200, 400, 1000)
NUM_REPEATS, NUM_RANKINGS = 10, 3


def peer(rounds: int = boosting.ROUNDS) -> AdaBoostClassifier:
    return AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=rounds)


def heat_map(pool, test) -> None:
    rng = np.random.default_rng(0)
    half = max(NUM_SAMPLES) // 2
    draws = [boosting.draw(rng, pool.y, (half, half)) for _ in range(NUM_REPEATS)]
    orders = [
        rng.permutation(784)[: max(NUM_FEATURES)]
        for _ in range(NUM_RANKINGS * len(NUM_SAMPLES) * NUM_REPEATS)
    ]
    sizes = np.array(NUM_SAMPLES)
    seen = (np.arange(max(sizes))[None] < sizes[:, None]).astype(np.float32)
    train = np.tile(np.repeat(draws, len(sizes), axis=0), (NUM_RANKINGS, 1))
    weights = np.tile(seen, (NUM_RANKINGS * NUM_REPEATS, 1))
    inputs = jax.device_put(
        (*pool, weights, train, np.array(orders), np.array(NUM_FEATURES), *test)
    )
    (ours,) = timing.best(lambda: boosting.errors(*inputs), repeats=3)

    mine = np.asarray(boosting.errors(*inputs))[: len(sizes)]
    theirs = np.zeros_like(mine)
    start = time.perf_counter()
    for i, size in enumerate(sizes):
        rows = draws[0][:size]
        for j, count in enumerate(NUM_FEATURES):
            pixels = orders[i][:count]
            cut = (pool.x[rows][:, pixels] >= boosting.THRESHOLD).astype(np.float32)
            try:
                model = peer().fit(cut, pool.y[rows])
            except ValueError:  # scikit-learn refuses if no stump is better than chance
                theirs[i, j] = 0.5
                continue
            wrong = model.predict(test.x[:, pixels] >= boosting.THRESHOLD) != test.y
            theirs[i, j] = 0.5 * sum(np.mean(wrong[test.y == c]) for c in (0, 1))
    loop = (time.perf_counter() - start) * NUM_REPEATS * NUM_RANKINGS
    number = mine.size * NUM_REPEATS * NUM_RANKINGS
    print(f"heat map, {number} models: {ours:.2f} s, scikit-learn {loop:.0f} s")
    print(f"  ratio {timing.at_least(loop / ours, 20)}")
    print(f"  mean error of the {mine.size} models of both: {mine.mean():.4f}, {theirs.mean():.4f}")


def same_predictions(pool, test) -> None:
    rng = np.random.default_rng(1)
    rows = boosting.draw(rng, pool.y, (200, 200))
    x = pool.x[rows].astype(np.float64)
    w = rng.uniform(0.5, 1.5, size=len(rows))
    with jax.enable_x64(True):
        model = adaboost.fit(x, pool.y[rows], num_rounds=100, criterion="gini", weights=w)
        mine = np.asarray(adaboost.predict(model, test.x.astype(np.float64)))
    other = peer(100).fit(x, pool.y[rows], sample_weight=w).predict(test.x)
    print(f"all thresholds, 100 rounds, of {len(mine)} predictions ", end="")
    print(f"{timing.verdict(np.sum(mine != other), 0)} differ from scikit-learn's")


def main() -> None:
    pool, test = boosting.digits(), boosting.digits("t10k")
    heat_map(pool, test)
    same_predictions(pool, test)
    timing.finish()


if __name__ == "__main__":
    main()
