"""Arguments of the fuzz test for every public function, by the name of the parameter.

`GOOD` has values that every function must accept; the test itself replaces some of them by wrong
values. A parameter with a different meaning in one function has a line in `SPECIAL`. Names that
need more than a plain call (estimators, readers, modules) have a line in `CALLS`. A case `c` has
`n` samples, `d` features, the floating dtype `dtype`, a generator `rng`, and a folder `tmp`.
"""

import inspect
import io

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from jaxfs import estimators

# ---- Arrays -------------------------------------------------------------------------------------


def samples(c):
    return c.rng.normal(size=(c.n, c.d)).astype(c.dtype)


def codes(c):
    return np.arange(c.n) % 2


def vector(c, size=None):
    return c.rng.uniform(size=c.n if size is None else size).astype(c.dtype)


def features(c):
    return vector(c, c.d)


def square(c, size=None):
    """A symmetric positive definite matrix with entries in [0, 1]: a kernel, graph or operator."""
    a = c.rng.uniform(size=(size or c.d,)).astype(c.dtype)
    return np.exp(-np.abs(a[:, None] - a[None])).astype(c.dtype)


def distances(c):
    return (1 - square(c, c.n)).astype(c.dtype)


def basis(c):
    a = c.rng.normal(size=(c.d, min(2, c.d)))
    return np.linalg.qr(a)[0].astype(c.dtype)


def point(c):
    return jaxfs.geometry.spsd.SPSD(jnp.asarray(basis(c)), jnp.asarray(square(c, min(2, c.d))))


def neighbours(c):
    return (np.arange(c.n)[:, None] + 1) % c.n


def counts(c):
    return np.abs(samples(c))


def blocks(c, good=samples):
    x, y = c.value("x", good), c.value("y", codes)
    return jaxfs.streaming.from_blocks(lambda: [(x, y)])


def one_of(*values):
    return lambda c: values[c.rng.integers(len(values))]


def mesh(c):
    return jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


def second_moment(x, y, w):
    return jnp.sum(x * x * w[:, None], axis=0)


# ---- Parameters by name -------------------------------------------------------------------------

GOOD = {
    "x": samples,
    "x1": samples,
    "x2": samples,
    "z": samples,
    "y": codes,
    "labels": codes,
    "clusters": codes,
    "weights": vector,
    "weights1": vector,
    "weights2": vector,
    "mask": lambda c: np.arange(c.n) != 1,
    "masks": lambda c: c.rng.uniform(size=(4, c.n)) < 0.8,
    "features": lambda c: np.arange(c.d) != 1,
    "key": lambda c: jax.random.key(0),
    "mats": lambda c: np.stack([square(c), square(c)]),
    "bases": lambda c: np.stack([basis(c), basis(c)]),
    "points": lambda c: jax.tree.map(lambda *a: jnp.stack(a), point(c), point(c)),
    "squared_distances": distances,
    "distances": distances,
    "clusterings": lambda c: np.stack([codes(c), np.zeros(c.n, int)]),
    "selected": lambda c: np.eye(3, c.d, dtype=int),
    "indices": lambda c: np.arange(min(2, c.d)),
    "initial": lambda c: np.arange(1),
    "thresholds": lambda c: np.array([0.0, 0.5], c.dtype),
    "kernels": lambda c: np.stack([square(c), square(c), square(c)]),
    "k1": square,
    "k2": square,
    "c": one_of(1.0, 0.1),
    "v": features,
    "t": one_of(0.5, 0.25, 0.0, 1.0),
    "score": lambda c: second_moment,
    "mesh": mesh,
    "axis": one_of("data"),
    "source": blocks,
    "bandwidth": one_of(1.0, jaxfs.Median(0.5), jaxfs.Percentile(20.0)),
    "rule": one_of(1.0, jaxfs.Median(0.5), jaxfs.Percentile(20.0)),
    "num_classes": one_of(2),
    "num_clusters": one_of(2),
    "num_features": one_of(2, 1),
    "num_neighbors": one_of(2, 1),
    "num_passes": one_of(1, 2),
    "num_bins": one_of(3, 2),
    "num_rounds": one_of(3),
    "num_thresholds": one_of(2),
    "num_nonzero": one_of(2),
    "num_pseudo_labels": one_of(2, 1),
    "num_eigenvectors": one_of(3),
    "num_resamples": one_of(4),
    "num_folds": one_of(2, 3),
    "num_repeats": one_of(1),
    "combine": one_of("relieff", "anova"),
    "scores": features,
    "num_steps": one_of(5),
    "num_restarts": one_of(2),
    "num_candidates": one_of(6),
    "num_anchors": one_of(8),
    "num_shapes": one_of(1, 2),
    "num_trees": one_of(2),
    "max_depth": one_of(2),
    "max_iterations": one_of(5),
    "refresh_every": one_of(2),
    "batch_size": one_of(4),
    "block_size": one_of(4),
    "chunk_size": one_of(2),
    "num_permutations": one_of(9),
    "n_permutations": one_of(9, None),
    "level": one_of(0.1, 0.5),
    "random_state": one_of(0),
    "num_copies": one_of(1, 2),
    "num_pairs": one_of(3),
    "groups": lambda c: np.arange(c.n) % 4,
    "strata": lambda c: np.arange(c.n) // 4,
    "sequential": one_of(False, True),
    "correction": one_of("bh", "by"),
    "fdr": one_of(0.5, 0.9),
    "pfer": one_of(1.0),
    "covariance": square,
    "assumption": one_of("none", "unimodal"),
    "p_values": features,
    "k": one_of(1, 2),
    "rank": one_of(2),
    "block": one_of(None, 2),
    "landmarks": one_of(4),
    "refine": one_of(1),
    "rows": one_of(5),
    "memory": one_of(2**20),
    "sample": one_of(3),
    "unique": one_of(True, False),
    "standardize": one_of(True, False),
    "replicate": one_of(True, False),
    "confidence": one_of(0.95, 0.5),
    "fraction": one_of(0.5, 0.9),
    "factor": one_of(1.0, 0.5),
    "q": one_of(50.0, 5.0),
    "sigma": one_of(1.0, 20.0),
    "gamma": one_of(0.1, 0),
    "scale": one_of(1.0),
    "ridge": one_of(0.01, 1.0),
    "shrinkage": one_of(0.0, 0.5),
    "alpha": one_of(1.0),
    "l2": one_of(1.0),
    "learning_rate": one_of(0.1),
    "min_child_weight": one_of(1.0),
    "offset": one_of(60.0, 0.0),
    "threshold": one_of(0.0, 0.1),
    "power": one_of(1, 2),
    "temperature": one_of((1.0, 0.1)),
    "optimizer": one_of(None),
    "dtype": one_of("float32", None),
    "estimator": one_of("knn", "binned"),
    "binning": one_of("frequency", "width"),
    "criterion": one_of("error", "gini"),
    "objective": one_of("mi", "entropy"),
    "fallback": one_of("wilks", "stop", "random"),
    "geometry": one_of("spd", "spsd"),
    "aggregate": one_of("max", "sum"),
    "graph": one_of("heat", "adaptive"),
    "loss": one_of("logistic", "squared"),
    "method": one_of("sum"),
    "metric": one_of("affine", "logeuclidean"),
    "pseudo_labels": one_of("binary", "continuous"),
    "ranking": one_of("diverse"),
    "redundancy": one_of("pearson", "mi"),
    "relevance": one_of("f", "mi"),
    "scheme": one_of("quotient", "difference"),
    "scoring_model": one_of("correlation", "ridge"),
    "selection": one_of("predictability"),
    "scoring": one_of("correlation", "ridge"),
    "symmetrize": one_of("mean", "max", "none"),
    "kind": one_of("symmetric", "random_walk"),
}


def _stumps(c):
    x = np.linspace(0, 1, 60).reshape(12, 5)
    return jaxfs.adaboost.fit(x, np.arange(12) % 2, num_rounds=2)


def _trees(c):
    x = np.linspace(0, 1, 60).reshape(12, 5)
    return jaxfs.surrogates.boosting.fit(x, np.arange(12) % 2, num_trees=2, max_depth=2)


def _matrices(*names, good=square):
    return dict.fromkeys(names, good)


#: Parameters that have a different meaning in one function.
SPECIAL = {
    "jaxfs.adaboost.margin": {"model": _stumps},
    "jaxfs.adaboost.predict": {"model": _stumps},
    "jaxfs.chi2_score": {"x": counts},
    "jaxfs.inference.chi2_test": {"x": counts},
    "jaxfs.inference.false_selection_bounds": {"d": one_of(20), "threshold": one_of(0.6, 0.9)},
    "jaxfs.inference.q_values": {"method": one_of("bh", "by")},
    "jaxfs.knockoffs": {"method": one_of("mvr", "equicorrelated")},
    "jaxfs.knockoff_select": {"method": one_of("mvr", "equicorrelated")},
    "jaxfs.stability_selection": {"threshold": one_of(0.9)},
    "jaxfs.Stable": {"model": one_of("ridge", None)},
    "jaxfs.streaming.chi2_score": {"source": lambda c: blocks(c, counts)},
    "jaxfs.evaluate.variation_of_information": {"a": codes, "b": codes},
    "jaxfs.fit_dirichlet_selector": {"objective": one_of("coverage")},
    "jaxfs.graphs.dirichlet_energies": {"weights": lambda c: square(c, c.n), "indices": neighbours},
    "jaxfs.graphs.dirichlet_energy": {"weights": lambda c: square(c, c.n), "indices": neighbours},
    "jaxfs.graphs.knn_adjacency": {"indices": neighbours, "weights": lambda c: vector(c)[:, None]},
    "jaxfs.graphs.laplacian": {"weights": lambda c: square(c, c.n)},
    "jaxfs.geometry.spd.mean": {"weights": lambda c: vector(c, 2)},
    "jaxfs.geometry.grassmann.mean": {"weights": lambda c: vector(c, 2)},
    "jaxfs.geometry.spsd.mean": {"weights": lambda c: vector(c, 2)},
    "jaxfs.geometry.spsd.factor": {"a": square},
    "jaxfs.geometry.spsd.rank": {"point": point},
    "jaxfs.geometry.spsd.to_matrix": {"point": point},
    "jaxfs.geometry.spsd.inner": {
        "point": point,
        **_matrices("s1", "s2", good=lambda c: square(c, min(2, c.d))),
        **_matrices("delta1", "delta2", good=basis),
        "weight": one_of(1.0, 2.0),
    },
    "jaxfs.geometry.spsd.absm_diagonal": {
        "s": lambda c: jaxfs.geometry.spsd.difference(point(c), point(c))
    },
    "jaxfs.kernels.distances": {"weights": features},
    "jaxfs.kernels.squared_distances": {"weights": features},
    "jaxfs.linalg.eigh_bordered": {
        "eigenvalues": lambda c: np.arange(1, c.d + 1).astype(c.dtype),
        "eigenvectors": lambda c: np.eye(c.d, dtype=c.dtype),
    },
    "jaxfs.linalg.leading_eigenpairs": {
        "matvec": lambda c: lambda v: 2 * v,
        "d": one_of(5),
        "start": lambda c: np.eye(5, 2, dtype=c.dtype),
        "oversample": one_of(1),
        "tolerance": one_of(0.1),
        "dtype": one_of("float32"),
    },
    "jaxfs.linalg.polar": {"c": square},
    "jaxfs.linalg.spectral_function": {
        "f": lambda c: jnp.exp,
        "divided_difference": lambda c: lambda a, b: jnp.exp(a),
        "second_divided_difference": one_of(None),
    },
    "jaxfs.manifest_cost": {"d": one_of(100), "n": one_of(20)},
    "jaxfs.soft_knn": {"mask": lambda c: ~np.eye(c.n, dtype=bool)},
    "jaxfs.spec_score": {"ranking": one_of("phi1", "phi2", "phi3")},
    "jaxfs.surrogates.boosting.predict": {"model": _trees},
    "jaxfs.surrogates.linear.lars": {"method": one_of("lasso", "lar")},
    "jaxfs.transport.soft_weights": {
        "soft": lambda c: jaxfs.soft_knn(distances(c), 1, gamma=0.1) if c.n > 1 else None
    },
}
for _name in ("log", "distance", "geodesic", "difference", "exp", "inner"):
    SPECIAL[f"jaxfs.geometry.spd.{_name}"] = _matrices("a", "b", "s", "s1", "s2")
for _name in ("log", "geodesic", "difference"):
    SPECIAL[f"jaxfs.geometry.spsd.{_name}"] = _matrices("a", "b", good=point)
for _name in ("log", "distance", "geodesic", "exp", "principal_angles"):
    SPECIAL[f"jaxfs.geometry.grassmann.{_name}"] = _matrices("g", "g1", "g2", good=basis) | {
        "delta": lambda c: np.zeros_like(basis(c))
    }
for _name in ("sqrtm", "inv_sqrtm", "logm", "expm", "powm", "absm", "absm_diagonal", "eigh"):
    SPECIAL[f"jaxfs.linalg.{_name}"] = _matrices("a")
for _name in ("leading_eigenspace", "dominant_eigenpairs", "spectral_function"):
    SPECIAL.setdefault(f"jaxfs.linalg.{_name}", {})["a"] = square


# ---- Names with a call of their own -------------------------------------------------------------


def fitted(cls, **settings):
    """A function that fits and uses an estimator; `settings` replace settings that take long."""
    names = inspect.signature(cls).parameters
    parameters = {name: GOOD_SETTINGS[name] for name in names if name in GOOD_SETTINGS}

    def call(c):
        options = settings | c.options(parameters | {k: one_of(v) for k, v in settings.items()})
        x, y = c.value("x", samples), c.value("y", codes)
        found = cls(**options).fit(x, y)
        return found.scores_, found.transform(x)

    return call


GOOD_SETTINGS = {
    "n_features_to_select": one_of(2, 0.5, "auto"),
    "dtype": one_of(None, "float32"),
    "verbose": one_of(False),
    "n_neighbors": one_of(2),
    "n_bins": one_of(3),
    "ridge": one_of(0.1),
    "bandwidth": one_of(None, 1.0),
    "percentile": one_of(20.0),
    "threshold": one_of(0.1),
    "random_state": one_of(0, None),
    "sigma": one_of(5.0),
    "criterion": one_of("anova", "fisher", "variance"),
}


def stored(c):
    path = c.tmp / "x.npy"
    np.save(path, np.asarray(c.value("x", samples)), allow_pickle=False)
    y = c.value("y", codes)
    return jaxfs.streaming.variance_score(jaxfs.streaming.from_npy(path, y, **c.options(_ROWS)))


def parquet(c):
    import polars as pl

    path = c.tmp / "x.parquet"
    frame = pl.DataFrame(samples(c), schema=[f"f{j}" for j in range(c.d)])
    frame.with_columns(pl.Series("y", codes(c))).write_parquet(path)
    target = c.value("target", one_of("y", "f0"))
    source = jaxfs.streaming.from_parquet(path, target, **c.options(_ROWS))
    return jaxfs.streaming.variance_score(source)


_ROWS = {"rows": one_of(5)}


def read(c):
    x, y = c.value("x", samples), c.value("y", codes)
    return jaxfs.streaming.from_blocks(c.value("read", lambda c: lambda: [(x, y)]))


def bucketed(c):
    found = jaxfs.distributed.bucket(c.value("datasets", lambda c: [samples(c), samples(c)]))
    return jaxfs.distributed.unbucket(found, [b.arrays[0] for b in found])


def mapped(c):
    score = c.value("score", lambda c: jaxfs.variance_score)
    options = c.options({"batch_size": one_of(1), "replicate": one_of(True)})
    x = c.value("x", lambda c: np.stack([samples(c)] * 2))
    return jaxfs.distributed.map_datasets(score, mesh(c), **options)(x)


def module(c):
    """The results of the Equinox modules of the network for random samples."""
    logits = jnp.asarray(samples(c)[:2].T)
    selector = jaxfs.UniqueFeatureSelector(logits)
    learner = jaxfs.KNNGraphLearner(num_neighbors=1, gamma=0.1)
    x = c.value("x", samples)
    gates = jaxfs.FeatureGates(logits[:, 0], 1)(0.5)
    return selector.project(x, 0.5), gates, jaxfs.DirichletSelector(selector, learner)(x, 0.5)


def model(cls, *names):
    """A function that creates and checks the settings of a surrogate."""
    return lambda c: cls(**c.options({name: GOOD[name] for name in names})).check()


def drawn(name):
    """A function that draws a plot on a new figure and renders it."""

    def call(c):
        from matplotlib.figure import Figure

        import jaxfs.plot as plot

        figure = Figure()
        arguments = {key: c.value(key, good) for key, good in PICTURES[name].items()}
        getattr(plot, name)(**arguments, ax=figure)
        figure.savefig(io.BytesIO(), format="svg")

    return call


def _result(c):
    kinds = (c.d, c.d, c.d, (), (), 2)
    numbers = [np.full(shape, 1.5) for shape in kinds]
    return jaxfs.Stability(*numbers, np.zeros((3, 2), int))


PICTURES = {
    "score_bars": {"scores": features, "num_shown": one_of(2)},
    "rank_intervals": {"stability": _result, "num_shown": one_of(2)},
    "pixel_map": {"values": features, "shape": lambda c: (1, c.d)},
    "eigenvectors": {
        "operators": lambda c: jaxfs.ManifestOperators(*[square(c)] * 4),
        "num_vectors": one_of(1),
    },
    "knn_graph": {
        "graph": lambda c: jaxfs.KNNGraph(neighbours(c), np.ones((c.n, 1))),
        "x": lambda c: samples(c)[:, :2],
    },
    "accuracy_curve": {"counts": one_of([1, 2, 3]), "accuracies": one_of({"a": [0.1, 0.2, 0.3]})},
    "heat_map": {"values": samples},
    "by_class": {"values": lambda c: samples(c)[:, 0], "labels": codes},
}

_models = jaxfs.surrogates.models
CALLS = {
    "jaxfs.combine_scores": lambda c: jaxfs.combine_scores(
        c.value("a", features), c.value("b", features), **c.options({"offset": GOOD["offset"]})
    ),
    # Not called here, because it changes settings of the process; test_cache.py starts processes.
    "jaxfs.enable_compilation_cache": lambda c: None,
    # Not called here, because it needs PyTorch; test_interop.py calls it if PyTorch is installed.
    "jaxfs.interop.wrap": lambda c: None,
    "jaxfs.streaming.from_blocks": read,
    "jaxfs.streaming.Source": read,
    "jaxfs.streaming.from_npy": stored,
    "jaxfs.streaming.from_parquet": parquet,
    "jaxfs.distributed.bucket": bucketed,
    "jaxfs.distributed.unbucket": bucketed,
    "jaxfs.distributed.map_datasets": mapped,
    "jaxfs.surrogates.models.Logistic": model(_models.Logistic, "c"),
    "jaxfs.surrogates.models.Ridge": model(_models.Ridge, "alpha"),
    "jaxfs.surrogates.models.Correlation": model(_models.Correlation),
    "jaxfs.surrogates.models.BoostedTrees": model(
        _models.BoostedTrees, "num_trees", "max_depth", "learning_rate", "l2"
    ),
    "jaxfs.estimators.SSFS": fitted(estimators.SSFS, n_resamples=4),
    "jaxfs.estimators.DirichletGraphSelector": fitted(
        estimators.DirichletGraphSelector, n_steps=5, n_restarts=2, n_neighbors=2
    ),
    "jaxfs.estimators.AutoSelector": fitted(
        estimators.AutoSelector, estimators=[("anova", estimators.FilterSelector())], cv=2
    ),
    "jaxfs.estimators.BorutaSelector": fitted(
        estimators.BorutaSelector, estimator=estimators.FilterSelector(), n_features_to_select=2
    ),
    "jaxfs.estimators.RecursiveSelector": fitted(
        estimators.RecursiveSelector, estimator=estimators.FilterSelector()
    ),
    "jaxfs.estimators.MCFS": fitted(estimators.MCFS, n_clusters=2),
    "jaxfs.estimators.StabilitySelector": lambda c: (
        estimators.StabilitySelector(estimators.FilterSelector(), n_resamples=3, random_state=0)
        .fit(c.value("x", samples), c.value("y", codes))
        .scores_
    ),
}
for _name in ("DirichletSelector", "UniqueFeatureSelector", "KNNGraphLearner", "FeatureGates"):
    CALLS[f"jaxfs.{_name}"] = module
for _name in PICTURES:
    CALLS[f"jaxfs.plot.{_name}"] = drawn(_name)
for _name, _cls in vars(estimators).items():
    if hasattr(_cls, "fit") and f"jaxfs.estimators.{_name}" not in CALLS:
        CALLS[f"jaxfs.estimators.{_name}"] = fitted(_cls)
