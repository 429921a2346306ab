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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.methods.classical import _relief_visits
from jaxfs.methods.classical._class_moments import membership

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
    return _relief_visits.relieff(x, membership(y, w, num_classes), k, block)


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
    return _relief_visits.rrelieff(x, y, w, sigma, k=k, block=_block_size(block_size, x, k))


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
