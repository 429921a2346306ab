"""Show how many of their five best features seven methods share, on the wine data."""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from jaxfs import plot
from jaxfs.estimators import (
    MRMR,
    SSFS,
    FilterSelector,
    GaussianCompromise,
    LaplacianScore,
    ManiFeSt,
    ReliefF,
)

X, y = load_wine(return_X_y=True)
X = scale(X)
methods = {
    "ANOVA": FilterSelector(),
    "ReliefF": ReliefF(),
    "ManiFeSt": ManiFeSt(),
    "GC": GaussianCompromise(),
    "mRMR": MRMR(),
    "SSFS": SSFS(),
    "Laplacian": LaplacianScore(),
}
fitted = [m.set_params(n_features_to_select=5).fit(X, y) for m in methods.values()]
chosen = np.array([method.get_support() for method in fitted], float)

figure = Figure(layout="constrained")
plot.heat_map(chosen @ chosen.T, list(methods), list(methods), ax=figure)
figure.savefig("overlap.png", dpi=90)
