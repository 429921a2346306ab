"""SSFS with one graph, with three graphs and with a second pass, against all features.

    JAXFS_DATA=… python -m benchmarks.defaults.ssfs [SET …]

Accuracy of k-means, mean over 20 runs and over 10 … 300 features, in per cent. The last lines are
paired differences over the data sets, with their standard errors. One pseudo-label less than there
are classes, as the docstring of `ssfs` recommends. Above each row is the share of the variance of
the kept eigenvectors that the classes explain.
"""

import sys

import jax
import numpy as np

import jaxfs
from benchmarks import clustering, data, selection

SETS = (
    "colon", "GLIOMA", "lung_small", "Prostate-GE", "gravier", "shipp", "su", "sorlie", "Yale",
    "warpPIE10P", "pixraw10P", "madelon", "COIL20",
)  # fmt: skip
VARIANTS = {
    "default": {},
    "two passes": {"num_passes": 2},
    "three graphs": {"num_neighbors": (2, 5, 10)},
    "three graphs, two passes": {"num_neighbors": (2, 5, 10), "num_passes": 2},
}


def explained(vectors: np.ndarray, y: np.ndarray) -> str:
    """Per cent of the variance of each vector that is variance between classes."""
    member = np.eye(y.max() + 1)[y]
    v = vectors - vectors.mean(axis=0)
    means = (member.T @ v) / member.sum(axis=0)[:, None]
    shares = np.sum((member @ means) ** 2, axis=0) / np.sum(v**2, axis=0)
    return " ".join(f"{100 * share:.0f}" for share in shares)


def accuracies(name: str) -> list[float]:
    """The mean accuracy of each variant, of random features and of all features."""
    x, y = data.load(name)
    x, k = x.astype(np.float32), len(np.unique(y))
    tables = []
    for variant, options in VARIANTS.items():
        found = jaxfs.ssfs(jax.random.key(0), x, num_pseudo_labels=k - 1, **options)
        kept = np.asarray(found.eigenvectors)[:, np.asarray(found.selected)]
        print(f"  {variant}: eigenvectors {found.selected.tolist()}, {explained(kept, y)}%")
        tables.append(clustering.accuracies(x, y, selection.top(found.scores, x.shape[1])))
    tables += [clustering.random_accuracies(x, y), clustering.all_accuracies(x, y)]
    return [clustering.summary(table).mean for table in tables]


def main(sets: list[str]) -> None:
    names = [*VARIANTS, "random", "all"]
    print(f"{'':14s}" + "".join(f"{name:>26s}" for name in names))
    rows = []
    for name in sets:
        rows.append(accuracies(name))
        print(f"{name:14s}" + "".join(f"{value:26.1f}" for value in rows[-1]), flush=True)
    table = np.array(rows)
    print(f"{'mean':14s}" + "".join(f"{value:26.1f}" for value in table.mean(axis=0)))
    for i, name in enumerate(names):
        for j in (0, len(names) - 1):
            if i != j:
                gap = table[:, i] - table[:, j]
                error = gap.std(ddof=1) / len(gap) ** 0.5
                print(f"{name} − {names[j]}: {gap.mean():+.1f} ± {error:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
