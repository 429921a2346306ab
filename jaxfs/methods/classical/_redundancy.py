"""Selectors that weigh what a feature tells about the class against what it repeats.

Features are chosen one at a time: mRMR, JMI and CMIM by a criterion of the candidate and each
feature chosen before, CFS by the merit of the whole set; FCBF goes down the ranking and strikes out
what a better feature makes redundant. Each step is one pass over the data.

All but the F and Pearson forms of mRMR count in bins. Information I and entropy H are in nats; the
symmetrical uncertainty is SU(A, B) = 2 I(A; B) / (H(A) + H(B)), in [0, 1].
"""

import jax.numpy as jnp

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.classical import _bins, _greedy
from jaxfs.methods.classical._filters import classified

SCHEMES = ("quotient", "difference")
RELEVANCES = ("f", "mi")
REDUNDANCIES = ("pearson", "mi")
#: Tables of two features have the square of it in cells: fewer bins than for one feature alone.
_NUM_BINS = 5


def mrmr_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    scheme: str = "quotient",
    relevance: str = "f",
    redundancy: str = "pearson",
    num_bins: int | None = None,
    binning: str | None = None,
    weights: ArrayLike | None = None,
) -> Selection:
    """Features of most relevance to the class and least redundancy with those chosen before (mRMR).

    The next feature k has the largest relevance(k) / mean_{j ∈ S} redundancy(k, j), S those chosen,
    or the difference of the two; the first has the largest relevance.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_features`: static, at most d.
    - `num_classes`: static, C ≥ 2.
    - `scheme`: static, "quotient" or "difference". F has no units in common with a correlation:
      the difference suits "mi" for both.
    - `relevance`: static. "f": `anova_score`; "mi": the information I(X_k; Y) in bins.
    - `redundancy`: static. "pearson": |correlation|; "mi": I(X_k; X_j) in bins.
    - `num_bins`, `binning`: static; for "mi" only: 5 bins by default, of equal "frequency", the
      default, or equal "width".
    - `weights`: `(n,)`, nonnegative sample weights, fractional ones too; 0 is as if absent.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 where nothing is left to choose;
    `objective (k,)`, the criterion by which each was chosen, NaN at −1. There is no saturation:
    `saturated_at` is `num_features`.

    **Numerics** features of relevance 0, constant ones among them, or of none (F needs more samples
    than classes) are never chosen; ties, to rounding, go to the lowest index. In the quotient a
    redundancy counts as at least 0.001, and one whose mean is 1 (a copy of all that was chosen) as
    infinite: so does the `mrmr-selection` package, whose `mrmr_classif` the defaults are. A feature
    that happens to be uncorrelated with the first counts a thousandfold: in data of few values,
    where correlations can be exactly 0, weak features come second or third and are not chosen again
    from other samples. Look at their stability, or take "difference" with "mi" for both. Any NaN
    or infinity in `x`: all indices are −1. Every class needs a sample; under `jit` those of labels
    out of range are as if absent.

    **Cost** one pass over `x` for each feature ("mi": O(n d num_bins²)); memory two copies of `x`.

    **Reference** Ding and Peng, *Minimum redundancy feature selection from microarray gene
    expression data*, 2005: FCQ, FCD, MIQ, MID. "Pearson" for continuous features is theirs too.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] + x[:, 1] > 0).astype(int)
    >>> x = x.at[:, 4].set(x[:, 3])
    >>> sorted(mrmr_select(x, y, 2, num_classes=2).indices.tolist())
    [1, 3]
    """
    _checks.option(scheme, "scheme", SCHEMES)
    _checks.option(relevance, "relevance", RELEVANCES)
    _checks.option(redundancy, "redundancy", REDUNDANCIES)
    for value, name in ((num_bins, "num_bins"), (binning, "binning")):
        binned = "mi" in (relevance, redundancy)
        _checks.only_if(binned, value, name, 'relevance="mi" or redundancy="mi"')
    num_bins = _NUM_BINS if num_bins is None else num_bins
    binning = "frequency" if binning is None else binning
    data, options = _problem(x, y, num_features, num_classes, num_bins, binning, weights)
    return _greedy.mrmr(*data, scheme=scheme, relevance=relevance, redundancy=redundancy, **options)


def cfs_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = _NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Features that correlate with the class and not with each other, by Hall's merit (CFS).

    Of a set of k features Σ_f SU(f, Y) / √(k + Σ_{f ≠ g} SU(f, g)), which is
    k r̄_cf / √(k + k (k − 1) r̄_ff). Features are added while one raises it.

    **Arguments** those of `mrmr_select`.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 from where no feature raises the
    merit; `objective (k,)`, the merit after each. `saturated_at` is `num_features`.

    **Numerics** as in `mrmr_select`. Uncertainties in bins are biased upwards, those between
    features more than those with the class, which have fewer cells: few samples in many bins choose
    few features.

    **Cost** O(n d num_bins²) for each feature; memory two copies of `x`.

    **Reference** Hall, *Correlation-based feature selection for machine learning*, 1999, eq. 4.1.
    His forward search by best-first may look back five steps, where this stops.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> cfs_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices.tolist()
    [3, -1]
    """
    data, options = _problem(x, y, num_features, num_classes, num_bins, binning, weights)
    return _greedy.cfs(*data, **options)


def fcbf_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    threshold: Scalar = 0.0,
    num_bins: int = _NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Predominant features: those that none chosen before tells more about than the class (FCBF).

    By falling SU(f, Y), at least `threshold`; every feature g with SU(f, g) ≥ SU(g, Y) is struck
    out as f is chosen.

    **Arguments** those of `mrmr_select`, and `threshold` in [0, 1], which may be traced.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 where none is left; `objective
    (k,)`, SU with the class. `saturated_at` is `num_features`.

    **Numerics**, **Cost** as in `cfs_select`.

    **Reference** Yu and Liu, *Feature selection for high-dimensional data: a fast correlation-based
    filter solution*, 2003, Figure 2; they take bins by the class (MDL), not by frequency.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> fcbf_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices.tolist()
    [3, -1]
    """
    _checks.number(threshold, "threshold", low=0, high=1, scalar=True)
    data, options = _problem(x, y, num_features, num_classes, num_bins, binning, weights)
    return _greedy.fcbf(*data, jnp.asarray(threshold, data[0].dtype), **options)


def jmi_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = _NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Features that tell most about the class in pairs with those chosen: Σ_{j ∈ S} I(X_k, X_j; Y).

    The first has the largest I(X_k; Y).

    **Arguments** those of `mrmr_select`.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 where nothing is left to choose;
    `objective (k,)`, the criterion by which each was chosen. `saturated_at` is `num_features`.

    **Numerics** as in `mrmr_select`: I(X_k; Y) = 0 excludes a feature.

    **Cost** O(n d C num_bins²) for each feature; memory two copies of `x`.

    **Reference** Yang and Moody, *Data visualization and feature selection*, 1999; Brown et al.,
    *Conditional likelihood maximisation*, 2012, eq. 18.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> jmi_select(x, y, 2, num_classes=2).indices[0].item()
    3
    """
    data, options = _problem(x, y, num_features, num_classes, num_bins, binning, weights)
    return _greedy.jmi(*data, **options)


def cmim_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = _NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Features that still tell about the class whichever chosen one is known.

    The next has the largest min(I(X_k; Y), min_{j ∈ S} I(X_k; Y | X_j)).

    **Arguments**, **Returns**, **Numerics**, **Cost** as in `jmi_select`. A copy of a chosen
    feature has the value 0 and comes after all that tell anything more.

    **Reference** Fleuret, *Fast binary feature selection with conditional mutual information*,
    2004, eq. 9.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] + x[:, 1] > 0).astype(int)
    >>> x = x.at[:, 4].set(x[:, 3])
    >>> sorted(cmim_select(x, y, 2, num_classes=2).indices.tolist())
    [1, 3]
    """
    data, options = _problem(x, y, num_features, num_classes, num_bins, binning, weights)
    return _greedy.cmim(*data, **options)


# ---- Arguments ----------------------------------------------------------------------------------


def _problem(x, y, num_features, num_classes, num_bins, binning, weights):
    x, y, w, num_classes = classified(x, y, num_classes, weights)
    options = {
        "num_features": _checks.integer(num_features, "num_features", low=1, high=x.shape[1]),
        "num_classes": num_classes,
        "num_bins": _checks.integer(num_bins, "num_bins", low=2),
        "binning": _checks.option(binning, "binning", _bins.BINNINGS),
    }
    return (x, y, w), options
