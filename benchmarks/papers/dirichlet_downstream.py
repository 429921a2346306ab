"""Dirichlet energy, section 4.3: the selected features in three downstream tasks.

Features are selected on a random 80% of the samples, standardised. There are three tasks. A random
forest, fitted on the same samples, classifies the others (accuracy). k-means clusters the others
(accuracy). A network with one hidden layer of 3m/2 units, fitted on the same samples, reconstructs
all features of the others from the selected ones (RMSE).

Every method runs once for the largest number of features; smaller sets are its first features.
"""

from typing import NamedTuple

import jax
import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier

import jaxfs
from benchmarks import data, reconstruction, selection
from jaxfs import evaluate
from jaxfs.methods.dirichlet import _objectives

#: The numbers of features of section 4.3, without 75 and 150.
COUNTS = (25, 50, 100, 200, 300)
FEWER = {"madelon": (5, 10, 15, 20), "lung_small": (10, 25, 50, 75, 100)}
TREES = 300
SETS = ("madelon", "COIL20", "Yale", "pixraw10P", "warpPIE10P", "GLIOMA", "Prostate-GE")


class Split(NamedTuple):
    train: np.ndarray
    test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    width: int  # number of features, including the constant ones that are left out
    units: np.ndarray  # scales errors to variance 1 over all samples, so that no gene dominates


def split(name: str, seed: int) -> Split:
    """Samples standardised by the training part, without the features that are constant there."""
    x, y = data.load(name)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [int(0.8 * len(x))])
    varied = np.ptp(x[train], axis=0) > 0
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    units = (deviation / np.where(varied, x.std(axis=0), 1))[varied].astype(np.float32)
    x = ((x - mean) / np.where(varied, deviation, 1))[:, varied].astype(np.float32)
    return Split(x[train], x[test], y[train], y[test], len(varied), units)


def fit(s: Split, m: int, seed: int, **options) -> jaxfs.DirichletResult:
    """The selector on the training samples, padded with constant features, never selected.

    The padding gives all splits of a data set one program.
    """
    wide = np.pad(s.train, [(0, 0), (0, s.width - s.train.shape[1])])
    found = jaxfs.fit_dirichlet_selector(jax.random.key(seed), wide, m, **options)
    assert (found.indices >= 0).all()
    return found


def coverage(x, m: int) -> np.ndarray:
    """Greedy maximum of Σ_j max_{i selected} |corr_ij|, without a graph and without clipping."""
    units = x / np.sqrt(len(x))
    every = np.ones(x.shape[1])
    return np.asarray(jax.jit(_objectives.cover, static_argnums=3)(units, every, every > 0, m))


def with_threshold(enough: float, s: Split, m: int, seed: int) -> np.ndarray:
    """The default selector with another `ENOUGH`: 0 never trains gates, infinity always does."""
    before = _objectives.ENOUGH
    _objectives.ENOUGH = enough
    jax.clear_caches()  # `ENOUGH` is a constant of the compiled programs
    try:
        return np.asarray(fit(s, m, seed).indices)
    finally:
        _objectives.ENOUGH = before
        jax.clear_caches()


def forest(train, test, y_train, y_test, trees: int, seed: int) -> float:
    model = RandomForestClassifier(trees, random_state=seed)
    return 100 * float(model.fit(train, y_train).score(test, y_test))


def k_means(test, y_test, classes: int, seed: int) -> float:
    clusters = KMeans(min(classes, len(test)), n_init=10, random_state=seed).fit_predict(test)
    return 100 * float(evaluate.clustering_accuracy(y_test, clusters, num_classes=classes))


def rmse(s: Split, chosen, seed: int) -> float | None:
    """RMSE of the reconstruction, with d hidden units for all d features; None if d > 600.

    Thousands of features from themselves would take hours.
    """
    m, d = len(chosen), s.train.shape[1]
    hidden = max(1, 3 * m // 2) if m < d else d
    if hidden > 600:
        return None
    return reconstruction.rmse(s.train, s.test, chosen, s.units, hidden, seed)


def forests(s: Split, chosen: list[np.ndarray], seed: int) -> list[float]:
    """Accuracy of the forest for every set of features."""
    return [forest(s.train[:, c], s.test[:, c], s.y_train, s.y_test, TREES, seed) for c in chosen]


def judge(s: Split, chosen: list[np.ndarray], seed: int) -> dict:
    """The accuracies for every number of features, and the RMSE for the largest."""
    classes = len(np.unique(s.y_train))
    return {
        "forest": forests(s, chosen, seed),
        "k-means": [k_means(s.test[:, c], s.y_test, classes, seed) for c in chosen],
        "RMSE": [rmse(s, chosen[-1], seed)],
    }


def downstream(name: str, seed: int) -> dict:
    """One split of a data set: three tasks for the methods of the paper, forests for the others."""
    s = split(name, seed)
    d = s.train.shape[1]
    counts = [m for m in FEWER.get(name, COUNTS) if m <= d]
    most = max(counts)
    found = fit(s, most, seed)
    # No step is made if the graph of all features shows enough relevant features.
    trained = bool(np.isfinite(found.energy_history).any())

    def first(order) -> list[np.ndarray]:
        return [np.asarray(order)[:m] for m in counts]

    judged = {
        "default": judge(s, first(found.indices), seed),
        "Laplacian score": judge(s, first(selection.top(jaxfs.laplacian_score(s.train), d)), seed),
        "all features": judge(s, [np.arange(d)], seed),
    }
    others = {
        "coverage": coverage(s.train, most),
        "random": np.random.default_rng(seed).permutation(d),
    }
    if trained:
        others["untrained"] = with_threshold(0.0, s, most, seed)
    judged |= {name: {"forest": forests(s, first(o), seed)} for name, o in others.items()}
    judged.setdefault("untrained", {"forest": judged["default"]["forest"]})
    return {"counts": counts, "trained": trained, "methods": judged}


def shapes(_split: int) -> dict:
    """Numbers of samples, features and classes."""
    loaded = {name: data.load(name) for name in SETS}
    return {name: [*x.shape, len(np.unique(y))] for name, (x, y) in loaded.items()}


def run(seed: int) -> dict:
    return {name: downstream(name, seed) for name in SETS}
