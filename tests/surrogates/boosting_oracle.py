"""Exact greedy boosting by the rules of XGBoost, as loops over samples, nodes and thresholds."""

import itertools

import numpy as np


def boost(x, y, *, loss, trees=100, depth=6, eta=0.3, l2=1.0, child=1.0, weights=None):
    """Importances, and the margins of all samples."""
    w = np.ones(len(y)) if weights is None else weights
    mean = np.sum(w * y) / np.sum(w)
    base = mean if loss == "squared" else np.log(mean / (1 - mean))
    margin = np.full(len(y), base)
    gain, count = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for _ in range(trees):
        if loss == "squared":
            g, h = w * (margin - y), w
        else:
            p = 1 / (1 + np.exp(-margin))
            g, h = w * (p - y), w * p * (1 - p)
        nodes = [(np.flatnonzero(w > 0), 0)]
        for rows, level in nodes:
            split = best(x[rows], g[rows], h[rows], l2, child) if level < depth else None
            if split is None:
                margin[rows] -= eta * g[rows].sum() / (h[rows].sum() + l2)
                continue
            value, feature, threshold = split
            gain[feature] += value
            count[feature] += 1
            left = x[rows, feature] < threshold
            nodes += [(rows[left], level + 1), (rows[~left], level + 1)]
    mean_gain = gain / np.maximum(count, 1)
    return mean_gain / max(mean_gain.sum(), 1e-300), margin


def best(x, g, h, l2, child):
    """(gain, feature, threshold) of the best split, the first feature and last threshold of ties.

    Gains are rounded, so that equal gains compare equal for every order of summation.
    """
    found = None
    for feature in range(x.shape[1]):
        values = np.unique(x[:, feature])
        for low, high in itertools.pairwise(values):
            left = x[:, feature] <= low
            sides = [(g[s].sum(), h[s].sum()) for s in (left, ~left)]
            if min(side[1] for side in sides) < child:
                continue
            worth = sum(a * a / (b + l2) for a, b in sides)
            value = round(worth - g.sum() ** 2 / (h.sum() + l2), 9)
            same = found is not None and value == found[0] and feature == found[1]
            if value > 1e-6 and (found is None or value > found[0] or same):
                found = value, feature, (low + high) / 2
    return found
