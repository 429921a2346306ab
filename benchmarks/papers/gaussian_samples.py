"""GC and GKL, section 5.5: accuracy by the number of samples, on MNIST instead of the paper's sets.

    JAXFS_DATA=… python -m benchmarks.papers.gaussian_samples [REPEATS]

Features are selected from 50 … 5000 images of each digit, and from all images. A linear SVM is
fitted with the first 10, 25, 50 and 100 features on 10 000 images, always the same, and tested on
MNIST's test images. The script writes `gaussian_samples.png`.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import jaxfs
from benchmarks import data

NUM_FEATURES = (10, 25, 50, 100)
PER_CLASS = (50, 100, 200, 500, 1000, 2000, 5000, None)
METHODS = {"GC.MI": jaxfs.gc_select, "GKL.E": jaxfs.gkl_select}


def subset(y: np.ndarray, per_class: int | None, generator) -> np.ndarray:
    if per_class is None:
        return np.arange(len(y))
    picks = [generator.permutation(np.flatnonzero(y == c))[:per_class] for c in range(10)]
    return np.concatenate(picks)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    x, y = data.mnist()
    xt, yt = data.mnist("t10k")
    x, xt = (x / 255).astype(np.float32), (xt / 255).astype(np.float32)
    train = np.random.default_rng(0).permutation(len(y))[:10_000]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, (name, select) in zip(axes, METHODS.items(), strict=True):
        print(f"{name}: test accuracy (%) of a linear SVM by images of each digit seen")
        print(f"{'features':>10s}" + "".join(f"{k:>12d}" for k in NUM_FEATURES))
        table = []
        for per_class in PER_CLASS:
            found = []
            for repeat in range(1 if per_class is None else repeats):
                seen = subset(y, per_class, np.random.default_rng(repeat))
                order = np.asarray(select(x[seen], y[seen], 100, num_classes=10).indices)
                row = []
                for k in NUM_FEATURES:
                    model = make_pipeline(StandardScaler(), LinearSVC(dual=False, C=0.01, tol=1e-2))
                    model.fit(x[train][:, order[:k]], y[train])
                    row.append(100 * model.score(xt[:, order[:k]], yt))
                found.append(row)
            table.append(np.mean(found, axis=0))
            label = "all" if per_class is None else str(per_class)
            print(f"{label:>10s}" + "".join(f"{a:12.1f}" for a in table[-1]), flush=True)
        for k, line in zip(NUM_FEATURES, np.array(table).T, strict=True):
            axis.plot(PER_CLASS[:-1], line[:-1], "o-", label=f"{k} features")
            axis.axhline(line[-1], lw=0.8, ls=":", color=axis.lines[-1].get_color())
        axis.set_xscale("log")
        axis.set_title(name)
        axis.set_xlabel("images of each digit seen by the selection")
    axes[0].set_ylabel("test accuracy (%)")
    axes[1].legend(title="dotted: all images", loc="center", ncols=2)
    figure.tight_layout()
    figure.savefig("gaussian_samples.png", dpi=120)
    print("gaussian_samples.png")


if __name__ == "__main__":
    main()
