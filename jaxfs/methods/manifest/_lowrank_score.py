"""ManiFeSt for very many features, and what it costs.

The exact score needs six d×d matrices and two `eigh` of them. Here each kernel is a thin factor
plus the ridge, and the rest is exact: outside the span of both factors the kernels are equal, so
that mean, difference and |D| are those of matrices of twice the rank.
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
from jaxfs.methods.manifest._nystrom import (
    BLOCK,
    PIVOT_BLOCKS,
    feature_points,
    joint_score,
    nystrom,
    pivots,
    refined,
)
from jaxfs.methods.manifest._part import Part
from jaxfs.methods.manifest._score import RIDGE, _as_arrays, _two_classes

#: More features than this have too many distances for a bandwidth rule without `sample`.
MOST_EXACT = 16384

#: So many features give the centre about which all are taken, where no rule looks at others.
SEEN = 2048


def manifest_lowrank_score(
    key: Array,
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    rank: int,
    bandwidth: Bandwidth = Median(1.0, sample=2048),
    ridge: Scalar = RIDGE,
    t: Scalar = 0.5,
    landmarks: int | None = None,
    refine: int | None = None,
    weights1: ArrayLike | None = None,
    weights2: ArrayLike | None = None,
) -> Float[Array, "d"]:
    """`manifest_score` of kernels of low rank plus a ridge: time and memory linear in d.

    Each kernel is K ≈ F Fᵀ + `ridge`·I with F `(d, rank)` from its leading eigenpairs; D and |D| of
    the two are then exact, in 2·`rank` dimensions.

    **Arguments**

    - `key`: draws the landmarks.
    - `x1`, `x2`: `(n1, d)` and `(n2, d)`, the samples of the two classes; d ≥ 2, one dtype.
    - `rank`: static, at most d: how many eigenpairs of each kernel are kept. It may exceed the
      number of samples: Gaussian kernels are not linear in them.
    - `bandwidth`: as in `manifest_score`; the default rule looks at 2048 features. Beyond 16 384
      features a rule must have a `sample`.
    - `ridge`: positive, unless the rank is d. Eigenvalues far below it do not matter; those above
      it that the rank leaves out are lost.
    - `t`, `weights1`, `weights2`: as in `manifest_score`.
    - `landmarks`: static, in [`rank`, d]: the features from whose kernel columns the eigenpairs are
      computed; by default 4·`rank`. With d of them the eigenpairs are exact.
    - `refine`: static: how many passes over the whole kernel, O(d²) in time but not in memory,
      improve the eigenpairs; by default one where d ≤ 10·`landmarks`, else none.

    **Returns** `(d,)`, nonnegative, larger is more different; `manifest_score` for `rank` = d.

    **Numerics** the 2·`rank` problem and what defines the eigenpairs are in float64 where JAX has
    it (`jax_enable_x64`), whatever the dtype of the data; all in float32 they were within 2e-3 of
    the top score of that on real data. NaN in the data makes all scores NaN, and so does a traced
    ridge of 0 with a rank below d.

    **Defaults** on Prostate-GE, 5 966 features, rank 200: exact eigenpairs have a Spearman
    correlation of .998 with the exact score and 92 of its top 100. Landmarks by pivots have 89 to
    92 (4·rank), after a pass 91; uniformly drawn ones 86, after a pass 91. More rank is worth
    more: 400 exact eigenpairs have 94. (`benchmarks/scale/manifest.py`)

    **Derivatives** in `x1`, `x2`, `bandwidth`, `ridge`, `t`: through the factors, with the choice
    of landmarks a constant, and exact for that approximation where eigenvalues `rank` and
    `rank` + 1 of it differ; otherwise finite, but without meaning. The joint subspace is not held
    fixed. A second derivative raises `NotImplementedError`.

    **Cost** O(d·m²) time for m landmarks, and memory for some 12·`rank` numbers a feature, of which
    `manifest_cost` tells the bytes. 100 000 float32 features of 80 samples at rank 200: 33
    CPU-seconds, 9 more to compile, and 1.8 GB resident.

    Features 0 and 1 move together in the first class and against each other in the second:

    >>> import jax
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 30, 6))
    >>> x1, x2 = x1.at[:, 1].set(x1[:, 0]), x2.at[:, 1].set(-x2[:, 0])
    >>> score = manifest_lowrank_score(jax.random.key(1), x1, x2, rank=5)
    >>> sorted(score.argsort()[-2:].tolist())
    [0, 1]
    """
    arguments, options = problem(
        key, x1, x2, rank, bandwidth, ridge, t, landmarks, refine, weights1, weights2
    )
    return _score(*arguments, **options)


class Cost(NamedTuple):
    """What a call will need: bytes at the peak, its arguments not counted, and operations."""

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
) -> Cost:
    """What `manifest_score` (`rank=None`) or `manifest_lowrank_score` will cost, before it is run.

    **Arguments**

    - `d`, `n`: features, and samples of the larger class.
    - `rank`, `landmarks`, `refine`: as they will be given; `rank=None` is the exact score, which
      has no `landmarks` and no `refine`.
    - `dtype`: of the data; by default JAX's own.

    **Returns** a `Cost`: `memory_bytes` at the peak, without the data and the compiler's own (some
    0.3 GB), and `flops`; both to a factor of two, a sampled bandwidth not counted.

    >>> manifest_cost(100_000, 40).memory_bytes > 3e11
    True
    >>> manifest_cost(100_000, 40, rank=200, dtype="float32").memory_bytes < 2e9
    True
    """
    d, n = _checks.integer(d, "d", low=2), _checks.integer(n, "n", low=1)
    itemsize = _checks.float_dtype(dtype, "dtype").itemsize
    for value, name in ((landmarks, "landmarks"), (refine, "refine")):
        _checks.only_if(rank is not None, value, name, "rank is given")
    if rank is None:
        # Two eigh of some 9 d³, a Cholesky factor, two triangular solves and three products.
        return Cost(8 * d * d * itemsize, 27 * d**3)
    k, m, refine = _ranks(d, rank, landmarks, refine)
    joint = min(2 * k, d)
    choosing = 4 * d * (2 * m + 6 * m // PIVOT_BLOCKS) if m < d else 0  # in float32
    # The factors, side by side, their basis with LAPACK's copies, and a product.
    memory = max(choosing, itemsize * d * 6 * joint) + itemsize * (2 * n * d + 6 * max(BLOCK, d))
    memory += 8 * (8 * m * m + 10 * joint * joint)
    row = 2 * n + 20  # a kernel entry: a product of n terms and an exponential
    flops = 2 * (d * m * (3 * row + 6 * m + 2 * k) + 20 * m**3 + refine * d * d * (row + 2 * k))
    flops += 10 * d * joint * joint + 27 * joint**3
    return Cost(memory, flops)


@functools.partial(jax.jit, static_argnames=("rank", "landmarks", "refine"))
def _score(key, x1, x2, bandwidth, ridge, t, weights1, weights2, **options):
    d = x1.shape[1]
    part = Part(d, d)
    return part_score(part, key, x1, x2, bandwidth, ridge, t, weights1, weights2, **options)


def part_score(part, key, x1, x2, bandwidth, ridge, t, weights1, weights2, **options):
    """The scores of the features that a device has, `x1` and `x2`, among those of all."""
    ridge = jnp.where(ridge >= 0, ridge, jnp.nan)  # a traced one cannot be refused
    key1, key2 = jax.random.split(key)
    f1 = _factor(part, key1, x1, weights1, bandwidth, **options)
    # One after the other, so that the second reuses the first's working memory; never true.
    x2 = jnp.where(f1[0, 0] > 2, jnp.zeros_like(x2), x2)
    return joint_score(part, f1, _factor(part, key2, x2, weights2, bandwidth, **options), ridge, t)


def _factor(part, key, x, weights, rule, *, rank, landmarks, refine):
    """The thin factor of one class; NaN without weight, and for (traced) negative weights."""
    columns = jnp.matrix_transpose(x)
    if isinstance(rule, (Median, Percentile)):
        sample, rule = rule.sample, dataclasses.replace(rule, sample=None)
    else:
        sample = SEEN
    seen = part.take(columns, jnp.asarray(sampled(part.total, sample), jnp.int32))
    sigma = feature_bandwidth(jnp.matrix_transpose(seen), rule, weights=weights)
    w = coordinate_weights(weights, columns, "sample")
    points = feature_points(x, w, part, seen)
    if landmarks == part.total:
        chosen = jnp.arange(part.total, dtype=jnp.int32)
    else:
        chosen = pivots(key, points, w, sigma, landmarks, part)
    factor = nystrom(points, w, sigma, chosen, rank, part)
    for _ in range(refine):
        factor = refined(points, w, sigma, factor, part)
    if weights is None:
        return factor
    return jnp.where(jnp.any(weights > 0) & jnp.all(weights >= 0), factor, jnp.nan)


# ---- Arguments ----------------------------------------------------------------------------------


def problem(key, x1, x2, rank, bandwidth, ridge, t, landmarks, refine, weights1, weights2):
    """The arguments of `part_score`, checked, and its options."""
    _checks.key(key)
    x1, x2, weights1, weights2 = _two_classes(x1, x2, weights1, weights2)
    d = x1.shape[1]
    check_bandwidth(bandwidth)
    _check_sample(bandwidth, d, x1.dtype)
    options = _options(d, rank, landmarks, refine, ridge, t)
    bandwidth, ridge, t = _as_arrays((bandwidth, ridge, t), x1.dtype)
    return (key, x1, x2, bandwidth, ridge, t, weights1, weights2), options


def _ranks(d: int, rank, landmarks, refine) -> tuple[int, int, int]:
    """The options, with what `None` stands for."""
    rank = _checks.integer(rank, "rank", low=1, high=d)
    if landmarks is None:
        landmarks = min(d, 4 * rank)
    landmarks = _checks.integer(landmarks, "landmarks", low=rank, high=d)
    if refine is None:  # where a pass over the kernel costs no more than the landmarks did
        refine = int(landmarks < d <= 10 * landmarks)
    return rank, landmarks, _checks.integer(refine, "refine", low=0)


def _options(d: int, rank, landmarks, refine, ridge, t) -> dict[str, int]:
    rank, landmarks, refine = _ranks(d, rank, landmarks, refine)
    _checks.number(ridge, "ridge", low=0, scalar=True)
    if rank < d:
        _checks.number(ridge, "ridge", low=0, open_low=True)
    _checks.number(t, "t", low=0, high=1, scalar=True)
    return {"rank": rank, "landmarks": landmarks, "refine": refine}


def _check_sample(rule: Bandwidth, d: int, dtype) -> None:
    if not isinstance(rule, (Median, Percentile)) or d <= MOST_EXACT:
        return
    if rule.sample is None or rule.sample > MOST_EXACT:
        size = d * d * jnp.dtype(dtype).itemsize / 2**30
        raise _checks.fail(
            "bandwidth",
            f"a number or a rule with sample ≤ {MOST_EXACT} for {d} features",
            f"{rule!r}, which would take {size:.0f} GiB of distances",
        )
