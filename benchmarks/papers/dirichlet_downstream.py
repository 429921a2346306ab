"""Dirichlet energy, section 4.3: the selected features in downstream tasks.

    JAXFS_DATA=… python -m benchmarks.papers.dirichlet_downstream
        [--sets SET …] [--splits 10] [--trees 1000] [--keep FILE] [--methods …] [--tasks …]

Features are selected on a random 80% of the samples, standardised. There are three tasks. A random
forest, fitted on the same samples, classifies the others (accuracy). k-means clusters the others
(accuracy). A network with one hidden layer of 3m/2 units, fitted on the same samples, reconstructs
all features of the others from the selected ones (RMSE). Printed are the mean over feature counts,
the best count (as in Table 2), and mean ranks over the data sets.

The options of "ours" were chosen on colon, lung_small, 1000 images of MNIST, scikit-learn's digits
and the toys, which `--sets` accepts too. Of the sets here only Madelon was used, to see whether its
20 useful features are found. The choice of coverage instead of "by the energy" was made on these
sets. The other methods have their default options.

"Ours" runs once, with two restarts and 200 steps, for the largest number of features; smaller sets
are its first features, as for all rankings. "By the energy" runs once for every number, and so does
the paper's network, with one restart and 300 steps.

`--keep` names a file of results, to which finished splits are added. It allows a run to be resumed,
or methods and tasks to be added. Compilation takes much of the time;
`JAX_COMPILATION_CACHE_DIR=DIR` saves most of it. One process per core, each with its own data sets
and `taskset`, is faster than one process for all.
"""

import argparse
import json
import os
import pathlib
import time
from typing import NamedTuple

import jax
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import jaxfs
from benchmarks import clustering, data, reconstruction, selection
from jaxfs import evaluate
from jaxfs.methods.dirichlet._calibration import cover

COUNTS = (25, 50, 75, 100, 150, 200, 300)
FEWER = {
    "madelon": (5, 10, 15, 20),
    "lung_small": (10, 25, 50, 75, 100),
    "digits": (5, 10, 20, 30),
}
#: Table 2, "Our": accuracy of the forest, of k-means, and RMSE, at their best counts.
PAPER = {
    "madelon": (90, 60, 0.98),
    "COIL20": (100, 66, 0.38),
    "Yale": (81, 62, 0.54),
    "pixraw10P": (100, 87, 0.39),
    "warpPIE10P": (99, 51, 0.25),
    "GLIOMA": (81, 75, 0.69),
    "Prostate-GE": (89, 68, 0.73),
}
#: Number of threads of a forest; `taskset` limits it.
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else -1
TASKS = ("forest", "k-means", "RMSE")
METHODS = (
    "ours",
    "ours, by the energy",
    "random",
    "coverage",
    "Laplacian score, heat",
    "Laplacian score, adaptive",
    "MCFS",
    "the paper's network",
    "all features",
)


def coverage(x, m: int) -> np.ndarray:
    """Greedy maximum of Σ_j max_{i selected} |corr_ij|, without a graph and without clipping."""
    units = x / np.sqrt(len(x))
    every = np.ones(x.shape[1])
    return np.asarray(jax.jit(cover, static_argnums=3)(units, every, every > 0, m))


def choose(method: str, x, classes: int, counts, seed: int, width: int) -> list[np.ndarray]:
    """The selected features for every count, from standardised training samples."""
    d = x.shape[1]

    def trained(m: int, **options) -> np.ndarray:
        # Padding with constant features, which are never selected, gives all splits one program.
        wide = np.pad(x, [(0, 0), (0, width - d)])
        found = jaxfs.fit_dirichlet_selector(jax.random.key(seed), wide, m, **options)
        assert (found.indices >= 0).all()
        return found.indices

    def first(order):
        return [order[:m] for m in counts]

    match method:
        case "ours":
            return first(trained(max(counts), num_restarts=2, num_steps=200))
        case "ours, by the energy":
            options = {"objective": "energy", "num_restarts": 2, "num_steps": 200}
            return [trained(m, **options) for m in counts]
        case "the paper's network":
            options = {"objective": "network", "temperature": (1.0, 0.2), "num_restarts": 1}
            return [trained(m, num_steps=300, **options) for m in counts]
        case "random":
            generator = np.random.default_rng(seed)
            return [generator.permutation(d)[:m] for m in counts]
        case "coverage":
            return first(coverage(x, max(counts)))
        case "Laplacian score, heat":
            return first(selection.top(jaxfs.laplacian_score(x), d))
        case "Laplacian score, adaptive":
            return first(selection.top(jaxfs.laplacian_score(x, graph="adaptive"), d))
        case "MCFS":
            options = {"num_clusters": classes}
            return [selection.top(jaxfs.mcfs_score(x, num_nonzero=m, **options), m) for m in counts]
        case _:
            return [np.arange(d)]


def forest(train, test, y_train, y_test, trees: int, seed: int) -> float:
    model = RandomForestClassifier(trees, n_jobs=JOBS, random_state=seed)
    return 100 * float(model.fit(train, y_train).score(test, y_test))


def k_means(test, y_test, classes: int, seed: int) -> float:
    clusters = KMeans(min(classes, len(test)), n_init=10, random_state=seed).fit_predict(test)
    return 100 * float(evaluate.clustering_accuracy(y_test, clusters, num_classes=classes))


def rmse(s: "Split", chosen, seed: int) -> float:
    """RMSE of a network that reconstructs all features: 3m/2 hidden units, or d if m = d."""
    m, d = len(chosen), s.train.shape[1]
    hidden = max(1, 3 * m // 2) if m < d else d
    if hidden > 1100:
        return float(
            "nan"
        )  # thousands of features from themselves would take hours and show nothing
    return reconstruction.rmse(s.train, s.test, chosen, s.units, hidden, seed)


class Split(NamedTuple):
    train: np.ndarray
    test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    width: int  # number of features, including the constant ones that are left out
    units: np.ndarray  # scales errors to variance 1 over all samples, so that no gene dominates


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set of the table, or one on which options were chosen."""
    if name == "MNIST":
        x, y = data.mnist()
        return x[:1000], y[:1000]
    return load_digits(return_X_y=True) if name == "digits" else data.load(name)


def split(name: str, seed: int) -> Split:
    """Samples standardised by the training part, without the features that are constant there."""
    x, y = load(name)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [int(0.8 * len(x))])
    varied = np.ptp(x[train], axis=0) > 0
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    units = (deviation / np.where(varied, x.std(axis=0), 1))[varied].astype(np.float32)
    x = ((x - mean) / np.where(varied, deviation, 1))[:, varied].astype(np.float32)
    return Split(x[train], x[test], y[train], y[test], len(varied), units)


def judge(task: str, s: Split, chosen, trees: int, seed: int) -> float:
    a, b, classes = s.train[:, chosen], s.test[:, chosen], len(np.unique(s.y_train))
    if task == "forest":
        return forest(a, b, s.y_train, s.y_test, trees, seed)
    if task == "k-means":
        return k_means(b, s.y_test, classes, seed)
    return rmse(s, chosen, seed)


def add(done: dict, name: str, seed: int, methods, tasks, trees: int) -> None:
    """Add the features of each method and the value of each task that `done` lacks."""
    s = split(name, seed)
    counts = [m for m in FEWER.get(name, COUNTS) if m <= s.train.shape[1]]
    classes = len(np.unique(s.y_train))
    for method in methods:
        of = done.setdefault(method, {})
        if "chosen" not in of:
            start = time.perf_counter()
            chosen = choose(method, s.train, classes, counts, seed, s.width)
            of["chosen"] = [np.asarray(c).tolist() for c in chosen]
            of["seconds"] = time.perf_counter() - start
        for task in tasks:
            if task not in of:
                of[task] = [judge(task, s, np.array(c), trees, seed) for c in of["chosen"]]


def report(results: dict[str, list[dict]], methods) -> None:
    """Print the results: `results[name][seed][method][task]` are values by count.

    A task may lack some splits.
    """
    means: dict[str, list] = {}
    for name, splits in results.items():
        print(f"{name} (Table 2, ours: {PAPER.get(name, 'not in it')})")
        for method in methods:
            text, row = "", []
            for task, sign in zip(TASKS, (1, 1, -1), strict=True):
                found = [s[method][task] for s in splits if task in s.get(method, {})]
                if not found:
                    row.append((np.nan, np.nan))
                    continue
                table = np.array(found)  # (splits, counts)
                best = sign * (sign * table.mean(axis=0)).max()
                mean, spread = table.mean(), table.mean(axis=1).std()
                text += f"  {task} {mean:6.2f} ± {spread:4.2f} (best {best:6.2f}; {len(table)})"
                row.append((mean, best))
            print(f"  {method:26s}{text}", flush=True)
            if method != "all features":
                means.setdefault(method, []).append(row)
    values = np.array(list(means.values()))  # (methods, sets, tasks, 2)
    print("in brackets the best count and the number of splits")
    print("mean rank over the sets: mean over counts, and best count, of each task")
    signed = values * np.array([1, 1, -1])[:, None]
    columns = [signed[:, :, i, j] for i in range(len(TASKS)) for j in (0, 1)]
    columns = [np.where(np.isnan(v).any(axis=1), np.nan, clustering.ranks(v)) for v in columns]
    for i, method in enumerate(means):
        print(f"  {method:26s} " + "  ".join(f"{c[i]:5.2f}" for c in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(PAPER))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    options = parser.parse_args()
    done = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    results: dict[str, list] = {}
    for seed in range(options.splits):  # all sets have equally many splits if the run is stopped
        for name in options.sets:
            start = time.perf_counter()
            of = done.setdefault(f"{name} {seed}", {})
            add(of, name, seed, options.methods, options.tasks, options.trees)
            if options.keep:
                options.keep.write_text(json.dumps(done))
            results.setdefault(name, []).append(of)
            print(f"split {seed} of {name}: {time.perf_counter() - start:.0f} s", flush=True)
            jax.clear_caches()  # compiled programs use memory maps; the limit is 65 530
    report(results, options.methods)


if __name__ == "__main__":
    main()
