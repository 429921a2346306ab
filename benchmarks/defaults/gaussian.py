"""Choice of the default ridge and shrinkage of GC and GKL, and a test of the defaults.

    JAXFS_DATA=… python -m benchmarks.defaults.gaussian [choose | test] [--images N]

`choose` compares rules for the ridge by three-fold cross-validation, repeated twice, on the
training samples: three quarters of each data set, or MNIST's training images / 255. Features are
selected on two thirds. A linear SVM and QDA are fitted there with the first 10, 25, 50 and 100
features, and evaluated on the last third. Printed are paired differences from the first rule, a
share of the mean variance. The first rule depends on the units of the features; the others do not.
The printed error is the standard error of the mean over the data sets.

`test` runs only the default and the other methods, once on the whole training sets, and reports
accuracies on held-out data: MNIST's test images and a quarter of COIL20. The other methods are
scikit-learn's ANOVA and mutual information, `mrmr_selection` and `fastcan` (pip install
mrmr_selection fastcan), and random features. `cca_select` has fastcan's criterion and, by default,
GC's ridge.
"""

import argparse
import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import jaxfs
from benchmarks import data, selection
from benchmarks.timing import finish, verdict
from jaxfs.methods.gaussian import _search
from jaxfs.methods.gaussian._compromise import CompromiseSearch
from jaxfs.methods.gaussian._divergence import DivergenceSearch
from jaxfs.methods.gaussian._moments import class_places

NUM_FEATURES = (10, 25, 50, 100)
SETS = ("MNIST", "COIL20", "Yale", "warpPIE10P", "colon", "lung_small", "sorlie", "GLIOMA")
SETS += ("shipp", "gravier", "madelon", "Prostate-GE", "su")
LARGE = ("MNIST", "madelon")  # one repeat is enough; small sets need two
#: The quantity that the ridge is a multiple of, the multiple, and the shrinkage.
RULES = (("mean", 0.3, 0.3), ("own", 0.3, 0.3), ("own", 0.3, 0.6), ("kurtosis", 0.1, 0.3))
CHOOSING = ("GC.MI", "GKL.E")  # the defaults of the two functions
METHODS = {
    "GC.MI": (jaxfs.gc_select, "mi"),
    "GC.E": (jaxfs.gc_select, "entropy"),
    "GKL.MI": (jaxfs.gkl_select, "mi"),
    "GKL.E": (jaxfs.gkl_select, "entropy"),
    "CCA": (jaxfs.cca_select, None),
}


def classifiers():
    return (
        make_pipeline(StandardScaler(), LinearSVC(dual=False, C=0.01, tol=1e-2)),
        selection.QDA(),
    )


def accuracies(x, y, xt, yt, order) -> np.ndarray:
    """Accuracies (classifier, number of features)."""
    out = np.zeros((2, len(NUM_FEATURES)))
    with warnings.catch_warnings(action="ignore"):  # constant features in a class
        for j, k in enumerate(NUM_FEATURES):
            for i, model in enumerate(classifiers()):
                chosen = order[:k]
                out[i, j] = model.fit(x[:, chosen], y).score(xt[:, chosen], yt)
    return out


def select(method: str, x, y):
    """The features selected by the default options, in order."""
    function, objective = METHODS[method]
    k, num_classes = max(NUM_FEATURES), int(y.max()) + 1
    options = {} if objective is None else {"objective": objective}
    found = function(x.astype(np.float32), y, k, num_classes=num_classes, **options)
    return np.asarray(found.indices)


def ridge_of(rule: str, share: float, x) -> np.ndarray:
    """The ridge of each feature; for a constant feature the value does not matter."""
    variances = x.var(axis=0)
    varies = variances > 0
    if rule == "mean":
        return np.full(x.shape[1], share * variances[varies].mean())
    unit = np.where(varies, variances, 1)
    if rule == "kurtosis":
        unit = unit * np.mean(np.square(np.square(x - x.mean(axis=0)) / unit), axis=0)
    return np.where(varies, share * unit, 1)


def select_by(method: str, x, y, fit, rule: str, share: float, shrinkage: float):
    """Features selected from the samples `fit`; the others have weight 0, for one compilation."""
    k = min(max(NUM_FEATURES), x.shape[1])
    numbers = (x, ridge_of(rule, share, x[fit]), shrinkage, np.isin(np.arange(len(y)), fit))
    x, ridge, shrinkage, weights = (jnp.asarray(a, jnp.float32) for a in numbers)
    start, num_classes = jnp.full(k, -1, jnp.int32), int(y.max()) + 1
    compromise = method == "GC.MI"
    search, objective = (CompromiseSearch, "mi") if compromise else (DivergenceSearch, "entropy")
    options = _search.Options(ridge, shrinkage, start, num_classes, objective)
    places = class_places(y, weights, num_classes, x.dtype)
    found = _search.greedy_selection(search, x, places, options)
    order = np.asarray(found.indices)
    return order[order >= 0]


def rivals(x, y) -> dict[str, np.ndarray]:
    from fastcan import FastCan
    from mrmr import mrmr_classif

    k = max(NUM_FEATURES)
    varying = np.flatnonzero(x.std(axis=0) > 0)
    with warnings.catch_warnings(action="ignore"):
        mrmr = mrmr_classif(
            pd.DataFrame(x[:, varying]), pd.Series(y), K=k, show_progress=False, n_jobs=2
        )
    indicators = np.eye(y.max() + 1)[y]  # fastcan treats class codes as numbers
    fast = FastCan(min(k, len(varying)), verbose=0).fit(x[:, varying], indicators).indices_
    return {
        "fastcan": varying[fast],
        "ANOVA": selection.top(selection.anova(x, y), k),
        "mutual information": selection.top(selection.mutual_information(x, y), k),
        "mrmr-selection": varying[np.asarray(mrmr)],
        "random": np.random.default_rng(0).permutation(varying)[:k],
    }


def load(images: int) -> dict[str, tuple]:
    """Training data and held-out data."""
    x, y = data.mnist()
    x, _, y, _ = train_test_split(x, y, train_size=images, stratify=y, random_state=0)
    xt, yt = data.mnist("t10k")
    coil = train_test_split(*data.load("COIL20"), test_size=0.25, random_state=0)
    return {
        "MNIST": (x / 255, y, xt / 255, yt),
        "COIL20": (coil[0], coil[2], coil[1], coil[3]),
    }


def training(name: str, images: int) -> tuple[np.ndarray, np.ndarray]:
    if name == "MNIST":
        x, y = data.mnist()
        x, _, y, _ = train_test_split(x, y, train_size=images, stratify=y, random_state=0)
        return x / 255, y
    x, y = data.load(name)
    x, _, y, _ = train_test_split(x, y, test_size=0.25, stratify=y, random_state=0)
    enough = np.isin(y, np.flatnonzero(np.bincount(y) >= 6))  # two in every fold
    return x[enough], np.unique(y[enough], return_inverse=True)[1]


def choose(images: int) -> None:
    """Compare the rules on training folds."""
    print("mean accuracy (%) over linear SVM and QDA and 10, 25, 50, 100 features, training folds;")
    print("in parentheses the difference from the first rule and its standard error over the sets")
    print(f"{'':26s}" + "".join(f"{f'{r} {a:g}, {s:g}':>24s}" for r, a, s in RULES))
    for method in CHOOSING:
        rows = []
        for name in SETS:
            x, y = training(name, images)
            x = x - x.mean(axis=0)
            splits = [
                StratifiedKFold(3, shuffle=True, random_state=seed).split(x, y)
                for seed in range(1 if name in LARGE else 2)
            ]
            folds = [fold for split in splits for fold in split]
            found = np.zeros((len(folds), len(RULES)))
            for i, (fit, judge) in enumerate(folds):
                for j, rule in enumerate(RULES):
                    order = select_by(method, x, y, fit, *rule)
                    found[i, j] = accuracies(x[fit], y[fit], x[judge], y[judge], order).mean()
            rows.append(100 * found.mean(axis=0))
            print(f"{method:8s}{name:18s}" + "".join(f"{a:24.2f}" for a in rows[-1]), flush=True)
        table = np.array(rows)
        gaps = table - table[:, :1]
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(SETS))
        cells = zip(table.mean(axis=0), gaps.mean(axis=0), errors, strict=True)
        text = "".join(f"{f'{m:.2f} ({g:+.2f} ± {e:.2f})':>24s}" for m, g, e in cells)
        print(f"{method:8s}{'mean':18s}{text}", flush=True)


def test(sets) -> None:
    """Compare the defaults with other methods on held-out data."""
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
        print(f"best other method, {rival}, / {method}: {verdict(ratio, 1.0)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=("choose", "test", "both"), default="both")
    parser.add_argument("--images", type=int, default=6000)
    arguments = parser.parse_args()
    if arguments.part != "test":
        choose(arguments.images)
    if arguments.part != "choose":
        test(load(arguments.images))
        finish()


if __name__ == "__main__":
    main()
