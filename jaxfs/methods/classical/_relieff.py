"""ReliefF and RReliefF scores: high if a feature differs between neighbours of different targets.

Each of the m samples R_i is visited. Features A are divided by their range:
diff(A, i, j) = |x_iA − x_jA| / (max_A − min_A). Neighbours are nearest in the Manhattan distance
Σ_A diff(A, i, j). Let H be the k nearest samples of the same class as R_i, M(c) the k nearest
samples of another class c, and P(c) the prior of class c:

    ReliefF:   W[A] = 1/m Σ_i [ Σ_{c ≠ y_i} P(c) / (1 − P(y_i)) · mean_{j ∈ M(c)} diff(A, i, j)
                                − mean_{j ∈ H} diff(A, i, j) ]

For a numeric target τ, let d(i, j) be the influence of sample j, one of the k samples nearest to
R_i:

    RReliefF:  W[A] = N_dCdA / N_dC − (N_dA − N_dCdA) / (m − N_dC),
               N_dC = Σ_ij diff(τ, i, j) d(i, j), N_dA = Σ_ij diff(A, i, j) d(i, j),
               N_dCdA = Σ_ij diff(τ, i, j) diff(A, i, j) d(i, j).

**Reference** I. Kononenko, *Estimating attributes: analysis and extensions of RELIEF*, ECML 1994;
M. Robnik-Šikonja, I. Kononenko, *Theoretical and empirical analysis of ReliefF and RReliefF*,
Machine Learning 53, 2003: Figures 2 and 3.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._checks import Membership, membership
from jaxfs._numerics import at, matmul, safe_divide, smallest
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels._distances import coordinate_chunks, manhattan

#: Default number of neighbours (Kononenko 1994). Fewer are used if a class has fewer samples.
_NEIGHBORS = 10
#: Maximum number of temporary entries, and of rows, in a default block. Larger is not faster.
_MEMORY, _ROWS = 2**23, 128


def relieff_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    num_neighbors: int | None = None,
    weights: ArrayLike | None = None,
    block_size: int | None = None,
) -> Float[Array, "d"]:
    """ReliefF score: high if a feature differs between near samples of different classes.

    The score is the mean difference to neighbours of other classes, minus the mean difference to
    neighbours of the same class. The docstring of this module, `_relieff.py`, has the formula.

    **Arguments**

    - `x`: `(n, d)`; units do not matter, because features are divided by their range.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `num_neighbors`: k, static, in [1, n − 1]; every class must have more than k samples. The
      default is one less than the size of the smallest class, and at most 10. It is min(10, n − 1)
      if labels or weights are traced.
    - `weights`: `(n,)`, nonnegative sample weights; zero leaves a sample out. A sample with
      an integer weight w is visited w times, counts w times in the priors and among the k
      neighbours of other samples, and has w − 1 copies of itself among its own neighbours. With
      fractional weights, the k nearest samples are used until their weights sum to k.
    - `block_size`: number of samples visited at a time; static. The default is at most 128 and
      keeps the temporary memory near 2²³ entries. It changes speed and memory, not the result.

    **Returns** `(d,)`, in [−1, 1]; 0 for a constant feature.

    **Numerics** neighbours at equal distance are taken by ascending index. Distances are exact to a
    few eps, but exact ties may be broken by rounding unless ranges are powers of two. A class with
    fewer than k neighbours raises an error if labels and weights are concrete. If labels or weights
    are traced, the neighbours that exist are averaged, and a class without samples, or a sample
    with a label out of range, is left out. NaN or infinity in a sample of positive weight makes all
    scores NaN, because the distances of this sample affect all neighbours.

    **Derivatives** in `x`, with the neighbours held constant.

    **Cost** O(n² d) additions, and O(n C k d) for the differences; memory two copies of `x`, and
    O(block_size · (n + C k d)).

    **Reference** Kononenko 1994; Robnik-Šikonja and Kononenko 2003, Figure 2. The `skrebate`
    package (0.8) gives the same numbers for two classes of continuous features. For more classes
    `skrebate` averages the neighbours of all other classes equally and does not use the priors. It
    compares features of at most ten distinct values by equality. If there are such features, it
    also sets the differences of other features to 1 if they exceed a standard deviation.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (100, 4))
    >>> y = (x[:, 2] > 0).astype(int)
    >>> int(relieff_score(x, y, num_classes=2).argmax())
    2
    """
    x, y, w, num_classes = _checks.labelled_samples(x, y, num_classes, weights)
    k = _neighbors(num_neighbors, x, w, y, num_classes)
    block = _block_size(block_size, x, num_classes * k)
    return _relieff(x, membership(y, w, num_classes), k, block)


def rrelieff_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_neighbors: int | None = None,
    sigma: Scalar | None = 20.0,
    weights: ArrayLike | None = None,
    block_size: int | None = None,
) -> Float[Array, "d"]:
    """RReliefF: ReliefF for a numeric target.

    The score estimates P(different feature | different target) − P(different feature | same target)
    among near samples. The docstring of this module, `_relieff.py`, has the formula.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, real; divided by its range.
    - `num_neighbors`: k, static, in [1, n − 1]; by default one less than the number of samples, at
      most 10. The paper uses 70 with σ = 20.
    - `sigma`: σ, positive: the neighbour of rank r = 1 … k has the influence exp(−(r/σ)²), divided
      by the sum over all k. `None` gives each neighbour the influence 1/k. May be traced.
    - `weights`, `block_size`: as in `relieff_score`; each copy of a sample has its own rank.

    **Returns** `(d,)`; 0 for a constant feature, and for all features if the target is constant.

    **Numerics** as in `relieff_score`; NaN in `y` also makes all scores NaN.

    **Derivatives** in `x`, `y` and `sigma`, with the neighbours held constant.

    **Cost** as in `relieff_score` with one class.

    **Reference** Robnik-Šikonja and Kononenko 2003, Figure 3. The `skrebate` package has another
    score for numeric targets: ReliefF in which a neighbour counts as a hit or a miss according to
    whether its target differs by less or more than a standard deviation.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (100, 4))
    >>> int(rrelieff_score(x, 3 * x[:, 2]).argmax())
    2
    """
    x, y, w = _checks.samples_with_target(x, y, weights)
    k = _neighbors(num_neighbors, x, w)
    if sigma is not None:
        _checks.number(sigma, "sigma", low=0, open_low=True, scalar=True)
        sigma = jnp.asarray(sigma, x.dtype)
    return _rrelieff(x, y, w, sigma, k=k, block=_block_size(block_size, x, k))


# ---- Arguments ----------------------------------------------------------------------------------


def _neighbors(asked: int | None, x: Array, w: Array, y: Array | None = None, c: int = 1) -> int:
    """Number of neighbours in every class, checked against the class sizes if they are known."""
    n = x.shape[0]
    if n < 2:
        raise _checks.fail("x", "(n, d) with n ≥ 2 samples", f"{x.shape}")
    k = min(_NEIGHBORS, n - 1)
    if asked is not None:
        k = _checks.integer(asked, "num_neighbors", low=1, high=n - 1)
    if _checks.is_traced(w) or (y is not None and _checks.is_traced(y)):
        return k
    codes = np.zeros(n, int) if y is None else np.asarray(y)
    # A sample of weight w counts as w neighbours, and as one neighbour if w is below 1.
    copies = np.where(np.asarray(w) > 0, np.maximum(np.asarray(w), 1), 0)
    counts = np.bincount(codes, weights=copies, minlength=c)
    least = int(np.argmin(counts))
    whose = "present" if y is None else f"of class {least}"
    if counts[least] <= 1:
        expected = "such that every sample has a neighbour" + ("" if y is None else " of its class")
        raise _checks.fail("weights" if y is None else "y", expected, f"1 sample {whose}")
    if asked is None:
        return min(k, int(np.ceil(counts[least])) - 1)
    if counts[least] <= k:
        raise _checks.fail("num_neighbors", f"below the {counts[least]:.0f} samples {whose}", k)
    return k


def _block_size(block_size: int | None, x: Array, num_near: int) -> int:
    n, d = x.shape
    if block_size is None:
        block_size = default_block(n, d, num_near)
    return min(_checks.integer(block_size, "block_size", low=1), n)


def default_block(n: int, d: int, num_near: int) -> int:
    """Default number of samples visited at a time."""
    return max(1, min(_ROWS, _MEMORY // (4 * n + 2 * num_near * d)))


# ---- Visits -------------------------------------------------------------------------------------

# Samples are visited in blocks of rows. The distances of a block are discarded once its neighbours
# are known, and the differences once they are summed. Neither an n × n nor an n × k × d array is
# formed.


@functools.partial(jax.jit, static_argnums=(2, 3))
def _relieff(x, members: Membership, k: int, block: int) -> Float[Array, "d"]:
    shares, prior = members.shares, members.priors
    influence = _influence(None, k, x.dtype)
    others = safe_divide(*jnp.broadcast_arrays(prior[:, None], 1 - at(prior, members.label)[None]))
    factors = jnp.where(shares > 0, -1, others)

    def visit(i, row):
        def among(of_class):
            w, factor = of_class
            near, share = _nearest(i, row, w, influence, k)
            return near, at(factor, i) * share

        near, coefficients = lax.map(among, (shares, factors))
        return near.reshape(-1), coefficients.reshape(1, -1)

    return _sum_of_visits(x, members.weights, visit, block)[0][0]


@functools.partial(jax.jit, static_argnames=("k", "block"))
def _rrelieff(x, y, w, sigma, *, k: int, block: int) -> Float[Array, "d"]:
    influence = _influence(sigma, k, x.dtype)
    _, tau_span, tau_known = _ranges(y[:, None], w > 0)
    tau = jnp.where((w > 0) & tau_known, y, 0)

    def visit(i, row):
        near, share = _nearest(i, row, w, influence, k)
        change = safe_divide(jnp.abs(tau[i] - tau[near]), jnp.broadcast_to(tau_span, near.shape))
        return near, jnp.stack([share, share * change])

    # The sums N of the paper, each divided by m.
    (n_da, n_dcda), (_, n_dc), known = _sum_of_visits(x, w, visit, block)
    different, alike = (jnp.broadcast_to(a, n_da.shape) for a in (n_dc, 1 - n_dc))
    score = safe_divide(n_dcda, different) - safe_divide(n_da - n_dcda, alike)
    score = jnp.where(n_dc == 0, jnp.zeros_like(score), score)
    return jnp.where(known & tau_known, score, jnp.nan)


def _ranges(
    x: Float[Array, "n d"], present: Bool[Array, "n"]
) -> tuple[Float[Array, "d"], Float[Array, "d"], Bool[Array, ""]]:
    """Smallest value and span of every feature, and whether all values used are finite."""
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
    return low, span, jnp.sum(0 * span) == 0  # 0 · ∞ is NaN


def _sum_of_visits(
    x: Float[Array, "n d"],
    w: Float[Array, "n"],
    visit: Callable[[Array, Array], tuple[Array, Array]],
    block: int,
) -> tuple[Float[Array, "r d"], Float[Array, "r"], Bool[Array, ""]]:
    """Return Σ_i w_i/m Σ_j c_rj diff(i, j), Σ_i w_i/m Σ_j c_rj, and if all values are finite.

    The index j is over q samples near i. `visit(i, row)` takes the index of a sample and its
    distances to all samples. It returns the indices `(q,)` of the near samples and their
    coefficients `(r, q)`.
    """
    n, mass = x.shape[0], w / jnp.sum(w)
    low, span, known = _ranges(x, w > 0)
    usable = (w > 0)[:, None] & known
    x = jnp.where(usable, x, 0)
    away = jnp.where(usable, x - low[None], 0)
    z = lax.stop_gradient(safe_divide(away, jnp.broadcast_to(span[None], x.shape)))
    chunks = coordinate_chunks(z)

    @jax.checkpoint  # do not keep the differences of every block for the backward pass
    def sums(first):
        # The last block also has samples of the block before, which get mass 0.
        start = jnp.minimum(first, n - block)
        i = start + jnp.arange(block)
        row = manhattan(lax.dynamic_slice_in_dim(chunks, start, block, axis=2), chunks)
        near, c = jax.vmap(visit)(i, row)
        c = jnp.where(i < first, 0, at(mass, i))[:, None, None] * c
        c = jnp.permute_dims(c, (1, 0, 2)).reshape(c.shape[1], -1)
        gaps = jnp.abs(lax.dynamic_slice_in_dim(x, start, block)[:, None] - at(x, near))
        return matmul(c, gaps.reshape(-1, gaps.shape[-1])), jnp.sum(c, axis=1)

    parts = lax.map(sums, jnp.arange(0, n, block))
    total, coefficients = jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)
    total = jnp.where(known, total, jnp.nan)
    return safe_divide(total, jnp.broadcast_to(span[None], total.shape)), coefficients, known


def _nearest(
    i: Int[Array, ""], row: Float[Array, "n"], w: Float[Array, "n"], influence, k: int
) -> tuple[Int[Array, "k"], Float[Array, "k"]]:
    """The k samples of positive weight nearest to sample i, and their shares in the influence.

    If there are fewer than k such samples, the result is padded with i, with share 0. A weight of i
    above 1 stands for copies of i. The copies come first: they take a share of the influence, and
    their differences are 0.
    """
    others = (w > 0) & (jnp.arange(w.shape[0]) != i)
    near = smallest(jnp.where(others, row, jnp.inf), k)[1]
    missing, near = near < 0, jnp.where(near < 0, i, near)
    number = jnp.where(missing, 0, at(w, near))
    up_to = jnp.maximum(at(w, i) - 1, 0) + jnp.cumsum(number)
    share = influence(up_to) - influence(up_to - number)
    return near, safe_divide(share, jnp.broadcast_to(influence(up_to[-1]), share.shape))


def _influence(sigma: Float[Array, ""] | None, k: int, dtype) -> Callable[[Array], Array]:
    """Function of r: total influence of the first r neighbours, Σ_{t ≤ r} exp(−(t/σ)²).

    The influence is divided by the influence of the first neighbour. The function is linear between
    integers r and constant beyond k. Without σ, every neighbour has the influence 1.
    """
    if sigma is None:
        return lambda r: jnp.clip(r, 0, k)
    rank = jnp.arange(1, k + 1, dtype=dtype)
    each = jnp.exp((1 - rank**2) / jnp.where(sigma > 0, sigma, jnp.nan) ** 2)
    sums = jnp.pad(jnp.cumsum(each), (1, 0))

    def total(r: Float[Array, "*s"]) -> Float[Array, "*s"]:
        r = jnp.clip(r, 0, k)
        whole = jnp.minimum(r.astype(jnp.int32), k - 1)
        first = sums[whole]
        return first + (r - whole.astype(r.dtype)) * (sums[whole + 1] - first)

    return total
