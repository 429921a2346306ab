"""Compare the correlations between the features of three methods, on the breast cancer data."""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from jaxfs import plot
from jaxfs.estimators import MRMR, FilterSelector, GaussianCompromise

X, y = load_breast_cancer(return_X_y=True)
methods = {"ANOVA": FilterSelector(), "mRMR": MRMR(), "GC": GaussianCompromise()}

figure = Figure(figsize=(8, 2.6), layout="constrained")
for ax, (name, method) in zip(figure.subplots(1, 3), methods.items(), strict=True):
    chosen = method.set_params(n_features_to_select=8).fit(X, y).transform(X)
    plot.heat_map(np.abs(np.corrcoef(chosen.T)), label="|correlation|", ax=ax)
    ax.images[0].set_clim(0, 1)
    ax.set(title=name, xticks=[], yticks=[])
figure.savefig("redundancy.png", dpi=80)
