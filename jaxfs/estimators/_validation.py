"""Cross-validated accuracy of the k features that a selector ranks first, for several k.

Every fold selects from its training rows only. The selector is fitted once in each fold; its first
k features are the selection for k.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from jaxfs import _checks

#: Largest number of selected features that is tried.
_LARGEST = 128
#: Largest number of folds for "auto"; small classes and few groups reduce it.
_FOLDS = 5
#: Parameters that do not change the scores of a selector.
_NUMBER = ("n_features_to_select", "verbose")
#: The training rows and the test rows of a fold.
Fold = tuple[np.ndarray, np.ndarray]


class AccuracyCurve(NamedTuple):
    """Accuracy by the number of features, in each fold; R² if the target is numeric.

    `counts (m,)`: the numbers of features. `accuracies (folds, m)`. `rankings (folds, counts[-1])`:
    the features of each fold, best first.
    """

    counts: np.ndarray
    accuracies: np.ndarray
    rankings: np.ndarray

    def mean(self) -> np.ndarray:
        return self.accuracies.mean(axis=0)

    def standard_error(self) -> np.ndarray:
        return standard_error(self.accuracies)

    def smallest_as_good(self) -> int:
        """Return the position in `counts` of the fewest features that are nearly the best.

        Their mean accuracy is within one standard error of the best mean accuracy.

        >>> accuracies = np.array([[0.5, 0.79, 0.8], [0.6, 0.81, 0.9]])
        >>> AccuracyCurve(np.array([1, 2, 4]), accuracies, np.zeros((2, 4))).smallest_as_good()
        1
        """
        mean, best = self.mean(), int(np.argmax(self.mean()))
        return int(np.argmax(mean >= mean[best] - self.standard_error()[best]))

    def reason(self, measure: str) -> str:
        """Return a sentence: how the one-standard-error rule found the number of features."""
        place, best = self.smallest_as_good(), int(np.argmax(self.mean()))
        mean, error = self.mean(), self.standard_error()
        return (
            f"{self.counts[place]} is the smallest number of features with {measure} within one"
            f" standard error of the best: {mean[place]:.3f}, and {mean[best]:.3f} ±"
            f" {error[best]:.3f} with {self.counts[best]} features."
        )

    def results(self) -> dict[str, Any]:
        """Return the results in the form of `cv_results_` of scikit-learn."""
        splits = {f"split{i}_test_score": row for i, row in enumerate(self.accuracies)}
        moments = {"mean_test_score": self.mean(), "std_test_score": self.accuracies.std(axis=0)}
        return {"n_features": self.counts} | moments | splits


def standard_error(by_fold: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over folds, which are the first axis."""
    return by_fold.std(axis=0, ddof=1) / np.sqrt(len(by_fold))


class CrossValidation(NamedTuple):
    """Samples, a target, folds, and the model whose accuracy is measured."""

    x: np.ndarray
    y: np.ndarray
    folds: Sequence[Fold]
    model: Any

    def accuracies(
        self,
        select: Callable[[np.ndarray], Sequence[np.ndarray]],
        done: Callable[[int], None] = lambda steps: None,
    ) -> np.ndarray:
        """Return the accuracies `(folds, m)` of m selections; R² if the target is numeric.

        `select(train)` returns the m selections of features for the training rows of a fold.
        `done(1)` is called after each fold. One thread is used: with several, small models take ten
        times the processor time.
        """
        x, y, found = self.x, self.y, []
        for train, test in self.folds:
            selections = select(train)
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")  # models that do not converge affect all methods
                for chosen in selections:
                    fitted = self.model.fit(x[np.ix_(train, chosen)], y[train])
                    found.append(float(fitted.score(x[np.ix_(test, chosen)], y[test])))
            done(1)
        return np.reshape(found, (len(self.folds), -1))

    def curve(
        self,
        rank: Callable[[np.ndarray, Any], np.ndarray],
        counts: np.ndarray,
        done: Callable[[int], None] = lambda steps: None,
    ) -> AccuracyCurve:
        """Return the accuracies of the features that `rank(x, y)` ranks first in each fold.

        `rank` returns the indices of the features, best first. If it returns fewer than a count,
        all of them are used for this count.
        """
        rankings = []

        def first(train: np.ndarray) -> list[np.ndarray]:
            order = np.asarray(rank(self.x[train], self.y[train]))
            rankings.append(np.resize(order, counts[-1]))
            return [order[:count] for count in counts]

        accuracies = self.accuracies(first, done)
        return AccuracyCurve(counts, accuracies, np.array(rankings))


def ranked_by(
    selector: Any, fitted: Sequence[dict[str, Any]] = ()
) -> Callable[[np.ndarray, Any], np.ndarray]:
    """Return a function that fits a copy of a selector and returns its features, best first.

    `fitted` holds one dictionary for each fold, in the order of the calls. The function stores its
    fits there. A combination of selectors reuses the stored fits of its members.
    """
    places = iter(fitted)

    def rank(x: np.ndarray, y: Any) -> np.ndarray:
        own, known = clone(selector), next(places, {})
        own._known = known
        known[fit_key(own)] = own.fit(x, y)
        return np.argsort(own.ranking_, stable=True)[: own.n_features_]

    return rank


def fit_key(selector: Any) -> str:
    """Return a text that is equal for selectors that give the same scores on the same data."""
    options = {name: value for name, value in selector.get_params().items() if name not in _NUMBER}
    return f"{type(selector).__name__}({options})"


def default_model(classes: bool) -> Any:
    """Return a linear model of standardised features, for classes or numbers."""
    return make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000) if classes else Ridge()
    )


def split(
    y: np.ndarray,
    num_folds: int | str = "auto",
    *,
    classes: bool,
    groups: Any = None,
    repeats: int = 1,
    seed: int = 0,
) -> list[Fold]:
    """Return the folds of repeated cross-validation: stratified by class, groups kept together.

    "auto" is 5 folds, or fewer (at least 2) if the smallest class has fewer than 5 samples or there
    are fewer than 5 groups.
    """
    kinds = {(True, False): StratifiedKFold, (False, False): KFold}
    kinds |= {(True, True): StratifiedGroupKFold, (False, True): GroupKFold}
    kind = kinds[classes, groups is not None]
    least = int(np.unique(y, return_counts=True)[1].min()) if classes else y.shape[0]
    if num_folds == "auto":
        most = _FOLDS if groups is None else np.unique(groups).size
        num_folds = max(2, min(_FOLDS, least, most))
    number = _checks.integer(num_folds, "cv", low=2)
    if least < number:
        of = " of the smallest class" if classes else ""
        raise _checks.fail("cv", f"at most the number of samples{of}, {least}", number)
    splits = [kind(number, shuffle=True, random_state=seed + i) for i in range(repeats)]
    return [fold for part in splits for fold in part.split(np.empty((y.shape[0], 1)), y, groups)]


def feature_counts(d: int) -> np.ndarray:
    """Return the numbers of features to try: each about √2 times the one before, at most 128.

    >>> feature_counts(10).tolist()
    [1, 2, 3, 4, 6, 8, 10]
    """
    top = min(d, _LARGEST)
    steps = 2 ** np.arange(0, np.log2(top), 0.5)
    return np.unique(np.append(np.round(steps), top)).astype(np.int64)
