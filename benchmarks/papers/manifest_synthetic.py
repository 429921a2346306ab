"""ManiFeSt, sections 5.1 and 5.3 and appendix D.2.3: synthetic problems with a known answer.

    python -m benchmarks.papers.manifest_synthetic [RUNS OF THE HYPERCUBE]

The bandwidth for the hypercube is tuned as in appendix D.1, by the cross-validated accuracy of an
RBF-SVM on the training samples, never by the true features. The neighbours of the other methods are
tuned in the same way. ANOVA and mutual information are scikit-learn's; ReliefF is skrebate's
(`pip install skrebate`).
"""

import sys

import jax
import numpy as np
from sklearn.datasets import make_classification

import jaxfs
from benchmarks import selection


def xor_data(seeds: int = 200, n: int = 50, d: int = 100):
    x = np.random.default_rng(0).integers(0, 2, size=(seeds, n, d)).astype(np.float32)
    return x, (x[:, :, 0] != x[:, :, 4]).astype(np.int32)


def xor() -> None:
    """Section 5.1: y = f1 xor f5, two selected features per run, 200 runs in one vmapped call."""
    x, y = xor_data()
    score = jax.jit(jax.vmap(lambda x, y: selection.by_labels(x, y, bandwidth=jaxfs.Median(0.1))))
    picks = np.argsort(np.asarray(score(x, y)), axis=1)[:, -2:]
    right = np.isin(picks, [0, 4]).mean()
    print(f"XOR-100: {right:.4f} of the features correct, {len(x)} runs (bar 0.99; paper 1.00)")


def toy() -> None:
    """Appendix D.2.3: y = f1 is missed if all features are random, and found if f5 is constant."""
    generator = np.random.default_rng(1)
    x = generator.integers(0, 2, size=(200, 500, 20)).astype(np.float32)
    y = x[:, :, 0].astype(np.int32)
    score = jax.jit(jax.vmap(selection.by_labels))
    for name in ("(a) all random", "(b) f5 constant"):
        if name.startswith("(b)"):
            x[:, :, 4] = 0
        scores = np.asarray(score(x, y))
        scores = scores / scores.max(axis=1, keepdims=True)
        mean = scores.mean(0)
        others = np.delete(mean, [0, 4])
        print(f"D.2.3 {name}: f1 {mean[0]:.2f}, f5 {mean[4]:.2f}, others {others.mean():.2f}")


def hypercube(runs: int = 50) -> None:
    """Section 5.3: 10 relevant features of 200; the score sees 50 samples."""
    scales = [
        jax.jit(lambda x, y, q=q: selection.by_labels(x, y, bandwidth=jaxfs.Percentile(q)))
        for q in selection.PERCENTILES
    ]
    found: dict[str, list[int]] = {}
    for seed in range(runs):
        x, y = make_classification(
            2000, 200, n_informative=10, n_redundant=0, shuffle=False, random_state=seed
        )  # two clusters per class
        order = np.random.default_rng(seed).permutation(2000)
        train, few = order[:1500], np.arange(50)
        x, y = x[train], y[train]
        grid = (1, 3, 5, 10, 15, 20)
        rivals = {
            "ManiFeSt, scale by CV": scales,
            "ManiFeSt, default": [jax.jit(selection.by_labels)],
            "ANOVA": [selection.anova],
            "mutual information": selection.neighbor_grid(
                selection.mutual_information, y[few], grid
            ),
            "ReliefF (skrebate)": selection.neighbor_grid(selection.relieff, y[few], grid),
        }
        for name, scores in rivals.items():
            chosen = selection.tuned(scores, x, y, few, 10)
            found.setdefault(name, []).append(int(np.sum(chosen < 10)))
    for name, counts in found.items():
        print(f"hypercube: {name:24s} {np.mean(counts):5.2f} ± {np.std(counts):.2f} of 10 correct")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print("float32 for XOR and D.2.3 (the default of JAX), as given for the hypercube")
    xor()
    toy()
    jax.config.update("jax_enable_x64", True)
    hypercube(runs)


if __name__ == "__main__":
    main()
