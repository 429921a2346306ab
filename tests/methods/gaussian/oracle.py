"""GC and GKL by the formulas of the paper, with determinants and inverses, in NumPy float64."""

import numpy as np


def groups(x, y, num_classes, ridge, shrinkage=0.0, weights=None):
    """Priors, and functions of a set of features: (mean, covariance) of a set of classes."""
    w = np.ones(len(y)) if weights is None else np.asarray(weights, float)
    shares = np.stack([w * (y == c) for c in range(num_classes)])
    p = shares.sum(axis=1) / w.sum()
    means = [np.average(x, axis=0, weights=s) for s in shares]
    covs = [np.cov(x.T, ddof=0, aweights=s).reshape(x.shape[1], -1) for s in shares]
    pooled = sum(q * s for q, s in zip(p, covs, strict=True))
    covs = [(1 - shrinkage) * s + shrinkage * pooled for s in covs]

    def mixture(classes, features):
        """Eq. 9 for some of the classes, with the ridge."""
        q = np.array([p[c] for c in classes])
        q = q / q.sum()
        mean = sum(a * means[c] for a, c in zip(q, classes, strict=True))
        cov = sum(
            a * (covs[c] + np.outer(means[c] - mean, means[c] - mean))
            for a, c in zip(q, classes, strict=True)
        )
        f = list(features)
        return mean[f], cov[np.ix_(f, f)] + np.diag(np.broadcast_to(ridge, x.shape[1])[f])

    return p, mixture


def default_ridge(x):
    """0.1 times the kurtosis of each feature times its variance."""
    away = x - x.mean(axis=0)
    variances = x.var(axis=0)
    return 0.1 * np.mean(away**4, axis=0) / np.where(variances > 0, variances, 1)


def entropy(cov) -> float:
    return 0.5 * np.linalg.slogdet(cov)[1] + 0.5 * len(cov) * np.log(2 * np.pi * np.e)


def divergence(f1, f2) -> float:
    """KL(f1 ‖ f2) of two Gaussians."""
    (m1, s1), (m2, s2) = f1, f2
    inverse = np.linalg.inv(s2)
    return 0.5 * (
        np.trace(inverse @ s1)
        - np.linalg.slogdet(s1)[1]
        + np.linalg.slogdet(s2)[1]
        - len(m1)
        + (m2 - m1) @ inverse @ (m2 - m1)
    )


def gc(p, mixture, features, objective) -> float:
    """Eq. 10, and the approximation of the entropy above it."""
    whole = entropy(mixture(range(len(p)), features)[1])
    own = np.array([entropy(mixture([c], features)[1]) for c in range(len(p))])
    approximation = np.sum(p * np.minimum(whole, own - np.log(p)))
    return approximation - (np.sum(p * own) if objective == "mi" else 0.0)


def gkl(p, mixture, features, objective) -> float:
    """Section 3.2.2, one class against the rest, averaged."""
    total = 0.0
    for c in range(len(p)):
        f1 = mixture([c], features)
        f2 = mixture([b for b in range(len(p)) if b != c], features)
        p1, p2 = p[c], 1 - p[c]
        total += p1 * divergence(f1, f2) + p2 * divergence(f2, f1)
        total -= p1 * np.log(p2) + p2 * np.log(p1)
        if objective == "entropy":
            total += p1 * entropy(f1[1]) + p2 * entropy(f2[1])
    return total / len(p)


def wilks(p, mixture, features) -> float:
    """log|Σ*| − log|Σ_W|, the fallback."""
    pooled = sum(q * mixture([c], features)[1] for c, q in enumerate(p))
    whole = mixture(range(len(p)), features)[1]
    return np.linalg.slogdet(whole)[1] - np.linalg.slogdet(pooled)[1]


def saturated(p, mixture, features) -> bool:
    whole = entropy(mixture(range(len(p)), features)[1])
    own = np.array([entropy(mixture([c], features)[1]) for c in range(len(p))])
    return bool(np.all(own - np.log(p) <= whole))


def greedy(score, num_features, d):
    """Table 2, started at −∞: indices, values, and the margin of the best in each step."""
    chosen, values, margins = [], [], []
    for _ in range(num_features):
        left = [j for j in range(d) if j not in chosen]
        scores = np.array([score([*chosen, j]) for j in left])
        best = int(np.argmax(scores))
        values.append(scores[best])
        margins.append(scores[best] - np.max(np.delete(scores, best), initial=-np.inf))
        chosen.append(left[best])
    return np.array(chosen), np.array(values), np.array(margins)
