"""The steps of SSFS, each of which may be compiled for itself: Algorithms 1 and 2 of the paper."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs import _numerics
from jaxfs._numerics import eps, matmul, safe_divide
from jaxfs._types import Static
from jaxfs.graphs import nearest_neighbors
from jaxfs.graphs._laplacian import sample_eigenvectors
from jaxfs.methods.ssfs._medoids import two_medoids
from jaxfs.resample import subsample_masks
from jaxfs.surrogates._common import ResampledScores
from jaxfs.surrogates.models import Correlation

_VOTERS = 5
_DIVERSE = 2048  # so many features are ranked one after another, the rest at once
_REST = 0.001  # what is left of the score of a duplicate


class SSFSResult(NamedTuple):
    """What `ssfs` found. d eigenvectors were looked at and k of them kept.

    `scores (p,)`. `eigenvalues (d,)`, `eigenvectors (n, d)` and `pseudo_labels (n, d)`: of the
    Laplacian, the trivial one left out, and each in two groups, 0 and 1 (with continuous labels:
    the eigenvectors themselves); rows of padding are 0. `criterion (d,)`: what the eigenvectors
    were selected by, smaller is better. `selected (k,)`: which eigenvectors were kept, best first.
    `scores_per_eigenvector (k, p)`: what the scoring model gave for each.
    """

    scores: Float[Array, "p"]
    eigenvalues: Float[Array, "d"]
    eigenvectors: Float[Array, "n d"]
    pseudo_labels: Shaped[Array, "n d"]
    criterion: Float[Array, "d"]
    selected: Int[Array, "k"]
    scores_per_eigenvector: Float[Array, "k p"]


class Settings(NamedTuple):
    """What is static."""

    num_pseudo_labels: int
    num_eigenvectors: int
    standardize: bool
    num_neighbors: int
    binary: bool
    selection: str
    diverse: bool
    models: Static  # the classes of both models: see `Static`
    num_resamples: int = 0  # where nothing is resampled
    chunk_size: int = 0


class Spectrum(NamedTuple):
    """Samples, standardised if asked, the eigenvectors of their graph, and those cut in two."""

    x: Float[Array, "n p"]
    present: Bool[Array, "n"]
    values: Float[Array, "d"]
    vectors: Float[Array, "n d"]
    halves: Bool[Array, "n d"]
    labels: Float[Array, "n d"]  # what models are fitted to
    known: Bool[Array, ""]


@functools.partial(jax.jit, static_argnames="settings")
def run(key, x, present, choose, score, fraction, settings: Settings) -> SSFSResult:
    spectrum = analysed(x, present, settings)
    if settings.selection == "stability":
        masks = resamples(key, present, fraction, settings)
        resampled = resampled_scores(choose, spectrum, masks, settings)
        values = jnp.sum(resampled.variance, axis=1)
    else:
        values = criterion(spectrum, settings)
    selected = kept(values, settings)
    each = scored(score, spectrum, selected, settings)
    return result(spectrum, values, selected, each, settings)


def analysed(x, present, settings: Settings) -> Spectrum:
    s = settings
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & (jnp.sum(present) >= 4)
    x = jnp.where(present[:, None] & known, x, 0)
    if s.standardize:
        size = jnp.sqrt(jnp.sum(present).astype(x.dtype))
        x = size * _numerics.unit_columns(x, present)
    values, vectors = sample_eigenvectors(x, s.num_neighbors, s.num_eigenvectors, present)
    known = known & ~jnp.any(jnp.isnan(values))
    halves = jax.vmap(_cut_in_two, in_axes=(1, None), out_axes=1)(vectors, present)
    labels = halves.astype(x.dtype) if s.binary else vectors
    return Spectrum(x, present, values, vectors, halves, labels, known)


def _cut_in_two(v: Float[Array, "n"], present: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """2-medoids of half of the digits: entries that symmetry makes equal fall on one side."""
    step = jnp.max(jnp.abs(v)) * eps(v.dtype) ** 0.5
    return two_medoids(jnp.round(safe_divide(v, jnp.broadcast_to(step, v.shape))), present)


def resamples(key, present, fraction, settings: Settings) -> Bool[Array, "b n"]:
    return subsample_masks(
        key, settings.num_resamples, present.size, fraction=fraction, mask=present
    )


def resampled_scores(choose, spectrum: Spectrum, masks, settings: Settings) -> ResampledScores:
    """Algorithm 1, lines 3 to 16."""
    s = spectrum
    return choose.resampled(s.x, s.labels, masks, s.present, settings.chunk_size)


def criterion(spectrum: Spectrum, settings: Settings) -> Float[Array, "d"]:
    """The criteria that need no resamples."""
    if settings.selection == "predictability":
        return 1 - _predictability(spectrum.x, spectrum.halves, spectrum.present)
    return spectrum.values


def kept(values: Float[Array, "d"], settings: Settings) -> Int[Array, "k"]:
    """The eigenvectors with the smallest values of the criterion; NaN comes last."""
    order = jnp.argsort(jnp.where(jnp.isnan(values), jnp.inf, values))
    return order[: settings.num_pseudo_labels].astype(jnp.int32)


def scored(score, spectrum: Spectrum, selected, settings: Settings) -> Float[Array, "k p"] | None:
    """What a model gives the features for each eigenvector kept; `None`: their correlations."""
    if isinstance(score, Correlation):
        return None
    s = spectrum
    return score.scores(s.x, s.labels[:, selected], s.present, settings.binary)


def result(
    spectrum: Spectrum, by, selected, each: Float[Array, "k p"] | None, settings: Settings
) -> SSFSResult:
    """Algorithm 2, from what a model gave the features for each eigenvector kept.

    `by` is the criterion of every eigenvector. `each=None` stands for the squared correlations,
    which otherwise order features that score 0.
    """
    x, present, values, vectors, halves, _, known = spectrum
    correlations = Correlation().scores(x, vectors[:, selected], present, False)
    if each is None:
        each = correlations
        scores = jnp.sum(each, axis=0)
    else:
        scores = _fill(jnp.max(each, axis=0), jnp.sum(correlations, axis=0))
    if settings.diverse:
        scores = _diverse(_numerics.unit_columns(x, present), scores)

    def unless(a, otherwise=jnp.nan):
        return jnp.where(known, a, jnp.full_like(a, otherwise))

    binary = settings.binary
    pseudo = halves.astype(jnp.int32) if binary else vectors
    return SSFSResult(
        unless(scores),
        unless(values),
        unless(vectors),
        unless(pseudo, -1) if binary else unless(pseudo),
        unless(by),
        unless(selected, -1),
        unless(each),
    )


def _predictability(
    x: Float[Array, "n p"], labels: Bool[Array, "n d"], present: Bool[Array, "n"]
) -> Float[Array, "d"]:
    """The balanced accuracy of a vote of nearest neighbours on each label; 0 if it has one side.

    Neighbours as far away as the last voter share the votes that are left with it, up to as many
    again as there are voters.
    """
    number = min(_VOTERS, x.shape[0] - 1)
    near = nearest_neighbors(x, min(2 * number, x.shape[0] - 1), mask=present)
    known, square = near.indices >= 0, near.squared_distances
    voters = jnp.minimum(jnp.sum(known, axis=1, keepdims=True), number)
    last = jnp.take_along_axis(square, jnp.maximum(voters - 1, 0), axis=1)
    slack = last * eps(x.dtype) ** (2 / 3)  # between rounding and differences of real data
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
