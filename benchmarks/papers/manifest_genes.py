"""ManiFeSt, section 5.4: filters on colon and Prostate-GE by nested cross-validation.

The protocol is that of appendix D.1, with fewer candidates. Features are scored on the training
samples. C and γ of an RBF-SVM are chosen by cross-validation on the training samples. For every
number of features, the setting of a score (percentile of the bandwidth, number of neighbours) is
the one with the best cross-validated accuracy. The combination keeps ReliefF's setting and chooses
its percentile again. The data are not preprocessed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.svm import _libsvm

import jaxfs
from benchmarks import data, selection

_libsvm.set_verbosity_wrap(0)  # otherwise every fit prints

PERCENTILES = (5.0, 50.0, 95.0)
NEIGHBORS = (1, 5, 10, 15)
PENALTIES = (2.0, 16.0, 128.0, 1024.0)
GAMMAS = tuple(2.0**i for i in range(-15, 4, 3))
INNER_FOLDS = 5
#: Shares of the features that give the numbers in Table 1: 119, 238, 357, 715 and 1073 of 5966.
SHARES = (0.004, 0.008, 0.01, 0.02, 0.04, 0.1, 0.12, 0.18, 0.2)
#: Beyond this number of features, ManiFeSt is `manifest_lowrank_score` of rank 200.
EXACT = 2000
COMBINED = "ManiFeSt + ReliefF"


@functools.cache
def load(name: str):
    x, y = data.load(name)
    return x.astype(np.float32), y.astype(np.int32)


@jax.jit
def manifest(x1, x2, percentile):
    rule = jaxfs.Percentile(percentile, jnp.float32(1))
    return jaxfs.manifest_score(x1, x2, bandwidth=rule)


def manifest_scores(x, y) -> list[np.ndarray]:
    """The scores of every percentile."""
    x1, x2 = x[y == 0], x[y == 1]
    if x.shape[1] <= EXACT:
        return [np.asarray(manifest(x1, x2, q)) for q in PERCENTILES]
    key = jax.random.key(0)
    rules = [jaxfs.Percentile(q) for q in PERCENTILES]
    return [
        np.asarray(jaxfs.manifest_lowrank_score(key, x1, x2, rank=200, bandwidth=rule))
        for rule in rules
    ]


def numbers(d: int) -> list[int]:
    return sorted({max(1, int(share * d)) for share in SHARES})


class Classifier:
    """An RBF-SVM with C and γ chosen on the training samples, for any set of features."""

    def __init__(self, x, y, train, test):
        self.x, self.y, self.train, self.test = x, y, train, test
        inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0)
        self.splits = list(inner.split(train, y[train]))
        self.known: dict[tuple, list[float]] = {}

    def __call__(self, features) -> list[float]:
        """Cross-validated accuracy and test accuracy; a set of features is fitted only once."""
        key = tuple(np.sort(features))
        if key not in self.known:
            self.known[key] = self._fit(self.x[:, list(key)].astype(np.float64))
        return self.known[key]

    def _fit(self, x) -> list[float]:
        d2 = euclidean_distances(x, squared=True)
        best = None
        for gamma in GAMMAS:
            kernel = np.exp(-gamma * d2)
            for c in PENALTIES:
                inside = [(self.train[a], self.train[b]) for a, b in self.splits]
                found = float(np.mean([right(kernel, self.y, c, a, b) for a, b in inside]))
                if best is None or found > best[0]:
                    best = found, kernel, c
        return [best[0], right(best[1], self.y, best[2], self.train, self.test)]


def right(kernel, y, penalty: float, train, test) -> float:
    """The accuracy of an SVM, fitted by LIBSVM as scikit-learn calls it.

    `SVC(C=penalty, kernel="precomputed")` gives the same result in thirty times the time, which it
    spends on checking its arguments.
    """
    given = np.ascontiguousarray(kernel[np.ix_(train, train)])
    options = {"svm_type": 0, "kernel": "precomputed", "tol": 1e-3, "cache_size": 200.0}
    fitted = _libsvm.fit(given, y[train].astype(float), C=penalty, random_seed=0, **options)
    support, coefficients, intercept = fitted[0], fitted[3][0], fitted[4][0]
    decision = kernel[np.ix_(test, train[support])] @ coefficients + intercept
    return float(np.mean((decision <= 0) == y[test]))  # LIBSVM's positive class is the first


def evaluate(x, y, train, test, *, rivals: bool = True, shares=None) -> dict:
    """Validation and test accuracies: method → setting → number of features."""
    counts = numbers(x.shape[1]) if shares is None else list(shares)
    classifier = Classifier(x, y, train, test)
    fewest = np.bincount(y[train]).min()
    neighbors = [k for k in NEIGHBORS if k < fewest]
    xs, ys = x[train], y[train]
    if rivals:
        found = selection.filters(xs, ys, neighbors=neighbors, graphs=neighbors)
    else:
        score = functools.partial(jaxfs.relieff_score, xs, ys, num_classes=2)
        found = {"ReliefF": [score(num_neighbors=k) for k in neighbors]}
    scores = {name: list(map(np.asarray, settings)) for name, settings in found.items()}
    scores["ManiFeSt"] = manifest_scores(xs, ys)
    models = {
        name: [[classifier(selection.top(s, k)) for k in counts] for s in settings]
        for name, settings in scores.items()
    }
    kept = [
        scores["ReliefF"][int(np.argmax([setting[i][0] for setting in models["ReliefF"]]))]
        for i in range(len(counts))
    ]
    models[COMBINED] = [
        [
            classifier(selection.top(jaxfs.combine_scores(ours, theirs), k))
            for k, theirs in zip(counts, kept, strict=True)
        ]
        for ours in scores["ManiFeSt"]
    ]
    everything = classifier(np.arange(x.shape[1]))
    return {"counts": counts, "models": models, "all": everything}


def colon(split: int) -> dict:
    x, y = load("colon")
    return evaluate(x, y, *ninetieths(x, y, split))


def prostate(split: int) -> dict:
    x, y = load("Prostate-GE")
    return evaluate(x, y, *ninetieths(x, y, split))


def ninetieths(x, y, split: int):
    """90% of the samples for training, 10% for testing."""
    outer = RepeatedStratifiedKFold(n_splits=10, n_repeats=5, random_state=0)
    return list(outer.split(x, y))[split]


def forty_nine(x, y, split: int):
    """49 samples for training, 13 for testing."""
    return next(StratifiedShuffleSplit(1, test_size=13, random_state=split).split(x, y))


# ---- Reading the numbers ------------------------------------------------------------------------


def accuracies(found: list[dict], method: str, setting: int | None = None) -> np.ndarray:
    """Validation and test accuracies (splits, numbers of features, 2) in per cent.

    Without `setting`, each split and number has the setting with the best validation accuracy.
    """
    table = [np.array(split["models"][method]) for split in found]  # (settings, counts, 2)
    if setting is not None:
        return 100 * np.stack([settings[setting] for settings in table])
    best = [settings[..., 0].argmax(axis=0) for settings in table]
    return 100 * np.stack(
        [
            np.take_along_axis(s, b[None, :, None], axis=0)[0]
            for s, b in zip(table, best, strict=True)
        ]
    )
