"""SSFS: unsupervised feature scores from graph eigenvectors that models predict stably.

Each eigenvector v_i of the graph's Laplacian divides the samples into two groups, which become the
pseudo-labels y_i. Algorithm 1 fits models to each y_i on random parts of the samples. It keeps the
k of d eigenvectors whose models give the features the most stable scores s_m(h_i). Algorithm 2 fits
one model for each kept eigenvector on all samples. The score of a feature is its largest score in
these models:

    Ŝ_i = Σ_m Var_b s_m(h_ib),    score(m) = max_{i kept} s_m(f_i).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from jaxfs import _checks
from jaxfs._checks import plain, presence, settle, variant
from jaxfs._types import ArrayLike, Scalar, Static
from jaxfs.methods.ssfs import _steps
from jaxfs.surrogates import models
from jaxfs.surrogates.models import ScoringModel, SelectionModel

_LABELS = ("binary", "continuous")
_RANKINGS = ("diverse", "score")
#: Names of the models that can select eigenvectors.
_SELECTING = ("logistic", "ridge")
#: Names of the models that can score features.
SCORING = ("boosting", "logistic", "ridge", "correlation")
#: Default number of resamples fitted at a time.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class Stable:
    """Option of `ssfs`: keep the eigenvectors whose models score features stably over resamples.

    This is the paper's criterion, Ŝ_i = Σ_m Var_b s_m(h_ib).

    **Arguments**

    - `model`: "logistic", "ridge", or a model with its settings, such as
      `surrogates.models.Ridge(alpha=2)`. The default is logistic for binary pseudo-labels and ridge
      for continuous ones.
    - `num_resamples`: B ≥ 2, the number of resamples; static.
    - `fraction`: fraction of the samples in each resample, in (0, 1]. May be traced.
    - `chunk_size`: number of resamples fitted at a time; static. The default is 256. The estimator
      uses 64, because it can be interrupted only between two chunks.

    Equal records are the same option and have equal hashes.

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
    """Option of `ssfs`: keep the eigenvectors whose labels neighbouring samples predict well.

    The 5 nearest neighbours of each sample vote on its binary label. The criterion is 1 − the
    balanced accuracy of this vote.
    """


@dataclasses.dataclass(frozen=True)
class Leading:
    """Option of `ssfs`: keep the eigenvectors with the smallest eigenvalues."""


#: The options for `selection`, by name.
SELECTIONS = {"stability": Stable, "predictability": Predictable, "leading": Leading}


def ssfs(
    key: Array,
    x: ArrayLike,
    *,
    num_pseudo_labels: int,
    num_eigenvectors: int | None = None,
    standardize: bool = True,
    mask: ArrayLike | None = None,
    num_neighbors: int | tuple[int, ...] = 2,
    num_passes: int = 1,
    pseudo_labels: str = "binary",
    selection: str | Stable | Predictable | Leading = "predictability",
    scoring: str | ScoringModel = "correlation",
    ranking: str = "diverse",
) -> _steps.SSFSResult:
    """Score features without labels by spectral self-supervised feature selection.

    The paper's method is `selection="stability", scoring="boosting", ranking="score"`. On the
    data sets of `benchmarks/papers/ssfs_clustering.py`, features selected with the defaults gave
    better clusters. These data sets were also used to choose the defaults.

    **Arguments**

    - `key`: a key of `jax.random`, for the resamples of `Stable`. Nothing else is random.
    - `x`: `(n, p)`, n ≥ 4.
    - `num_pseudo_labels`: k, the number of eigenvectors to keep. Pass one less than the number of
      clusters that you expect: the trivial eigenvector is left out, and c − 1 others separate c
      clusters. If the clusters are clear, one more eigenvector is noise. The paper's experiments
      keep c eigenvectors (appendix F.3).
    - `num_eigenvectors`: d, the number of eigenvectors to choose from, at most n − 1. The default
      is 2k, or all of them if there are fewer.
    - `standardize`: whether to scale the features to mean 0 and variance 1 first.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_neighbors`: q in the graph's affinities exp(−‖x_i − x_j‖² / σ_i σ_j), where σ_i is the
      distance from sample i to its q-th nearest neighbour, not counting the sample itself. A tuple
      such as (2, 5, 10) uses one graph for each q, and keeps k eigenvectors of each.
    - `num_passes`: with 2, the scores of a first pass choose a fifth of the features, but at least
      100 and at most 1000. The graphs are built again from these features, and all features are
      scored by the new eigenvectors. The resamples of `Stable` are the same in every pass.
    - `pseudo_labels`: "binary" divides the samples by each eigenvector into two groups, by
      2-medoids; "continuous" uses the eigenvectors themselves. Models are fitted to these labels,
      and the result contains them. The option does not affect "predictability", which always uses
      binary labels, or "correlation", which always uses the eigenvectors.
    - `selection`: the criterion for keeping eigenvectors. "stability": the paper's Ŝ, or
      `Stable(…)` with its options. "predictability" or `Predictable()`: the 5 nearest neighbours of
      each sample vote on its binary label, and the criterion is 1 − the balanced accuracy of this
      vote. "leading" or `Leading()`: the eigenvalues.
    - `scoring`: the model that scores features. "boosting" (the paper's), "logistic" or "ridge", or
      a model with its settings, such as `surrogates.models.Logistic(c=0.1)`. "correlation":
      score(m) is the sum over kept eigenvectors of the squared correlation with feature m.
    - `ranking`: "score" returns the scores unchanged. "diverse" selects features sequentially by
      s_m (1 − max corr² with the features already selected + 0.001), and this number is the score.
      After 2048 features are selected, every other feature is compared with those 2048 only.

    All arguments are static except `key`, `x`, `mask`, `fraction` and numbers in the settings of
    models.

    **Returns** `SSFSResult`.

    **Numerics** features that no tree uses would all score 0. They are instead ordered by the sum
    of their squared correlations with the kept eigenvectors, scaled to lie below the smallest score
    of the other features. A constant feature scores 0. A resample in which a label has only one
    value has no model and does not count. Eigenvectors whose labels have fewer than two models come
    last. Duplicate samples are allowed (see `kernels.self_tuning_affinity`). Eigenvalues that
    differ by less than 1.5e-8, or 1.5e-5 in float32, count as equal, as on a graph with several
    components. The data determine the basis of their eigenspace: a fixed number of power iterations
    turns each axis towards the first principal axis of the features in the part of the eigenspace
    that is left. The order of the samples therefore does not matter (except for the random
    resamples of "stability"). NaN in any sample that is present makes all results NaN, except
    binary labels and `selected`, which become −1. A traced mask that leaves too few samples has the
    same effect.

    **Derivatives** none: the results are constants for differentiation.

    **Cost** O(n² p + n³) for the graph. Beyond 8192 samples the affinities are not stored but
    recomputed in a few dozen products of O(n² p), with memory for only some rows. "diverse" takes
    O(np) for each of the first 2048 features. For the cost of the models see `surrogates`.

    **Reference** Segal, Lindenbaum and Jaffe, *Spectral self-supervised feature selection*, 2024,
    Algorithms 1 and 2. "leading", "logistic" scoring and "continuous" are ablations in the paper
    (section 5.2); "predictability", "correlation", "diverse", several graphs and several passes are
    not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> noise = jax.random.normal(jax.random.key(0), (40, 4))
    >>> x = noise.at[:20, 2].add(8.0)
    >>> result = ssfs(jax.random.key(1), x, num_pseudo_labels=1)
    >>> int(jnp.argmax(result.scores))
    2
    """
    checked = ssfs_plan(
        x,
        mask,
        num_pseudo_labels=num_pseudo_labels,
        num_eigenvectors=num_eigenvectors,
        standardize=standardize,
        num_neighbors=num_neighbors,
        num_passes=num_passes,
        pseudo_labels=pseudo_labels,
        selection=selection,
        scoring=scoring,
        ranking=ranking,
    )
    _checks.key(key)
    return _steps.run(key, *checked)


def ssfs_plan(
    x,
    mask,
    *,
    num_pseudo_labels,
    num_eigenvectors,
    standardize,
    num_neighbors,
    num_passes,
    pseudo_labels,
    selection,
    scoring,
    ranking,
) -> tuple[Array, Array, _steps.SSFSPlan]:
    """Check the arguments of `ssfs`; return the samples, the mask as booleans, and the options."""
    x = _checks.real(x, "x", ndim=2)
    n, p = x.shape
    if n < 4 or p < 1:
        raise _checks.fail("x", "(n, p) with n ≥ 4 samples and p ≥ 1 features", f"{x.shape}")
    present = presence(mask, n)
    there = n if _checks.is_traced(present) else int(jnp.sum(present))
    k = _checks.integer(num_pseudo_labels, "num_pseudo_labels", low=1, high=n - 1)
    d = max(k, min(2 * k, there - 1)) if num_eigenvectors is None else num_eigenvectors
    d = _checks.integer(d, "num_eigenvectors", low=k, high=n - 1)
    several = num_neighbors if isinstance(num_neighbors, tuple) and num_neighbors else None
    neighbors = tuple(
        _checks.integer(q, "num_neighbors", low=1, high=n - 1) for q in several or (num_neighbors,)
    )
    least = max(4, d + 1, *(q + 1 for q in neighbors))
    if there < least:
        raise _checks.fail("mask", f"true for at least {least} samples", there)
    binary = _checks.option(pseudo_labels, "pseudo_labels", _LABELS) == "binary"
    selection = variant(selection, "selection", SELECTIONS)
    choose, resampling = None, dict[str, Any]()
    if isinstance(selection, Stable):
        default = "logistic" if binary else "ridge"
        model = default if selection.model is None else selection.model
        choose = models.check(model, "model", SelectionModel, _SELECTING, binary)
        resampling = {
            "fraction": jnp.asarray(selection.fraction),
            "num_resamples": selection.num_resamples,
            "chunk_size": selection.chunk_size or _CHUNK,
        }
    score = models.check(scoring, "scoring", ScoringModel, SCORING, binary)
    plan = _steps.SSFSPlan(
        num_pseudo_labels=k,
        num_eigenvectors=d,
        standardize=_checks.flag(standardize, "standardize"),
        num_neighbors=neighbors,
        num_passes=_checks.integer(num_passes, "num_passes", low=1),
        binary=binary,
        selection=next(name for name, kind in SELECTIONS.items() if kind is type(selection)),
        diverse=_checks.option(ranking, "ranking", _RANKINGS) == "diverse",
        choose=choose,
        score=score,
        models=Static(jax.tree.structure((choose, score))),
        **resampling,
    )
    x, plan = lax.stop_gradient((x, plan))
    return x, present, plan
