"""Dirichlet energy, section 4.3: what the chosen features are worth downstream.

    JAXFS_DATA=… python -m benchmarks.papers.dirichlet_downstream
        [--sets SET …] [--splits 10] [--trees 1000] [--keep FILE]

Features are chosen on a random 80% of the samples, standardised; a random forest fitted there
classifies the others (accuracy), k-means clusters the others (accuracy), and a network of one
hidden layer of 3m/2 units, fitted there, reconstructs all features of the others from the chosen
(RMSE). Printed as the mean over feature counts, as the best count (which is what Table 2 has), and
as mean ranks over the sets. The options of "ours" were chosen on colon, lung_small, 1000 images of
MNIST, scikit-learn's digits and the toys; of the sets here only Madelon was looked at on the way,
whether its 20 useful features are found. The options of the others are their defaults.

`--keep` names a file of results, to which finished splits are added, so that a run can be resumed.
"Ours" runs with two restarts and 200 steps here, the paper's network with one and 300.
"""

import argparse
import json
import pathlib
import warnings

import jax
import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPRegressor

import jaxfs
from benchmarks import data, selection
from benchmarks.papers.ssfs_clustering import ranks
from jaxfs import evaluate

COUNTS = (25, 50, 75, 100, 150, 200, 300)
FEWER = {"madelon": (5, 10, 15, 20), "lung_small": (10, 25, 50, 75, 100)}
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
TASKS = ("forest", "k-means", "RMSE")


def coverage(x, m: int) -> np.ndarray:
    """Greedy maximum of Σ_j max_{i chosen} |corr_ij|: no graph at all."""
    c = np.abs(x.T @ x) / len(x)
    covered, chosen = np.zeros(len(c)), []
    for _ in range(m):
        gain = np.maximum(c - covered, 0).sum(axis=1)
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        covered = np.maximum(covered, c[chosen[-1]])
    return np.array(chosen)


def chosen_features(x, classes: int, counts, seed: int) -> dict[str, list[np.ndarray]]:
    """For every method the features of every count, from standardised training samples."""
    d = x.shape[1]
    generator = np.random.default_rng(seed)
    greedy = coverage(x, max(counts))
    heat = selection.top(jaxfs.laplacian_score(x), d)
    adaptive = selection.top(jaxfs.laplacian_score(x, graph="adaptive"), d)

    def ours(m, **options):
        key = jax.random.key(seed)
        return np.asarray(jaxfs.fit_dirichlet_selector(key, x, m, **options).indices)

    def mcfs(m):
        return selection.top(jaxfs.mcfs_score(x, num_clusters=classes, num_nonzero=m), m)

    network = {"objective": "network", "num_restarts": 1, "num_steps": 300}
    network["temperature"] = (1.0, 0.2)
    return {
        "ours": [ours(m, num_restarts=2, num_steps=200) for m in counts],
        "random": [generator.permutation(d)[:m] for m in counts],
        "coverage": [greedy[:m] for m in counts],
        "Laplacian score, heat": [heat[:m] for m in counts],
        "Laplacian score, adaptive": [adaptive[:m] for m in counts],
        "MCFS": [mcfs(m) for m in counts],
        "the paper's network": [ours(m, **network) for m in counts],
        "all features": [np.arange(d)],
    }


def forest(train, test, y_train, y_test, trees: int, seed: int) -> float:
    model = RandomForestClassifier(trees, n_jobs=-1, random_state=seed)
    return 100 * float(model.fit(train, y_train).score(test, y_test))


def k_means(test, y_test, classes: int, seed: int) -> float:
    clusters = KMeans(min(classes, len(test)), n_init=10, random_state=seed).fit_predict(test)
    return 100 * float(evaluate.clustering_accuracy(y_test, clusters, num_classes=classes))


def rmse(train, test, chosen, seed: int) -> float:
    """scikit-learn's network with Adam, on the features that were chosen, of all features."""
    hidden = max(1, 3 * len(chosen) // 2) if len(chosen) < train.shape[1] else train.shape[1]
    if hidden > 1000:
        return float("nan")  # all of thousands of features by themselves: hours, and no one's use
    model = MLPRegressor(hidden, max_iter=100, random_state=seed)
    with warnings.catch_warnings(action="ignore"):  # that it has not converged
        model.fit(train[:, chosen], train)
    return float(np.sqrt(np.mean(np.square(model.predict(test[:, chosen]) - test))))


def split_results(name: str, seed: int, trees: int, reconstruct: bool) -> dict[str, list]:
    x, y = data.load(name)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(x))
    train, test = np.split(order, [int(0.8 * len(x))])
    varied = np.ptp(x[train], axis=0) > 0
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    x = ((x - mean) / np.where(varied, deviation, 1))[:, varied].astype(np.float32)
    classes = len(np.unique(y))
    counts = [m for m in FEWER.get(name, COUNTS) if m <= x.shape[1]]
    out = {}
    for method, sets in chosen_features(x[train], classes, counts, seed).items():
        out[method] = [
            [
                forest(x[train][:, s], x[test][:, s], y[train], y[test], trees, seed),
                k_means(x[test][:, s], y[test], classes, seed),
                rmse(x[train], x[test], s, seed) if reconstruct else float("nan"),
            ]
            for s in sets
        ]
    return out


def report(results: dict[str, list[dict[str, list]]]) -> None:
    means: dict[str, list] = {}
    for name, splits in results.items():
        print(f"{name}, {len(splits)} splits (Table 2, ours: {PAPER.get(name, 'not in it')})")
        for method in splits[0]:
            table = np.array([split[method] for split in splits])  # (splits, counts, tasks)
            mean, spread = table.mean(axis=(0, 1)), table.mean(axis=1).std(axis=0)
            by_count = table.mean(axis=0)
            best = [*by_count[:, :2].max(axis=0), by_count[:, 2].min()]
            text = "  ".join(
                f"{task} {a:6.2f} ± {b:4.2f} (best {c:6.2f})"
                for task, a, b, c in zip(TASKS, mean, spread, best, strict=True)
            )
            print(f"  {method:26s} {text}", flush=True)
            if method != "all features":
                means.setdefault(method, []).append([*mean, *best])
    values = np.array(list(means.values()))  # (methods, sets, 6)
    print("mean rank over the sets: mean over counts, and best count, of each task")
    columns = [ranks(sign * values[:, :, i]) for i, sign in enumerate((1, 1, -1) * 2)]
    for i, method in enumerate(means):
        print(f"  {method:26s} " + "  ".join(f"{c[i]:5.2f}" for c in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(PAPER))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--no-reconstruction", action="store_true")
    options = parser.parse_args()
    results: dict[str, list] = {}
    done = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for seed in range(options.splits):  # split by split, so that every set has its share
        for name in options.sets:
            at = f"{name} {seed} {options.trees} {options.no_reconstruction}"
            if at not in done:
                done[at] = split_results(name, seed, options.trees, not options.no_reconstruction)
                if options.keep:
                    options.keep.write_text(json.dumps(done))
                print(f"split {seed} of {name} is done", flush=True)
            results.setdefault(name, []).append(done[at])
    report(results)


if __name__ == "__main__":
    main()
