"""Find two features that are informative only together, among 18 features of noise."""

import numpy as np
from matplotlib.figure import Figure

from jaxfs import plot
from jaxfs.estimators import FilterSelector, ManiFeSt, ReliefF

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(100, 20))
y = (X[:, 3] * X[:, 7] > 0).astype(int)
methods = {"ANOVA": FilterSelector(), "ReliefF": ReliefF(), "ManiFeSt": ManiFeSt(combine=None)}

figure = Figure(figsize=(9, 2.6), layout="constrained")
axes = figure.subplots(1, 4)
for label, colour, marker in ((0, "C0", "o"), (1, "C1", "s")):
    axes[0].scatter(*X[y == label][:, [3, 7]].T, s=12, c=colour, marker=marker)
axes[0].set(xlabel="feature 3", ylabel="feature 7", title="exclusive or")
for ax, (name, method) in zip(axes[1:], methods.items(), strict=True):
    plot.score_bars(method.fit(X, y).scores_, num_shown=8, selected=[3, 7], ax=ax)
    ax.set(title=name, xticks=[])
figure.savefig("xor.png", dpi=90)
