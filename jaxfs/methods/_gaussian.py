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
    owner: Float[Array, "c m"]  # 1 where a block belongs to a class
    priors: Float[Array, "c"]
    deviations: Float[Array, "c d"]  # class means less the overall mean
    variances: Float[Array, "c d"]
    varies: Bool[Array, "d"]
    finite: Bool[Array, ""]


class Groups(NamedTuple):
    """Gaussians that are mixtures of the classes.

    Their covariances are Σ_g = Σ_c within_gc Σ_c + Σ_c between_gc dev_c dev_cᵀ − off_g off_gᵀ, with
    dev_c = μ_c − μ*; a diagonal ridge is added to each.
    """

    within: Float[Array, "g c"]
    between: Float[Array, "g c"]
    offsets: Float[Array, "g d"]
    priors: Float[Array, "g"]


def moments(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"] | None,
    num_classes: int,
) -> Moments:
    """1/N moments of the classes; a sample of weight zero, or of no class, is as if absent."""
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    source, label, owner = _sorted_blocks(y, weights > 0, num_classes)
    owner = owner.astype(x.dtype)
    filled = (source >= 0)[..., None]
    shares = jnp.where(source >= 0, weights[source], 0)
    sizes = matmul(owner, jnp.sum(shares, axis=1, keepdims=True))[:, 0]
    priors = sizes / jnp.sum(sizes)
    shares = safe_divide(shares, jnp.broadcast_to(sizes[label][:, None], shares.shape))
    # Less the first sample, so that large means do not cost digits.
    origin = x[source[0, 0]]
    blocks = jnp.where(filled, x[source] - origin[None, None], 0)
    means = matmul(owner, products(shares, blocks))
    centred = jnp.where(filled, blocks - means[label][:, None], 0)
    return Moments(
        blocks=centred,
        shares=shares,
        owner=owner,
        priors=priors,
        deviations=means - matmul(priors[None], means),
        variances=matmul(owner, jnp.sum(shares[..., None] * centred * centred, axis=1)),
        varies=jnp.max(jnp.abs(blocks), axis=(0, 1)) > 0,
        finite=jnp.all(jnp.isfinite(priors)) & jnp.all(jnp.isfinite(means)),
    )


@jax.jit
def count_varying(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Int[Array, ""]:
    """How many features take more than one value (NaN is one) in the samples present."""
    spread = jnp.abs(x - x[jnp.argmax(present)][None])
    return jnp.sum(jnp.max(jnp.where(present[:, None], spread, 0), axis=0) != 0)


def _sorted_blocks(y, present, num_classes: int):
    """For every place in the blocks its sample, −1 for none; every block's class, twice."""
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
    return source.reshape(size, rows), label, label[None] == classes[:, None]


def _block_rows(n: int, num_classes: int) -> int:
    """A power of two, from 8 to 128, with few places left empty: less than a block a class."""
    wanted = n // (8 * num_classes)
    return 2 ** min(max(wanted.bit_length() - 1, 3), 7)


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
        offsets=jnp.zeros((c + 2, d), p.dtype),
        priors=jnp.concat([m.priors, jnp.ones(2, p.dtype)]),
    )


def one_against_all_groups(m: Moments, shrinkage) -> Groups:
    """The classes, then for each class all others; two classes are one such problem, not two."""
    c, d = m.deviations.shape
    pairs = c if c > 2 else 1
    p = m.priors[:pairs]
    others = jnp.where(jnp.eye(pairs, c, dtype=bool), 0, m.priors[None])
    rest = jnp.sum(others, axis=1)
    others = safe_divide(others, jnp.broadcast_to(rest[:, None], others.shape))
    one_class = jnp.eye(pairs, c, dtype=p.dtype)
    return Groups(
        within=_shrunk(m, jnp.concat([one_class, others]), shrinkage),
        between=jnp.concat([jnp.zeros_like(one_class), others]),
        offsets=jnp.concat([jnp.zeros((pairs, d), p.dtype), matmul(others, m.deviations)]),
        priors=jnp.concat([p, rest]),
    )


def group_means(m: Moments, g: Groups) -> Float[Array, "g d"]:
    """The groups' means less the overall mean, for `one_against_all_groups`."""
    pairs = g.priors.shape[0] // 2
    return g.offsets.at[:pairs].set(m.deviations[:pairs])


def group_variances(m: Moments, g: Groups) -> Float[Array, "g d"]:
    squares = matmul(g.between, m.deviations * m.deviations) - g.offsets * g.offsets
    return matmul(g.within, m.variances) + squares


def class_rows(m: Moments, i: Int[Array, ""]) -> Float[Array, "c d"]:
    """The covariance of feature i with every feature, in every class: one pass over the data."""
    return matmul(m.owner, products(m.shares * column(m.blocks, i), m.blocks))


def group_rows(m: Moments, g: Groups, i: Int[Array, ""], own: Float[Array, "c d"]):
    """The same in every group, from those of the classes."""
    dev = m.deviations
    scatter = matmul(g.between, column(dev, i)[:, None] * dev)
    return matmul(g.within, own) + scatter - column(g.offsets, i)[:, None] * g.offsets


def group_covariances(m: Moments, g: Groups, indices: Int[Array, "k"]) -> Float[Array, "g k k"]:
    """The groups' covariances between a few features."""
    x, dev, off = (jnp.take(a, indices, axis=-1) for a in (m.blocks, m.deviations, g.offsets))
    per_block = jax.vmap(lambda share, x: matmul(x.T * share[None], x))(m.shares, x)
    within = _mix(g.within, _mix(m.owner, per_block))
    return within + _mix(g.between, _outer(dev)) - _outer(off)


def _outer(a: Float[Array, "g k"]) -> Float[Array, "g k k"]:
    return a[:, :, None] * a[:, None, :]


def _mix(weights: Float[Array, "g c"], a: Float[Array, "c k k"]) -> Float[Array, "g k k"]:
    return matmul(weights, a.reshape(a.shape[0], -1)).reshape(-1, *a.shape[1:])


# ---- The incremental Cholesky factor ------------------------------------------------------------


class Factor(NamedTuple):
    """Per group the rows of the Cholesky factor, extended to all features, and what they leave.

    Row m of `rows` is the covariance of every feature with the m-th whitened chosen one; rows not
    yet filled are zero. `residual` is σ²_{j|S}, `logdet` is log|Σ_S|.
    """

    rows: Float[Array, "g k d"]
    residual: Float[Array, "g d"]
    logdet: Float[Array, "g"]


def empty_factor(variances: Float[Array, "g d"], num_steps: int) -> Factor:
    groups, d = variances.shape
    rows = jnp.zeros((groups, num_steps, d), variances.dtype)
    return Factor(rows, variances, jnp.zeros(variances.shape[0], variances.dtype))


def column(a: Float[Array, "*b d"], i: Int[Array, ""]) -> Float[Array, "*b"]:
    """Entry i of the last axis."""
    return lax.dynamic_index_in_dim(a, i, axis=-1, keepdims=False)


def set_row(rows: Float[Array, "g k d"], step, row: Float[Array, "g d"]) -> Float[Array, "g k d"]:
    return lax.dynamic_update_index_in_dim(rows, row, step, axis=1)


def extend(f: Factor, step, i, cov: Float[Array, "g d"], floor) -> tuple[Factor, Array]:
    """The factor with feature i added as number `step`; and its new row."""
    variance = column(f.residual, i)
    row = (cov - products(column(f.rows, i), f.rows)) / jnp.sqrt(variance)[:, None]
    residual = jnp.maximum(f.residual - row * row, floor)
    return Factor(set_row(f.rows, step, row), residual, f.logdet + jnp.log(variance)), row


def total_variances(m: Moments) -> Float[Array, "d"]:
    """The variances of all samples."""
    return matmul(m.priors[None], m.variances + m.deviations * m.deviations)[0]


def is_copy(m: Moments, total: Float[Array, "d"], i, own: Float[Array, "c d"]) -> Bool[Array, "d"]:
    """Features that are, to rounding, an affine function of feature i: |correlation| is 1.

    `total` are the variances of all samples, `own` the rows of i. Under a ridge a copy is a second
    noisy measurement, and may look worth having; it is not.
    """
    rows = matmul(m.priors[None], own + column(m.deviations, i)[:, None] * m.deviations)[0]
    rounding = (8 + m.shares.size**0.5) * eps(rows.dtype)
    return rows * rows >= (1 - rounding) * column(rows, i) * total
