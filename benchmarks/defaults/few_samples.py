"""ManiFeSt at its defaults, with few samples: against ANOVA, ReliefF, random and all features.

    JAXFS_DATA=… python -m benchmarks.defaults.few_samples [--draws 10] [--pairs 3] [DATA SET …]

Every `.mat` file with `X` and `Y` in the data folder takes part; put other files there to run it on
other data. Data sets of several classes give several two-class problems: at most `--pairs` pairs of
their classes, drawn at random. The 300 features of largest variance are kept (all 500 of Madelon,
which is standardised on its training samples). 10 and 20 samples of each class are drawn for
training, an RBF-SVM is fitted on them with the 20 best features, and tested on the other samples. A
class must have three test samples. The table shows the mean over problems and draws, and the mean
paired difference to ANOVA with its standard error over data sets.

Then follow the problems with a known answer (XOR-100, the hypercube), Madelon with 24 and 116
samples, and 4 against 9 of MNIST, with the bars of the defaults.
"""

import argparse
import itertools
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np
from scipy.io import whosmat
from sklearn.datasets import make_classification

from benchmarks import data, selection
from benchmarks.timing import finish
from jaxfs.estimators import CombinedSelector, FilterSelector, ManiFeSt, ReliefF

NUM_FEATURES, MOST_VARIABLE, LEAST_TEST = 20, 300, 3
SIZES = (10, 20)

METHODS = {
    "ManiFeSt (default)": lambda: ManiFeSt(n_features_to_select=NUM_FEATURES),
    "ManiFeSt, combine=None": lambda: ManiFeSt(combine=None, n_features_to_select=NUM_FEATURES),
    "ManiFeSt, Median(1)": lambda: ManiFeSt(
        factor=1.0, combine=None, n_features_to_select=NUM_FEATURES
    ),
    "CombinedSelector": lambda: CombinedSelector(n_features_to_select=NUM_FEATURES),
    "ANOVA": lambda: FilterSelector(n_features_to_select=NUM_FEATURES),
    "ReliefF": lambda: ReliefF(n_features_to_select=NUM_FEATURES),
}
SINGLE = ("ManiFeSt (default)", "ANOVA", "ReliefF")


def ranked(make, x, y, k: int) -> np.ndarray:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model = make().set_params(n_features_to_select=k).fit(x.astype(np.float32), y)
    return np.flatnonzero(model.support_)


def accuracy(features, train, test) -> float:
    model = selection.svm().fit(train[0][:, features], train[1])
    return 100 * float(model.score(test[0][:, features], test[1]))


def names() -> list[str]:
    files = sorted(data.folder().glob("*.mat"))
    return [f.stem for f in files if {"X", "Y"} <= {name for name, *_ in whosmat(f)}]


def problems(name: str, number: int):
    """Two-class problems (x, y) of a data set."""
    x, y = data.load(name)
    if name != "madelon" and x.shape[1] > MOST_VARIABLE:
        x = x[:, np.sort(np.argsort(-x.var(axis=0), kind="stable")[:MOST_VARIABLE])]
    large = np.flatnonzero(np.bincount(y) >= min(SIZES) + LEAST_TEST)
    pairs = list(itertools.combinations(large, 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[:number]
    for a, b in (pairs[i] for i in np.sort(chosen)):
        keep = (y == a) | (y == b)
        yield x[keep], (y[keep] == b).astype(int)


def draw(x, y, size: int, seed, *, standardize: bool = False):
    """Training and test samples: `size` of each class, and the others."""
    generator = np.random.default_rng(seed)
    rows = [generator.permutation(np.flatnonzero(y == c))[:size] for c in (0, 1)]
    train = np.sort(np.concatenate(rows))
    test = np.setdiff1d(np.arange(len(y)), train)
    if standardize:
        x = (x - x[train].mean(axis=0)) / np.maximum(x[train].std(axis=0), 1e-12)
    return (x[train], y[train]), (x[test], y[test])


def compare(train, test, seed: int, methods=METHODS) -> dict[str, float]:
    """Test accuracies of all methods."""
    d = train[0].shape[1]
    k = min(NUM_FEATURES, d)
    found = {n: accuracy(ranked(make, *train, k), train, test) for n, make in methods.items()}
    generator = np.random.default_rng(seed)
    random = [accuracy(generator.permutation(d)[:k], train, test) for _ in range(3)]
    return found | {
        "random features": float(np.mean(random)),
        "all features": accuracy(np.arange(d), train, test),
    }


def one_set(name: str, draws: int, pairs: int) -> dict[tuple[str, int], list[dict[str, float]]]:
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for x, y in problems(name, pairs):
        for size in SIZES:
            if np.bincount(y).min() < size + LEAST_TEST:
                continue
            for i in range(draws):
                split = draw(x, y, size, [i, size], standardize=name == "madelon")
                found.setdefault((name, size), []).append(compare(*split, i))
    return found


def bar(text: str, value: float, least: float) -> str:
    """`text value (bar ≥ least)`, marked and counted as missed if it is below."""
    from benchmarks import timing

    return f"{text} {timing.at_least(value, least)}"


def table(found: dict[tuple[str, int], list[dict[str, float]]]) -> None:
    columns = list(found)
    methods = list(found[columns[0]][0])
    print(f"\n{'':24s}" + "".join(f"{n[:8]:>9s}" for n, _ in columns) + "   mean  − ANOVA")
    print(f"{'samples per class':24s}" + "".join(f"{size:9d}" for _, size in columns))
    means = {m: np.array([np.mean([r[m] for r in found[c]]) for c in columns]) for m in methods}
    sets = np.array([n for n, _ in columns])

    def paired(a, b):
        """Mean difference over the columns, and its standard error over data sets."""
        gap = means[a] - means[b]
        each = np.array([gap[sets == n].mean() for n in np.unique(sets)])
        return gap.mean(), each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan

    for m in methods:
        gap, error = paired(m, "ANOVA")
        cells = "".join(f"{v:9.1f}" for v in means[m])
        print(f"{m:24s}{cells}{means[m].mean():7.1f}  {gap:+.1f} ± {error:.1f}")
    gap, error = paired("ManiFeSt (default)", "ANOVA")
    print(bar("default − ANOVA + its standard error:", gap + error, 0.0))
    for m in SINGLE:
        gap, error = paired("CombinedSelector", m)
        print(f"CombinedSelector − {m}: {gap:+.1f} ± {error:.1f}")
    best = max(means[m].mean() for m in SINGLE)
    print(bar("CombinedSelector − best single:", means["CombinedSelector"].mean() - best, 0.0))


def known(runs: int) -> None:
    """The share of the relevant features among those selected."""
    generator = np.random.default_rng(0)
    right: dict[str, dict[str, list[float]]] = {"XOR-100": {}, "hypercube": {}}
    for i in range(runs):
        x = generator.integers(0, 2, size=(50, 100)).astype(float)
        y = (x[:, 0] != x[:, 4]).astype(int)
        u, v = make_classification(
            2000, 200, n_informative=10, n_redundant=0, shuffle=False, random_state=i
        )
        rows = np.random.default_rng(i).permutation(2000)[:50]
        cases = ("XOR-100", x, y, [0, 4]), ("hypercube", u[rows], v[rows], list(range(10)))
        for problem, xs, ys, relevant in cases:
            for method, make in METHODS.items():
                picks = ranked(make, xs, ys, len(relevant))
                right[problem].setdefault(method, []).append(100 * np.isin(picks, relevant).mean())
    for problem, least in (("XOR-100", 99.0), ("hypercube", 93.0)):
        for method, shares in right[problem].items():
            print(f"{problem}: {method:24s} {np.mean(shares):5.1f}% of the picks, {runs} runs")
        print(
            bar(f"{problem}: default", float(np.mean(right[problem]["ManiFeSt (default)"])), least)
        )


def madelon(folds: int) -> None:
    """20 features from 24 or 116 samples; the SVM is tuned and fitted on all training samples."""
    x, y = data.load("madelon")
    for size, least in ((12, 73.0), (58, 80.0)):
        found: dict[str, list[float]] = {}
        for i in range(folds):
            order = np.random.default_rng(i).permutation(len(y))
            train, test = order[:2340], order[2340:]
            xs = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
            few = np.concatenate([train[y[train] == c][:size] for c in (0, 1)])
            for method, make in METHODS.items():
                f = ranked(make, xs[few], y[few], NUM_FEATURES)
                model = selection.svm(C=8).fit(xs[train][:, f], y[train])
                found.setdefault(method, []).append(100 * model.score(xs[test][:, f], y[test]))
        for method, values in found.items():
            print(f"Madelon, {2 * size} samples: {method:24s} {np.mean(values):5.1f}")
        mean = float(np.mean(found["ManiFeSt (default)"]))
        print(bar(f"Madelon, {2 * size} samples: default", mean, least))


def mnist(draws: int) -> None:
    """4 against 9, with all pixels."""
    x, y = data.mnist()
    keep = np.flatnonzero((y == 4) | (y == 9))[:3000]
    x, y = x[keep] / 255, (y[keep] == 9).astype(int)
    x = x[:, x.std(axis=0) > 0]
    for size in (10, 20, 50):
        found = [compare(*draw(x, y, size, [i, size]), i) for i in range(draws)]
        means = {m: float(np.mean([r[m] for r in found])) for m in found[0]}
        for m, mean in means.items():
            print(f"MNIST 4/9, {size} per class: {m:24s} {mean:5.1f}")
        gap = means["ManiFeSt (default)"] - means["ManiFeSt, Median(1)"]
        print(bar(f"MNIST 4/9, {size} per class: default − Median(1)", gap, -1.0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", choices=("table", "known", "madelon", "mnist"))
    arguments = parser.parse_args()
    parts = (arguments.only,) if arguments.only else ("table", "known", "madelon", "mnist")
    if "table" in parts:
        found: dict[tuple[str, int], list[dict[str, float]]] = {}
        for name in arguments.names or names():
            found |= one_set(name, arguments.draws, arguments.pairs)
            print(f"{name} done", flush=True)
        table(found)
    if "known" in parts:
        known(5 * arguments.draws)
    if "madelon" in parts and (data.folder() / "madelon.mat").exists():
        madelon(arguments.draws)
    if "mnist" in parts and (data.folder() / "mnist").is_dir():
        mnist(arguments.draws)


if __name__ == "__main__":
    main()
    finish()
