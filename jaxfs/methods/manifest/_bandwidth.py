"""Choice of ManiFeSt's bandwidth by cross-validation, without any eigendecomposition.

A bandwidth is good if the features that it ranks first predict the class. In the training part of
every fold, features are ranked by a cheap substitute of the ManiFeSt score: with K_ℓ the kernel of
class ℓ and K̄ the mean over the classes,

    s_f = max_ℓ ‖row f of K_ℓ − K̄‖₂,    which for two classes is ½ ‖row f of K₁ − K₂‖₂.

Kernel ridge regression on the best features then predicts the rest of the samples. The bandwidths
are quarters of each other, and K(σ/4) = K(σ)^16, so that one exponential serves all of them. Rows
of the kernels are computed in blocks and never stored.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import (
    decay,
    flat_draw,
    matmul,
    nan_unless,
    rank_present,
    safe_divide,
    standard_scores,
    varied,
)
from jaxfs._types import ArrayLike
from jaxfs.kernels import bandwidth
from jaxfs.kernels._distances import Points, between, mean_point, points_about, reweighted
from jaxfs.kernels._rbf import Median, sampled
from jaxfs.linalg._lapack import cholesky, solve_triangular
from jaxfs.methods.classical import anova_score, relieff_score
from jaxfs.methods.manifest._score import class_samples

#: The candidates: multiples of the median distance in each class. Each is a quarter of the one
#: before. A finer grid is worse: at some bandwidths only the substitute finds the features, and the
#: score does not.
FACTORS = (4.0, 1.0, 0.25, 0.0625)
#: Numbers of best features on which the classifier is trained; the losses are averaged.
NUM_FEATURES = (2, 5, 10, 20, 40)
#: Ridge of the classifier, in units of the diagonal of its kernel, which is 1.
RIDGE = 1.0
#: Maximum number of samples in use, because the time of a classifier grows with their cube. From
#: larger data, a random part of every class is used, which is enough for the choice.
MOST_SAMPLES = 400
#: Maximum number of samples for ReliefF as a partner, because its time grows with their square.
MOST_VISITED = 2000
#: Maximum number of columns of a kernel in use. If there are more features, they are sampled.
COLUMNS = 2048
#: Number of kernel entries in a block of rows, over all classes.
BLOCK = 2**21
#: Scores with which ManiFeSt can be combined.
PARTNERS = ("relieff", "anova")


class ManifestBandwidth(NamedTuple):
    """The bandwidth that cross-validation chose, and the loss of every candidate.

    - `factor`: the chosen multiple of the median distance, for `Median(factor)`.
    - `factors (4,)`: the candidates, descending.
    - `losses (4,)`: mean hinge loss of every candidate; smaller is better; about 1 is useless.
    """

    factor: Float[Array, ""]
    factors: Float[Array, "4"]
    losses: Float[Array, "4"]


def manifest_bandwidth(
    key: Array,
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    combine: str | None = None,
    num_folds: int = 5,
    num_repeats: int = 2,
    weights: ArrayLike | None = None,
) -> ManifestBandwidth:
    """Choose the bandwidth of ManiFeSt by cross-validation: a multiple of the median distance.

    The candidates are 4, 1, ¼ and 1/16 medians. In the training part of every fold, features are
    ranked by ‖row of K₁ − K₂‖₂, a cheap substitute of the score. Kernel ridge regression on the
    best 2, 5, 10, 20 and 40 features predicts the other samples. The candidate with the smallest
    mean hinge loss is chosen. Pass `Median(factor)` to `manifest_score`,
    `manifest_multiclass_score` or `manifest_lowrank_score`.

    **Arguments**

    - `key`: for drawing the folds, and the samples and features in use if there are many.
    - `x`: `(n, d)`, the samples of all classes; d ≥ 2.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `combine`: static, `"relieff"` or `"anova"`: choose the bandwidth for the sum of ManiFeSt and
      ReliefF, or ManiFeSt and √F, by `combine_scores(…, method="robust")`.
    - `num_folds`, `num_repeats`: static, at least 2 and 1. Folds are stratified by class.
    - `weights`: `(n,)`, nonnegative sample weights. A sample of weight zero has no effect, even if
      it contains NaN.

    **Returns** a `ManifestBandwidth`.

    **Numerics** ties take the larger factor. The factor and the losses are NaN if the data of a
    sample of positive weight are not finite, if a class has no weight, or if every class has one
    sample only. If the median distance is 0, as in sparse data, the factor multiplies the smallest
    positive distance.

    **Derivatives** are 0: the factor is piecewise constant. The derivatives of a score at the
    chosen factor are therefore those of `manifest_score` with this factor.

    **Cost** `num_folds` · `num_repeats` kernels of each class, in blocks of rows, without
    eigendecompositions: at most one `manifest_score` at d = 1000 (`benchmarks/speed/manifest.py`).
    At most 400 samples, and 2048 columns of the kernels, are used.

    The class is the exclusive or of features 0 and 4:

    >>> import jax
    >>> x = jax.random.bernoulli(jax.random.key(0), shape=(50, 100)).astype(float)
    >>> y = (x[:, 0] != x[:, 4]).astype(jnp.int32)
    >>> chosen = manifest_bandwidth(jax.random.key(1), x, y, num_classes=2)
    >>> float(chosen.factor)
    0.0625
    """
    _checks.key(key)
    x, w = class_samples(x, weights)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    _checks.has_every_class(y, w, "y", num_classes)
    if combine is not None:
        _checks.option(combine, "combine", PARTNERS)
    num_folds = _checks.integer(num_folds, "num_folds", low=2)
    num_repeats = _checks.integer(num_repeats, "num_repeats", low=1)
    w = jnp.ones(x.shape[0], x.dtype) if w is None else w
    options = {"num_classes": num_classes, "combine": combine}
    return _choose(key, x, y, w, folds=(num_folds, num_repeats), **options)


@functools.partial(jax.jit, static_argnames=("num_classes", "combine", "folds"))
def _choose(key, x, y, w, *, num_classes, combine, folds) -> ManifestBandwidth:
    x, w = lax.stop_gradient((x, w))
    x = jnp.where(w[:, None] > 0, x, 0)
    # 0 · ∞ is NaN, and a sum of floats compiles faster than `all`.
    known = jnp.sum(jnp.where(w[:, None] >= 0, 0 * x, jnp.nan)) == 0
    w = jnp.where((y >= 0) & (y < num_classes), w, 0)
    x = jnp.where(w[:, None] > 0, x, 0)
    y = jnp.clip(y, 0, num_classes - 1).astype(jnp.int32)
    if x.shape[0] > MOST_SAMPLES:
        key, thin = jax.random.split(key)
        part = _part(thin, y, w > 0, _counts(y, w > 0, num_classes), MOST_SAMPLES)
        x, y, w = x[part], y[part], w[part]
    member = jnp.where(y[None] == jnp.arange(num_classes, dtype=y.dtype)[:, None], w[None], 0)
    points = class_points(x, member)
    sigma = lax.map(_median_distance, (points, member))
    tests = fold_masks(key, y, w > 0, _counts(y, w > 0, num_classes), folds)

    def losses(test):
        train = jnp.where(test, 0, w)
        return fold_losses(x, y, train, w - train, member, points, sigma, combine)

    total = jnp.sum(lax.map(losses, tests), axis=0)
    mean = total / jnp.sum(jnp.where(tests, w[None], 0))  # NaN if no sample is ever tested
    known = known & (jnp.min(jnp.sum(member, axis=1)) > 0)
    mean = jnp.where(known, mean, jnp.nan)
    factors = jnp.asarray(FACTORS, x.dtype)
    factor = nan_unless(~jnp.isnan(mean[0]), factors[jnp.argmin(mean)])
    return ManifestBandwidth(factor, factors, mean)


def _median_distance(of_class: tuple[Points, Float[Array, "n"]]) -> Float[Array, ""]:
    points, w = of_class
    some = jax.tree.map(lambda a: a[sampled(a.shape[0], COLUMNS)], points)
    return bandwidth(between(some, some, w), Median(1.0))


@functools.partial(jax.jit, static_argnames=("num_classes", "combine"))
def combined_score(
    scores: Float[Array, "d"], x, y, *, num_classes: int, combine: str, weights
) -> Float[Array, "d"]:
    """The robust sum of the ManiFeSt scores and those of the partner."""
    if combine == "relieff" and x.shape[0] > MOST_VISITED:
        key, present = jax.random.key(0), weights > 0
        counts = _counts(y, present, num_classes)
        part = _part(key, y, present, counts, MOST_VISITED)
        x, y, weights = x[part], y[part], weights[part]
    partner = partner_score(x, y, weights, combine, num_classes)
    return jnp.sum(standard_scores(jnp.stack([scores, partner])), axis=0)


# ---- One fold -----------------------------------------------------------------------------------


def fold_losses(x, y, train, test, member, points, sigma, combine) -> Float[Array, "4"]:
    """Total loss over the test samples of one fold, for every factor.

    `train` and `test` are weights `(n,)`; `member (C, n)` are the weights of all samples of each
    class, `points` their `class_points`, and `sigma (C,)` their median distances.
    """
    inside = jnp.where(train > 0, member, 0)
    # Squared distances are sums over the samples.
    share = safe_divide(jnp.sum(inside, axis=1), jnp.sum(member, axis=1))
    scores = row_norms(points, inside, jnp.square(sigma) * share)
    if combine is not None:
        partner = partner_score(x, y, train, combine, member.shape[0])
        table = standard_scores(jnp.concat([scores, partner[None]]))
        scores = table[:-1] + table[-1:]
    best = lax.top_k(scores, min(max(NUM_FEATURES), x.shape[1]))[1]
    targets = jnp.where(jnp.matrix_transpose(member) > 0, 1.0, -1.0).astype(x.dtype)
    return lax.map(lambda chosen: hinge(x[:, chosen], targets, train, test), best)


def partner_score(x, y, weights, combine: str, num_classes: int) -> Float[Array, "d"]:
    """ReliefF, or √F of ANOVA. √F and ManiFeSt grow linearly with small differences of classes."""
    if combine == "relieff":
        return relieff_score(x, y, num_classes=num_classes, weights=weights)
    return jnp.sqrt(anova_score(x, y, num_classes=num_classes, weights=weights))


def class_points(x: Float[Array, "n d"], weights: Float[Array, "c n"]) -> Points:
    """The features as `Points` of each class.

    Their centre and level are accurate enough for a fold as well, which has fewer samples.
    """
    columns = jnp.matrix_transpose(x)
    chosen = columns[sampled(x.shape[1], COLUMNS)]
    return jax.vmap(lambda w: points_about(columns, w, mean_point(chosen, w)))(weights)


def row_norms(
    points: Points, weights: Float[Array, "c n"], squared_sigma: Float[Array, "c"]
) -> Float[Array, "4 d"]:
    """max_ℓ ‖row f of K_ℓ − K̄‖₂ for every factor, with `squared_sigma` the σ² at factor 1.

    `weights` may be 0 for samples that have weight in `points`.
    """
    d = points.level.shape[1]
    scale = (2 * max(FACTORS) ** 2 * squared_sigma)[:, None, None]
    points = jax.vmap(reweighted)(points, weights)
    others = jax.tree.map(lambda a: a[:, sampled(d, COLUMNS)], points)

    def columns_of(block: Points) -> Float[Array, "4 b"]:
        def step(kernels, _):
            # Sums as products with ones, which on CPU are ten times as fast as `jnp.sum`.
            flat = kernels.reshape(kernels.shape[0], -1)
            mean = matmul(jnp.full((1, flat.shape[0]), 1 / flat.shape[0], flat.dtype), flat)
            apart = kernels - mean.reshape(1, *kernels.shape[1:])
            ones = jnp.ones((kernels.shape[0], 1, kernels.shape[1]), flat.dtype)
            norm = jnp.max(matmul(ones, jnp.square(apart))[:, 0], axis=0)
            for _ in range(4):  # K(σ/4) = K(σ)^16
                kernels = jnp.square(kernels)
            return kernels, norm

        # With a loop, XLA stores the kernels instead of computing them again for every factor.
        kernels = decay(jax.vmap(between)(others, block, weights), scale)
        return jnp.sqrt(lax.scan(step, kernels, length=len(FACTORS))[1])

    number = math.ceil(others.level.size * d / BLOCK)
    size = math.ceil(d / number)

    def blocks(a):
        padded = jnp.pad(a, [(0, 0), (0, number * size - d)] + [(0, 0)] * (a.ndim - 2))
        return jnp.moveaxis(padded.reshape(a.shape[0], number, size, *a.shape[2:]), 1, 0)

    out = lax.map(columns_of, jax.tree.map(blocks, points))
    return jnp.moveaxis(out, 1, 0).reshape(len(FACTORS), -1)[:, :d]


def hinge(
    u: Float[Array, "n k"],
    targets: Float[Array, "n c"],
    train: Float[Array, "n"],
    test: Float[Array, "n"],
) -> Float[Array, ""]:
    """Total hinge loss of kernel ridge regression, averaged over classes and numbers of features.

    The regression of the targets ±1 of a class minimises Σ_i w_i (f(u_i) − t_i)² + λ ‖f‖² with the
    kernel exp(−‖u − v‖² / 2k) of the first k features.
    """
    share = (train / jnp.sum(train))[None]
    varying = varied(u, train > 0)[None]
    u = u - matmul(share, u)
    deviation = jnp.sqrt(matmul(share, jnp.square(u)))
    u = safe_divide(u, jnp.broadcast_to(jnp.where(varying, deviation, 0), u.shape))
    base = matmul(share, targets)
    root = jnp.sqrt(train)[:, None]
    identity = RIDGE * jnp.eye(u.shape[0], dtype=u.dtype)

    def loss(k):
        first = jnp.where(jnp.arange(u.shape[1], dtype=k.dtype)[None] < k, u, 0)
        # The features are standardised, so that the simple formula is accurate enough.
        inner, square = matmul(first, first.mT), jnp.vecdot(first, first)
        apart = jnp.maximum(square[:, None] + square[None] - 2 * inner, 0)
        kernel = jnp.exp(-apart / (2 * k.astype(u.dtype)))
        lower = cholesky(root * kernel * root.mT + identity)
        half = solve_triangular(lower, root * (targets - base))
        f = base + matmul(kernel, root * solve_triangular(lower, half, transpose=True))
        return jnp.sum(test[:, None] * jnp.maximum(0, 1 - targets * f)) / targets.shape[1]

    numbers = sorted({min(k, u.shape[1]) for k in NUM_FEATURES})
    return jnp.mean(lax.map(loss, jnp.asarray(numbers, jnp.int32)))


# ---- Draws --------------------------------------------------------------------------------------


def _counts(y: Int[Array, "n"], present: Bool[Array, "n"], num_classes: int) -> Int[Array, "c"]:
    return jnp.zeros(num_classes, jnp.int32).at[y].add(present.astype(jnp.int32))


def _places(key, y: Int[Array, "n"], present: Bool[Array, "n"], repeats: int) -> Int[Array, "r n"]:
    """Places of the samples in `repeats` random orders, sorted by class; padding comes last."""
    shape = (present.size, repeats)
    lots = flat_draw(jax.random.uniform, key, shape, jnp.float32)[rank_present(present)].T
    group = jnp.where(present, y, jnp.iinfo(y.dtype).max)
    index = lax.broadcasted_iota(jnp.int32, lots.shape, 1)
    order = lax.sort((jnp.broadcast_to(group, lots.shape), lots, index), num_keys=2)[2]
    return jnp.argsort(order, axis=1).astype(jnp.int32)


def fold_masks(
    key, y: Int[Array, "n"], present: Bool[Array, "n"], counts: Int[Array, "c"], folds
) -> Bool[Array, "f n"]:
    """Masks of the test samples of every fold, stratified by class; `counts` are the class sizes.

    The only sample of a class is never tested.
    """
    number, repeats = folds
    places = _places(key, y, present, repeats)
    tested = present & (counts[y] > 1)
    fold = jnp.arange(number, dtype=jnp.int32)[None, :, None]
    return ((places[:, None] % number == fold) & tested[None, None]).reshape(-1, y.shape[0])


def _part(key, y, present, counts, number: int) -> Int[Array, "m"]:
    """Indices of `number` samples: the same share of every class, drawn at random; padding last."""
    first = jnp.cumsum(counts, dtype=counts.dtype) - counts
    place = (_places(key, y, present, 1)[0] - first[y]).astype(jnp.float32) + 0.5
    share = place / jnp.maximum(counts[y], 1).astype(jnp.float32)
    return jnp.argsort(jnp.where(present, share, jnp.inf))[:number]
