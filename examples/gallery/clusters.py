"""Find the features of clusters without labels, among permuted copies of the features.

The wine data have 13 measurements of three cultivars. A permuted copy of each measurement has the
same values and no structure. SSFS gets no labels; the plane of its two best features shows them
only to compare.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine

from jaxfs import plot
from jaxfs.estimators import SSFS

wine = load_wine()
rng = np.random.default_rng(0)
X = np.hstack([wine.data, rng.permuted(wine.data, axis=0)])
names = [*wine.feature_names, *(f"permuted {name}" for name in wine.feature_names)]
selector = SSFS(n_pseudo_labels=2, random_state=0).fit(X)  # three clusters: two eigenvectors
first, second = np.argsort(selector.ranking_)[:2]

figure = Figure(figsize=(8, 3.2), layout="constrained")
bars, plane = figure.subplots(1, 2)
plot.score_bars(selector.scores_, names, num_shown=16, selected=range(13), ax=bars)
for label, marker in enumerate("os^"):
    own = wine.target == label
    name = f"cultivar {label}"
    plane.scatter(X[own, first], X[own, second], s=14, marker=marker, alpha=0.7, label=name)
plane.set(xlabel=names[first], ylabel=names[second])
plane.legend(frameon=False)
figure.savefig("clusters.png", dpi=80)
