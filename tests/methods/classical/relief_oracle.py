"""ReliefF and RReliefF as plain loops, written from the figures of the paper."""

import numpy as np


def diff(values: np.ndarray, i: int, j: int) -> float:
    """diff(A, R_i, I_j) of a numerical attribute: |difference| / range, 0 for a constant."""
    span = values.max() - values.min()
    return abs(values[i] - values[j]) / span if span else 0.0


def ordered(x: np.ndarray, i: int, among: list[int]) -> list[int]:
    """All samples but i, sorted by their distance Σ_A diff(A, i, j) from sample i."""
    distance = {j: sum(diff(column, i, j) for column in x.T) for j in among if j != i}
    return sorted(distance, key=lambda j: (distance[j], j))


def relieff(x: np.ndarray, y: np.ndarray, k: int, *, priors: bool = True) -> np.ndarray:
    """Figure 2 of Robnik-Šikonja and Kononenko (2003), m = n.

    Without `priors`, all other classes have the same weight.
    """
    n, d = x.shape
    classes = sorted(set(y.tolist()))
    share = {c: np.mean(y == c) for c in classes}
    score = np.zeros(d)
    for i in range(n):
        near = {c: ordered(x, i, np.flatnonzero(y == c).tolist())[:k] for c in classes}
        for a in range(d):
            for c in classes:
                mean = sum(diff(x[:, a], i, j) for j in near[c]) / k
                if c == y[i]:
                    score[a] -= mean / n
                else:
                    factor = share[c] / (1 - share[y[i]]) if priors else 1 / (len(classes) - 1)
                    score[a] += factor * mean / n
    return score


def rrelieff(x: np.ndarray, tau: np.ndarray, k: int, sigma: float | None) -> np.ndarray:
    """Figure 3 of the same paper, m = n."""
    n, d = x.shape
    n_dc, n_da, n_dcda = 0.0, np.zeros(d), np.zeros(d)
    for i in range(n):
        near = ordered(x, i, list(range(n)))[:k]
        d1 = [1 / k if sigma is None else np.exp(-((r / sigma) ** 2)) for r in range(1, k + 1)]
        for influence, j in zip(np.array(d1) / sum(d1), near, strict=True):
            change = diff(tau, i, j)
            n_dc += change * influence
            for a in range(d):
                n_da[a] += diff(x[:, a], i, j) * influence
                n_dcda[a] += change * diff(x[:, a], i, j) * influence
    return n_dcda / n_dc - (n_da - n_dcda) / (n - n_dc)
