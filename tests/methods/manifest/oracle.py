"""Algorithms 1 and 2 of the ManiFeSt paper, line by line, in NumPy float64; slow and simple."""

import numpy as np


def rbf_kernel(x, sigma):
    """Eq. 1, entry by entry."""
    d = x.shape[1]
    k = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            k[i, j] = np.exp(-np.sum((x[:, i] - x[:, j]) ** 2) / (2 * sigma**2))
    return k


def feature_distances(x):
    """The off-diagonal Euclidean distances between columns, each pair once."""
    d = x.shape[1]
    return np.array([np.linalg.norm(x[:, i] - x[:, j]) for i in range(d) for j in range(i)])


def _function(a, f):
    w, v = np.linalg.eigh(a)
    return v @ np.diag(f(w)) @ v.T


def sqrtm(a):
    return _function(a, np.sqrt)


def inv_sqrtm(a):
    return _function(a, lambda w: 1 / np.sqrt(w))


def geodesic(k1, k2, t):
    """Eq. 7; eq. 2 at t = ½."""
    s, i = sqrtm(k1), inv_sqrtm(k1)
    return s @ _function(i @ k2 @ i, lambda w: w**t) @ s


def log_map(m, k):
    """Eqs. 3 and 9."""
    s, i = sqrtm(m), inv_sqrtm(m)
    return s @ _function(i @ k @ i, np.log) @ s


def score(difference):
    """Eq. 4."""
    w, v = np.linalg.eigh(0.5 * (difference + difference.T))
    r = np.zeros(len(w))
    for i in range(len(w)):
        r += np.abs(w[i]) * v[:, i] * v[:, i]
    return r


def difference_spd(k1, k2, t=0.5):
    """Eq. 3 at t = ½, where both halves are equal; D(t) = ½(Log_M K1 − Log_M K2) elsewhere."""
    m = geodesic(k1, k2, t)
    return 0.5 * (log_map(m, k1) - log_map(m, k2))


def algorithm1(k1, k2, t=0.5):
    return score(difference_spd(k1, k2, t))


def _leading(a, k):
    v = np.linalg.eigh(0.5 * (a + a.T))[1]
    return v[:, ::-1][:, :k]


def _grassmann_geodesic(g1, g2, t):
    """Eq. 10, with G2ᵀG1 = O2 Σ O1ᵀ."""
    o2, cosines, o1t = np.linalg.svd(g2.T @ g1)
    theta = np.arccos(np.clip(cosines, -1, 1))
    sines = np.sin(theta)
    inverse = np.array([1 / s if s > 1e-7 else 0.0 for s in sines])
    x = (np.eye(len(g1)) - g1 @ g1.T) @ g2 @ o2 @ np.diag(inverse)
    return g1 @ o1t.T @ np.diag(np.cos(theta * t)) + x @ np.diag(np.sin(theta * t))


def difference_spsd(k1, k2, k):
    """Eqs. 12 to 14."""
    g1, g2 = _leading(k1, k), _leading(k2, k)
    o2, _, o1t = np.linalg.svd(g2.T @ g1)
    o1 = o1t.T
    p1, p2 = o1.T @ g1.T @ k1 @ g1 @ o1, o2.T @ g2.T @ k2 @ g2 @ o2
    gamma = _grassmann_geodesic(g1, g2, 0.5)
    m = gamma @ geodesic(p1, p2, 0.5) @ gamma.T
    gm = _leading(m, k)
    u, _, omt = np.linalg.svd(g1.T @ gm)
    pm = omt @ gm.T @ m @ gm @ omt.T
    p1 = u.T @ g1.T @ k1 @ g1 @ u
    end = _grassmann_geodesic(gm, g1, 1.0)
    return end @ log_map(pm, p1) @ end.T


def algorithm2(k1, k2, k):
    return score(difference_spsd(k1, k2, k))


def karcher_mean(kernels, iterations=200):
    """Barachant et al. 2013, Algorithm 1, as appendix C asks."""
    m = sum(kernels) / len(kernels)
    for _ in range(iterations):
        s, i = sqrtm(m), inv_sqrtm(m)
        tangent = sum(_function(i @ k @ i, np.log) for k in kernels) / len(kernels)
        m = s @ _function(tangent, np.exp) @ s
        if np.linalg.norm(tangent) < 1e-14:
            break
    return m


def multiclass_spd(kernels):
    """Appendix C: r_ℓ for every class."""
    m = karcher_mean(kernels)
    return np.stack([score(log_map(m, k)) for k in kernels])


# ---- The choice of the bandwidth ----------------------------------------------------------------


def median_distance(x):
    """The median of the distances between columns, or the smallest positive one if that is 0."""
    distances = feature_distances(x)
    middle = np.median(distances)
    return middle if middle > 0 else distances[distances > 0].min()


def row_norms(x, y, classes, sigma):
    """max over the classes of ‖row f of K_ℓ − mean K‖₂."""
    kernels = np.array([rbf_kernel(x[y == c], sigma[c]) for c in range(classes)])
    apart = kernels - kernels.mean(axis=0)
    return np.sqrt((apart**2).sum(axis=2)).max(axis=0)


def hinge(u, y, classes, test, ridge=1.0):
    """Total hinge loss on the test samples of one-against-rest kernel ridge regressions."""
    train = ~test
    deviation = u[train].std(axis=0)
    u = (u - u[train].mean(axis=0)) / np.where(deviation > 0, deviation, np.inf)
    kernel = np.exp(-((u[:, None] - u[None]) ** 2).sum(axis=2) / (2 * u.shape[1]))
    total = 0.0
    for c in range(classes):
        t = np.where(y == c, 1.0, -1.0)
        mean = t[train].mean()
        inside = kernel[np.ix_(train, train)] + ridge * np.eye(train.sum())
        f = mean + kernel[np.ix_(test, train)] @ np.linalg.solve(inside, t[train] - mean)
        total += np.maximum(0, 1 - t[test] * f).sum() / classes
    return total


def bandwidth_losses(x, y, classes, tests, factors, partner=None, numbers=(2, 5, 10, 20, 40)):
    """Mean loss of every factor; with `partner(x, y)`, that of the sum of both scores."""
    sigma = [median_distance(x[y == c]) for c in range(classes)]
    losses = np.zeros(len(factors))
    for i, factor in enumerate(factors):
        for test in tests:
            inside, train = ~test, (x[~test], y[~test])
            shares = [np.sqrt(np.mean(inside[y == c])) for c in range(classes)]
            scaled = [factor * s * share for s, share in zip(sigma, shares, strict=True)]
            scores = row_norms(*train, classes, scaled)
            if partner is not None:
                scores = robust(scores) + robust(partner(*train))
            order = np.argsort(-scores, kind="stable")
            kept = sorted({min(k, x.shape[1]) for k in numbers})
            losses[i] += np.mean([hinge(x[:, order[:k]], y, classes, test) for k in kept])
    return losses / np.sum(tests)


def robust(s):
    centre = s - np.median(s)
    return centre / (1.4826 * np.median(np.abs(centre)))
