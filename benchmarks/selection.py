"""Shared code of the comparisons: ManiFeSt by labels, other methods and settings, classifiers."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.feature_selection import f_classif, mutual_info_classif
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import jaxfs

#: The grid of appendix D.1 of the ManiFeSt paper: bandwidth percentiles.
PERCENTILES = (5.0, 10.0, 30.0, 50.0, 70.0, 90.0, 95.0)
#: The grid of `held_out_svm`: C, and γ times the number of features.
PENALTIES, GAMMAS = (1.0, 10.0), (0.25, 1.0, 4.0)
#: Its size, in words.
GRID = f"{len(PENALTIES)} × {len(GAMMAS)}"

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]


def by_labels(x, y, **options):
    """ManiFeSt score of two labelled classes, as weights, so that all splits have one shape."""
    w1, w2 = (y == 0).astype(x.dtype), (y == 1).astype(x.dtype)
    return jaxfs.manifest_score(x, x, weights1=w1, weights2=w2, **options)


def top(scores, k: int) -> np.ndarray:
    """The k features with the largest scores, best first."""
    scores = np.asarray(scores)
    if np.isnan(scores).any():
        raise ValueError("scores hold NaN")
    return np.argsort(-scores, kind="stable")[:k]


def svm(**options):
    """An RBF-SVM on standardised features."""
    return make_pipeline(StandardScaler(), SVC(**options))


class QDA:
    """Quadratic discriminant analysis of standardised features, with 0.1 added to every variance.

    scikit-learn's version refuses classes in which the features hardly vary.
    """

    def fit(self, x, y):
        self.scaler = StandardScaler().fit(x)
        z = self.scaler.transform(x)
        self.models = []
        for c in np.unique(y):
            own = z[y == c]
            cov = np.cov(own.T, ddof=0).reshape(z.shape[1], -1) + 0.1 * np.eye(z.shape[1])
            self.models.append((own.mean(axis=0), np.linalg.cholesky(cov), np.log(np.mean(y == c))))
        return self

    def score(self, x, y) -> float:
        z = self.scaler.transform(x)
        likelihoods = []
        for mean, root, prior in self.models:
            white = solve_triangular(root, (z - mean).T, lower=True)
            half = np.log(np.diag(root)).sum() + 0.5 * np.square(white).sum(axis=0)
            likelihoods.append(prior - half)
        return float(np.mean(np.argmax(likelihoods, axis=0) == y))


def anova(x, y) -> np.ndarray:
    with warnings.catch_warnings(action="ignore"):  # for constant features F is undefined
        return np.nan_to_num(f_classif(x, y)[0])


def mutual_information(x, y, *, neighbors: int = 3) -> np.ndarray:
    return mutual_info_classif(x, y, n_neighbors=neighbors, random_state=0)


def filters(x, y, *, num_classes: int = 2, neighbors=(10,), graphs=(2,)) -> dict[str, list]:
    """Scores of jaxfs's filters, one for every setting.

    `neighbors` are the numbers of neighbours of IG (mutual information) and ReliefF, `graphs` those
    of the graph of the Laplacian score.
    """
    labels = {"num_classes": num_classes}
    found = {
        "Gini index": [jaxfs.gini_score(x, y, **labels)],
        "ANOVA": [jaxfs.anova_score(x, y, **labels)],
        "Pearson": [jaxfs.pearson_score(x, y)],
        "T-test": [jaxfs.t_score(x, y)] if num_classes == 2 else [],
        "Fisher": [jaxfs.fisher_score(x, y, **labels)],
        "IG": [
            jaxfs.mutual_information_score(x, y, num_neighbors=k, **labels) for k in neighbors
        ],
        "Laplacian": [jaxfs.laplacian_score(x, num_neighbors=k) for k in graphs],
        "ReliefF": [jaxfs.relieff_score(x, y, num_neighbors=k, **labels) for k in neighbors],
    }  # fmt: skip
    return {name: scores for name, scores in found.items() if scores}


def held_out_svm(x, y, *, size: int = 800, seed: int = 0):
    """An RBF-SVM on standardised features, and its accuracy on held-out samples.

    C and γ are chosen on a quarter of `size` samples, after a fit on the other three quarters. Fit
    the model again on all samples before it is tested.
    """
    order = np.random.default_rng(seed).permutation(len(y))[:size]
    check, fit = order[: len(order) // 4], order[len(order) // 4 :]
    grid = [(c, gamma / x.shape[1]) for c in PENALTIES for gamma in GAMMAS]
    models = [svm(C=c, gamma=gamma).fit(x[fit], y[fit]) for c, gamma in grid]
    found = [model.score(x[check], y[check]) for model in models]
    best = int(np.argmax(found))
    return models[best], float(found[best])


def tuned(scores: Sequence[Score], x, y, few, k: int, *, model=None, folds: int = 3) -> np.ndarray:
    """The top k features of the setting whose features classify the training samples best.

    The scores see only the training samples `few`. The classifier is cross-validated on all of `x`
    and `y`, the training set. Test samples and the true features are never used. The features are
    not selected again in the folds, so that the compared accuracies are optimistic for all
    settings.
    """
    tops = [top(score(x[few], y[few]), k) for score in scores]
    if len(tops) == 1:
        return tops[0]
    model = svm() if model is None else model
    accuracies = [cross_val_score(model, x[:, t], y, cv=folds).mean() for t in tops]
    return tops[int(np.argmax(accuracies))]
