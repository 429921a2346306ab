"""ManiFeSt, appendix C (Figs. 8 and 9): many classes, the ten digits of MNIST.

    JAXFS_DATA=… python -m benchmarks.papers.manifest_mnist [SPLITS [SPLITS OF RELIEFF]]

The score sees 3000 images, about 300 of each digit. An RBF-SVM is tuned and fitted on the same 3000
images with the top 20 and 50 pixels, and tested on the other 57 000. The bandwidths (the
percentiles of appendix D.1) and the neighbours of mutual information are chosen by cross-validation
on the 3000 images. ReliefF is skrebate's with its default of 10 neighbours, on half the images,
because its time grows as their square; it has its own number of splits. The paper has ten splits.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import train_test_split

import jaxfs
from benchmarks import data, selection

NUM_FEATURES = (20, 50)
PERCENTILES = (5.0, 10.0, 30.0, 50.0, 70.0, 90.0, 95.0)
GRID = {"svc__C": [2, 16], "svc__gamma": [2.0**-7, 2.0**-5, 2.0**-3]}


@jax.jit
def per_class(x, y, percentile):
    rule = jaxfs.Percentile(percentile, jnp.float32(1))
    return jaxfs.manifest_multiclass_score(x, y, num_classes=10, bandwidth=rule, aggregate=None)


def manifest(x, y) -> dict[float, np.ndarray]:
    """Scores (10, 784) of every class, for every bandwidth."""
    x = x.astype(np.float32)
    return {q: np.asarray(per_class(x, y, jnp.float32(q))) for q in PERCENTILES}


def relieff(x, y) -> np.ndarray:
    """ReliefF scores from half the images; constant pixels are left out to save time."""
    x, _, y, _ = train_test_split(x, y, train_size=0.5, stratify=y, random_state=0)
    varying = x.std(axis=0) > 0
    scores = np.full(x.shape[1], -np.inf)
    scores[varying] = selection.relieff(x[:, varying], y)
    return scores


def main() -> None:
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    slow_splits = int(sys.argv[2]) if len(sys.argv) > 2 else splits
    x, y = data.mnist()
    x = x / 255
    found: dict[tuple[str, int], list[float]] = {}
    for split in range(splits):
        xs, xt, ys, yt = train_test_split(x, y, train_size=3000, stratify=y, random_state=split)
        start = time.perf_counter()
        classes = manifest(xs, ys)
        print(f"split {split + 1}: ManiFeSt {time.perf_counter() - start:.0f} s", file=sys.stderr)
        mutual = [selection.mutual_information(xs, ys, neighbors=k) for k in (3, 10)]
        methods: dict[str, list[np.ndarray]] = {
            "ManiFeSt, max, scale by CV": [scores.max(axis=0) for scores in classes.values()],
            "ManiFeSt, sum, scale by CV": [scores.sum(axis=0) for scores in classes.values()],
            "ManiFeSt, max, default": [classes[50.0].max(axis=0)],
            "ManiFeSt, sum, default": [classes[50.0].sum(axis=0)],
            "ANOVA": [selection.anova(xs, ys)],
            "mutual information": mutual,
            "random": [np.random.default_rng(split).random(xs.shape[1])],
        }
        if split < slow_splits:
            methods["ReliefF (skrebate)"] = [relieff(xs, ys)]
        for name, scores in methods.items():
            for k in NUM_FEATURES:
                known = [lambda x, y, r=r: r for r in scores]
                chosen = selection.tuned(known, xs, ys, np.arange(len(ys)), k)
                model = selection.tuned_svm(GRID).fit(xs[:, chosen], ys)
                found.setdefault((name, k), []).append(model.score(xt[:, chosen], yt))
            print(f"split {split + 1}: {name} done", file=sys.stderr)
    print(f"MNIST, ten digits, 3000 images: test accuracy (%) of an RBF-SVM, {splits} splits")
    print(f"{'':30s}" + "".join(f"{k:>12d} pixels" for k in NUM_FEATURES))
    for name in dict.fromkeys(name for name, _ in found):
        cells = [np.array(found[name, k]) * 100 for k in NUM_FEATURES]
        note = "" if len(cells[0]) == splits else f"  ({len(cells[0])} of the splits)"
        shown = "".join(f"{c.mean():12.1f} ± {c.std():4.1f}" for c in cells)
        print(f"{name:30s}{shown}{note}")


if __name__ == "__main__":
    main()
