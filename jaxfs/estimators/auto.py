"""One answer from several methods: compare them by cross-validation, and say what to believe."""

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale as standard_scale

from jaxfs import _checks
from jaxfs.estimators import _progress, _validation
from jaxfs.estimators._arrays import PaddedData, kind_of_target, to_numpy
from jaxfs.estimators._base import Selector, default_number, estimator
from jaxfs.estimators._validation import AccuracyCurve, CrossValidation, standard_error
from jaxfs.estimators.ensemble import CombinedSelector
from jaxfs.estimators.filters import MCFS, FilterSelector, LaplacianScore, ReliefF, RReliefF
from jaxfs.estimators.greedy import MRMR, GaussianCompromise, MRMRRegression
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.ssfs import SSFS
from jaxfs.evaluate import selection_stability

__all__ = ["AutoSelector", "ComparedMethod"]

#: Maximum number of features for which ManiFeSt is exact: the folds fit it ten times, and ten exact
#: fits of 2000 features take more than a minute.
_MOST_EXACT = 1000
#: Number of random selections whose mean accuracy is the baseline of a fold.
_RANDOM_DRAWS = 5
#: Stability below which agreement between folds is called poor (Nogueira et al. 2018, section 5).
_UNSTABLE = 0.4


class ComparedMethod(NamedTuple):
    """The cross-validated result of a method or a baseline.

    `accuracy` is R² for a numeric target. Without a target, it is the R² with which the selected
    features predict all features. `stability` is Nogueira's measure of how well the selections of
    the folds agree, NaN for baselines. `seconds` is the total duration, including compilation.
    """

    name: str
    n_features: int
    accuracy: float
    standard_error: float
    stability: float = float("nan")
    seconds: float = float("nan")


@estimator
class AutoSelector(Selector):
    """The best of several methods on these data, by cross-validation, with a verdict.

    Every method selects features inside the folds. The winner is the method whose accuracy is the
    largest at its best number of features. The number of features is the smallest within one
    standard error of that accuracy.

    **Parameters** in addition to those of `Selector`:

    - `estimators`: a list of pairs `(name, estimator)` to compare. The default depends on the
      target. For classes: ANOVA, ReliefF, ManiFeSt (low-rank for more than 1000 features), the
      combination of the last two, GC and mRMR.
      For numbers: F statistic, RReliefF and mRMR. Without a target: variance, Laplacian score,
      MCFS and SSFS.
    - `target`: what `y` holds, `"classes"` or `"numbers"`. `"auto"` decides: a numeric target of n
      samples holds numbers if it has fractions, or more than max(20, n/10) distinct values, or more
      than n/2. Otherwise it holds classes.
    - `model`: the model of scikit-learn whose accuracy is compared. The default is logistic or
      ridge regression of standardised features. Without a target, ridge regression predicts all
      features from the selected ones.
    - `cv`: number of folds, stratified by class. `"auto"` is 5, or the number of samples of the
      smallest class (or the number of groups) if it is smaller.
    - `n_repeats`: number of cross-validations with different folds.
    - `random_state`: seed of the folds, an integer.

    `n_features_to_select` is a number, or `"auto"` for the rule above (⌈√d⌉, at most 50, without a
    target, because more features always predict the others better).

    **Attributes** in addition to those of `Selector`:

    - `best_`: name of the winner. `estimator_`: the winner, fitted to all samples.
    - `comparison_`: list of `ComparedMethod`, best first, followed by two baselines: "all
      features", and "random features", which are as many as the winner selects.
    - `measure_`: "accuracy" or "R²". `verdict_`: the result in a few sentences.
    - `cv_results_`: for each method, its accuracies by the number of features.
    - `rankings_`: for each method, the features that each fold ranks first `(folds, m)`, best
      first.

    The accuracy of the winner is slightly optimistic, because it is the best of several. Judge the
    whole selector in an outer cross-validation if its exact value matters.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> methods = [("anova", FilterSelector()), ("relieff", ReliefF())]
    >>> selector = AutoSelector(estimators=methods, n_repeats=1).fit(X, y)
    >>> selector.best_ in ("anova", "relieff") and selector.n_features_ < 13
    True
    """

    estimators: list[tuple[str, Any]] | None = None
    target: str = "auto"
    model: Any = None
    cv: int | str = "auto"
    n_repeats: int = 2
    random_state: int = 0

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:  # type: ignore[override]
        """Compare the methods on `X (n, d)` and `y (n,)`; fit the best one.

        Samples of equal `groups (n,)`, such as samples of one patient, stay in the same fold.
        """
        y, groups = to_numpy(y), to_numpy(groups)
        self._groups = None if groups is None else np.asarray(groups)
        _checks.option(self.target, "target", ("auto", "classes", "numbers"))
        self._kind = self.target if self.target != "auto" else kind_of_target(y)
        return super().fit(X, y)

    def _target_kind(self) -> str:
        return vars(self).get("_kind", "any")

    def _members(self, kind: str, d: int) -> list[tuple[str, Any]]:
        if self.estimators is not None:
            return self.estimators
        if kind == "numbers":
            return [
                ("f_regression", FilterSelector(criterion="f_regression")),
                ("rrelieff", RReliefF()),
                ("mrmr_regression", MRMRRegression()),
            ]
        if kind == "none":
            variance = FilterSelector(criterion="variance")
            return [
                ("variance", variance),
                ("laplacian", LaplacianScore()),
                ("mcfs", MCFS()),
                ("ssfs", SSFS()),
            ]
        solver = "lowrank" if d > _MOST_EXACT else "auto"
        manifest, relieff = ManiFeSt(solver=solver, random_state=self.random_state), ReliefF()
        both = [("manifest", manifest), ("relieff", relieff)]
        return [
            ("anova", FilterSelector()),
            ("relieff", relieff),
            ("manifest", manifest),
            ("combined", CombinedSelector(estimators=both)),
            ("gc", GaussianCompromise()),
            ("mrmr", MRMR()),
        ]

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        x, d, kind = data.values, data.num_features, self._target_kind()
        classes = kind == "classes"
        y = standard_scale(x) if kind == "none" else self._caller_labels(data)
        default = Ridge() if kind == "none" else _validation.default_model(classes)
        seed = _checks.integer(self.random_state, "random_state", low=0)
        folds = _validation.split(
            y, self.cv, classes=classes, groups=self._groups, repeats=self.n_repeats, seed=seed
        )
        trial = CrossValidation(x, y, folds, self.model or default)
        if wanted is None and kind == "none":
            wanted = default_number(d)
        counts = _validation.feature_counts(d) if wanted is None else np.array([wanted])
        members = dict(self._members(kind, d))
        with _progress.bar("methods", (len(members) + 2) * len(folds), show=self.verbose) as done:
            curves, rows = _compare(members, trial, counts, done)
            best = max(curves, key=lambda name: float(curves[name].mean().max()))
            place = curves[best].smallest_as_good()
            number = int(counts[place])
            rng = np.random.default_rng(seed)
            drawn = [rng.permutation(d)[:number] for _ in range(_RANDOM_DRAWS)]
            step = functools.partial(done, description="baselines")
            baselines = {
                "all features": trial.accuracies(lambda _: [np.arange(d)], step).mean(axis=1),
                "random features": trial.accuracies(lambda _: drawn, step).mean(axis=1),
            }
        rows.sort(key=lambda row: (row.name != best, -row.accuracy))
        for (name, by_fold), size in zip(baselines.items(), (d, number), strict=True):
            error = float(standard_error(by_fold))
            rows.append(ComparedMethod(name, size, float(by_fold.mean()), error))
        winner = clone(members[best]).set_params(n_features_to_select=number)
        winner.fit(x, None if kind == "none" else y)
        measure = "accuracy" if classes else "R²"
        common = np.unique(y, return_counts=True)[1].max() / len(y) if classes else None
        by_fold = curves[best].accuracies[:, place]
        return {
            "scores_": winner.scores_,
            "order": np.argsort(winner.ranking_, stable=True),
            "number": winner.n_features_,
            "reason": None if wanted else curves[best].reason(measure),
            "best_": best,
            "estimator_": winner,
            "comparison_": rows,
            "measure_": measure,
            "verdict_": _verdict(rows, by_fold, baselines, kind, common),
            "cv_results_": {name: curve.results() for name, curve in curves.items()},
            "rankings_": {name: curve.rankings for name, curve in curves.items()},
        }


def _compare(
    members: dict[str, Any], trial: CrossValidation, counts: np.ndarray, done: Callable[..., None]
) -> tuple[dict[str, AccuracyCurve], list[ComparedMethod]]:
    """Return the accuracies of every method in every fold, and its result at its best number."""
    curves, rows = {}, []
    fitted: list[dict[str, Any]] = [{} for _ in trial.folds]
    with warnings.catch_warnings():
        # The fit of the winner to all samples repeats the warnings that concern the result.
        warnings.simplefilter("ignore", UserWarning)
        for name, inner in members.items():
            start = time.perf_counter()
            selector = clone(inner).set_params(n_features_to_select=int(counts[-1]), verbose=False)
            rank = _validation.ranked_by(selector, fitted)
            curve = trial.curve(rank, counts, functools.partial(done, description=name))
            seconds, place = time.perf_counter() - start, curve.smallest_as_good()
            number = int(curve.counts[place])
            chosen = np.zeros((len(curve.rankings), trial.x.shape[1]), bool)
            np.put_along_axis(chosen, curve.rankings[:, :number], True, axis=1)
            stability = float(selection_stability(chosen).stability)
            mean, error = float(curve.mean()[place]), float(curve.standard_error()[place])
            rows.append(ComparedMethod(name, number, mean, error, stability, seconds))
            curves[name] = curve
    return curves, rows


def _verdict(
    rows: list[ComparedMethod],
    by_fold: np.ndarray,
    baselines: dict[str, np.ndarray],
    kind: str,
    common: float | None,
) -> str:
    """Return the result in sentences: the accuracy, and how far to trust the selection."""
    best, everything, random = rows[0], rows[-2], rows[-1]
    clearly = {}
    for name, other in baselines.items():
        difference = by_fold - other
        clearly[name] = difference.mean() / max(float(standard_error(difference)), 1e-12)
    which = f"{best.name} with {best.n_features} of {everything.n_features} features"
    value, chance = f"{best.accuracy:.3f} ± {best.standard_error:.3f}", f"{random.accuracy:.3f}"
    if kind == "none":
        first = f"{which} predicts all features with R² {value}"
        sentences = [f"{first}; {best.n_features} random features have {chance}."]
    else:
        first = f"{which} has {'accuracy' if kind == 'classes' else 'R²'} {value}"
        every = f"all features have {everything.accuracy:.3f}"
        sentences = [f"{first}; {every}, {best.n_features} random features {chance}."]
    if common is not None and best.accuracy <= common + best.standard_error:
        sentences.append(
            f"Always predicting the largest class gives {common:.3f}: the features say nothing"
            " reliable about the target."
        )
    elif common is None and best.accuracy <= best.standard_error:
        what = "the other features" if kind == "none" else "the target"
        sentences.append(f"That is no better than the mean: the list says nothing about {what}.")
    elif clearly["random features"] < 2:
        sentences.append(
            "Random features are as good, within two standard errors: do not read meaning into"
            " this list."
        )
    elif kind == "none":
        sentences.append("The selection represents all features better than random features do.")
    elif clearly["all features"] < -2:
        sentences.append("All features predict better: use the list to interpret, not to predict.")
    elif clearly["all features"] > 2:
        sentences.append("The selection predicts better than all features.")
    else:
        sentences.append("The selection predicts as well as all features.")
    if best.stability < _UNSTABLE:
        sentences.append(
            f"The folds select different features (stability {best.stability:.2f} of 1): other"
            " lists would predict as well."
        )
    return " ".join(sentences)
