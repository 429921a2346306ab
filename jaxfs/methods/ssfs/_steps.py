"""The steps of SSFS: Algorithms 1 and 2 of the paper.

A caller that reports progress runs the steps one at a time; each step is then compiled separately.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs._numerics import eps, nan_unless, safe_divide, standard_columns, unit_columns
from jaxfs._types import Static
from jaxfs.graphs import nearest_neighbors
from jaxfs.graphs._laplacian import sample_eigenvectors
from jaxfs.methods.classical._diversity import diverse
from jaxfs.resample import subsample_masks
from jaxfs.surrogates._shared import ResampledScores
from jaxfs.surrogates.models import Correlation, ScoringModel

#: Number of neighbours that vote on the label of a sample.
_VOTERS = 5


class SSFSResult(NamedTuple):
    """Scores of `ssfs`, and the k of d eigenvectors from which they come.

    `scores (p,)`: the scores of the features. `eigenvalues (d,)`, `eigenvectors (n, d)`: the
    spectrum of the Laplacian, without the trivial eigenvector. `pseudo_labels (n, d)`: the group, 0
    or 1, in which each eigenvector puts each sample (continuous labels: the eigenvectors); rows of
    padding are 0. `criterion (d,)`: the criterion by which eigenvectors were selected, smaller is
    better. `selected (k,)`: indices of the kept eigenvectors, best first. `scores_per_eigenvector
    (k, p)`: the scores of the features from the scoring model of each kept eigenvector.
    """

    scores: Float[Array, "p"]
    eigenvalues: Float[Array, "d"]
    eigenvectors: Float[Array, "n d"]
    pseudo_labels: Shaped[Array, "n d"]
    criterion: Float[Array, "d"]
    selected: Int[Array, "k"]
    scores_per_eigenvector: Float[Array, "k p"]


class SSFSPlan(eqx.Module):
    """The checked options of `ssfs`; a pytree whose numbers and models may be traced."""

    num_pseudo_labels: int = eqx.field(static=True)
    num_eigenvectors: int = eqx.field(static=True)
    standardize: bool = eqx.field(static=True)
    num_neighbors: int = eqx.field(static=True)
    binary: bool = eqx.field(static=True)
    selection: str = eqx.field(static=True)
    diverse: bool = eqx.field(static=True)
    score: ScoringModel
    models: Static = eqx.field(static=True)  # the classes of both models: see `Static`
    choose: Any = None  # the `SelectionModel` fitted on resamples, if any
    fraction: Any = None
    num_resamples: int = eqx.field(static=True, default=0)
    chunk_size: int = eqx.field(static=True, default=0)


class Spectrum(NamedTuple):
    """Samples, standardised if requested, and the eigenvectors of their graph."""

    x: Float[Array, "n p"]
    present: Bool[Array, "n"]
    values: Float[Array, "d"]
    vectors: Float[Array, "n d"]
    halves: Bool[Array, "n d"]  # the two groups of each eigenvector
    labels: Float[Array, "n d"]  # the targets of the models
    known: Bool[Array, ""]  # false if the samples contain NaN or are too few


@jax.jit
def run(key, x, present, plan: SSFSPlan) -> SSFSResult:
    spectrum = analysed(x, present, plan)
    if plan.selection == "stability":
        masks = resamples(key, present, plan)
        values = jnp.sum(resampled_scores(spectrum, masks, plan).variance, axis=1)
    else:
        values = criterion(spectrum, plan)
    selected = kept(values, plan)
    return result(spectrum, values, selected, scored(spectrum, selected, plan), plan)


# ---- Pseudo-labels ------------------------------------------------------------------------------


@jax.jit
def analysed(x, present, plan: SSFSPlan) -> Spectrum:
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & (jnp.sum(present) >= 4)
    x = jnp.where(present[:, None] & known, x, 0)
    if plan.standardize:
        x = standard_columns(x, present)
    values, vectors = sample_eigenvectors(x, plan.num_neighbors, plan.num_eigenvectors, present)
    known = known & ~jnp.any(jnp.isnan(values))
    halves = jax.vmap(_cut_in_two, in_axes=(1, None), out_axes=1)(vectors, present)
    labels = halves.astype(x.dtype) if plan.binary else vectors
    return Spectrum(x, present, values, vectors, halves, labels, known)


def _cut_in_two(v: Float[Array, "n"], present: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """Divide the entries by 2-medoids, rounded to half of their digits.

    Entries that are equal by symmetry differ by rounding errors; they stay in the same group.
    """
    step = jnp.max(jnp.abs(v)) * eps(v.dtype) ** 0.5
    return two_medoids(jnp.round(safe_divide(v, jnp.broadcast_to(step, v.shape))), present)


def two_medoids(v: Float[Array, "n"], present: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """Return which numbers are in the upper of the two groups of an exact 2-medoids clustering.

    The groups minimise Σ |v_i − medoid|. Two groups on a line are separated by a gap, and
    the medoid of a group is its median. All n − 1 gaps are tried, by prefix sums of the sorted
    numbers. Equal numbers stay in the same group. Among equally good gaps the lowest is taken. If
    all numbers are equal, all are in the lower group. Numbers that are not present are ignored. NaN
    gives all false.
    """
    n = v.shape[0]
    order = jnp.argsort(jnp.where(present, v, jnp.inf))
    there = jnp.sum(present)
    index = jnp.arange(n, dtype=there.dtype)
    # Numbers relative to the median, so that a common offset does not cost digits.
    s = jnp.where(index < there, v[order], 0)
    s = jnp.where(index < there, s - s[there // 2], 0)
    prefix = jnp.append(jnp.zeros(1, s.dtype), jnp.cumsum(s))

    def cost(start, end):
        """Return Σ |s_i − median| over the sorted numbers start … end − 1."""
        middle = (start + end - 1) // 2
        below = s[middle] * (middle - start).astype(s.dtype) - (prefix[middle] - prefix[start])
        above = prefix[end] - prefix[middle] - s[middle] * (end - middle).astype(s.dtype)
        return below + above

    split = index + 1  # the size of the lower group
    following = jnp.minimum(split, n - 1)
    valid = (split < there) & (s[following] > s)
    lower = cost(jnp.zeros_like(split), jnp.minimum(split, there))
    upper = cost(jnp.minimum(split, there - 1), jnp.broadcast_to(there, split.shape))
    last = jnp.argmin(jnp.where(valid, lower + upper, jnp.inf))
    return present & jnp.any(valid) & (v > v[order][last])


# ---- Algorithm 1: which eigenvectors to keep ----------------------------------------------------


def resamples(key, present, plan: SSFSPlan) -> Bool[Array, "b n"]:
    number, n = plan.num_resamples, present.size
    return subsample_masks(key, number, n, fraction=plan.fraction, mask=present)


@jax.jit
def resampled_scores(spectrum: Spectrum, masks, plan: SSFSPlan) -> ResampledScores:
    """Return the moments of the scores from models fitted on resamples (lines 3 to 16)."""
    s = spectrum
    return plan.choose.resampled(s.x, s.labels, masks, s.present, plan.chunk_size)


@jax.jit
def criterion(spectrum: Spectrum, plan: SSFSPlan) -> Float[Array, "d"]:
    """Return a criterion that needs no resamples for each eigenvector; smaller is better."""
    if plan.selection == "predictability":
        return 1 - _predictability(spectrum.x, spectrum.halves, spectrum.present)
    return spectrum.values


def _predictability(
    x: Float[Array, "n p"], labels: Bool[Array, "n d"], present: Bool[Array, "n"]
) -> Float[Array, "d"]:
    """Return the balanced accuracy with which the nearest neighbours of a sample predict its label.

    Neighbours at the same distance as the last voter share its vote. At most twice as many
    neighbours as voters are considered. If all samples are in one group, the recall of the empty
    group counts as 0, so that the balanced accuracy is at most ½.
    """
    number = min(_VOTERS, x.shape[0] - 1)
    near = nearest_neighbors(x, min(2 * number, x.shape[0] - 1), mask=present)
    known, square = near.indices >= 0, near.squared_distances
    voters = jnp.minimum(jnp.sum(known, axis=1, keepdims=True), number)
    last = jnp.take_along_axis(square, jnp.maximum(voters - 1, 0), axis=1)
    slack = last * eps(x.dtype) ** (2 / 3)  # larger than rounding, smaller than real differences
    nearer = known & (square < last - slack)
    tied = known & ~nearer & (square <= last + slack)
    nearer_number, tied_number = (jnp.sum(a, axis=1, keepdims=True) for a in (nearer, tied))
    side = labels[near.indices]
    certain, shared = (jnp.sum(side & a[:, :, None], axis=1) for a in (nearer, tied))
    # certain + (voters − nearer_number) shared / tied_number > voters / 2, in integers
    votes = certain * tied_number + (voters - nearer_number) * shared
    predicted = 2 * votes > voters * tied_number

    def recall(side):
        side = side & present[:, None]
        right = jnp.sum(side & (predicted == labels), axis=0)
        return safe_divide(right.astype(x.dtype), jnp.sum(side, axis=0).astype(x.dtype))

    return 0.5 * (recall(labels) + recall(~labels))


@jax.jit
def kept(values: Float[Array, "d"], plan: SSFSPlan) -> Int[Array, "k"]:
    """Return the eigenvectors with the smallest values of the criterion; NaN comes last."""
    order = jnp.argsort(jnp.where(jnp.isnan(values), jnp.inf, values))
    return order[: plan.num_pseudo_labels].astype(jnp.int32)


# ---- Algorithm 2: scores of features ------------------------------------------------------------


@jax.jit
def scored(spectrum: Spectrum, selected, plan: SSFSPlan) -> Float[Array, "k p"] | None:
    """Return the scores from the model of each kept eigenvector, or `None` for correlations.

    `result` computes the correlations.
    """
    if isinstance(plan.score, Correlation):
        return None
    s = spectrum
    return plan.score.scores(s.x, s.labels[:, selected], s.present, plan.binary)


@jax.jit
def result(
    spectrum: Spectrum, values, selected, each: Float[Array, "k p"] | None, plan: SSFSPlan
) -> SSFSResult:
    """Combine the scores for each kept eigenvector into one score for each feature.

    `values` is the criterion of every eigenvector. `each=None` stands for the squared correlations.
    If `each` is given, the squared correlations only order the features that score 0.
    """
    x, vectors = spectrum.x, spectrum.vectors
    correlations = Correlation().scores(x, vectors[:, selected], spectrum.present, False)
    if each is None:
        each = correlations
        scores = jnp.sum(each, axis=0)
    else:
        scores = _fill(jnp.max(each, axis=0), jnp.sum(correlations, axis=0))
    if plan.diverse:
        scores = diverse(unit_columns(x, spectrum.present), scores)
    pseudo = spectrum.halves.astype(jnp.int32) if plan.binary else vectors
    found = SSFSResult(scores, spectrum.values, vectors, pseudo, values, selected, each)
    return nan_unless(spectrum.known, found)


def _fill(scores: Float[Array, "p"], second: Float[Array, "p"]) -> Float[Array, "p"]:
    """Replace zero scores by numbers below all positive scores, in the order of `second`."""
    least = jnp.min(jnp.where(scores > 0, scores, jnp.inf))
    least = jnp.where(jnp.isinf(least), 1, least)
    share = second / (1 + second)  # below 1
    return jnp.where(scores == 0, 0.5 * least * share, scores)
