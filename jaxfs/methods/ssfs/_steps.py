"""The steps of SSFS: Algorithms 1 and 2 of the paper.

A caller that reports progress runs the steps one at a time; each step is then compiled separately.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs._numerics import eps, matmul, nan_unless, safe_divide, standard_columns, unit_columns
from jaxfs._types import Static
from jaxfs.graphs import nearest_neighbors
from jaxfs.graphs._laplacian import sample_eigenvectors
from jaxfs.linalg._lapack import all_finite
from jaxfs.methods.classical._diversity import diverse
from jaxfs.resample import subsample_masks
from jaxfs.surrogates._shared import ResampledScores
from jaxfs.surrogates.models import Correlation, ScoringModel

#: Number of neighbours that vote on the label of a sample.
_VOTERS = 5
#: Bounds of the number of features, otherwise a fifth, that build the graphs of the next pass.
_FEWEST, _MOST = 100, 1000


class SSFSResult(NamedTuple):
    """Scores of `ssfs`, and the k of d eigenvectors from which they come.

    `scores (p,)`: the scores of the features. `eigenvalues (d,)`, `eigenvectors (n, d)`: the
    spectrum of the Laplacian, without the trivial eigenvector. `pseudo_labels (n, d)`: the group, 0
    or 1, in which each eigenvector puts each sample (continuous labels: the eigenvectors); rows of
    padding are 0. `criterion (d,)`: the criterion by which eigenvectors were selected, smaller is
    better. `selected (k,)`: indices of the kept eigenvectors, best first. `scores_per_eigenvector
    (k, p)`: the scores of the features from the scoring model of each kept eigenvector.

    With g graphs, d and k are g times as large: the eigenvectors of the first graph come first.
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
    num_neighbors: tuple[int, ...] = eqx.field(static=True)  # one graph for each
    num_passes: int = eqx.field(static=True)
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
    found = _one_pass(key, x, present, plan, None)
    for _ in range(plan.num_passes - 1):
        found = _one_pass(key, x, present, plan, best(found.scores))
    return found


def _one_pass(key, x, present, plan: SSFSPlan, columns) -> SSFSResult:
    spectrum = analysed(x, present, plan, columns)
    if plan.selection == "stability":
        masks = resamples(key, present, plan)
        values = jnp.sum(resampled_scores(spectrum, masks, plan).variance, axis=1)
    else:
        values = criterion(spectrum, plan)
    selected = kept(values, plan)
    return result(spectrum, values, selected, scored(spectrum, selected, plan), plan)


# ---- Pseudo-labels ------------------------------------------------------------------------------


@jax.jit
def best(scores: Float[Array, "p"]) -> Int[Array, "m"]:
    """Return the features from which the graphs of the next pass are built."""
    p = scores.size
    return lax.top_k(scores, min(p, max(_FEWEST, min(_MOST, p // 5))))[1]


@jax.jit
def analysed(x, present, plan: SSFSPlan, columns: Int[Array, "m"] | None = None) -> Spectrum:
    """Return the eigenvectors of the graphs of `columns`, or of all features."""
    features = jnp.where(present[:, None], x, 0)
    known = all_finite(features)[0, 0] & (jnp.sum(present.astype(x.dtype)) >= 4)
    features = jnp.where(known, features, 0)
    x = standard_columns(features, present) if plan.standardize else features
    seen, basis = (a if columns is None else a[:, columns] for a in (x, features))
    pairs = [
        sample_eigenvectors(seen, q, plan.num_eigenvectors, present, basis)
        for q in plan.num_neighbors
    ]
    values, vectors = (jnp.concat(parts, axis=-1) for parts in zip(*pairs, strict=True))
    known = known & all_finite(values[None])[0, 0]
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
    there = jnp.sum(present.astype(v.dtype))
    rising = jnp.sort(jnp.where(present, v, jnp.inf))
    index = jnp.arange(n)
    # Numbers relative to the median, so that a common offset does not cost digits.
    t = there.astype(index.dtype)
    s = jnp.where(index < t, rising - rising[t // 2], 0)
    # With S_j = s_0 + … + s_j, the costs Σ |s_i − median| of the groups s_0 … s_i and
    # s_{i+1} … s_{t−1} add up to S_{t−1} + 2 S_i − g_i − g_{i+t}, where g_{2j} = 2 S_j − s_j and
    # g_{2j+1} = 2 S_j: the medians of the groups are s_j with j = i // 2 and j = (i + t) // 2.
    twice = 2 * _prefix_sums(s)
    g = jnp.stack([twice - s, twice], axis=1).reshape(-1)
    cost = twice - g[:n] - lax.dynamic_slice(g, (t,), (n,))
    split = (index + 1 < t) & (jnp.append(s[1:], 0) > s)
    last = jnp.argmin(jnp.where(split, cost, jnp.inf))  # 0 if all numbers are equal
    return present & (v > rising[last] + 0 * twice[-1])


def _prefix_sums(s: Float[Array, "n"]) -> Float[Array, "n"]:
    """Return `jnp.cumsum(s)` by products with a triangular matrix, which compile faster."""
    size = math.isqrt(s.shape[0] - 1) + 1
    triangle = (jnp.arange(size)[:, None] <= jnp.arange(size)[None]).astype(s.dtype)
    blocks = jnp.pad(s, (0, size * size - s.shape[0])).reshape(size, size)
    within = matmul(blocks, triangle)
    total = within[:, -1]
    before = matmul(total[None], triangle)[0] - total
    return (within + before[:, None]).reshape(-1)[: s.shape[0]]


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
    square = near.squared_distances
    count = lambda a, axis: jnp.sum(a.astype(x.dtype), axis=axis)  # noqa: E731
    there = count(near.indices >= 0, 1)[:, None]
    voters = jnp.minimum(there, number)
    rank = jnp.arange(square.shape[1], dtype=x.dtype)[None]
    last = jnp.max(jnp.where(rank < voters, square, 0), axis=1, keepdims=True)
    slack = last * eps(x.dtype) ** (2 / 3)  # larger than rounding, smaller than real differences
    nearer = square < last - slack
    tied = ~nearer & (square <= last + slack) & (rank < there)
    nearer_number, tied_number = (count(a, 1)[:, None] for a in (nearer, tied))
    # Those that tie have (voters − nearer_number) / tied_number votes each; in whole numbers:
    votes = jnp.where(nearer, tied_number, jnp.where(tied, voters - nearer_number, 0))
    ayes = jnp.sum(jnp.where(labels[near.indices], votes[:, :, None], 0), axis=1)
    right = (2 * ayes > voters * tied_number) == labels

    def recall(side):
        side = side & present[:, None]
        return safe_divide(count(side & right, 0), count(side, 0))

    return 0.5 * (recall(labels) + recall(~labels))


@jax.jit
def kept(values: Float[Array, "d"], plan: SSFSPlan) -> Int[Array, "k"]:
    """Return the eigenvectors of each graph with the smallest criteria; NaN comes last."""
    of_graph = jnp.where(jnp.isnan(values), jnp.inf, values).reshape(-1, plan.num_eigenvectors)
    order = jnp.argsort(of_graph, axis=1)[:, : plan.num_pseudo_labels].astype(jnp.int32)
    first = plan.num_eigenvectors * jnp.arange(order.shape[0], dtype=jnp.int32)
    return (first[:, None] + order).reshape(-1)


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
    x, vectors, present = spectrum.x, spectrum.vectors, spectrum.present
    number = jnp.sum(present.astype(x.dtype))
    units = x * lax.rsqrt(number) if plan.standardize else unit_columns(x, present)
    correlations = _squared_correlations(units, vectors[:, selected], present, number)
    if each is None:
        each = correlations
        scores = jnp.sum(each, axis=0)
    else:
        scores = _fill(jnp.max(each, axis=0), jnp.sum(correlations, axis=0))
    if plan.diverse:
        scores = diverse(units, scores)
    pseudo = spectrum.halves.astype(jnp.int32) if plan.binary else vectors
    found = SSFSResult(scores, spectrum.values, vectors, pseudo, values, selected, each)
    return nan_unless(spectrum.known, found)


def _squared_correlations(units: Float[Array, "n p"], v: Float[Array, "n k"], present, number):
    """Return the squared correlations of vectors with features of mean 0 and length 1, `(k, p)`.

    Means and lengths are matrix products, which compile faster than sums over few columns.
    """
    share = jnp.broadcast_to(present.astype(v.dtype) / number, (2, present.size))
    centre = jnp.where(present[:, None], v - matmul(share, v)[:1], 0)
    square = jnp.diagonal(matmul(centre.T, centre))[:, None]
    product = jnp.square(matmul(centre.T, units))
    return safe_divide(product, jnp.broadcast_to(square, product.shape))


def _fill(scores: Float[Array, "p"], second: Float[Array, "p"]) -> Float[Array, "p"]:
    """Replace zero scores by numbers below all positive scores, in the order of `second`."""
    least = jnp.min(jnp.where(scores > 0, scores, jnp.inf))
    least = jnp.where(jnp.isinf(least), 1, least)
    share = second / (1 + second)  # below 1
    return jnp.where(scores == 0, 0.5 * least * share, scores)
