"""Dirichlet energy: graphs of the samples, and the paper's network with and without its parts.

Figure 1 (energies on a right and a wrong graph), Table 3 with Tables S4 and S5 (ablations), Figures
S1 (reconstruction), S2 (graphs of COIL20) and S3 (sensitivity to the parameters).
"""

import warnings

import jax
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.manifold import TSNE

import jaxfs
from benchmarks import data, reconstruction
from benchmarks.papers import dirichlet_downstream as downstream
from benchmarks.papers._parts import rounded
from jaxfs import evaluate, graphs

NUM_NEIGHBORS = 5
#: The paper's network in jaxfs: fewer steps than the paper's 1000, one restart.
NETWORK = {"objective": "network", "temperature": (1.0, 0.2), "num_steps": 300, "num_restarts": 1}
#: The paper's best numbers of features for the forest (Table 2), for the sets of Table 3.
BEST = {"madelon": 20, "pixraw10P": 25, "GLIOMA": 300, "Prostate-GE": 300}
SIGMAS = (1, 2, 3, 4, 5)
#: Figure S3: numbers of features and of steps, and the values of each parameter.
SWEPT, SWEPT_STEPS = {"madelon": 20, "Prostate-GE": 100}, 150
GRID = {
    "learning rate": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    "k": (1, 2, 3, 4, 5),
    "γ": (1e-3, 1e-2, 1e-1),
    "m": (0.25, 0.5, 0.75, 1.0),
}
#: The values of the parameters that do not vary.
BASE = {"learning rate": 0.05, "k": NUM_NEIGHBORS, "γ": 0.01, "m": 1.0}


def figure_1(seed: int) -> dict:
    """Energies of a coordinate, of noise, and of the coordinate on a random graph."""
    generator = np.random.default_rng(seed)
    centres = np.array([[-1.5, 0.0], [1.5, 0.0]])
    angle = generator.uniform(0, 2 * np.pi, (2, 20))
    points = centres[:, None] + np.stack([np.cos(angle), np.sin(angle)], axis=2)
    x = points.reshape(-1, 2)
    n = len(x)
    near = np.asarray(graphs.nearest_neighbors(x, 2).indices)
    random = np.stack([generator.choice(np.delete(np.arange(n), i), 2, False) for i in range(n)])
    signals = np.stack([x[:, 0], generator.normal(size=n)], axis=1)
    signals = (signals - signals.mean(axis=0)) / np.linalg.norm(
        signals - signals.mean(axis=0), axis=0
    )
    ones = np.ones((n, 2))

    def energies(indices):
        return np.asarray(graphs.dirichlet_energies(signals, ones, indices=indices), np.float64)

    right, wrong = energies(near), energies(random)
    return {
        "coordinate": float(right[0]),
        "noise": float(right[1]),
        "random graph": float(wrong[0]),
        "points": rounded(x, 3),
        "near": near.tolist(),
    }


def heat(x, sigma: float) -> np.ndarray:
    """The 5-NN graph of eq. S25–S27, for features of norm 1 (section 2)."""
    unit = np.asarray(x, np.float64) / np.linalg.norm(x, axis=0)
    near = graphs.nearest_neighbors(unit, NUM_NEIGHBORS)
    squared = np.asarray(near.squared_distances, np.float64)
    weights = np.exp(-squared / (2 * sigma**2))
    return np.asarray(graphs.knn_adjacency(near.indices, weights), np.float64)


def learned(x) -> np.ndarray:
    """The graph of the paper's learner (DGL) on all columns of x."""
    graph = jaxfs.KNNGraphLearner(NUM_NEIGHBORS)(np.asarray(x, np.float32))
    return np.asarray(graphs.knn_adjacency(graph.indices, graph.weights), np.float64)


def spectral(weights, y, seed: int) -> float:
    """Accuracy of spectral clustering of a graph, in per cent."""
    k = len(np.unique(y))
    model = SpectralClustering(k, affinity="precomputed", random_state=seed)
    with warnings.catch_warnings(action="ignore"):  # graphs of several components
        clusters = model.fit_predict(weights)
    return 100 * float(evaluate.clustering_accuracy(y, clusters, num_classes=k))


def smoothest(x, m: int) -> np.ndarray:
    """The m features of least energy on the heat graph: the network's minimum without DGL."""
    energies = graphs.dirichlet_energies(x / np.linalg.norm(x, axis=0), heat(x, SIGMAS[-1]))
    return np.argsort(np.asarray(energies), kind="stable")[:m]


def ablations(seed: int) -> dict:
    """Table 3, S4 and S5: clusters of three graphs, and features with and without DGL."""
    out = {}
    for name, m in BEST.items():
        s = downstream.split(name, seed)
        network = downstream.fit(s, m, seed, **NETWORK)
        default = downstream.fit(s, m, seed)
        chosen = {
            "network": np.asarray(network.indices),
            "w/o DGL": smoothest(s.train, m),
            "default": np.asarray(default.indices),
            "trained": downstream.with_threshold(np.inf, s, m, seed),
        }
        clusters = {
            "Heat": [spectral(heat(s.train, sigma), s.y_train, seed) for sigma in SIGMAS],
            "DGL only": spectral(learned(s.train), s.y_train, seed),
            "network": spectral(learned(s.train[:, chosen["network"]]), s.y_train, seed),
            "default": spectral(learned(s.train[:, chosen["default"]]), s.y_train, seed),
        }
        tasks = {method: downstream.judge(s, [c], seed) for method, c in chosen.items()}
        out[name] = {"m": m, "clusters": clusters, "tasks": tasks}
    return out


def sensitivity(seed: int) -> dict:
    """Figure S3: accuracy of the forest as one parameter of the network varies."""
    out: dict = {}
    for name, most in SWEPT.items():
        s = downstream.split(name, seed)
        known: dict = {}

        def accuracy(values: dict, most=most, s=s, known=known) -> float:
            key = tuple(values.values())
            if key not in known:
                options = NETWORK | {"objective": jaxfs.Network(gamma=values["γ"])}
                options |= {"num_steps": SWEPT_STEPS}
                options |= {"learning_rate": values["learning rate"], "num_neighbors": values["k"]}
                m = round(most * values["m"])
                c = np.asarray(downstream.fit(s, m, seed, **options).indices)
                data = s.train[:, c], s.test[:, c], s.y_train, s.y_test
                known[key] = downstream.forest(*data, downstream.TREES, seed)
            return known[key]

        out[name] = {
            of: [accuracy(BASE | {of: value}) for value in values] for of, values in GRID.items()
        }
    return out


def figure_s1(_split: int) -> dict:
    """Reconstruction of pixraw10P from 300 pixels: the RMSE of both parts, and that of each pixel.

    The pictures of the paper are photographs of persons. They are not published again.
    """
    s = downstream.split("pixraw10P", 0)
    chosen = np.asarray(downstream.fit(s, 300, 0).indices)
    errors = []
    for part in (s.train, s.test):
        made = reconstruction.predict(s.train, part, chosen, s.units, 450, 0)
        errors.append(np.square(made - part * s.units).mean(axis=0))
    return {
        "train": float(np.sqrt(errors[0].mean())),
        "test": float(np.sqrt(errors[1].mean())),
        "map": rounded(np.sqrt(errors[1]), 2),
        "chosen": chosen.tolist(),
    }


def figure_s2(seed: int) -> dict:
    """t-SNE of 24 images per class of COIL20, and the share of edges between classes."""
    x, y = data.load("COIL20")
    generator = np.random.default_rng(seed)
    rows = [generator.permutation(np.flatnonzero(y == c))[:24] for c in np.unique(y)]
    x, y = x[np.concatenate(rows)], y[np.concatenate(rows)]
    x = x[:, np.ptp(x, axis=0) > 0]
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    fits = {
        "network": jaxfs.fit_dirichlet_selector(jax.random.key(seed), x, 200, **NETWORK),
        "default": jaxfs.fit_dirichlet_selector(jax.random.key(seed), x, 200),
    }
    used = {"all features": x} | {k: x[:, np.asarray(f.indices)] for k, f in fits.items()}
    out = {"labels": y.tolist(), "methods": {}}
    for method, columns in used.items():
        near = np.asarray(graphs.nearest_neighbors(columns, NUM_NEIGHBORS).indices)
        between = float(np.mean(y[near] != y[:, None]))
        weights = np.asarray(graphs.knn_adjacency(*_listed(columns), symmetrize="none"))
        weighted = float(weights[y[:, None] != y].sum() / weights.sum())
        found = {"between": between, "weighted": weighted}
        if seed == 0:
            found["points"] = rounded(TSNE(random_state=0).fit_transform(columns), 1)
            found["near"] = near.tolist()
        out["methods"][method] = found
    return out


def _listed(x):
    graph = jaxfs.KNNGraphLearner(NUM_NEIGHBORS)(x)
    return graph.indices, graph.weights
