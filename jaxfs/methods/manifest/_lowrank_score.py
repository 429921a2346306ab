"""Low-rank ManiFeSt scores for very many features, and estimates of the cost of ManiFeSt.

The exact score needs six d×d matrices and two `eigh` of size d. Here each kernel is a low-rank
factor plus a multiple of the identity. All other steps are exact: outside the span of both factors
D is a multiple of the identity, so the mean, the difference and |D| only need matrices of twice the
rank.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels import feature_bandwidth
from jaxfs.kernels._distances import coordinate_weights
from jaxfs.kernels._rbf import Bandwidth, Median, Percentile, check_bandwidth, sampled
from jaxfs.methods.manifest import _nystrom, _score
from jaxfs.methods.manifest._blocks import block_score
from jaxfs.methods.manifest._shard import Shard

#: Largest number of features for which a bandwidth rule may use all distances.
MOST_EXACT = 16384

#: Number of features whose mean is the origin of all features, if `bandwidth` is not a rule.
SEEN = 2048


def manifest_lowrank_score(
    key: Array,
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    rank: int,
    bandwidth: Bandwidth = Median(1.0, sample=2048),
    ridge: Scalar = _score.RIDGE,
    t: Scalar = 0.5,
    landmarks: int | None = None,
    refine: int | None = None,
    block: int | None = None,
    weights1: ArrayLike | None = None,
    weights2: ArrayLike | None = None,
) -> Float[Array, "d"]:
    """ManiFeSt score for many features, from low-rank kernels, in time and memory linear in d.

    Each kernel is approximated as K ≈ V (Λ − c I) Vᵀ + (c + `ridge`) I, where Λ and V are the
    `rank` leading eigenpairs and c = (d − tr Λ)/(d − `rank`) is the mean of all other eigenvalues:
    the trace of K is d. D and |D| of these approximations are then computed exactly, in 2·`rank`
    dimensions. The approximation is good if the dropped eigenvalues are small or nearly equal. At a
    bandwidth between these two cases it can differ much from `manifest_score`.

    `block` makes it accurate there too. The features are divided into blocks of near neighbours.
    For each block b, both kernels are restricted to the span of [E_b Q], where E_b holds the
    coordinate vectors of its features, and Q is an orthonormal basis of the leading eigenvectors of
    both kernels: the kernels within the block are exact. The scores of the block are diag |D| of
    the restricted kernels plus `ridge` I.

    **Arguments**

    - `key`: for drawing the landmarks.
    - `x1`, `x2`: `(n1, d)` and `(n2, d)`, the samples of the two classes; d ≥ 2, one dtype.
    - `rank`: static, at most d: the number of eigenpairs of each kernel. It may exceed the number
      of samples, because Gaussian kernels are not linear in the samples.
    - `bandwidth`: as in `manifest_score`; the default rule uses 2048 features. With more than
      16 384 features a rule must have a `sample`.
    - `ridge`: positive, unless the rank is d.
    - `t`, `weights1`, `weights2`: as in `manifest_score`.
    - `landmarks`: static, in [`rank`, d]: the number of features whose kernel columns give the
      eigenpairs; by default 4·`rank`. With d landmarks the eigenpairs are exact.
    - `refine`: static: the number of passes over the whole kernel that improve the eigenpairs, each
      O(d²) in time but not in memory; by default one if d ≤ 10·`landmarks` and there are no
      blocks, else none.
    - `block`: static, in [1, d]: the largest number of features of a block; by default there are no
      blocks. d/4 is accurate at small bandwidths. Smaller blocks are less accurate and, down to
      `rank` features, take less time.

    **Returns** `(d,)`, nonnegative, larger is more different. With `rank` = d the result is
    `manifest_score`.

    **Numerics** if JAX has float64 enabled (`jax_enable_x64`), the 2·`rank` problem and the
    matrices that define the eigenpairs are in float64 for every dtype of the data. On real data,
    scores computed entirely in float32 differed from these by at most 2e-3 of the top score. NaN in
    the data makes all scores NaN. A traced ridge below 0 also makes all scores NaN.

    **Accuracy** on real data at rank 200, as the number of the top 100 features in common with the
    exact score, without blocks and with blocks of d/4 (`benchmarks/precision/lowrank.py`):

    | | `Median(1.0)` | `Median(0.25)` |
    |---|---|---|
    | Prostate-GE, 5966 features | 89, 91 | 28, 87 |
    | gravier, 2905 features | 85, 97 | 73, 95 |
    | colon, 2000 features | 92, 91 | 76, 98 |

    **Derivatives** in `x1`, `x2`, `bandwidth`, `ridge`, `t`: through the factors and their joint
    subspace, with constant landmarks. The derivatives of the approximate score are exact if
    eigenvalues `rank` and `rank` + 1 of the approximate kernel differ; otherwise they are finite,
    but meaningless. A second derivative raises `NotImplementedError`.

    With blocks, Q and the blocks are constants of the derivative.

    **Cost** O(d·m²) time for m landmarks, and memory for about 12·`rank` numbers per feature;
    blocks of b features add O(d²·`rank` + d·(b + 2·`rank`)³/b) time and O((b + 2·`rank`)²) memory;
    `manifest_cost` gives the bytes. 100 000 float32 features of 80 samples at rank 200 take 10
    CPU-seconds, 4 more to compile, and 1.3 GB of resident memory.

    Features 0 and 1 are equal in the first class and opposite in the second:

    >>> import jax
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 30, 6))
    >>> x1, x2 = x1.at[:, 1].set(x1[:, 0]), x2.at[:, 1].set(-x2[:, 0])
    >>> score = manifest_lowrank_score(jax.random.key(1), x1, x2, rank=5)
    >>> sorted(score.argsort()[-2:].tolist())
    [0, 1]
    """
    arguments, options = lowrank_arguments(
        key, x1, x2, rank, bandwidth, ridge, t, landmarks, refine, block, weights1, weights2
    )
    return _compiled(*arguments, **options)


class ManifestCost(NamedTuple):
    """Estimated cost of a ManiFeSt score: peak memory without the arguments, and flops."""

    memory_bytes: int
    flops: int


def manifest_cost(
    d: int,
    n: int,
    rank: int | None = None,
    dtype: Any = None,
    *,
    landmarks: int | None = None,
    refine: int | None = None,
    block: int | None = None,
) -> ManifestCost:
    """Estimate of the memory and operations of `manifest_score` or `manifest_lowrank_score`.

    **Arguments**

    - `d`, `n`: the number of features, and the number of samples of the larger class.
    - `rank`, `landmarks`, `refine`, `block`: the arguments of `manifest_lowrank_score`. `rank=None`
      means the exact `manifest_score`, which has none of the others.
    - `dtype`: the dtype of the data; by default JAX's default float.

    **Returns** a `ManifestCost`: `memory_bytes`, the peak memory without the data and without the
    compiler (about 0.3 GB), and `flops`. Both estimates are accurate within a factor of two, and do
    not include the cost of a sampled bandwidth.

    >>> manifest_cost(100_000, 40).memory_bytes > 3e11
    True
    >>> manifest_cost(100_000, 40, rank=200, dtype="float32").memory_bytes < 2e9
    True
    """
    d, n = _checks.integer(d, "d", low=2), _checks.integer(n, "n", low=1)
    itemsize = _checks.float_dtype(dtype, "dtype").itemsize
    for value, name in ((landmarks, "landmarks"), (refine, "refine"), (block, "block")):
        _checks.only_if(rank is not None, value, name, "rank is given")
    if rank is None:
        # Two eigh of about 9 d³, a Cholesky factor, two triangular solves and three products.
        return ManifestCost(8 * d * d * itemsize, 27 * d**3)
    k, m, refine, block = _ranks(d, rank, landmarks, refine, block)
    joint = min(2 * k, d)
    candidates = _nystrom.num_candidates(d, m) if m < d else 0
    # Both factors, their joint basis with LAPACK's copies, and a product.
    memory = max(4 * candidates * 3 * m, itemsize * d * 6 * joint) + itemsize * (
        2 * n * d + 6 * max(_nystrom.BLOCK, d)
    )
    memory += 8 * (8 * m * m + 10 * joint * joint)
    row = 2 * n + 20  # a kernel entry: a product of n terms and an exponential
    flops = 2 * (d * m * (2 * row + 4 * m + 2 * k) + 20 * m**3 + refine * d * d * (row + 2 * k))
    flops += 2 * candidates * (candidates * row + 2 * m * m)
    flops += 10 * d * joint * joint
    if block:
        # The restricted kernels of one block, in the widest dtype, and K Q of both classes.
        wide = block + joint
        memory += 8 * 8 * wide * wide + itemsize * 2 * d * joint
        return ManifestCost(
            memory, flops + 2 * d * d * (row + 2 * joint) + 27 * d * wide**3 // block
        )
    flops += 27 * joint**3
    return ManifestCost(memory, flops)


@functools.partial(jax.jit, static_argnames=("rank", "landmarks", "refine", "block"))
def _compiled(key, x1, x2, bandwidth, ridge, t, weights1, weights2, **options):
    shard = Shard(x1.shape[1], x1.shape[1])
    return shard_score(shard, key, x1, x2, bandwidth, ridge, t, weights1, weights2, **options)


def shard_score(shard, key, x1, x2, bandwidth, ridge, t, weights1, weights2, *, block, **options):
    """The scores of one device's features, which are the columns of `x1` and `x2`."""
    ridge = jnp.where(ridge >= 0, ridge, jnp.nan)  # a traced ridge may be negative
    draws1, draws2 = _nystrom.pivot_draws(key, shard.total)
    kernel1, f1 = _factor(shard, draws1, x1, weights1, bandwidth, **options)
    x2 = _score.computed_after(f1, x2)
    kernel2, f2 = _factor(shard, draws2, x2, weights2, bandwidth, **options)
    if block:
        return block_score((kernel1, kernel2), (f1, f2), ridge, t, block)
    return _nystrom.joint_score(shard, f1, f2, ridge, t)


def _factor(shard, draws, x, weights, rule, *, rank, landmarks, refine):
    """One class's kernel and its low-rank factor; NaN if all weights are 0 or one is negative."""
    columns = jnp.matrix_transpose(x)
    if isinstance(rule, (Median, Percentile)):
        sample, rule = rule.sample, dataclasses.replace(rule, sample=None)
    else:
        sample = SEEN
    seen = shard.take(columns, jnp.asarray(sampled(shard.total, sample), jnp.int32))
    sigma = feature_bandwidth(jnp.matrix_transpose(seen), rule, weights=weights)
    w = coordinate_weights(weights, columns, "sample")
    kernel = _nystrom.lazy_kernel(x, w, sigma, shard, seen)
    if landmarks == shard.total:
        chosen = jnp.arange(shard.total, dtype=jnp.int32)
    else:
        chosen = _nystrom.pivots(draws, kernel, landmarks)
    factor = _nystrom.nystrom(kernel, chosen, rank)
    for _ in range(refine):
        factor = _nystrom.refined(kernel, factor)
    if weights is not None:
        factor = jnp.where(_score.valid_weights(weights), factor, jnp.nan)
    return kernel, factor


# ---- Arguments ----------------------------------------------------------------------------------


def lowrank_arguments(
    key, x1, x2, rank, bandwidth, ridge, t, landmarks, refine, block, weights1, weights2
):
    """Return the checked positional arguments of `shard_score` except `shard`, and its options."""
    _checks.key(key)
    x1, x2, weights1, weights2 = _score.two_classes(x1, x2, weights1, weights2)
    d = x1.shape[1]
    check_bandwidth(bandwidth)
    sample = bandwidth.sample if isinstance(bandwidth, (Median, Percentile)) else 0
    if (d if sample is None else min(sample, d)) > MOST_EXACT:
        size = d * d * x1.dtype.itemsize / 2**30
        expected = f"a number or a rule with sample ≤ {MOST_EXACT} for {d} features"
        got = f"{bandwidth!r}, which would need {size:.0f} GiB of distances"
        raise _checks.fail("bandwidth", expected, got)
    rank, landmarks, refine, block = _ranks(d, rank, landmarks, refine, block)
    _checks.number(ridge, "ridge", low=0, scalar=True)
    if rank < d:
        _checks.number(ridge, "ridge", low=0, open_low=True)
    _checks.number(t, "t", low=0, high=1, scalar=True)
    numbers = _score.as_arrays((bandwidth, ridge, t), x1.dtype)
    options = {"rank": rank, "landmarks": landmarks, "refine": refine, "block": block}
    return (key, x1, x2, *numbers, weights1, weights2), options


def _ranks(d: int, rank, landmarks, refine, block) -> tuple[int, int, int, int]:
    """Return the checked options, with `None` replaced by the defaults."""
    rank = _checks.integer(rank, "rank", low=1, high=d)
    block = 0 if block is None else _checks.integer(block, "block", low=1, high=d)
    if landmarks is None:
        landmarks = min(d, 4 * rank)
    landmarks = _checks.integer(landmarks, "landmarks", low=rank, high=d)
    if refine is None:  # one pass if it costs no more than the landmarks; blocks need a pass anyway
        refine = int(not block and landmarks < d <= 10 * landmarks)
    return rank, landmarks, _checks.integer(refine, "refine", low=0), block
