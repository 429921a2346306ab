"""ReliefF and RReliefF: features that differ between near samples of different targets.

Every sample R_i is visited. Near is by the Manhattan distance of features divided by their range,
diff(A, i, j) = |x_iA − x_jA| / (max_A − min_A), Σ_A diff(A, i, j). With H the k nearest samples of
R_i's own class and M(c) those of another class c, P the priors and m samples,

    ReliefF:   W[A] = 1/m Σ_i [ Σ_{c ≠ y_i} P(c) / (1 − P(y_i)) · mean_{j ∈ M(c)} diff(A, i, j)
                                − mean_{j ∈ H} diff(A, i, j) ]

and with a target τ that is a number, d(i, j) the influence of the k nearest samples of R_i,

    RReliefF:  W[A] = N_dCdA / N_dC − (N_dA − N_dCdA) / (m − N_dC),
               N_dC = Σ_ij diff(τ, i, j) d(i, j), N_dA = Σ_ij diff(A, i, j) d(i, j),
               N_dCdA = Σ_ij diff(τ, i, j) diff(A, i, j) d(i, j).

**Reference** I. Kononenko, *Estimating attributes: analysis and extensions of RELIEF*, ECML 1994;
M. Robnik-Šikonja, I. Kononenko, *Theoretical and empirical analysis of ReliefF and RReliefF*,
Machine Learning 53, 2003: Figures 2 and 3.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._manhattan import coordinate_chunks, manhattan
from jaxfs._numerics import matmul, safe_divide
from jaxfs._order import smallest
from jaxfs._types import ArrayLike, Scalar
from jaxfs.methods.filters import classified, targeted

#: So many numbers of temporary memory the default block takes, and so many rows at most: larger
#: blocks are no faster.
_MEMORY, _ROWS = 2**23, 128


def relieff_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    num_neighbors: int = 10,
    weights: ArrayLike | None = None,
    block_size: int | None = None,
) -> Float[Array, "d"]:
    """How much more each feature differs between near samples of different classes than of one.

    The formula stands above, in the head of this file.

    **Arguments**

    - `x`: `(n, d)`; units do not matter, features are divided by their range.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `num_neighbors`: k, static, in [1, n − 1]; every class must have more than k samples.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent. A whole number w is the
      sample w times: it is visited w times, counts w times in the priors and among the k
      neighbours of others, and has w − 1 copies of itself among its own. Of fractional weights the
      k nearest samples are looked at, until their weights reach k.
    - `block_size`: how many samples are visited at a time; static. By default up to 128, as many as
      keep the temporary memory near 2²³ numbers. It changes speed and memory, not the answer.

    **Returns** `(d,)`, in [−1, 1]; 0 for a constant feature.

    **Numerics** neighbours at equal distance by rising index; distances are exact to a few eps, but
    ties in exact arithmetic may fall either way where ranges are no powers of two. A class with
    fewer neighbours than k is an error when its samples are known; traced ones average those that
    there are, and a class without samples, or a label out of range, is as if absent. NaN or
    infinity in a sample present makes all NaN: its distances decide everybody's neighbours.

    **Derivatives** in `x`, with the neighbours held constant.

    **Cost** O(n² d) additions, and O(n C k d) for the differences; memory two copies of `x`, and
    O(block_size · (n + C k d)).

    **Reference** Kononenko 1994; Robnik-Šikonja and Kononenko 2003, Figure 2. The `skrebate`
    package (0.8) gives the same numbers for two classes of continuous features. For more classes it
    averages the misses of all classes alike and does not use the priors; features of at most ten
    values it compares by equality, and beside these it raises differences above a standard
    deviation to 1.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (100, 4))
    >>> y = (x[:, 2] > 0).astype(int)
    >>> int(relieff_score(x, y, num_classes=2).argmax())
    2
    """
    x, y, w, num_classes = classified(x, y, num_classes, weights)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=x.shape[0] - 1)
    _check_neighbors(y, w, k, num_classes)
    block = _block_size(block_size, x, num_classes * k)
    return _relieff(x, y, w, num_classes=num_classes, k=k, block=block)


def rrelieff_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_neighbors: int = 10,
    sigma: Scalar | None = 20.0,
    weights: ArrayLike | None = None,
    block_size: int | None = None,
) -> Float[Array, "d"]:
    """ReliefF for a target that is a number: do near samples of different targets differ in it?

    P(different feature | different target) − P(different feature | same target), among near
    samples; the formula stands above, in the head of this file.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, numbers; divided by their range.
    - `num_neighbors`: k, static, in [1, n − 1]. The paper takes 70 with σ = 20.
    - `sigma`: σ, positive: the neighbour of rank r = 1 … k has the influence exp(−(r/σ)²), divided
      by the sum over the k. `None`: all have 1/k. May be traced.
    - `weights`, `block_size`: as in `relieff_score`; copies of a sample take up ranks.

    **Returns** `(d,)`; 0 for a constant feature, and throughout for a constant target.

    **Numerics** as in `relieff_score`; NaN in `y` too makes all NaN.

    **Derivatives** in `x`, `y` and `sigma`, with the neighbours held constant.

    **Cost** as `relieff_score` of one class.

    **Reference** Robnik-Šikonja and Kononenko 2003, Figure 3. The `skrebate` package has another
    score for such targets: ReliefF with hits and misses told apart by a standard deviation.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (100, 4))
    >>> int(rrelieff_score(x, 3 * x[:, 2]).argmax())
    2
    """
    x, y, w = targeted(x, y, weights)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=x.shape[0] - 1)
    if not _checks.is_traced(w) and int(jnp.sum(w > 0)) <= k:
        expected = f"positive for more than num_neighbors = {k} samples"
        raise _checks.fail("weights", expected, int(jnp.sum(w > 0)))
    if sigma is not None:
        _checks.number(sigma, "sigma", low=0, open_low=True, scalar=True)
        sigma = jnp.asarray(sigma, x.dtype)
    return _rrelieff(x, y, w, sigma, k=k, block=_block_size(block_size, x, k))


# ---- The scores ---------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("num_classes", "k", "block"))
def _relieff(x, y, w, *, num_classes: int, k: int, block: int) -> Float[Array, "d"]:
    classes = jnp.arange(num_classes, dtype=y.dtype)
    w = jnp.where((y >= 0) & (y < num_classes), w, 0)
    members = (y[None] == classes[:, None]) & (w > 0)[None]
    masses = jnp.sum(jnp.where(members, w[None], 0), axis=1)
    prior, influence = masses / jnp.sum(masses), _influence(None, k, x.dtype)

    def visit(i, row):
        own = classes == y[i]
        rest = 1 - jnp.sum(prior, where=own)
        sign = jnp.where(own, -1, safe_divide(prior, jnp.broadcast_to(rest, prior.shape)))

        def among(c):
            near, share = _nearest(i, row, members[c], own[c], w, influence)
            return near, sign[c] * share

        near, coefficients = lax.map(among, jnp.arange(num_classes))
        return near.reshape(-1), coefficients.reshape(1, -1)

    data = _data(x, w)
    return _per_range(data, _sum_of_visits(data, visit, block)[0])[0]


@functools.partial(jax.jit, static_argnames=("k", "block"))
def _rrelieff(x, y, w, sigma, *, k: int, block: int) -> Float[Array, "d"]:
    present, influence = w > 0, _influence(sigma, k, x.dtype)
    target = _unit_range(y[:, None], present)
    tau = jnp.where(present & target.known, y, 0)

    def visit(i, row):
        near, share = _nearest(i, row, present, jnp.asarray(True), w, influence)
        change = safe_divide(jnp.abs(tau[i] - tau[near]), jnp.broadcast_to(target.span, near.shape))
        return near, jnp.stack([share, share * change])

    data = _data(x, w)
    sums, totals = _sum_of_visits(data, visit, block)
    per_feature = _per_range(data, sums)
    n_da, n_dcda, n_dc = per_feature[0], per_feature[1], totals[1]  # all of them over m
    score = n_dcda / n_dc - safe_divide(n_da - n_dcda, jnp.broadcast_to(1 - n_dc, n_da.shape))
    score = jnp.where(n_dc == 0, jnp.zeros_like(score), score)
    return jnp.where(data.scale.known & target.known, score, jnp.nan)


# ---- Visits -------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """The range of every feature over the samples present, and whether all of it is finite."""

    low: Float[Array, "d"]
    span: Float[Array, "d"]
    known: Bool[Array, ""]


class _Data(NamedTuple):
    """Samples as they came, their ranges, and their features in [0, 1] to take distances of."""

    x: Float[Array, "n d"]
    w: Float[Array, "n"]
    scale: _Scale
    chunks: Float[Array, "c u n"]


def _unit_range(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> _Scale:
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
    known = jnp.all(jnp.isfinite(span)) & jnp.all(jnp.isfinite(x) | ~there)
    return _Scale(low, span, known)


def _data(x: Float[Array, "n d"], w: Float[Array, "n"]) -> _Data:
    scale = _unit_range(x, w > 0)
    usable = (w > 0)[:, None] & scale.known
    x = jnp.where(usable, x, 0)
    away = jnp.where(usable, x - scale.low[None], 0)
    z = lax.stop_gradient(safe_divide(away, jnp.broadcast_to(scale.span[None], x.shape)))
    return _Data(x, w, scale, coordinate_chunks(z))


def _per_range(data: _Data, sums: Float[Array, "r d"]) -> Float[Array, "r d"]:
    """Sums of differences in units of the ranges; NaN where these are not known."""
    known = jnp.where(data.scale.known, sums, jnp.nan)
    return safe_divide(known, jnp.broadcast_to(data.scale.span[None], sums.shape))


def _sum_of_visits(data: _Data, visit, block: int) -> tuple[Float[Array, "r d"], Float[Array, "r"]]:
    """Σ_i w_i/m Σ_j c_rj |x_i − x_j|, j over q samples near i; and the same without differences.

    `visit(i, row)` takes a sample and its distances to all, and gives indices `(q,)` and their
    coefficients `(r, q)`.
    """
    n = data.w.shape[0]
    mass = data.w / jnp.sum(data.w)

    @jax.checkpoint  # keep no block's differences for the backward pass
    def sums(places):
        # The last block is filled up with samples that were visited already, without mass.
        i = places % n
        near, c = jax.vmap(visit)(i, manhattan(data.chunks[:, :, i], data.chunks))
        c = jnp.where(places < n, mass[i], 0)[:, None, None] * c
        c = jnp.permute_dims(c, (1, 0, 2)).reshape(c.shape[1], -1)
        gaps = jnp.abs(data.x[i][:, None] - data.x[near])
        return matmul(c, gaps.reshape(-1, gaps.shape[-1])), jnp.sum(c, axis=1)

    parts = lax.map(sums, jnp.arange(n + -n % block).reshape(-1, block))
    return jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)


def _nearest(
    i: Int[Array, ""],
    row: Float[Array, "n"],
    members: Bool[Array, "n"],
    own: Bool[Array, ""],
    w: Float[Array, "n"],
    influence,
) -> tuple[Int[Array, "k"], Float[Array, "k"]]:
    """The k nearest of some samples to sample i, and the share of each in their influence.

    Those that are missing are i itself, without a share. Copies of i, where it is one of the
    samples, come before all others: they have a share, of which no difference is left.
    """
    others = members & (jnp.arange(members.shape[0]) != i)
    near = smallest(jnp.where(others, row, jnp.inf), influence.k)[1]
    number = jnp.where(near >= 0, w[near], 0)
    copies = jnp.where(own, jnp.maximum(w[i] - 1, 0), 0)
    up_to = copies + jnp.cumsum(number)
    share = influence(up_to) - influence(up_to - number)
    whole = jnp.broadcast_to(influence(up_to[-1]), share.shape)
    return jnp.where(near < 0, i, near), safe_divide(share, whole)


class _Influence(NamedTuple):
    """What the first r neighbours weigh together: Σ_{t ≤ r} exp(−(t/σ)²), in units of the first.

    Between whole r it is linear, and beyond k constant.
    """

    sums: Float[Array, "k1"]

    @property
    def k(self) -> int:
        return self.sums.shape[0] - 1

    def __call__(self, r: Float[Array, "*s"]) -> Float[Array, "*s"]:
        r = jnp.clip(r, 0, self.k)
        whole = jnp.minimum(r.astype(jnp.int32), self.k - 1)
        first = self.sums[whole]
        return first + (r - whole.astype(r.dtype)) * (self.sums[whole + 1] - first)


def _influence(sigma: Float[Array, ""] | None, k: int, dtype) -> _Influence:
    rank = jnp.arange(1, k + 1, dtype=dtype)
    if sigma is None:
        each = jnp.ones_like(rank)
    else:
        each = jnp.exp((1 - rank**2) / jnp.where(sigma > 0, sigma, jnp.nan) ** 2)
    return _Influence(jnp.pad(jnp.cumsum(each), (1, 0)))


# ---- Arguments ----------------------------------------------------------------------------------


def _check_neighbors(y: Array, w: Array, k: int, num_classes: int) -> None:
    """Every class has k neighbours for each of its samples, when that can be known."""
    if _checks.is_traced(y) or _checks.is_traced(w):
        return
    copies = np.where(np.asarray(w) > 0, np.maximum(np.asarray(w), 1), 0)
    counts = np.bincount(np.asarray(y), weights=copies, minlength=num_classes)
    if np.any(counts <= k):
        c = int(np.argmin(counts))
        expected = f"below the {counts[c]:.0f} samples of class {c}"
        raise _checks.fail("num_neighbors", expected, k)


def _block_size(block_size: int | None, x: Array, num_near: int) -> int:
    n, d = x.shape
    if block_size is None:
        block_size = max(1, min(_ROWS, _MEMORY // (4 * n + 2 * num_near * d)))
    return min(_checks.integer(block_size, "block_size", low=1), n)
