"""A user's script: type checkers must infer these types for the results of jaxfs.

`tests/test_typing.py` checks it with mypy. It is never run.
"""

from typing import assert_type

import jax
import numpy as np

import jaxfs
from jaxfs import distributed, evaluate, graphs, kernels, linalg, streaming, surrogates, transport
from jaxfs.estimators import ManiFeSt
from jaxfs.geometry import grassmann, spd, spsd

key = jax.random.key(0)
x = np.ones((20, 5))
y = np.arange(20) % 2
a = np.eye(5)

# Scores
assert_type(jaxfs.manifest_score(x[:10], x[10:]), jax.Array)
assert_type(jaxfs.manifest_multiclass_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.manifest_lowrank_score(key, x[:10], x[10:], rank=2), jax.Array)
assert_type(jaxfs.manifest_from_kernels(a, a), jax.Array)
assert_type(jaxfs.manifest_operators(x[:10], x[10:]), jaxfs.ManifestOperators)
assert_type(jaxfs.manifest_operators(x[:10], x[10:]).difference, jax.Array)
assert_type(jaxfs.manifest_multiclass_from_kernels(a[None]), jax.Array)
assert_type(jaxfs.manifest_multiclass_operators(x, y, num_classes=2).mean, jax.Array)
assert_type(jaxfs.manifest_cost(100, 20).memory_bytes, int)
assert_type(jaxfs.relieff_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.rrelieff_score(x, x[:, 0]), jax.Array)
assert_type(jaxfs.anova_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.fisher_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.t_score(x, y), jax.Array)
assert_type(jaxfs.chi2_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.gini_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.pearson_score(x, x[:, 0]), jax.Array)
assert_type(jaxfs.f_regression_score(x, x[:, 0]), jax.Array)
assert_type(jaxfs.mutual_information_score(x, y, num_classes=2), jax.Array)
assert_type(jaxfs.mutual_information_regression_score(x, x[:, 0]), jax.Array)
assert_type(jaxfs.variance_score(x), jax.Array)
assert_type(jaxfs.laplacian_score(x), jax.Array)
assert_type(jaxfs.spec_score(x), jax.Array)
assert_type(jaxfs.mcfs_score(x, num_clusters=2), jax.Array)
assert_type(jaxfs.combine_scores(x[0], x[1]), jax.Array)

# Selectors
assert_type(jaxfs.gc_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.gc_select(x, y, 2, num_classes=2).indices, jax.Array)
assert_type(jaxfs.gkl_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.cca_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.gc_objective(x, y, np.arange(2), num_classes=2), jax.Array)
assert_type(jaxfs.gkl_objective(x, y, np.arange(2), num_classes=2), jax.Array)
assert_type(jaxfs.mrmr_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.cfs_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.fcbf_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.jmi_select(x, y, 2, num_classes=2), jaxfs.Selection)
assert_type(jaxfs.cmim_select(x, y, 2, num_classes=2), jaxfs.Selection)

# Without labels
assert_type(jaxfs.ssfs(key, x, num_pseudo_labels=2), jaxfs.SSFSResult)
assert_type(jaxfs.ssfs(key, x, num_pseudo_labels=2, selection=jaxfs.Stable()).scores, jax.Array)
assert_type(jaxfs.fit_dirichlet_selector(key, x, 2), jaxfs.DirichletResult)
found = jaxfs.fit_dirichlet_selector(key, x, 2, objective=jaxfs.Energy(refresh_every=10))
assert_type(found.indices, jax.Array)
assert_type(found.graph.weights, jax.Array)
assert_type(jaxfs.soft_knn(x, 2, gamma=0.1), jaxfs.SoftKNN)
assert_type(jaxfs.soft_knn(x, 2, gamma=0.1).nearest, jax.Array)


# Evaluation
def score(x: jax.Array, y: jax.Array, weights: jax.Array) -> jax.Array:
    return jaxfs.anova_score(x, y, num_classes=2, weights=weights)


stable = jaxfs.stability(key, score, x, y, num_resamples=5, fraction=0.8, num_features=2)
assert_type(stable, jaxfs.Stability)
assert_type(stable.frequencies, jax.Array)
assert_type(evaluate.clustering_accuracy(y, y, num_classes=2), jax.Array)
assert_type(evaluate.selection_stability(x > 0).stability, jax.Array)
assert_type(jaxfs.adaboost.fit(x, y, num_classes=2), jaxfs.adaboost.Stumps)
assert_type(jaxfs.adaboost.predict(jaxfs.adaboost.fit(x, y, num_classes=2), x), jax.Array)

# Foundations
assert_type(linalg.sqrtm(a), jax.Array)
assert_type(linalg.logm(a), jax.Array)
assert_type(linalg.absm_diagonal(a), jax.Array)
assert_type(kernels.feature_kernel(x, bandwidth=1.0), jax.Array)
assert_type(kernels.distances(x), jax.Array)
assert_type(graphs.laplacian(a), jax.Array)
assert_type(graphs.nearest_neighbors(x, 2).indices, jax.Array)
assert_type(spd.geodesic(a, a, 0.5), jax.Array)
assert_type(spd.mean(np.stack([a, a])).mean, jax.Array)
assert_type(grassmann.distance(x, x), jax.Array)
assert_type(spsd.factor(a, 2), spsd.SPSD)
assert_type(surrogates.logistic.fit(x, y).coefficients, jax.Array)
assert_type(surrogates.boosting.predict(surrogates.boosting.fit(x, y), x), jax.Array)
assert_type(transport.soft_knn(x, 2, gamma=0.1), jaxfs.SoftKNN)

# Large data
source = streaming.from_blocks(lambda: iter([(x, y)]))
assert_type(streaming.gc_select(source, 2, num_classes=2), jaxfs.Selection)
assert_type(streaming.variance_score(source), jax.Array)


def spread(mesh: jax.sharding.Mesh) -> None:
    scores = distributed.map_datasets(jaxfs.manifest_score, mesh)
    assert_type(scores(x[None], x[None]), jax.Array)


# Estimators
assert_type(ManiFeSt(n_features_to_select=2).fit(x, y), ManiFeSt)
assert_type(ManiFeSt().cost(100, 5).bytes, float)

# Transformations keep the type.
assert_type(jax.vmap(jaxfs.manifest_score)(x[None, :10], x[None, 10:]), jax.Array)
