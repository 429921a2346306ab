"""The computations of the report on ManiFeSt: pixels of the digits 4 and 9, and AdaBoost on them.

A score sees N images. AdaBoost uses the M best pixels as rules f_j ≥ 128, with both signs, for 30
rounds, and is tested on the 1991 test images. The error is the mean of the errors of both digits.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxfs
from benchmarks import boosting

NUM_FEATURES = (5, 10, 15, 20, 30, 50, 75, 100)
NUM_SAMPLES = (10, 20, 40, 70, 100, 200, 400, 1000)
METHODS = ("ManiFeSt", "ReliefF", "random")
TRAININGS = ("the N images", "2000 images")
NUM_TRAIN = 2000
RATIOS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
TS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
RATIO_SAMPLES = 100

digits = functools.cache(boosting.digits)


@jax.jit
def manifest(x, y, rows, weights, ts):
    """Scores (b, t, 784) of draws `rows (b, n)`: a loop over draws, with all t at once."""

    def one(draw):
        rows, w = draw
        own = x[rows]
        first, second = (jnp.where(y[rows] == c, w, 0) for c in (0, 1))
        score = functools.partial(jaxfs.manifest_score, own, own, weights1=first, weights2=second)
        return jax.vmap(lambda t: score(t=t))(ts)

    return lax.map(one, (rows, weights))


@jax.jit
def relieff(x, y, rows):
    k = min(10, len(rows) // 2 - 1)
    return jaxfs.relieff_score(x[rows], y[rows], num_classes=2, num_neighbors=k)


def best(scores, k: int) -> np.ndarray:
    """Indices (…, k) of the k best pixels."""
    if np.isnan(scores).any():
        raise ValueError("scores hold NaN")
    return np.argsort(-np.asarray(scores), axis=-1, kind="stable")[..., :k]


def halves(n: int) -> tuple[int, int]:
    return n // 2, n - n // 2


def scores(rows, sizes) -> np.ndarray:
    """Scores (2, sizes, 784) of ManiFeSt and ReliefF from the first images of a draw."""
    pool = digits()
    seen = (np.arange(len(rows)) < np.array(sizes)[:, None]).astype(np.float32)
    draws = np.tile(rows, (len(sizes), 1))
    ours = np.asarray(manifest(*pool, draws, seen, np.array([0.5], np.float32)))[:, 0]
    return np.stack([ours, np.stack([relieff(*pool, rows[:size]) for size in sizes])])


def pixel_scores(split: int, sizes=(40, 1000)) -> dict:
    rows = boosting.draw(np.random.default_rng(split), digits().y, halves(max(sizes)))
    found = scores(rows, sizes).astype(float).round(5)
    return {str(size): found[:, i].tolist() for i, size in enumerate(sizes)}


def errors(split: int, sizes=NUM_SAMPLES, counts=NUM_FEATURES) -> dict:
    """Errors (trainings, methods, sizes, counts) of one draw of images."""
    pool, test = digits(), digits("t10k")
    rng = np.random.default_rng(split)
    n, k = max(sizes), max(counts)
    rows, others = (boosting.draw(rng, pool.y, halves(m)) for m in (n, NUM_TRAIN))
    lots = rng.random((1, len(sizes), 784))
    orders = best(np.concatenate([scores(rows, sizes), lots]), k).reshape(-1, k)
    seen = (np.arange(n) < np.array(sizes)[:, None]).astype(np.float32)
    found = []
    for drawn, weights in ((rows, seen), (others, np.ones((len(sizes), NUM_TRAIN), np.float32))):
        drawn = np.tile(drawn, (len(orders), 1))
        weights = np.tile(weights, (len(METHODS), 1))
        answer = boosting.errors(*pool, weights, drawn, orders, np.array(counts), *test)
        found.append(np.asarray(answer, float).reshape(len(METHODS), len(sizes), len(counts)))
    return {"errors": np.stack(found).round(5).tolist()}


def ratio_errors(split: int, ratios=RATIOS, ts=TS, total: int = RATIO_SAMPLES) -> dict:
    """Errors (ratios, t), mean over 10, 20, 30 and 50 pixels, of one draw."""
    pool, test = digits(), digits("t10k")
    rng, counts = np.random.default_rng(1000 + split), np.array([10, 20, 30, 50])
    sizes = [(round(r * total), total - round(r * total)) for r in ratios]
    draws = np.stack([boosting.draw(rng, pool.y, size) for size in sizes])
    train = boosting.draw(rng, pool.y, halves(NUM_TRAIN))
    found = manifest(*pool, draws, np.ones(draws.shape, np.float32), np.array(ts, np.float32))
    orders = best(found, 50).reshape(-1, 50)
    rows = np.tile(train, (len(orders), 1))
    answer = boosting.errors(*pool, np.ones(rows.shape, np.float32), rows, orders, counts, *test)
    mean = np.asarray(answer, float).mean(axis=-1).reshape(len(ratios), len(ts))
    return {"errors": mean.round(5).tolist()}
