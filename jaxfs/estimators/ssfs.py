"""Estimator for SSFS."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks
from jaxfs._checks import variant
from jaxfs.estimators import _progress
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.graphs._laplacian import LARGE
from jaxfs.kernels._distances import BLOCK
from jaxfs.methods.ssfs import Leading, Predictable, Stable, _steps
from jaxfs.methods.ssfs._ssfs import SCORING, SELECTIONS, ssfs_plan
from jaxfs.surrogates.models import ScoringModel

__all__ = ["SSFS"]

#: Default number of resamples in a chunk; an interrupt takes effect between chunks.
_CHUNK = 64


@estimator
class SSFS(ScoringSelector):
    """Features that predict the clusters of the samples, without redundancy; needs no labels.

    Eigenvectors of a graph of the samples serve as pseudo-labels. SSFS keeps the pseudo-labels that
    the features can predict, and scores each feature by its relevance to these pseudo-labels.

    **Parameters** in addition to those of `Selector`:

    - `n_pseudo_labels`: number of eigenvectors to keep: one less than the number of clusters that
      you expect (see `jaxfs.ssfs`). It is reduced if there are fewer samples.
    - `n_eigenvectors`, `standardize`, `n_neighbors`, `n_passes`, `pseudo_labels`, `ranking`: as in
      `jaxfs.ssfs`. The paper's method is
      `selection="stability", scoring="boosting", ranking="score"`.
    - `selection`: `"predictability"`, `"leading"` or `"stability"`, or `jaxfs.Stable(…)` with its
      options, as in `jaxfs.ssfs`. `set_params(selection__num_resamples=50)` sets one option.
    - `scoring`: the model that scores features: `"correlation"`, `"boosting"`, `"logistic"` or
      `"ridge"`; one of these models with its settings; or `"xgboost"`, which needs
      `pip install "jaxfs[xgboost]"`.
    - `random_state`: an integer seed for the resamples.

    **Attributes** in addition to those of `Selector`: `result_`, a `jaxfs.SSFSResult` of NumPy
    arrays, with the eigenvectors, the pseudo-labels, and the indices of the pseudo-labels kept.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> X[:20, 2] += 8
    >>> SSFS(n_pseudo_labels=1, n_features_to_select=1).fit(X).get_support(indices=True).tolist()
    [2]
    """

    n_pseudo_labels: int = 2
    n_eigenvectors: int | None = None
    standardize: bool = True
    n_neighbors: int | tuple[int, ...] = 2
    n_passes: int = 1
    pseudo_labels: str = "binary"
    selection: str | Stable | Predictable | Leading = "predictability"
    scoring: str | ScoringModel = "correlation"
    ranking: str = "diverse"
    random_state: Any = None

    _guide: ClassVar[str] = "methods/ssfs"
    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 4
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {"selection": SELECTIONS}

    def _score(self, data: PaddedData) -> Any:
        x, present, plan = self._plan(data)
        found = self._one_pass(x, present, plan, None)
        for _ in range(plan.num_passes - 1):
            found = self._one_pass(x, present, plan, _steps.best(found.scores))
        found = jax.tree.map(np.asarray, found)
        n, p = data.values.shape
        self.result_ = found._replace(
            scores=found.scores[:p],
            eigenvectors=found.eigenvectors[:n],
            pseudo_labels=found.pseudo_labels[:n],
            scores_per_eigenvector=found.scores_per_eigenvector[:, :p],
        )
        return self.result_.scores

    def _one_pass(self, x, present, plan, columns) -> _steps.SSFSResult:
        spectrum = _steps.analysed(x, present, plan, columns)
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
        return _steps.result(spectrum, values, selected, each, plan)

    def _plan(self, data: PaddedData) -> Any:
        if isinstance(self.scoring, str):
            _checks.option(self.scoring, "scoring", (*SCORING, "xgboost"))
        selection = variant(self.selection, "selection", SELECTIONS)
        if isinstance(selection, Stable) and selection.chunk_size is None:
            selection = dataclasses.replace(selection, chunk_size=_CHUNK)
        n, d = data.num_samples, self.n_eigenvectors
        k = min(_checks.integer(self.n_pseudo_labels, "n_pseudo_labels", low=1), n - 1)
        options = self._options(data) | {
            "num_pseudo_labels": k,
            "num_eigenvectors": max(k, min(2 * k, n - 1)) if d is None else d,
            "selection": selection,
            "scoring": "correlation" if self.scoring == "xgboost" else self.scoring,
        }
        return ssfs_plan(data.x, data.weights, **options)

    def _instability(self, spectrum, masks, plan) -> Any:
        """Return the instability Σ_m Var_b of each eigenvector, computed in chunks of resamples."""
        total = masks.shape[0]
        starts = list(range(0, total, max(2, plan.chunk_size)))
        if len(starts) > 1 and total - starts[-1] < 2:
            starts.pop()  # one resample has no variance, so the chunk before includes it
        parts = []
        with _progress.bar("resamples", total, show=self.verbose) as done:
            for first, last in itertools.pairwise([*starts, total]):
                more = _steps.resampled_scores(spectrum, masks[first:last], plan)
                parts.append([np.asarray(a) for a in more[:3]])
                done(last - first)
        return jnp.asarray(merged(parts)[1].sum(axis=1))

    def _entries(self, n: int, d: int, c: int) -> float:
        number = self.n_eigenvectors or 2 * self.n_pseudo_labels
        if isinstance(self.n_neighbors, tuple):
            number *= len(self.n_neighbors)
        graph = n**2 if n <= LARGE else BLOCK  # large graphs are computed in blocks of rows
        entries = 6 * n * d + 6 * graph + 20 * n * number
        resampled = self._options_of("selection")
        if resampled:
            entries += 4 * (n + d) * (resampled["chunk_size"] or _CHUNK)
        return entries


def merged(groups: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return mean, variance and size of the union of groups; an empty group adds nothing."""
    mean, variance, number = map(np.stack, zip(*groups, strict=True))
    n = number[..., None].astype(mean.dtype)
    mean = np.where(n > 0, mean, 0)
    total = n.sum(axis=0)
    centre = (n * mean).sum(axis=0) / np.maximum(total, 1)
    squares = np.where(n > 1, variance * (n - 1), 0) + n * (mean - centre) ** 2
    variance = np.where(total > 1, squares.sum(axis=0) / np.maximum(total - 1, 1), np.nan)
    return [centre, variance, number.sum(axis=0)]


# ---- XGBoost ------------------------------------------------------------------------------------


def xgboost_gains(spectrum: _steps.Spectrum, selected: np.ndarray, binary: bool) -> Any:
    """Return gain importances: one XGBoost model and row per selected label; rows sum to one."""
    try:
        from xgboost import XGBClassifier, XGBRegressor
    except ImportError as error:
        message = 'scoring="xgboost" needs its package: pip install "jaxfs[xgboost]"'
        raise ImportError(message) from error
    model = XGBClassifier if binary else XGBRegressor
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
