"""SSFS, section 5.1, 5.2 and appendices B and C: k-means on the best features of each method.

k-means runs 20 times on the first 2, 5, 10 … 300 features, z-scored. One data set is one split.
`ssfs` has 500 resamples where it uses resamples, and 100 on COIL20.
"""

import jax
import numpy as np
from sklearn.cluster import KMeans

import jaxfs
from benchmarks import clustering, data, selection
from benchmarks.papers._parts import rounded
from jaxfs import evaluate

#: The first three are in the paper.
SETS = ("Prostate-GE", "Yale", "COIL20", "GLIOMA", "lung_small", "warpPIE10P")
#: Options of `ssfs`: the paper's rules, its ablations (section 5.2), and the defaults.
PAPER_RULES = {"selection": "stability", "scoring": "boosting", "ranking": "score"}
REGRESSION = {"pseudo_labels": "continuous", "scoring": "boosting", "ranking": "score"}
VARIANTS = {
    "SSFS": PAPER_RULES,
    "no selection": PAPER_RULES | {"selection": "leading"},
    "no XGBoost": PAPER_RULES | {"scoring": "logistic"},
    "no selection, regression": REGRESSION | {"selection": "leading"},
    "regression": REGRESSION | {"selection": "stability"},
    "ssfs": {},
}
NUM_STABILITY_RUNS = 500
#: Number of resamples for more than 1000 samples.
FEWER_RESAMPLES = 100
#: Number of features and classes in Figure 9.
SHOWN, CLASSES = 20, 5


def ssfs(x, k: int, options: dict) -> jaxfs.SSFSResult:
    """The result with the fewer resamples for more than 1000 samples."""
    if options.get("selection") == "stability" and len(x) > 1000:
        options = options | {"selection": jaxfs.Stable(num_resamples=FEWER_RESAMPLES)}
    return jaxfs.ssfs(jax.random.key(0), x.astype(np.float32), num_pseudo_labels=k, **options)


def order(x, k: int, options: dict) -> np.ndarray:
    return selection.top(ssfs(x, k, options).scores, x.shape[1])


def table(split: int) -> dict:
    """Accuracies (counts, runs) of every method on one data set."""
    name = SETS[split]
    x, y = data.load(name)
    k, z = len(np.unique(y)), clustering.standardized(x)
    orders = {
        "LS": selection.top(jaxfs.laplacian_score(z), x.shape[1]),
        "MCFS": selection.top(jaxfs.mcfs_score(z, num_clusters=k), x.shape[1]),
    }
    orders |= {method: order(x, k, options) for method, options in VARIANTS.items()}
    tables = {method: clustering.accuracies(x, y, best) for method, best in orders.items()}
    tables["Random"] = clustering.random_accuracies(x, y)
    tables["all features"] = clustering.all_accuracies(x, y)
    return {
        "set": name,
        "shape": [*x.shape, k],
        "accuracies": {m: rounded(a, 5) for m, a in tables.items()},
    }


def stability(split: int) -> dict:
    """Variation of information between runs of k-means on Yale: mean, deviation and histogram."""
    x, y = data.load("Yale")
    k, z = len(np.unique(y)), clustering.standardized(x)
    chosen = {
        "SSFS": order(x, k, PAPER_RULES)[:100],
        "ssfs": order(x, k, {})[:100],
        "random": np.random.default_rng(split).permutation(x.shape[1])[:100],
        "all features": np.arange(x.shape[1]),
    }
    edges = np.linspace(0, 4, 41)
    found = {}
    for method, features in chosen.items():
        runs = [
            KMeans(k, n_init=1, random_state=run).fit_predict(z[:, features])
            for run in range(NUM_STABILITY_RUNS)
        ]
        vi = evaluate.clustering_stability(np.stack(runs), num_clusters=k)
        share = np.histogram(vi.values, edges)[0] / vi.values.size
        found[method] = {
            "mean": float(vi.mean),
            "deviation": float(vi.standard_deviation),
            "shares": rounded(share, 5),
        }
    return {"edges": edges.tolist(), "methods": found}


def top_features(_split: int) -> dict:
    """The 20 best features of COIL20 in five classes, and how much of variance classes explain."""
    x, y = data.load("COIL20")
    z = clustering.standardized(x)
    best = order(x, len(np.unique(y)), PAPER_RULES)[:SHOWN]
    few = y < CLASSES
    z, y = z[few], y[few]
    means = np.stack([z[y == c].mean(axis=0) for c in range(CLASSES)])[y]
    total = z.var(axis=0)
    explained = np.where(total > 0, means.var(axis=0) / np.where(total > 0, total, 1), 0)
    return {
        "values": rounded(z[:, best].T, 2),
        "labels": y.tolist(),
        "explained": float(explained[best].mean()),
        "explained by all": float(explained[total > 0].mean()),
    }
