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
