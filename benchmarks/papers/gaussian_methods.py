"""The methods of section 5.3 of the GC / GKL paper that jaxfs has, its data and its numbers."""

import csv
import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import train_test_split

import jaxfs
from benchmarks import data, selection

NUM_FEATURES = (10, 25, 50, 100)
#: Sets of images, where the features share a unit, and other sets, which are standardised.
IMAGES = ("MNIST", "COIL20", "Yale", "warpPIE10P", "pixraw10P")
OTHERS = ("madelon", "lung_small", "GLIOMA", "colon", "Prostate-GE", "shipp", "gravier")
OTHERS += ("sorlie", "su")
#: Images of MNIST to learn from, and as many to test on.
MNIST_IMAGES = 3000

Select = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def greedy(select: Callable, **options) -> Select:
    def chosen(x, y, k: int) -> np.ndarray:
        return np.asarray(select(x, y, k, num_classes=int(y.max()) + 1, **options).indices)

    return chosen


def plain(select: Callable, **options) -> Select:
    """Covariances as in the paper; the small ridge is for those that are singular."""

    def chosen(x, y, k: int) -> np.ndarray:
        ridge = 1e-3 * float(np.var(x, axis=0).mean())
        return greedy(select, ridge=ridge, shrinkage=0.0, **options)(x, y, k)

    return chosen


def ranked(score: Callable, **options) -> Select:
    def chosen(x, y, k: int) -> np.ndarray:
        return selection.top(score(x, y, num_classes=int(y.max()) + 1, **options), k)

    return chosen


def t_test(x, y, *, num_classes: int):
    """The mean t statistic of each class against the others."""
    if num_classes == 2:
        return jaxfs.t_score(x, y)
    codes = jnp.arange(num_classes)
    return jnp.mean(jax.vmap(lambda c: jaxfs.t_score(x, jnp.equal(y, c).astype(int)))(codes), 0)


def chi2(x, y, *, num_classes: int):
    """χ² of the features scaled to [0, 1], because it needs nonnegative values."""
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = (x - low) / np.where(high > low, high - low, 1)
    return jaxfs.chi2_score(scaled, y, num_classes=num_classes)


def spec(x, y, *, num_classes: int):
    return jaxfs.spec_score(x)


def random(x, y, k: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.flatnonzero(x.std(axis=0) > 0))[:k]


information = {"relevance": "mi", "redundancy": "mi", "scheme": "difference"}
#: By the names of the paper.
METHODS: dict[str, Select] = {
    "Fisher": ranked(jaxfs.fisher_score),
    "FCBF": greedy(jaxfs.fcbf_select),
    "MRMR": greedy(jaxfs.mrmr_select, **information),
    "chi2": ranked(chi2),
    "t-test": ranked(t_test),
    "InfoGain": ranked(jaxfs.mutual_information_score, estimator="binned"),
    "Spectral": ranked(spec),
    "RelieFF": ranked(jaxfs.relieff_score),
    "CFS": greedy(jaxfs.cfs_select),
    "GC.E": greedy(jaxfs.gc_select, objective="entropy"),
    "GC.MI": greedy(jaxfs.gc_select, objective="mi"),
    "GKL.E": greedy(jaxfs.gkl_select, objective="entropy"),
    "GKL.MI": greedy(jaxfs.gkl_select, objective="mi"),
}
#: GC and GKL without the defaults of jaxfs, and selectors that the paper does not have.
EXTRA: dict[str, Select] = {
    "GC.MI*": plain(jaxfs.gc_select, fallback="random", key=jax.random.key(0)),
    "GKL.E*": plain(jaxfs.gkl_select),
    "JMI": greedy(jaxfs.jmi_select),
    "CMIM": greedy(jaxfs.cmim_select),
    "CCA": greedy(jaxfs.cca_select),
    "random": random,
}


def split_of(name: str, seed: int, images: int = MNIST_IMAGES) -> tuple[np.ndarray, ...]:
    """Training and test samples: x, y, xt, yt. `images` is their number for MNIST, each."""
    if name == "MNIST":
        generator = np.random.default_rng(seed)
        parts = []
        for part in ("train", "t10k"):
            x, y = data.mnist(part)
            keep = generator.permutation(len(y))[:images]
            parts += [(x[keep] / 255).astype(np.float32), y[keep]]
        return tuple(parts)
    x, y = data.load(name)
    x, xt, y, yt = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
    if name in OTHERS:
        mean, deviation = x.mean(axis=0), x.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1)
        x, xt = (x - mean) / deviation, (xt - mean) / deviation
    return x.astype(np.float32), y, xt.astype(np.float32), yt


def orders(x, y) -> dict[str, np.ndarray]:
    """The features that each method selects, in order; FCBF and CFS may select fewer than 100."""
    found = {}
    for method, select in (METHODS | EXTRA).items():
        order = select(x, y, max(NUM_FEATURES))
        found[method] = order[order >= 0]
    return found


@functools.cache
def paper() -> dict[str, dict[str, np.ndarray]]:
    """Tables 4 to 7 as printed: classifier → method → accuracies (data set, number of features)."""
    tables: dict[str, dict[str, np.ndarray]] = {}
    path = Path(__file__).with_name("gaussian_accuracies.csv")
    with path.open(encoding="utf-8") as file:
        for classifier, method, *values in list(csv.reader(file))[1:]:
            row = np.array(values, float).reshape(3, len(NUM_FEATURES))
            tables.setdefault(classifier, {})[method] = row
    return tables
