"""SSFS: unsupervised scores from those eigenvectors of a graph that models predict stably.

The eigenvectors v_i of the graph's Laplacian are made pseudo-labels y_i of the samples, in two
groups each. Of d of them those k are kept on which a model fitted on parts of the samples gives the
features the most stable scores s_m(h_i) (Algorithm 1); then a feature's score is the best that
models of all samples give it (Algorithm 2):

    Ŝ_i = Σ_m Var_b s_m(h_ib),    score(m) = max_{i kept} s_m(f_i).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs import _checks
from jaxfs._medoids import two_medoids
from jaxfs._numerics import matmul, safe_divide
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import nearest_neighbors
from jaxfs.kernels import presence, self_tuning_affinity, squared_distances
from jaxfs.methods._laplacian import leading_eigenvectors
from jaxfs.resample import subsample_masks
from jaxfs.surrogates import models
from jaxfs.surrogates.models import Correlation, ScoringModel, SelectionModel

_SELECTIONS = ("stability", "predictability", "leading")
_LABELS = ("binary", "continuous")
_RANKINGS = ("diverse", "score")
_VOTERS = 5
_DIVERSE = 2048  # so many features are ranked one after another, the rest at once
_REST = 0.001  # what is left of the score of a duplicate


class SSFSResult(NamedTuple):
    """What `ssfs` found. d eigenvectors were looked at and k of them kept.

    `scores (p,)`. `eigenvalues (d,)`, `eigenvectors (n, d)` and `pseudo_labels (n, d)`: of the
    Laplacian, the trivial one left out, and each in two groups, 0 and 1 (with continuous labels:
    the eigenvectors themselves); rows of padding are 0. `instability (d,)`: the criterion, smaller
    is better. `selected (k,)`: which eigenvectors were kept, best first.
    `scores_per_eigenvector (k, p)`: what the scoring model gave for each.
    """

    scores: Float[Array, "p"]
    eigenvalues: Float[Array, "d"]
    eigenvectors: Float[Array, "n d"]
    pseudo_labels: Shaped[Array, "n d"]
    instability: Float[Array, "d"]
    selected: Int[Array, "k"]
    scores_per_eigenvector: Float[Array, "k p"]


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

    **Cost** O(n² p + n³) for the graph; "diverse" O(np) for each of the 2048 features; for the
    models see `surrogates`.

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
    settings = _Settings(
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
    return _ssfs(key, x, present, choose, score, fraction, settings)


class _Settings(NamedTuple):
    num_pseudo_labels: int
    num_eigenvectors: int
    standardize: bool
    num_neighbors: int
    binary: bool
    selection: str
    num_resamples: int
    diverse: bool
    chunk_size: int


@functools.partial(jax.jit, static_argnames="settings")
def _ssfs(key, x, present, choose, score, fraction, settings: _Settings) -> SSFSResult:
    s = settings
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & (jnp.sum(present) >= 4)
    x = jnp.where(present[:, None] & known, x, 0)
    if s.standardize:
        size = jnp.sqrt(jnp.sum(present).astype(x.dtype))
        x = size * models.unit_columns(x, present)
    affinity = self_tuning_affinity(
        squared_distances(x, mask=present), s.num_neighbors, mask=present
    )
    values, vectors = leading_eigenvectors(affinity, s.num_eigenvectors, present)
    known = known & ~jnp.any(jnp.isnan(values))
    halves = jax.vmap(two_medoids, in_axes=(1, None), out_axes=1)(vectors, present)
    labels = halves.astype(x.dtype) if s.binary else vectors

    # Algorithm 1, lines 3 to 16.
    if s.selection == "stability":
        masks = subsample_masks(key, s.num_resamples, x.shape[0], fraction=fraction, mask=present)
        resampled = choose.resampled(x, labels, masks, present, s.chunk_size)
        instability = jnp.sum(resampled.variance, axis=1)
    elif s.selection == "predictability":
        instability = 1 - _predictability(x, halves, present)
    else:
        instability = values
    order = jnp.argsort(jnp.where(jnp.isnan(instability), jnp.inf, instability))
    selected = order[: s.num_pseudo_labels].astype(jnp.int32)

    # Algorithm 2.
    correlations = Correlation().scores(x, vectors[:, selected], present, False)
    if isinstance(score, Correlation):
        each = correlations
        scores = jnp.sum(each, axis=0)
    else:
        each = score.scores(x, labels[:, selected], present, s.binary)
        scores = _fill(jnp.max(each, axis=0), jnp.sum(correlations, axis=0))
    if s.diverse:
        scores = _diverse(models.unit_columns(x, present), scores)

    def unless(a, otherwise=jnp.nan):
        return jnp.where(known, a, jnp.full_like(a, otherwise))

    pseudo = halves.astype(jnp.int32) if s.binary else vectors
    return SSFSResult(
        unless(scores),
        unless(values),
        unless(vectors),
        unless(pseudo, -1) if s.binary else unless(pseudo),
        unless(instability),
        unless(selected, -1),
        unless(each),
    )


def _predictability(
    x: Float[Array, "n p"], labels: Bool[Array, "n d"], present: Bool[Array, "n"]
) -> Float[Array, "d"]:
    """The balanced accuracy of a vote of nearest neighbours on each label; 0 if it has one side."""
    near = nearest_neighbors(x, min(_VOTERS, x.shape[0] - 1), mask=present).indices
    voters = (near >= 0)[:, :, None]
    votes = jnp.sum(labels[near] & voters, axis=1)
    predicted = 2 * votes > jnp.sum(voters, axis=1)

    def recall(side):
        side = side & present[:, None]
        right = jnp.sum(side & (predicted == labels), axis=0)
        return safe_divide(right.astype(x.dtype), jnp.sum(side, axis=0).astype(x.dtype))

    return 0.5 * (recall(labels) + recall(~labels))


def _fill(scores: Float[Array, "p"], second: Float[Array, "p"]) -> Float[Array, "p"]:
    """Scores, and for those that are 0 numbers below all others in the order of `second`."""
    least = jnp.min(jnp.where(scores > 0, scores, jnp.inf))
    least = jnp.where(jnp.isinf(least), 1, least)
    share = second / (1 + second)  # below 1
    return jnp.where(scores == 0, 0.5 * least * share, scores)


def _diverse(u: Float[Array, "n p"], scores: Float[Array, "p"]) -> Float[Array, "p"]:
    """What each feature scored when it was taken: falling, since what is taken only costs others.

    `u` has columns of length one, so that correlations are products.
    """

    def take(_, state):
        taken, worth, overlap = state
        now = scores * (1 - overlap + _REST)
        m = jnp.argmax(jnp.where(taken, -1, now))
        correlation = matmul(u[:, m][None], u)[0]
        overlap = jnp.maximum(overlap, jnp.minimum(correlation**2, 1))
        return taken.at[m].set(True), worth.at[m].set(now[m]), overlap

    zero = jnp.zeros_like(scores)
    start = jnp.zeros(scores.shape, bool), zero, zero
    steps = min(scores.shape[0], _DIVERSE)
    taken, worth, overlap = lax.fori_loop(0, steps, take, start)
    return jnp.where(taken, worth, scores * (1 - overlap + _REST))
