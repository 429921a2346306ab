"""SSFS: unsupervised scores from those eigenvectors of a graph that models predict stably.

The eigenvectors v_i of the graph's Laplacian are made pseudo-labels y_i of the samples, in two
groups each. Of d of them those k are kept on which a model fitted on parts of the samples gives the
features the most stable scores s_m(h_i) (Algorithm 1); then a feature's score is the best that
models of all samples give it (Algorithm 2):

    Ŝ_i = Σ_m Var_b s_m(h_ib),    score(m) = max_{i kept} s_m(f_i).
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels import presence
from jaxfs.methods import _ssfs
from jaxfs.methods._ssfs import Settings
from jaxfs.methods._ssfs import SSFSResult as SSFSResult
from jaxfs.surrogates import models
from jaxfs.surrogates.models import ScoringModel, SelectionModel

_SELECTIONS = ("stability", "predictability", "leading")
_LABELS = ("binary", "continuous")
_RANKINGS = ("diverse", "score")


def ssfs(
    key: Array,
    x: ArrayLike,
    *,
    num_pseudo_labels: int,
    num_eigenvectors: int | None = None,
    standardize: bool = True,
    mask: ArrayLike | None = None,
    num_neighbors: int = 2,
    pseudo_labels: str = "binary",
    selection: str = "predictability",
    selection_model: str | SelectionModel | None = None,
    num_resamples: int = 500,
    fraction: Scalar = 0.95,
    scoring_model: str | ScoringModel = "correlation",
    ranking: str = "diverse",
    chunk_size: int = 256,
) -> SSFSResult:
    """Spectral self-supervised feature selection: scores of features without labels.

    The paper's method is `selection="stability", scoring_model="boosting", ranking="score"`. With
    the defaults the features found better clusters on the sets of
    `benchmarks/papers/ssfs_clustering.py`, which were used to choose them.

    **Arguments**

    - `key`: of `jax.random`, for the resamples.
    - `x`: `(n, p)`, n ≥ 4.
    - `num_pseudo_labels`: k, how many eigenvectors to keep; the number of clusters, if known.
    - `num_eigenvectors`: d, how many to choose from, at most n − 1; 2k by default, or as many as
      there are.
    - `standardize`: whether features are first given mean 0 and variance 1.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_neighbors`: the graph's affinities are exp(−‖x_i − x_j‖² / σ_i σ_j), σ_i the distance to
      the neighbour of this number, the sample itself not counted.
    - `pseudo_labels`: "binary", eigenvectors cut in two by 2-medoids, or "continuous".
    - `selection`: the criterion for keeping eigenvectors. "stability": the paper's Ŝ.
      "predictability": one less the balanced accuracy with which a sample's 5 nearest neighbours
      vote for its binary label. "leading": no selection, the eigenvalues.
    - `selection_model`: "logistic", "ridge", or one with its settings, as
      `surrogates.models.Logistic(c=0.1)`; by default logistic, for continuous labels ridge. This
      and the next two are for "stability" only.
    - `num_resamples`, `fraction`: B resamples, each of this part of the samples.
    - `scoring_model`: "boosting" (the paper's), "logistic" or "ridge", likewise with settings.
      "correlation": score(m) = Σ over kept eigenvectors of the squared correlation with feature m.
    - `ranking`: "score": as they are. "diverse": features are taken one after another by
      s_m (1 − max corr² with those taken + 0.001), and the score is that number. Beyond the first
      2048 features all are compared with those.
    - `chunk_size`: how many resamples are fitted at a time, for "stability".

    All but `key`, `x`, `mask`, `fraction` and numbers in settings are static.

    **Returns** `SSFSResult`.

    **Numerics** features that have no part in any tree would all score 0: they are ordered by the
    sum of squared correlations with the kept eigenvectors, scaled to lie below the smallest score
    of the others. A constant feature scores 0. A resample with one side of a label only has no
    model, and does not count; labels without two models are taken last. Duplicate samples are no
    trouble (see `kernels.self_tuning_affinity`). NaN anywhere among the samples present makes
    everything NaN, binary labels and `selected` −1, and so does a traced mask that leaves too few
    samples.

    **Derivatives** none: results are constants.

    **Cost** O(n² p + n³) for the graph; beyond 8192 samples its affinities are not held but
    computed anew, for some dozens of products of O(n² p), in memory for some rows. "diverse" O(np)
    for each of the 2048 features; for the models see `surrogates`.

    **Reference** Segal, Lindenbaum and Jaffe, *Spectral self-supervised feature selection*, 2024,
    Algorithms 1 and 2. "leading", "logistic" scoring and "continuous" are its ablations (section
    5.2); "predictability", "correlation" and "diverse" are not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> noise = jax.random.normal(jax.random.key(0), (40, 4))
    >>> x = noise.at[:20, 2].add(8.0)
    >>> result = ssfs(jax.random.key(1), x, num_pseudo_labels=1)
    >>> int(jnp.argmax(result.scores))
    2
    """
    arguments = check_arguments(
        x,
        num_pseudo_labels=num_pseudo_labels,
        num_eigenvectors=num_eigenvectors,
        standardize=standardize,
        mask=mask,
        num_neighbors=num_neighbors,
        pseudo_labels=pseudo_labels,
        selection=selection,
        selection_model=selection_model,
        num_resamples=num_resamples,
        fraction=fraction,
        scoring_model=scoring_model,
        ranking=ranking,
        chunk_size=chunk_size,
    )
    _checks.key(key)
    return _ssfs.run(key, *arguments)


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
    selection_model,
    num_resamples,
    fraction,
    scoring_model,
    ranking,
    chunk_size,
):
    """Samples, which of them are present, both models, the fraction, and what is static."""
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
    if selection_model is None:
        selection_model = "logistic" if binary else "ridge"
    choose = models.check(
        selection_model, "selection_model", SelectionModel, ("logistic", "ridge"), binary
    )
    names = ("boosting", "logistic", "ridge", "correlation")
    score = models.check(scoring_model, "scoring_model", ScoringModel, names, binary)
    _checks.number(fraction, "fraction", low=0, high=1, open_low=True, scalar=True)
    settings = Settings(
        k,
        d,
        _checks.flag(standardize, "standardize"),
        neighbor,
        binary,
        _checks.option(selection, "selection", _SELECTIONS),
        _checks.integer(num_resamples, "num_resamples", low=2),
        _checks.option(ranking, "ranking", _RANKINGS) == "diverse",
        _checks.integer(chunk_size, "chunk_size", low=1),
    )
    x, choose, score, fraction = lax.stop_gradient((x, choose, score, jnp.asarray(fraction)))
    return x, present, choose, score, fraction, settings
