"""SSFS, Algorithms 1 and 2, transcribed literally with scikit-learn and XGBoost, for comparison.

    JAXFS_DATA=… python -m benchmarks.papers.ssfs_literal [SET …]

The paper leaves some details open. Here the 2nd neighbour does not count the sample itself, the
diagonal of the affinity is kept, the trivial eigenvector is skipped, and a resample with only one
class is left out. Logistic regression stops at scikit-learn's default tolerance, far from its
minimum where classes are separable. With `tol=1e-8` it selects other eigenvectors on some data
sets, half of them on COIL20. The script prints the clustering accuracies of section 5.1 together
with those of all features, random features and the paper's Table 1. Install XGBoost with `pip
install xgboost`.
"""

import sys
import time
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

from benchmarks import clustering, data
from benchmarks.papers.ssfs_clustering import SETS
from benchmarks.papers.ssfs_sections import TABLE_1


class Details(NamedTuple):
    """The spectrum (d,), eigenvectors and pseudo-labels (n, d), and the results of each step."""

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    labels: np.ndarray
    instability: np.ndarray  # (d,)
    selected: np.ndarray  # (k,), the most stable first
    scores: np.ndarray  # (p,)


def literal(
    x, k: int, *, num_resamples: int = 500, fraction: float = 0.95, seed: int = 0, tol: float = 1e-4
) -> tuple[np.ndarray, Details]:
    """Algorithm 2: the features from best to worst, ties by index, and all intermediate results."""
    x = clustering.standardized(x)
    eigenvalues, v = eigenvectors(affinity(x), 2 * k)
    labels = np.stack([two_medoids(one) for one in v.T], axis=1)
    masks = resamples(num_resamples, len(x), fraction=fraction, seed=seed)
    selected, instability = selection(x, labels, masks, k, tol=tol)
    scores = np.max([gain(x, labels[:, i]) for i in selected], axis=0)
    details = Details(eigenvalues, v, labels, instability, selected, scores)
    return np.argsort(-scores, kind="stable"), details


def affinity(x) -> np.ndarray:
    """exp(−d_ij² / (σ_i σ_j)), σ_i the distance to the 2nd neighbour (appendix F.3)."""
    d = cdist(x, x)
    sigma = np.sort(d, axis=1)[:, 2]  # the sample itself is the first
    return np.exp(-(d**2) / np.outer(sigma, sigma))


def eigenvectors(w, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The d smallest eigenvalues after the first of I − Δ^-½ W Δ^-½, and their vectors (n, d)."""
    root = np.sqrt(w.sum(axis=1))
    values, vectors = np.linalg.eigh(np.eye(len(w)) - w / np.outer(root, root))
    return values[1 : d + 1], vectors[:, 1 : d + 1]


def two_medoids(v) -> np.ndarray:
    """Labels of the split of the line with the smallest Σ |v_i − medoid|; the upper group is 1."""
    s = np.sort(v)

    def cost(group):
        return np.abs(group - group[(len(group) - 1) // 2]).sum()

    splits = [i for i in range(1, len(s)) if s[i] > s[i - 1]]
    best = min(splits, key=lambda i: cost(s[:i]) + cost(s[i:]))
    return (v >= s[best]).astype(np.int64)


def resamples(number: int, n: int, *, fraction: float = 0.95, seed: int = 0) -> np.ndarray:
    """Masks (B, n) of subsamples without replacement."""
    generator = np.random.default_rng(seed)
    masks = np.zeros((number, n), bool)
    for mask in masks:
        mask[generator.choice(n, round(fraction * n), replace=False)] = True
    return masks


def selection(x, labels, masks, k: int, *, tol: float = 1e-4) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1: the k labels with the most stable models, and Σ_m Var(s_m) of all labels."""
    instability = []
    for y in labels.T:
        both = [mask for mask in masks if np.ptp(y[mask])]
        scores = [coefficients(x[mask], y[mask], tol) for mask in both]
        instability.append(np.var(scores, axis=0, ddof=1).sum())
    return np.argsort(instability, kind="stable")[:k], np.array(instability)


def coefficients(x, y, tol: float = 1e-4) -> np.ndarray:
    """|β| of logistic regression with C = 1, scaled to sum to one."""
    score = np.abs(LogisticRegression(tol=tol, max_iter=10_000).fit(x, y).coef_[0])
    return score / score.sum()


def gain(x, y) -> np.ndarray:
    """XGBoost's gain importances, which sum to one; one thread makes runs repeatable."""
    return XGBClassifier(n_jobs=1).fit(x, y).feature_importances_


def main() -> None:
    for name in sys.argv[1:] or SETS:
        x, y = data.load(name)
        k = len(np.unique(y))
        start = time.perf_counter()
        order, details = literal(x, k, num_resamples=20 if len(x) > 1000 else 100)
        seconds = time.perf_counter() - start
        print(f"{name}: {seconds:.0f} s, eigenvectors {np.sort(details.selected) + 1} of {2 * k}")
        rows = {
            "literal SSFS": clustering.accuracies(x, y, order),
            "random": clustering.random_accuracies(x, y),
            "all features": clustering.all_accuracies(x, y),
        }
        for method, row in rows.items():
            print(f"  {method:14s}{clustering.summary(row)}", flush=True)
        print(f"  {'paper':14s}{TABLE_1.get(name, {}).get('SSFS', '–')}", flush=True)


if __name__ == "__main__":
    main()
