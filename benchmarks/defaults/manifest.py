"""Choice of the default bandwidth, ridge and geometry of ManiFeSt by nested cross-validation.

    JAXFS_DATA=… python -m benchmarks.defaults.manifest [--keep FOLDER] [DATA SET …]

`--keep` stores the results of every finished data set in the folder and does not compute them
again.

In every outer fold, each setting is evaluated on inner folds of the outer training part only:
compute the score, take the best 5, 10, 20 and 50 features, fit an RBF-SVM, and measure the accuracy
on the inner validation part. The setting with the best inner accuracy, averaged over data sets, is
then tested on the outer fold. The default is the setting chosen by all outer folds together. For
comparison, the script also tests the setting chosen for each data set and fold, ANOVA, random
features and all features. It runs in both dtypes.

A setting that gives NaN anywhere is excluded. So is the numerical rank of Algorithm 2, which is run
for two classes only: its mean of many subspaces of nearly full dimension takes minutes.

To finish within an hour on two cores, the data sets are reduced to at most 600 samples, stratified
by class, and to at most 300 features (128 for more than two classes): those of largest variance
over all samples, chosen without labels. COIL20 keeps every third pixel in both directions. Madelon
keeps its 500 features and is standardised over all samples, as in the paper.
"""

import argparse
import concurrent.futures
import functools
import multiprocessing
import os
import pickle
import time
from pathlib import Path

import numpy as np

NUM_FEATURES = (5, 10, 20, 50)
OUTER, INNER = 4, 3
MAX_SAMPLES, MAX_FEATURES, MAX_FEATURES_MANY = 600, 300, 128
DATA = ("Prostate-GE", "colon", "madelon", "GLIOMA", "COIL20", "MNIST 4/9")
DTYPES = ("float32", "float64")

# (q, factor): the bandwidth is factor times the q-th percentile of the distances.
BANDWIDTHS = ((50.0, 0.1), (50.0, 0.3), (5.0, 1.0), (50.0, 1.0), (95.0, 1.0), (50.0, 3.0))
GEOMETRIES = (
    ("spd", 1e-3, None),
    ("spd", 1e-2, None),
    ("spd", 1e-1, None),
    ("spsd", 0.0, None),
    ("spsd", 0.0, 20),
)
AT_NUMERICAL_RANK = ("spsd", 0.0, None)
SETTINGS = [(b, g) for b in BANDWIDTHS for g in GEOMETRIES]
DEFAULT = ((50.0, 1.0), ("spd", 1e-2, None))  # the default of `manifest_score`


def name_of(setting) -> str:
    (q, factor), (geometry, ridge, rank) = setting
    scale = f"Median({factor:g})" if q == 50 else f"Percentile({q:g})"
    return f"{scale:15s} " + (f"spd ridge {ridge:g}" if geometry == "spd" else f"spsd rank {rank}")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import scale

    from benchmarks import data

    if name == "MNIST 4/9":
        x, y = data.mnist()
        keep = np.isin(y, (4, 9))
        x, y = x[keep] / 255, (y[keep] == 9).astype(int)
    else:
        x, y = data.load(name)
    if len(y) > MAX_SAMPLES:
        x, _, y, _ = train_test_split(x, y, train_size=MAX_SAMPLES, stratify=y, random_state=0)
    if name == "madelon":
        x = scale(x)
    most = MAX_FEATURES if y.max() == 1 else MAX_FEATURES_MANY
    if name == "COIL20":  # every third pixel in both directions
        x = x.reshape(-1, 32, 32)[:, 1::3, 1::3].reshape(len(x), -1)
    elif name != "madelon" and x.shape[1] > most:
        x = x[:, np.sort(np.argsort(-x.var(0), kind="stable")[:most])]
    return x, y


def scorers(x: np.ndarray, y: np.ndarray):
    """A function of (setting, samples in use) for one data set; one compilation per geometry."""
    import jax
    import jax.numpy as jnp

    import jaxfs

    classes = int(y.max()) + 1
    codes = jnp.asarray(y)
    values = jnp.asarray(x)

    @functools.partial(jax.jit, static_argnames=("geometry", "rank"))
    def score(q, factor, ridge, use, *, geometry, rank):
        options = {
            "bandwidth": jaxfs.Percentile(q, factor),
            "ridge": ridge if geometry == "spd" else None,
            "geometry": geometry,
            "rank": rank,
        }
        if classes == 2:
            w = [use * (codes == c) for c in (0, 1)]
            return jaxfs.manifest_score(values, values, weights1=w[0], weights2=w[1], **options)
        return jaxfs.manifest_multiclass_score(
            values, codes, num_classes=classes, weights=use, **options
        )

    def call(setting, use):
        (q, factor), (geometry, ridge, rank) = setting
        numbers = (jnp.asarray(a, values.dtype) for a in (q, factor, ridge))
        mask = jnp.zeros(len(y), values.dtype).at[use].set(1)
        return np.asarray(score(*numbers, mask, geometry=geometry, rank=rank))

    return call


def accuracy(x, y, features, train, test) -> float:
    from benchmarks.selection import svm

    model = svm().fit(x[train][:, features], y[train])
    return float(model.score(x[test][:, features], y[test]))


def mean_accuracy(x, y, scores, train, test) -> float:
    """Mean accuracy over the numbers of features; NaN if a score is not finite."""
    from benchmarks.selection import top

    if not np.isfinite(scores).all():
        return float("nan")
    order = top(scores, max(NUM_FEATURES))
    return float(np.mean([accuracy(x, y, order[:k], train, test) for k in NUM_FEATURES]))


def one(name: str, dtype: str):
    """Inner and outer accuracies (fold, setting) of a data set, and of other methods."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax
    from sklearn.model_selection import StratifiedKFold

    from benchmarks.selection import anova

    jax.config.update("jax_enable_x64", dtype == "float64")
    start = time.perf_counter()
    x, y = load(name)
    call = scorers(x.astype(dtype), y)
    generator = np.random.default_rng(0)
    inner = np.full((OUTER, len(SETTINGS), INNER), np.nan)
    outer = np.full((OUTER, len(SETTINGS)), np.nan)
    rivals = np.zeros((OUTER, 3))
    splits = StratifiedKFold(OUTER, shuffle=True, random_state=0).split(x, y)
    for i, (train, test) in enumerate(splits):
        nested = list(
            StratifiedKFold(INNER, shuffle=True, random_state=i).split(x[train], y[train])
        )
        for s, setting in enumerate(SETTINGS):
            if y.max() > 1 and setting[1] == AT_NUMERICAL_RANK:
                continue
            for j, (fit, validate) in enumerate(nested):
                fit, validate = train[fit], train[validate]
                inner[i, s, j] = mean_accuracy(x, y, call(setting, fit), fit, validate)
            outer[i, s] = mean_accuracy(x, y, call(setting, train), train, test)
        random = [generator.random(x.shape[1]) for _ in range(5)]
        rivals[i] = (
            mean_accuracy(x, y, anova(x[train], y[train]), train, test),
            np.mean([mean_accuracy(x, y, r, train, test) for r in random]),
            accuracy(x, y, slice(None), train, test),
        )
    seconds = time.perf_counter() - start
    return name, dtype, x.shape, seconds, inner.mean(-1), outer, rivals


def report(results, names) -> None:
    found = {(r[0], r[1]): r for r in results}
    for dtype in DTYPES:
        inner = np.stack([found[n, dtype][4].mean(0) for n in names], 1)  # setting, data set
        means = inner.mean(1)
        print(f"\n{dtype}: inner accuracy (%), training folds only")
        print(f"{'':32s}" + "".join(f"{n:>13s}" for n in names) + f"{'mean':>9s}")
        for s in np.argsort(-means, kind="stable"):
            row = "".join(f"{100 * a:13.1f}" for a in inner[s])
            print(f"{name_of(SETTINGS[s]):32s}{row}{100 * means[s]:9.2f}")
        every = [found[n, dtype] for n in names]
        chosen = [
            int(np.nanargmax(np.mean([r[4][i] for r in every], axis=0))) for i in range(OUTER)
        ]
        nested = np.array([np.mean([r[5][i, c] for i, c in enumerate(chosen)]) for r in every])
        own = np.array(
            [np.mean([r[5][i, np.nanargmax(r[4][i])] for i in range(OUTER)]) for r in every]
        )
        best = int(np.nanargmax(means))
        print(f"{dtype}: by all folds {name_of(SETTINGS[best])}; by each outer fold:")
        for c in chosen:
            print(f"  {name_of(SETTINGS[c])}")
        rivals = np.stack([found[n, dtype][6].mean(0) for n in names], 1)
        print(f"{dtype}: accuracy on the outer test folds (%)")
        rows = {
            "the default": np.array([r[5][:, SETTINGS.index(DEFAULT)].mean() for r in every]),
            "chosen by the other folds": nested,
            "chosen for each data set": own,
            "ANOVA": rivals[0],
            "random features": rivals[1],
            "all features": rivals[2],
        }
        for label, row in rows.items():
            shown = "".join(f"{100 * a:13.1f}" for a in row)
            print(f"{label:32s}{shown}{100 * row.mean():9.2f}")


def kept(name: str, dtype: str, folder: Path | None):
    """The result of `one`, or the stored result of an earlier run."""
    if folder is None:
        return one(name, dtype)
    path = folder / f"manifest-{name.replace('/', '-')}-{dtype}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    result = one(name, dtype)
    path.write_bytes(pickle.dumps(result))
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=DATA)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    names = tuple(arguments.names)
    jobs = [(n, d, arguments.keep) for d in DTYPES for n in names]
    context = multiprocessing.get_context("spawn")
    results = []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for future in concurrent.futures.as_completed([pool.submit(kept, *job) for job in jobs]):
            results.append(future.result())
            name, dtype, shape, seconds, *_ = results[-1]
            print(f"{name} {dtype}: {shape[0]} × {shape[1]}, {seconds:.0f} s", flush=True)
    report(results, names)


if __name__ == "__main__":
    main()
