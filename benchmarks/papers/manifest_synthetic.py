"""ManiFeSt, sections 5.1 and 5.3 and appendix D.2.3: the synthetic problems with a known answer.

    python -m benchmarks.papers.manifest_synthetic

The hypercube's scale is tuned as in appendix D.1, by the cross-validated accuracy of an RBF-SVM on
the training samples, never on the truth. ANOVA and mutual information are scikit-learn's; ReliefF
is skrebate's, if it is installed.
"""

import jax
import numpy as np
from sklearn.datasets import make_classification
from sklearn.feature_selection import f_classif, mutual_info_classif
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import jaxfs

PERCENTILES = (5, 10, 30, 50, 70, 90, 95)


def by_labels(x, y, **options):
    """The score of labelled samples: classes as weights, so that any split has one shape."""
    w1, w2 = (y == 0).astype(x.dtype), (y == 1).astype(x.dtype)
    return jaxfs.manifest_score(x, x, weights1=w1, weights2=w2, **options)


def xor_data(seeds: int = 200, n: int = 50, d: int = 100):
    x = np.random.default_rng(0).integers(0, 2, size=(seeds, n, d)).astype(np.float32)
    return x, (x[:, :, 0] != x[:, :, 4]).astype(np.int32)


def xor() -> None:
    """Section 5.1: y = f1 xor f5, two picks a run, 200 runs in one vmapped call."""
    x, y = xor_data()
    score = jax.jit(jax.vmap(lambda x, y: by_labels(x, y, bandwidth=jaxfs.Median(0.1))))
    picks = np.argsort(np.asarray(score(x, y)), axis=1)[:, -2:]
    right = np.isin(picks, [0, 4]).mean()
    print(f"XOR-100: {right:.4f} of the picks right over {len(x)} runs (bar 0.99; paper 1.00)")


def toy() -> None:
    """Appendix D.2.3: y = f1 alone is missed; with f5 constant both are found."""
    generator = np.random.default_rng(1)
    x = generator.integers(0, 2, size=(200, 500, 20)).astype(np.float32)
    y = x[:, :, 0].astype(np.int32)
    score = jax.jit(jax.vmap(by_labels))
    for name in ("(a) all random", "(b) f5 constant"):
        if name.startswith("(b)"):
            x[:, :, 4] = 0
        scores = np.asarray(score(x, y))
        scores = scores / scores.max(axis=1, keepdims=True)
        mean = scores.mean(0)
        others = np.delete(mean, [0, 4])
        print(f"D.2.3 {name}: f1 {mean[0]:.2f}, f5 {mean[4]:.2f}, others {others.mean():.2f}")


def hypercube(runs: int = 50) -> None:
    """Section 5.3: 10 relevant features of 200, 50 samples for the score."""
    scales = [jaxfs.Percentile(float(q)) for q in PERCENTILES]
    scores = [jax.jit(lambda x, y, s=s: by_labels(x, y, bandwidth=s)) for s in scales]
    found: dict[str, list[int]] = {}
    for seed in range(runs):
        x, y = make_classification(
            2000, 200, n_informative=10, n_redundant=0, shuffle=False, random_state=seed
        )  # two clusters a class
        order = np.random.default_rng(seed).permutation(2000)
        train, few = order[:1500], order[:50]
        tops = [np.argsort(s(x[few], y[few]))[-10:] for s in scores]
        accuracy = [cross_val_score(SVC(), x[train][:, t], y[train], cv=3).mean() for t in tops]
        rivals = {
            "ManiFeSt, scale by CV": tops[int(np.argmax(accuracy))],
            "ManiFeSt, default": np.argsort(by_labels(x[few], y[few]))[-10:],
            "ANOVA": np.argsort(f_classif(x[few], y[few])[0])[-10:],
            "mutual information": np.argsort(mutual_info_classif(x[few], y[few], random_state=0))[
                -10:
            ],
        }
        relieff = _relieff(x[few], y[few])
        if relieff is not None:
            rivals["ReliefF (skrebate)"] = np.argsort(relieff)[-10:]
        for name, top in rivals.items():
            found.setdefault(name, []).append(int(np.sum(top < 10)))
    for name, counts in found.items():
        print(f"hypercube: {name:24s} {np.mean(counts):5.2f} ± {np.std(counts):.2f} of 10 right")


def _relieff(x, y):
    try:
        from skrebate import ReliefF
    except ImportError:
        return None
    return ReliefF(n_neighbors=10).fit(x, y).feature_importances_


def main() -> None:
    print("float32 for XOR and D.2.3 (the default of JAX), as given for the hypercube")
    xor()
    toy()
    jax.config.update("jax_enable_x64", True)
    hypercube()


if __name__ == "__main__":
    main()
