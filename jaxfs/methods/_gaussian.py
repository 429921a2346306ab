"""Gaussian models of classes, one feature more at a time: the arithmetic of `gaussian.py`.

Every covariance that the criteria need is a mixture of the classes' own (eq. 9), so one product
with the data gives a new feature's covariance with all others, in all groups. An incremental
Cholesky factor per group turns it into the conditional variances σ²_{j|S} (section 3.4) in O(|S|)
a candidate. Nothing of size d×d is formed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide


class Moments(NamedTuple):
    """The classes' priors, means and variances, and the data that give their covariances.

    Samples are sorted by class into blocks of b rows that belong to one class each, the last of a
    class filled with zeros: products block by block run at the speed of memory, where a product
    masked by class would repeat the work for every class.
    """

    blocks: Float[Array, "m b d"]  # samples less the mean of their class
    shares: Float[Array, "m b"]  # each sample's weight in its class; 0 where there is none
    label: Int[Array, "m"]  # each block's class
    priors: Float[Array, "c"]
    deviations: Float[Array, "c d"]  # class means less the overall mean
    variances: Float[Array, "c d"]
    varies: Bool[Array, "d"]
    finite: Bool[Array, ""]


class Groups(NamedTuple):
    """Gaussians that are mixtures of the classes.

    Their covariances are Σ_g = Σ_c within_gc Σ_c + Σ_c between_gc (μ_c − μ_g)(μ_c − μ_g)ᵀ; a
    diagonal ridge is added to each. Means are less the overall one.
    """

    within: Float[Array, "g c"]
    between: Float[Array, "g c"]
    means: Float[Array, "g d"]
    priors: Float[Array, "g"]  # 0 for a group that is not there


def moments(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"] | None,
    num_classes: int,
) -> Moments:
    """1/N moments of the classes; a sample of weight zero, or of no class, is as if absent."""
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    source, label, middle = _sorted_blocks(y, weights > 0, num_classes)
    filled = (source >= 0)[..., None]
    shares = jnp.where(source >= 0, weights[source], 0)
    sizes = _by_class(label, jnp.sum(shares, axis=1, keepdims=True), num_classes)[:, 0]
    priors = sizes / jnp.sum(sizes)
    shares = safe_divide(shares, jnp.broadcast_to(sizes[label][:, None], shares.shape))
    # Less a value that the feature takes, so that large means do not cost digits: the median of
    # three samples, lest it be an outlier.
    origin = jnp.median(x[middle], axis=0)
    blocks = jnp.where(filled, x[source] - origin[None, None], 0)
    means = _by_class(label, products(shares, blocks), num_classes)
    centred = jnp.where(filled, blocks - means[label][:, None], 0)
    squares = jnp.sum(shares[..., None] * centred * centred, axis=1)
    variances = _by_class(label, squares, num_classes)
    return Moments(
        blocks=centred,
        shares=shares,
        label=label,
        priors=priors,
        deviations=means - matmul(priors[None], means),
        variances=variances,
        varies=jnp.max(jnp.abs(blocks), axis=(0, 1)) > 0,
        finite=jnp.all(jnp.isfinite(priors)) & jnp.all(jnp.isfinite(means + variances)),
    )


def _by_class(label: Int[Array, "m"], a: Float[Array, "m d"], num_classes: int):
    """The sums over the blocks of each class: a product, or for many classes a scatter."""
    if num_classes > 32:
        return jax.ops.segment_sum(a, label, num_classes, indices_are_sorted=True)
    classes = jnp.arange(num_classes, dtype=label.dtype)
    return matmul((label[None] == classes[:, None]).astype(a.dtype), a)


@jax.jit
def count_varying(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Int[Array, ""]:
    """How many features take more than one value (NaN is one) in the samples present."""
    spread = jnp.abs(x - x[jnp.argmax(present)][None])
    return jnp.sum(jnp.max(jnp.where(present[:, None], spread, 0), axis=0) != 0)


def _sorted_blocks(y, present, num_classes: int):
    """For every place in the blocks its sample, −1 for none; every block's class; three samples."""
    n, rows = y.shape[0], _block_rows(y.shape[0], num_classes)
    size = n // rows + num_classes
    y = jnp.where(present & (y >= 0) & (y < num_classes), y, num_classes).astype(jnp.int32)
    order = jnp.argsort(y, stable=True).astype(jnp.int32)  # those of no class come last
    classes = jnp.arange(num_classes, dtype=jnp.int32)
    counts = jnp.sum(y[None] == classes[:, None], axis=1, dtype=jnp.int32)
    blocks = -(-counts // rows)
    ends = jnp.cumsum(blocks)
    # From a sample's rank in the order to its place.
    shift = jnp.append(rows * (ends - blocks) - (jnp.cumsum(counts) - counts), rows * size)
    place = jnp.arange(n, dtype=jnp.int32) + shift[y[order]]
    source = jnp.full(size * rows, -1, jnp.int32).at[place].set(order, mode="drop")
    label = jnp.sum(
        jnp.arange(size, dtype=jnp.int32)[:, None] >= ends[None], axis=1, dtype=jnp.int32
    )
    label = jnp.minimum(label, num_classes - 1)
    last = jnp.maximum(jnp.sum(counts) - 1, 0)
    return (
        source.reshape(size, rows),
        label,
        order[jnp.stack([jnp.zeros_like(last), last // 2, last])],
    )


def _block_rows(n: int, num_classes: int) -> int:
    """A power of two up to 128, with few places left empty: less than a block a class."""
    wanted = n // (8 * num_classes)
    return 2 ** min(max(wanted.bit_length() - 1, 0), 7)


def products(u: Float[Array, "g k"], rows: Float[Array, "g k d"]) -> Float[Array, "g d"]:
    """u_g @ rows_g."""
    return jnp.einsum("gk,gkd->gd", u, rows, precision=lax.Precision.HIGHEST)


def _shrunk(m: Moments, weights: Float[Array, "g c"], shrinkage) -> Float[Array, "g c"]:
    """Mixture weights when each class's covariance is drawn towards the pooled one."""
    total = jnp.sum(weights, axis=1, keepdims=True)
    return (1 - shrinkage) * weights + shrinkage * total * m.priors[None]


def compromise_groups(m: Moments, shrinkage) -> Groups:
    """The classes, then f* (all samples), then the pooled within-class Gaussian."""
    c, d = m.deviations.shape
    p = m.priors[None]
    one_class = jnp.eye(c, dtype=p.dtype)
    return Groups(
        within=_shrunk(m, jnp.concat([one_class, p, p]), shrinkage),
        between=jnp.concat([jnp.zeros_like(one_class), p, jnp.zeros_like(p)]),
        means=jnp.concat([m.deviations, jnp.zeros((2, d), p.dtype)]),
        priors=jnp.concat([m.priors, jnp.ones(2, p.dtype)]),
    )


def one_against_all_groups(m: Moments, shrinkage) -> Groups:
    """The classes, then for each class all others; two classes are one such problem, not two."""
    c = m.priors.shape[0]
    pairs = c if c > 2 else 1
    p = m.priors[:pairs]
    others = jnp.where(jnp.eye(pairs, c, dtype=bool), 0, m.priors[None])
    rest = jnp.sum(others, axis=1)
    others = safe_divide(others, jnp.broadcast_to(rest[:, None], others.shape))
    one_class = jnp.eye(pairs, c, dtype=p.dtype)
    return Groups(
        within=_shrunk(m, jnp.concat([one_class, others]), shrinkage),
        between=jnp.concat([jnp.zeros_like(one_class), others]),
        means=jnp.concat([m.deviations[:pairs], matmul(others, m.deviations)]),
        priors=jnp.where(jnp.tile((p > 0) & (rest > 0), 2), jnp.concat([p, rest]), 0),
    )


def group_variances(m: Moments, g: Groups, ridge) -> Float[Array, "g d"]:
    """With the ridge; 1 for a group that is not there, so that it does no harm."""

    def scatter(group):
        weights, mean = group
        return matmul(weights[None], jnp.square(m.deviations - mean[None]))[0]

    between = lax.map(scatter, (g.between, g.means))
    variances = matmul(g.within, m.variances) + between + ridge
    return jnp.where((g.priors > 0)[:, None], variances, 1)


def class_rows(m: Moments, i: Int[Array, ""]) -> Float[Array, "c d"]:
    """The covariance of feature i with every feature, in every class: one pass over the data."""
    per_block = products(m.shares * column(m.blocks, i), m.blocks)
    return _by_class(m.label, per_block, m.priors.shape[0])


def group_rows(m: Moments, g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]):
    """The same in every group, from those of the classes."""
    weights = g.between * (column(m.deviations, i)[None] - column(g.means, i)[:, None])
    both = matmul(jnp.concat([g.within, weights], axis=1), jnp.concat([own, m.deviations]))
    cov = both - jnp.sum(weights, axis=1, keepdims=True) * g.means
    return jnp.where((g.priors > 0)[:, None], cov, 0)


def group_covariances(m: Moments, g: Groups, indices: Int[Array, "k"]) -> Float[Array, "g k k"]:
    """The groups' covariances between a few features."""
    x, dev, mean = (jnp.take(a, indices, axis=-1) for a in (m.blocks, m.deviations, g.means))
    per_block = jax.vmap(lambda share, x: matmul(x.T * share[None], x))(m.shares, x)
    flat = per_block.reshape(per_block.shape[0], -1)
    own = _by_class(m.label, flat, m.priors.shape[0])
    away = dev[None] - mean[:, None]  # (g, c, k)
    scatter = jax.vmap(lambda w, a: matmul(a.T * w[None], a))(g.between, away)
    return matmul(g.within, own).reshape(scatter.shape) + scatter


# ---- The incremental Cholesky factor ------------------------------------------------------------


class Factor(NamedTuple):
    """Per group the rows of the Cholesky factor, extended to all features, and what they leave.

    Row m of `rows` is the covariance of every feature with the m-th whitened chosen one; rows not
    yet filled are zero. The `newest` is written at the next step, before anything is read: then XLA
    updates the rows in place. `residual` is σ²_{j|S}.
    """

    rows: Float[Array, "g k d"]
    newest: Float[Array, "g d"]
    residual: Float[Array, "g d"]


def empty_factor(variances: Float[Array, "g d"], num_steps: int) -> Factor:
    groups, d = variances.shape
    rows = jnp.zeros((groups, num_steps, d), variances.dtype)
    return Factor(rows, jnp.zeros_like(variances), variances)


def column(a: Float[Array, "*b d"], i: Int[Array, ""]) -> Float[Array, "*b"]:
    """Entry i of the last axis."""
    return lax.dynamic_index_in_dim(a, i, axis=-1, keepdims=False)


def write(rows: Float[Array, "g k d"], newest: Float[Array, "g d"], step) -> Float[Array, "g k d"]:
    """The rows with the one that the step before has left; at step 0 that is a row of zeros."""
    return lax.dynamic_update_index_in_dim(rows, newest, jnp.maximum(step - 1, 0), axis=1)


def extend(f: Factor, i, cov: Float[Array, "g d"], floor) -> Factor:
    """The factor with feature i added; its rows are all written."""
    variance = column(f.residual, i)
    row = (cov - products(column(f.rows, i), f.rows)) / jnp.sqrt(variance)[:, None]
    return Factor(f.rows, row, jnp.maximum(f.residual - row * row, floor))


def total_variances(m: Moments) -> Float[Array, "d"]:
    """The variances of all samples."""
    return matmul(m.priors[None], m.variances + m.deviations * m.deviations)[0]


def total_row(m: Moments, i, own: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The covariance of feature i with every feature, over all samples."""
    return matmul(m.priors[None], own + column(m.deviations, i)[:, None] * m.deviations)[0]


def is_copy(m: Moments, variances, row: Float[Array, "d"], i) -> Bool[Array, "d"]:
    """Features that are, to rounding, an affine function of feature i: |correlation| is 1.

    `variances` and `row` are those of all samples. Under a ridge a copy is a second noisy
    measurement, and may look worth having; it is not.
    """
    # Not the squares of covariances, which overflow.
    scale = jnp.sqrt(jnp.maximum(column(row, i), 0)) * jnp.sqrt(variances)
    correlation = safe_divide(row, scale)
    rounding = (8 + m.blocks.shape[0] ** 0.5 + m.blocks.shape[1] ** 0.5) * eps(row.dtype)
    return correlation * correlation >= 1 - rounding
