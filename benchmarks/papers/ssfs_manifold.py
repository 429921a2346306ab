"""SSFS, sections 3.1 and 4: what the eigenvectors of the graph of the samples show.

Figures 1 and 3a: digits of MNIST with noise. Figure 2: Prostate-GE. Figure 3b: points on an
interval, whose eigenvectors converge to cosines. Figure 4 and Theorem 2: a product of two curves.
"""

import jax
import numpy as np
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import jaxfs
from benchmarks import data
from benchmarks.papers._parts import rounded
from benchmarks.papers.ssfs_clustering import PAPER_RULES
from jaxfs import graphs

#: Figure 1: images per digit and deviation of the noise, for pixels in [0, 1].
PER_DIGIT, NOISE = 200, 0.3
SIZES = (100, 1000, 3000)
#: Figure 4: numbers of samples, and length of the second curve relative to the first.
MANIFOLD_SIZES, SHORTER = (500, 1000, 2000), 0.45
#: The first eigenfunctions cos(lπs₁)cos(kπs₂), by (l, k); only the last depends on both variables.
INDICES = ((1, 0), (2, 0), (0, 1), (1, 1))
NUM_VECTORS = 8
#: Number of points in the picture of Figure 4.
SHOWN = 600
#: Share of the variance of an eigenvector beyond which it is a function of one latent variable.
ALONE = 0.7


def digits(split: int, wanted: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of the wanted digits, sorted by digit, without constant pixels."""
    x, y = data.mnist()
    generator = np.random.default_rng(split)
    rows = [generator.permutation(np.flatnonzero(y == d))[:PER_DIGIT] for d in wanted]
    chosen = np.concatenate(rows)
    x = x[chosen] / 255
    return (x + NOISE * generator.normal(size=x.shape)).astype(np.float32), y[chosen]


def agreement(labels, truth) -> float:
    """Balanced accuracy of binary labels, for the better of the two namings."""
    labels, truth = np.asarray(labels) > 0, np.asarray(truth) > 0
    value = 0.5 * (np.mean(labels[truth]) + np.mean(~labels[~truth]))
    return float(max(value, 1 - value))


def figure_1(split: int) -> dict:
    x, y = digits(split, (3, 6, 8))
    key = jax.random.key(split)
    result = jaxfs.ssfs(key, x, num_pseudo_labels=3, standardize=False, **PAPER_RULES)
    default = jaxfs.ssfs(key, x, num_pseudo_labels=3, standardize=False)
    labels = np.asarray(result.pseudo_labels).T
    pair = y != 6
    found = {
        "6": [agreement(one, y == 6) for one in labels],
        "3 or 8": [agreement(one[pair], y[pair] == 8) for one in labels],
        "stable": np.asarray(result.selected).tolist(),
        "predictable": np.asarray(default.selected).tolist(),
    }
    if split == 0:  # the picture shows the first draw
        found["vectors"] = rounded(np.asarray(result.eigenvectors).T)
        found["labels"] = labels.astype(int).tolist()
    return found


def figure_2(_split: int) -> dict:
    x, y = data.load("Prostate-GE")
    options = PAPER_RULES | {"num_pseudo_labels": 2}
    result = jaxfs.ssfs(jax.random.key(0), x.astype(np.float32), **options)
    by_class = np.argsort(y, kind="stable")
    labels = np.asarray(result.pseudo_labels).T.astype(int)
    return {
        "agreement": [agreement(one, y) for one in labels],
        "smaller group": [int(min(one.sum(), (1 - one).sum())) for one in labels],
        "selected": np.asarray(result.selected).tolist(),
        "vectors": rounded(np.asarray(result.eigenvectors).T[:, by_class]),
        "labels": labels[:, by_class].tolist(),
        "first": int((y == y.min()).sum()),
    }


def figure_3(split: int) -> dict:
    x, y = digits(split, (3, 8))
    vectors = np.asarray(
        jaxfs.ssfs(
            jax.random.key(0), x, num_pseudo_labels=2, standardize=False, selection="leading"
        ).eigenvectors
    )
    model = LinearDiscriminantAnalysis()
    separated = [
        float(model.fit(pair, y).score(pair, y)) for pair in (vectors[:, :2], vectors[:, 2:])
    ]
    found = {"separated": separated, "errors": [_interval(split, n) for n in SIZES]}
    if split == 0:  # the picture shows the first draw
        found["points"], found["eights"] = rounded(vectors[:, 2:]), (y == 8).astype(int).tolist()
    return found


def _interval(split: int, n: int) -> list[float]:
    """Distances of the three leading eigenvectors from cos(kπx), both of norm 1."""
    x = np.random.default_rng(split).uniform(size=n)
    vectors = _eigenvectors(x[:, None], 3, 1)
    out = []
    for k, v in enumerate(vectors.T, start=1):
        g = np.cos(k * np.pi * x)
        g /= np.linalg.norm(g)
        out.append(float(min(np.linalg.norm(v - g), np.linalg.norm(v + g))))
    return out


def _eigenvectors(x, number: int, dimension: int) -> np.ndarray:
    """Eigenvectors after the first of the unnormalised Laplacian, with the bandwidth of Theorem 1.

    ε shrinks as (log n / n)^(1/(d/2 + 2)), the rate of assumption (iii), d the dimension.
    """
    epsilon = 0.1 * (np.log(len(x)) / len(x)) ** (1 / (dimension / 2 + 2))
    squared = np.square(x[:, None] - x[None]).sum(axis=2)
    lap = np.asarray(graphs.laplacian(np.exp(-squared / epsilon)), np.float64)
    return eigh(lap, subset_by_index=(1, number))[1]


def _powers(theta) -> np.ndarray:
    return np.stack([theta, theta**2, theta**3], axis=-1)


def product(split: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n, 2) in [0, 1] on two curves, and the three features of each curve (n, 6).

    The features are powers of a latent variable. Positions are uniform along the curves, as
    assumption (i) demands. The second curve has less than half the length of the first, so that two
    eigenvectors of the first precede it.
    """
    grid = np.linspace(0, 1, 1001)
    steps = np.linalg.norm(np.diff(_powers(grid), axis=0), axis=1)
    along = np.concatenate([[0], np.cumsum(steps)]) / steps.sum()
    position = np.random.default_rng(split).uniform(size=(n, 2))
    theta = np.interp(position, along, grid)
    return position, np.concatenate([_powers(theta[:, 0]), SHORTER * _powers(theta[:, 1])], axis=1)


def explained(v, position) -> float:
    """Share of the variance of v that a polynomial of degree 8 in one variable explains."""
    design = np.polynomial.chebyshev.chebvander(2 * position - 1, 8)
    residual = v - design @ np.linalg.lstsq(design, v, rcond=None)[0]
    return float(1 - residual.var() / v.var())


def figure_4(split: int) -> dict:
    """Eigenvectors of a product of two curves, and their inner products with the features."""
    out: dict = {"sizes": {}}
    for n in MANIFOLD_SIZES:
        position, x = product(split, n)
        vectors = _eigenvectors(x, NUM_VECTORS, 2)
        f = x - x.mean(axis=0)
        inner = np.abs((f / np.linalg.norm(f, axis=0)).T @ vectors).max(axis=0)
        found = {}
        for b in INDICES:
            g = np.prod(np.cos(np.pi * np.array(b) * position), axis=1)
            aligned = np.abs(vectors.T @ g) / np.linalg.norm(g)
            i = int(np.argmax(aligned))
            found[str(b)] = {"place": i + 1, "aligned": aligned[i], "inner": inner[i]}
        out["sizes"][str(n)] = found
        if n == 1000:
            rules = ("stability", "predictability", "leading")
            out["covers both"] = {name: _covers_both(split, position, x, name) for name in rules}
    if split == 0:  # the picture shows some points of the first draw
        out["positions"] = rounded(position[:SHOWN], 3)
        out["vectors"] = rounded(vectors[:SHOWN].T)
    return out


def _covers_both(split: int, position, x, name: str) -> bool:
    """Whether the two eigenvectors that `ssfs` keeps are functions of θ₁ and of θ₂."""
    options = {"num_pseudo_labels": 2, "num_eigenvectors": NUM_VECTORS, "standardize": False}
    result = jaxfs.ssfs(jax.random.key(split), x.astype(np.float32), selection=name, **options)
    kept = np.asarray(result.eigenvectors, np.float64)[:, np.asarray(result.selected)]
    best = [max(explained(v, p) for v in kept.T) for p in position.T]
    return min(best) > ALONE
