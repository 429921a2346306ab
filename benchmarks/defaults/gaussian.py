"""Which ridge and shrinkage should GC and GKL have by default? And are they then worth having?

    JAXFS_DATA=… python -m benchmarks.defaults.gaussian [choose | test] [--images N]

On MNIST (pixels / 255) and COIL20, by three-fold cross-validation of the training samples: features
are selected on two thirds, a linear SVM and QDA are fitted on them with the first 10, 25, 50 and
100 features and judged on the last third. The setting with the best mean over GC.MI and GKL.E,
both classifiers, all numbers of features and both data sets is the default (`choose`). It alone,
and the rivals, are then run once on the whole training sets and reported on held-out data: MNIST's
own test images, and a quarter of COIL20 (`test`). Rivals: scikit-learn's ANOVA and mutual
information, `mrmr_selection` (pip install mrmr_selection), and random features.
"""

import argparse
import itertools
import warnings

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import jaxfs
from benchmarks import data, selection
from benchmarks.timing import finish, verdict

NUM_FEATURES = (10, 25, 50, 100)
RIDGES = (3e-2, 1e-1, 3e-1, 1.0)  # of the mean variance
SHRINKAGES = (0.0, 0.1, 0.3, 0.6)
CHOOSING = ("GC.MI", "GKL.E")  # what the two functions do unless told otherwise
METHODS = {
    "GC.MI": (jaxfs.gc_select, "mi"),
    "GC.E": (jaxfs.gc_select, "entropy"),
    "GKL.MI": (jaxfs.gkl_select, "mi"),
    "GKL.E": (jaxfs.gkl_select, "entropy"),
}


def classifiers():
    return (
        make_pipeline(StandardScaler(), LinearSVC(dual=False, C=0.01, tol=1e-2)),
        selection.QDA(),
    )


def accuracies(x, y, xt, yt, order) -> np.ndarray:
    """(classifier, number of features)."""
    out = np.zeros((2, len(NUM_FEATURES)))
    with warnings.catch_warnings(action="ignore"):  # constant features in a class
        for j, k in enumerate(NUM_FEATURES):
            for i, model in enumerate(classifiers()):
                chosen = order[:k]
                out[i, j] = model.fit(x[:, chosen], y).score(xt[:, chosen], yt)
    return out


def select(method: str, x, y, ridge: float | None = None, shrinkage: float | None = None):
    """The order chosen; `None` is the default of the library."""
    function, objective = METHODS[method]
    options = {}
    if ridge is not None:
        variances = x.var(axis=0)
        options = {"ridge": ridge * variances[variances > 0].mean(), "shrinkage": shrinkage}
    return np.asarray(
        function(
            x.astype(np.float32),
            y,
            max(NUM_FEATURES),
            num_classes=int(y.max()) + 1,
            objective=objective,
            **options,
        ).indices
    )


def rivals(x, y) -> dict[str, np.ndarray]:
    from mrmr import mrmr_classif

    k = max(NUM_FEATURES)
    varying = np.flatnonzero(x.std(axis=0) > 0)
    with warnings.catch_warnings(action="ignore"):
        mrmr = mrmr_classif(
            pd.DataFrame(x[:, varying]), pd.Series(y), K=k, show_progress=False, n_jobs=2
        )
    return {
        "ANOVA": selection.top(selection.anova(x, y), k),
        "mutual information": selection.top(selection.mutual_information(x, y), k),
        "mrmr-selection": varying[np.asarray(mrmr)],
        "random": np.random.default_rng(0).permutation(varying)[:k],
    }


def load(images: int) -> dict[str, tuple]:
    """Training and held-out data."""
    x, y = data.mnist()
    x, _, y, _ = train_test_split(x, y, train_size=images, stratify=y, random_state=0)
    xt, yt = data.mnist("t10k")
    coil = train_test_split(*data.load("COIL20"), test_size=0.25, random_state=0)
    return {
        "MNIST": (x / 255, y, xt / 255, yt),
        "COIL20": (coil[0], coil[2], coil[1], coil[3]),
    }


def choose(sets) -> None:
    """Compare the settings on training folds."""
    print("mean accuracy (%) over linear SVM and QDA and 10, 25, 50, 100 features, training folds")
    table: dict[tuple, list[float]] = {}
    for name, (x, y, _, _) in sets.items():
        folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(x, y))
        for setting in itertools.product(CHOOSING, RIDGES, SHRINKAGES):
            found = []
            for fit, judge in folds:
                order = select(setting[0], x[fit], y[fit], *setting[1:])
                found.append(accuracies(x[fit], y[fit], x[judge], y[judge], order).mean())
            table.setdefault(setting, []).append(100 * float(np.mean(found)))
        print(f"{name}: {x.shape} done", flush=True)
    columns = [f"{m} {n}" for m in CHOOSING for n in sets]
    print("ridge  shrinkage" + "".join(f"{c:>16s}" for c in columns) + "      mean")
    settings = itertools.product(RIDGES, SHRINKAGES)
    rows = {s: [a for m in CHOOSING for a in table[m, *s]] for s in settings}
    for (ridge, shrinkage), row in sorted(rows.items(), key=lambda r: -np.mean(r[1])):
        cells = "".join(f"{a:16.1f}" for a in row)
        print(f"{ridge:5g} {shrinkage:10g}{cells}{np.mean(row):10.2f}")


def test(sets) -> None:
    """The library's defaults and the rivals, on held-out data."""
    print("held-out accuracy (%), linear SVM / QDA")
    print(f"{'':28s}" + "".join(f"{k:>16d}" for k in NUM_FEATURES) + "      mean")
    means: dict[str, list[float]] = {}
    for name, (x, y, xt, yt) in sets.items():
        orders = {m: select(m, x, y) for m in METHODS} | rivals(x, y)
        for method, order in orders.items():
            a = 100 * accuracies(x, y, xt, yt, order)
            cells = "".join(f"{u:9.1f} /{v:5.1f}" for u, v in a.T)
            means.setdefault(method, []).append(a.mean())
            print(f"{method:20s}{name:8s}{cells}{a.mean():10.2f}", flush=True)
    rival = max(
        (m for m in means if m not in (*METHODS, "random")), key=lambda m: np.mean(means[m])
    )
    for method in CHOOSING:
        ratio = np.mean(means[rival]) / np.mean(means[method])
        print(f"best rival, {rival}, / {method}: {verdict(ratio, 1.0)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=("choose", "test", "both"), default="both")
    parser.add_argument("--images", type=int, default=6000)
    arguments = parser.parse_args()
    sets = load(arguments.images)
    if arguments.part != "test":
        choose(sets)
    if arguments.part != "choose":
        test(sets)
        finish()


if __name__ == "__main__":
    main()
