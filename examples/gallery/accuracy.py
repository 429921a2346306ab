"""Compare the accuracy of three methods for several numbers of pixels, on the ten digits."""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from jaxfs import plot
from jaxfs.estimators import MRMR, FilterSelector, GaussianCompromise

X, y = load_digits(return_X_y=True)
methods = {"ANOVA": FilterSelector(), "mRMR": MRMR(), "GC": GaussianCompromise()}
counts = [2, 5, 10, 15, 20]
folds = StratifiedKFold(5, shuffle=True, random_state=0)


def accuracies(*selection) -> np.ndarray:
    """Accuracy of each fold; the selection is repeated inside the folds."""
    return cross_val_score(make_pipeline(*selection, KNeighborsClassifier()), X, y, cv=folds)


curves = {
    name: np.transpose([accuracies(method.set_params(n_features_to_select=k)) for k in counts])
    for name, method in methods.items()
}
figure = Figure(layout="constrained")
plot.accuracy_curve(counts, curves, baseline=accuracies().mean(), ax=figure)
figure.savefig("accuracy.png", dpi=90)
