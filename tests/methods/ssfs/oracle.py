"""Algorithms 1 and 2 of SSFS as nested loops, in NumPy float64 and scikit-learn."""

import itertools

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from tests.surrogates.boosting_oracle import boost


def standardized(x):
    x = x - x.mean(axis=0)
    return x / np.where(x.std(axis=0) > 1e-12, x.std(axis=0), 1)


def eigenpairs(x, d):
    """The affinity of appendix F.3, its symmetric normalised Laplacian, eigenvectors 2 … d + 1."""
    distance = np.sqrt(np.square(x[:, None] - x[None]).sum(axis=2))
    sigma = [np.sort(np.delete(row, i))[1] for i, row in enumerate(distance)]
    w = np.exp(-(distance**2) / np.outer(sigma, sigma))
    degree = w.sum(axis=1)
    values, vectors = np.linalg.eigh(np.eye(len(x)) - w / np.sqrt(np.outer(degree, degree)))
    return values[1 : d + 1], vectors[:, 1 : d + 1]


def two_medoids(v):
    """The best two medoids, found by trying every pair."""
    pairs = itertools.combinations(v, 2)
    a, b = min(pairs, key=lambda pair: np.abs(v[:, None] - np.array(pair)).min(axis=1).sum())
    return np.abs(v - max(a, b)) < np.abs(v - min(a, b))


def share(beta):
    return np.abs(beta) / np.abs(beta).sum()


def fitted(x, y, binary):
    """The selection model's scores."""
    if binary:
        return share(LogisticRegression(tol=1e-10, max_iter=100_000).fit(x, y).coef_[0])
    return share(Ridge().fit(x, y).coef_)


def instability(x, y, masks, binary):
    scores = [fitted(x[m], y[m], binary) for m in masks if len(set(y[m])) > 1]
    return np.var(scores, axis=0, ddof=1).sum()


def gains(x, y, binary):
    return boost(x, y, loss="logistic" if binary else "squared")[0]
