"""ManiFeSt, Table 1: ManiFeSt, ReliefF and the sum of both on colon and Prostate-GE.

    JAXFS_DATA=… python -m benchmarks.papers.manifest_table1 [colon] [Prostate-GE] [--splits 50] …

The protocol is that of section 5.4 and appendix D.1: 90% of the samples for training, 10% for
testing, 50 stratified splits (five shuffles of ten folds). Features are scored on the training
samples. C and γ of an RBF-SVM are chosen from a 7 × 7 grid by 10-fold cross-validation on the
training samples. For every number of features, the setting of a score (percentile of the bandwidth,
number of neighbours) is the one with the best accuracy there. The combination keeps ReliefF's
setting and chooses its percentile again, with two more percentiles. The data are not preprocessed.

The paper reports the number of features with the lowest *test* error, and so does the column
"best". The column next to it takes the number with the best cross-validation in each split, without
test samples.

One score of the 5966 genes takes a minute or more, and each split needs nine. `--genes 1000` keeps
the genes that vary most in the training samples. `--quick` uses fewer settings, numbers and folds.
"""

import argparse
import functools
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import joblib
import numpy as np
from jax import lax
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.svm import _libsvm

import jaxfs
from benchmarks import data, selection

_libsvm.set_verbosity_wrap(0)  # otherwise every process prints every fit

METHODS = ("all features", "ReliefF", "ManiFeSt", "ManiFeSt + ReliefF")
PAPER = {
    "colon": ("17.74 ± 13.69", "13.23 ± 11.70 (20)", "12.90 ± 12.71 (200)", "10.97 ± 10.96 (40)"),
    "Prostate-GE": ("8.82 ± 9.23", "5.56 ± 8.52 (1073)", "5.23 ± 7.82 (119)", "5.23 ± 6.94 (238)"),
}
#: Shares of the features that give the numbers in Table 1: 119, 238, 357, 715 and 1073 of 5966.
SHARES = (0.004, 0.008, 0.01, 0.02, 0.04, 0.1, 0.12, 0.18, 0.2)


class Protocol(NamedTuple):
    """Candidate settings for the cross-validation."""

    percentiles: Sequence[float] = (1.0, *selection.PERCENTILES, 99.0)
    neighbors: Sequence[int] = selection.NEIGHBORS
    shares: Sequence[float] = SHARES
    penalties: Sequence[float] = tuple(2.0**i for i in range(-5, 14, 3))
    gammas: Sequence[float] = tuple(2.0**i for i in range(-15, 4, 3))
    folds: int = 10


QUICK = Protocol((5.0, 50.0, 95.0), (3, 10), (0.01, 0.02, 0.1), (2.0, 16.0), (2.0**-12, 2.0**-6), 5)

# ---- Scores: training samples are weights, so that every split has one shape --------------------


@jax.jit
def manifest(x, y, train, percentiles):
    """Scores (settings, d), in a loop over percentiles: each needs six d × d arrays."""
    first, second = (jnp.where(y == c, train, 0) for c in (0, 1))

    def one(q):
        rule = jaxfs.Percentile(q, jnp.float32(1))
        return jaxfs.manifest_score(x, x, weights1=first, weights2=second, bandwidth=rule)

    return lax.map(one, percentiles)


@functools.partial(jax.jit, static_argnames="k")
def relieff(x, y, train, k: int):
    return jaxfs.relieff_score(x, y, num_classes=2, num_neighbors=k, weights=train)


def scores(x, y, train, protocol: Protocol):
    """Scores of every setting: ManiFeSt's (m, d) and ReliefF's (k, d)."""
    w = np.isin(np.arange(len(y)), train).astype(np.float32)
    fewest = np.bincount(y[train]).min()
    theirs = [relieff(x, y, w, k) for k in protocol.neighbors if k < fewest]
    ours = manifest(x, y, w, np.array(protocol.percentiles, np.float32))
    return np.asarray(ours), np.asarray(theirs)


# ---- The classifier -----------------------------------------------------------------------------


class Model(NamedTuple):
    """Cross-validated accuracy at the best C and γ, and the test error of that model."""

    accuracy: float
    error: float


def classify(x, y, train, test, protocol: Protocol) -> Model:
    """An RBF-SVM tuned over C and γ, which all use the same distances."""
    d2 = euclidean_distances(x, squared=True)
    inner = StratifiedKFold(protocol.folds, shuffle=True, random_state=0)
    splits = list(inner.split(train, y[train]))

    best = None
    for gamma in protocol.gammas:
        kernel = np.exp(-gamma * d2)
        for c in protocol.penalties:
            found = np.mean([right(kernel, y, c, train[a], train[b]) for a, b in splits])
            if best is None or found > best[0]:
                best = found, kernel, c
    return Model(best[0], 1 - right(best[1], y, best[2], train, test))


def right(kernel, y, penalty: float, train, test) -> float:
    """The accuracy of an SVM, fitted by LIBSVM as scikit-learn calls it.

    `SVC(C=penalty, kernel="precomputed")` gives the same result in thirty times the time, which it
    spends on checking its arguments. The table needs about ten million fits.
    """
    given = np.ascontiguousarray(kernel[np.ix_(train, train)])
    options = {"svm_type": 0, "kernel": "precomputed", "tol": 1e-3, "cache_size": 200.0}
    fitted = _libsvm.fit(given, y[train].astype(float), C=penalty, random_seed=0, **options)
    support, coefficients, intercept = fitted[0], fitted[3][0], fitted[4][0]
    decision = kernel[np.ix_(test, train[support])] @ coefficients + intercept
    return float(np.mean((decision <= 0) == y[test]))  # LIBSVM's positive class is the first


def split_errors(x, y, train, test, protocol: Protocol, genes: int | None):
    """The `Model` of every method and number of features, and that of all features."""
    if genes is not None and genes < x.shape[1]:
        x = x[:, np.sort(np.argsort(-x[train].var(axis=0), kind="stable")[:genes])]
    counts = numbers(x.shape[1], protocol)
    ours, theirs = scores(x.astype(np.float32), y, train, protocol)

    def tuned(candidates: dict[int, np.ndarray]) -> dict[int, tuple[int, Model]]:
        """The setting with the best cross-validation for every number of features, and its model.

        Ties go to the first setting.
        """
        tasks = [(k, score) for k, settings in candidates.items() for score in settings]
        run = joblib.delayed(classify)
        found = joblib.Parallel(n_jobs=-1)(
            run(x[:, selection.top(score, k)], y, train, test, protocol) for k, score in tasks
        )
        answer = {}
        for k in candidates:
            models = [model for (count, _), model in zip(tasks, found, strict=True) if count == k]
            winner = int(np.argmax([model.accuracy for model in models]))
            answer[k] = winner, models[winner]
        return answer

    best = {"ReliefF": tuned(dict.fromkeys(counts, theirs))}
    best["ManiFeSt"] = tuned(dict.fromkeys(counts, ours))
    kept = {k: theirs[best["ReliefF"][k][0]] for k in counts}
    best["ManiFeSt + ReliefF"] = tuned(
        {k: np.array([jaxfs.combine_scores(score, kept[k]) for score in ours]) for k in counts}
    )
    models = {(method, k): model for method, of in best.items() for k, (_, model) in of.items()}
    models["all features", x.shape[1]] = classify(x, y, train, test, protocol)
    return models


def numbers(d: int, protocol: Protocol) -> list[int]:
    return sorted({max(1, int(share * d)) for share in protocol.shares})


def report(name: str, found: list[dict]) -> None:
    print(f"{name}: test error (%) of an RBF-SVM over {len(found)} splits")
    print(f"{'':20s}{'best':>24s}{'by cross-validation':>24s}   paper")
    for method, paper in zip(METHODS, PAPER[name], strict=True):
        counts = [k for m, k in found[0] if m == method]
        errors = 100 * np.array([[models[method, k].error for k in counts] for models in found])
        chosen = [int(np.argmax([m[method, k].accuracy for k in counts])) for m in found]
        honest = errors[np.arange(len(found)), chosen]
        best = int(np.argmin(errors.mean(axis=0)))
        cell = f"{errors[:, best].mean():.2f} ± {errors[:, best].std():.2f} ({counts[best]})"
        print(
            f"{method:20s}{cell:>24s}{f'{honest.mean():.2f} ± {honest.std():.2f}':>24s}   {paper}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sets", nargs="*", default=list(PAPER), help="colon, Prostate-GE")
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--genes", type=int, help="number of features to keep, by variance")
    parser.add_argument("--quick", action="store_true", help="use fewer settings")
    given = parser.parse_args()
    protocol = QUICK if given.quick else Protocol()
    for name in given.sets:
        x, y = data.load(name)
        y = y.astype(np.int32)
        outer = RepeatedStratifiedKFold(n_splits=10, n_repeats=5, random_state=0)
        found = []
        for i, (train, test) in enumerate(outer.split(x, y)):
            if i == given.splits:
                break
            start = time.perf_counter()
            found.append(split_errors(x, y, train, test, protocol, given.genes))
            passed = time.perf_counter() - start
            print(f"{name}, split {i + 1}: {passed:.0f} s", file=sys.stderr)
        report(name, found)


if __name__ == "__main__":
    main()
