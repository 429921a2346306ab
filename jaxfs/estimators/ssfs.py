"""SSFS as an estimator."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks
from jaxfs._types import variant
from jaxfs.estimators import _cost, _progress
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.graphs._eigenvectors import LARGE
from jaxfs.kernels._self_tuning import BLOCK
from jaxfs.methods import ssfs
from jaxfs.methods.ssfs import Leading, Predictable, Stable, _steps
from jaxfs.methods.ssfs._ssfs import SCORING, SELECTIONS, ssfs_plan
from jaxfs.surrogates.models import BoostedTrees, ScoringModel

#: Number of resamples fitted between two looks at the keyboard, by default.
_CHUNK = 64
#: Eigenvectors of very many samples take so many products with their graph, about.
_PRODUCTS = 60


@estimator
class SSFS(ScoringSelector):
    """Features that models use to predict the graph of the samples; needs no labels.

    Eigenvectors of the graph are taken as pseudo-labels, those are kept that can be predicted, and
    features are scored by what they tell about them.

    **Parameters** in addition to those of `Selector`:

    - `n_pseudo_labels`: how many eigenvectors to keep: one less than the clusters that you expect
      (see `jaxfs.ssfs`). Fewer where there are fewer samples.
    - `n_eigenvectors`, `standardize`, `n_neighbors`, `pseudo_labels`, `ranking`: as in
      `jaxfs.ssfs`. The paper's method is
      `selection="stability", scoring="boosting", ranking="score"`.
    - `selection`: `"predictability"`, `"leading"` or `"stability"`, or `jaxfs.Stable(…)` with its
      options, as in `jaxfs.ssfs`. `set_params(selection__num_resamples=50)` sets one of them.
    - `scoring`: the model that scores features: `"correlation"`, `"boosting"`, `"logistic"`,
      `"ridge"`, one of these with its settings, or `"xgboost"` (its package must be installed:
      `pip install "jaxfs[xgboost]"`).
    - `random_state`: an integer seed of the resamples.

    **Attributes** beside those of `Selector`: `result_`, the `jaxfs.SSFSResult` of NumPy arrays:
    eigenvectors, pseudo-labels and which of them were kept.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> X[:20, 2] += 8
    >>> SSFS(n_pseudo_labels=1, n_features_to_select=1).fit(X).get_support(indices=True).tolist()
    [2]
    """

    n_pseudo_labels: int = 2
    n_eigenvectors: int | None = None
    standardize: bool = True
    n_neighbors: int = 2
    pseudo_labels: str = "binary"
    selection: str | Stable | Predictable | Leading = "predictability"
    scoring: str | ScoringModel = "correlation"
    ranking: str = "diverse"
    random_state: Any = None

    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 4
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {"selection": SELECTIONS}

    def _score(self, problem: Problem) -> Any:
        x, present, plan = self._plan(problem)
        spectrum = _steps.analysed(x, present, plan)
        if plan.selection == "stability":
            masks = _steps.resamples(random_key(self.random_state), present, plan)
            values = self._instability(spectrum, masks, plan)
        else:
            values = _steps.criterion(spectrum, plan)
        selected = _steps.kept(values, plan)
        if self.scoring == "xgboost":
            each = xgboost_gains(spectrum, np.asarray(selected), plan.binary)
        else:
            each = _steps.scored(spectrum, selected, plan)
        found = _steps.result(spectrum, values, selected, each, plan)
        self.result_ = self._trimmed(found, problem)
        return found.scores

    def _plan(self, problem: Problem) -> Any:
        if isinstance(self.scoring, str):
            _checks.option(self.scoring, "scoring", (*SCORING, "xgboost"))
        selection = variant(self.selection, "selection", SELECTIONS)
        if isinstance(selection, Stable) and selection.chunk_size is None:
            selection = dataclasses.replace(selection, chunk_size=_CHUNK)
        n = problem.num_samples
        k = _checks.integer(self.n_pseudo_labels, "n_pseudo_labels", low=1)
        k = min(k, n - 1)
        d = self.n_eigenvectors
        return ssfs_plan(
            problem.x,
            problem.weights,
            num_pseudo_labels=k,
            num_eigenvectors=max(k, min(2 * k, n - 1)) if d is None else d,
            standardize=self.standardize,
            num_neighbors=self.n_neighbors,
            pseudo_labels=self.pseudo_labels,
            selection=selection,
            scoring="correlation" if self.scoring == "xgboost" else self.scoring,
            ranking=self.ranking,
        )

    def _instability(self, spectrum, masks, plan) -> Any:
        """Σ_m Var_b, gathered from chunks of resamples."""
        total = masks.shape[0]
        starts = list(range(0, total, max(2, plan.chunk_size)))
        if len(starts) > 1 and total - starts[-1] < 2:
            starts.pop()  # a resample alone has no variance: it joins the chunk before
        gathered = None
        with _progress.bar("resamples", total, show=self.verbose) as done:
            for first, last in itertools.pairwise([*starts, total]):
                more = _steps.resampled_scores(spectrum, masks[first:last], plan)
                moments = [np.asarray(a) for a in more[:3]]
                gathered = moments if gathered is None else merged(gathered, moments)
                done(last - first)
        assert gathered is not None
        return jnp.asarray(gathered[1].sum(axis=1))

    def _trimmed(self, found: ssfs.SSFSResult, problem: Problem) -> ssfs.SSFSResult:
        """Without padding, as NumPy's."""
        n, p = problem.values.shape
        a = jax.tree.map(np.asarray, found)
        return a._replace(
            scores=a.scores[:p],
            eigenvectors=a.eigenvectors[:n],
            pseudo_labels=a.pseudo_labels[:n],
            scores_per_eigenvector=a.scores_per_eigenvector[:, :p],
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        number = self.n_eigenvectors or 2 * self.n_pseudo_labels
        whole = n <= LARGE  # else rows of the graph are computed anew for each product
        work = _cost.Work(
            numbers=6 * n * d + 6 * (n**2 if whole else BLOCK) + 20 * n * number,
            products=2 * n**2 * d * (1 if whole else _PRODUCTS),
            cubes=n**3 if whole else 0,
            passes=2 * n * d * min(d, 2048) * (self.ranking == "diverse"),
        )
        resampled = self._options_of("selection")
        if resampled:
            each = number * resampled["num_resamples"] * (40 * n * min(n, d) + 2 * n * d)
            held = 4 * (n + d) * (resampled["chunk_size"] or _CHUNK)
            work = work._replace(products=work.products + each, numbers=work.numbers + held)
        if self.scoring in ("boosting", "xgboost") or isinstance(self.scoring, BoostedTrees):
            work = work._replace(passes=work.passes + 100 * 12 * self.n_pseudo_labels * n * d)
        return work


def merged(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    """Mean, variance and number of both parts together; those of no number add nothing."""
    (mean_a, var_a, num_a), (mean_b, var_b, num_b) = a, b
    m, k = (np.maximum(number, 0).astype(mean_a.dtype)[:, None] for number in (num_a, num_b))
    squares = [
        np.where(number > 1, np.nan_to_num(var) * (number - 1), 0)
        for var, number in ((var_a, m), (var_b, k))
    ]
    mean_a, mean_b = (np.where(i > 0, mean, 0) for mean, i in ((mean_a, m), (mean_b, k)))
    both = np.maximum(m + k, 1)
    away = mean_b - mean_a
    total = squares[0] + squares[1] + away**2 * m * k / both
    variance = np.where(m + k > 1, total / np.maximum(m + k - 1, 1), np.nan)
    return [mean_a + away * k / both, variance, num_a + num_b]


# ---- XGBoost ------------------------------------------------------------------------------------


def xgboost_gains(spectrum: _steps.Spectrum, selected: np.ndarray, binary: bool) -> Any:
    """The gain importances of one XGBoost model for each label kept, of sum one."""
    try:
        import xgboost
    except ImportError as error:
        message = 'scoring="xgboost" needs its package: pip install "jaxfs[xgboost]"'
        raise ImportError(message) from error
    model = xgboost.XGBClassifier if binary else xgboost.XGBRegressor
    rows = np.asarray(spectrum.present)
    x, labels = np.asarray(spectrum.x)[rows], np.asarray(spectrum.labels)[rows]
    gains = []
    for i in selected.tolist():
        y = labels[:, i]
        if np.all(y == y[0]):
            gains.append(np.zeros(x.shape[1]))
            continue
        fitted = model(tree_method="exact", importance_type="gain").fit(x, y)
        gains.append(np.nan_to_num(fitted.feature_importances_))
    return jnp.asarray(np.array(gains, x.dtype))
