"""The options of SSFS: those of one criterion for eigenvectors in its record, and their checks."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from jaxfs import _checks
from jaxfs._checks import plain, presence, settle, variant
from jaxfs._types import Scalar, Static
from jaxfs.methods.ssfs._steps import Settings
from jaxfs.surrogates import models
from jaxfs.surrogates.models import ScoringModel, SelectionModel

_LABELS = ("binary", "continuous")
_RANKINGS = ("diverse", "score")
#: Names of the models that can select eigenvectors, and of those that can score features.
SELECTING = ("logistic", "ridge")
SCORING = ("boosting", "logistic", "ridge", "correlation")
#: Number of resamples fitted at a time, by default.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class Stable:
    """Selection of `ssfs`: eigenvectors on which a model of some samples scores features stably.

    The paper's criterion, Ŝ_i = Σ_m Var_b s_m(h_ib).

    **Arguments**

    - `model`: "logistic", "ridge", or one with its settings, as `surrogates.models.Ridge(alpha=2)`.
      By default logistic, and ridge for continuous pseudo-labels.
    - `num_resamples`: B ≥ 2, the number of resamples; static.
    - `fraction`: part of the samples that each resample has, in (0, 1]. May be traced.
    - `chunk_size`: number of resamples fitted at a time; static. By default 256. The estimator
      takes 64, because it can be interrupted between two chunks.

    A constant: equal records are the same option, with an equal hash.

    >>> Stable(num_resamples=50)
    Stable(model=None, num_resamples=50, fraction=0.95, chunk_size=None)
    """

    model: str | SelectionModel | None = None
    num_resamples: int = 500
    fraction: Scalar = 0.95
    chunk_size: int | None = None

    def __post_init__(self):
        fraction = self.fraction
        _checks.number(fraction, "fraction", low=0, high=1, open_low=True, scalar=True)
        number = _checks.integer(self.num_resamples, "num_resamples", low=2)
        settle(self, num_resamples=number, fraction=plain(fraction))
        if self.chunk_size is not None:
            settle(self, chunk_size=_checks.integer(self.chunk_size, "chunk_size", low=1))


@dataclasses.dataclass(frozen=True)
class Predictable:
    """Selection of `ssfs`: eigenvectors whose label the neighbours of a sample predict.

    The criterion is one less the balanced accuracy with which the 5 nearest neighbours of a sample
    vote for its binary label.
    """


@dataclasses.dataclass(frozen=True)
class Leading:
    """Selection of `ssfs`: the eigenvectors of smallest eigenvalue."""


#: The selections by their names.
SELECTIONS = {"stability": Stable, "predictability": Predictable, "leading": Leading}


# ---- Arguments ----------------------------------------------------------------------------------


def check_arguments(
    x,
    *,
    num_pseudo_labels,
    num_eigenvectors,
    standardize,
    mask,
    num_neighbors,
    pseudo_labels,
    selection,
    scoring,
    ranking,
):
    """Samples, which of them are present, both models, the fraction, and what is static.

    The model that selects and the fraction are `None` where nothing is resampled.
    """
    x = _checks.real(x, "x", ndim=2)
    n, p = x.shape
    if n < 4 or p < 1:
        raise _checks.fail("x", "(n, p) with n ≥ 4 samples and p ≥ 1 features", f"{x.shape}")
    present = presence(mask, n)
    there = n if _checks.is_traced(present) else int(jnp.sum(present))
    k = _checks.integer(num_pseudo_labels, "num_pseudo_labels", low=1, high=n - 1)
    d = max(k, min(2 * k, there - 1)) if num_eigenvectors is None else num_eigenvectors
    d = _checks.integer(d, "num_eigenvectors", low=k, high=n - 1)
    neighbor = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 1)
    least = max(4, d + 1, neighbor + 1)
    if there < least:
        raise _checks.fail("mask", f"true for at least {least} samples", there)
    binary = _checks.option(pseudo_labels, "pseudo_labels", _LABELS) == "binary"
    selection = variant(selection, "selection", SELECTIONS)
    choose, fraction, resampling = _resampling(selection, binary)
    score = models.check(scoring, "scoring", ScoringModel, SCORING, binary)
    settings = Settings(
        num_pseudo_labels=k,
        num_eigenvectors=d,
        standardize=_checks.flag(standardize, "standardize"),
        num_neighbors=neighbor,
        binary=binary,
        selection=next(name for name, kind in SELECTIONS.items() if kind is type(selection)),
        diverse=_checks.option(ranking, "ranking", _RANKINGS) == "diverse",
        models=Static(jax.tree.structure((choose, score))),
        **resampling,
    )
    x, choose, score, fraction = lax.stop_gradient((x, choose, score, fraction))
    return x, present, choose, score, fraction, settings


def _resampling(selection: Stable | Predictable | Leading, binary: bool):
    """The model, the fraction and the parts of `Settings` that belong to resamples."""
    if not isinstance(selection, Stable):
        return None, None, {}
    model = selection.model
    if model is None:
        model = "logistic" if binary else "ridge"
    model = models.check(model, "model", SelectionModel, SELECTING, binary)
    chunk = _CHUNK if selection.chunk_size is None else selection.chunk_size
    sizes = {"num_resamples": selection.num_resamples, "chunk_size": chunk}
    return model, jnp.asarray(selection.fraction), sizes
