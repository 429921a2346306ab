"""Selectors that weigh the relevance of a feature to the class against its redundancy.

Features are chosen one at a time. mRMR, JMI and CMIM compare a candidate with each feature chosen
before; CFS computes the merit of the whole set. FCBF chooses features in the order of relevance and
removes each feature that a more relevant feature makes redundant. Each step is one pass over the
data.

All selectors except the F and Pearson forms of mRMR bin the features. Information I and entropy H
are in nats; the symmetrical uncertainty is SU(A, B) = 2 I(A; B) / (H(A) + H(B)), in [0, 1].
"""

import jax.numpy as jnp

from jaxfs import _checks
from jaxfs._checks import membership
from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.classical import _bins, _greedy

#: Default number of bins. It is small because a table of two features has NUM_BINS² cells.
NUM_BINS = 5


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
    """Select features that are relevant to the class and not redundant with each other (mRMR).

    S is the set of features chosen so far. The next feature k maximises
    relevance(k) / mean_{j ∈ S} redundancy(k, j), or the difference of the relevance and this mean.
    The first feature has the largest relevance.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_features`: static, at most d.
    - `num_classes`: static, C ≥ 2.
    - `scheme`: static. "quotient": relevance divided by redundancy; "difference": relevance minus
      redundancy. F and a correlation have different units. Use "difference" only if relevance and
      redundancy are both "mi".
    - `relevance`: static. "f": `anova_score`; "mi": the information I(X_k; Y) in bins.
    - `redundancy`: static. "pearson": |correlation|; "mi": I(X_k; X_j) in bins.
    - `num_bins`, `binning`: static; for "mi" only. By default 5 bins of equal "frequency"; "width"
      gives bins of equal width.
    - `weights`: `(n,)`, nonnegative sample weights, may be fractional; 0 leaves a sample out.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 if no candidate is left;
    `objective (k,)`, the criterion of each feature when it was chosen, NaN at −1. There is no
    saturation: `saturated_at` is `num_features`.

    **Numerics** features of relevance 0, such as constants, or of unknown relevance (F needs more
    samples than classes) are never chosen. Ties, up to rounding, go to the lowest index. In the
    quotient, a redundancy below 0.001 counts as 0.001, and a mean redundancy of 1 (a copy of all
    chosen features) counts as infinite. The `mrmr-selection` package has the same rules; the
    defaults here equal its `mrmr_classif`. If a feature happens to be uncorrelated with the first
    feature, the quotient multiplies its relevance by 1000. In data with few distinct values,
    correlations can be exactly 0. Weak features are then chosen second or third, and are not chosen
    again from other samples. Check their stability, or use "difference" with "mi" for both. Any NaN
    or infinity in `x` makes all indices −1. Every class needs a sample; under `jit`, samples with
    labels out of range are left out.

    **Cost** one pass over `x` per feature ("mi": O(n d num_bins²)); memory two copies of `x`.

    **Reference** Ding and Peng, *Minimum redundancy feature selection from microarray gene
    expression data*, 2005: FCQ, FCD, MIQ, MID. They also use "pearson" for continuous
    features.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] + x[:, 1] > 0).astype(int)
    >>> x = x.at[:, 4].set(x[:, 3])
    >>> sorted(mrmr_select(x, y, 2, num_classes=2).indices.tolist())
    [1, 3]
    """
    _checks.option(scheme, "scheme", ("quotient", "difference"))
    _checks.option(relevance, "relevance", ("f", "mi"))
    _checks.option(redundancy, "redundancy", ("pearson", "mi"))
    for value, name in ((num_bins, "num_bins"), (binning, "binning")):
        used = "mi" in (relevance, redundancy)
        _checks.only_if(used, value, name, 'relevance="mi" or redundancy="mi"')
    num_bins = NUM_BINS if num_bins is None else num_bins
    binning = "frequency" if binning is None else binning
    common = x, y, num_features, num_classes, num_bins, binning, weights
    return _select(_greedy.mrmr, *common, (scheme, relevance, redundancy))


def mrmr_regression_select(
    x: ArrayLike, y: ArrayLike, num_features: int, *, weights: ArrayLike | None = None
) -> Selection:
    """Select features that are relevant to a number and not redundant with each other (mRMR).

    This is `mrmr_select` for a numeric target: the relevance is `f_regression_score`, divided by
    the mean |correlation| with the features chosen so far.

    **Arguments**

    - `x`: `(n, d)`. `y`: `(n,)`, real numbers; may be traced.
    - `num_features`: static, at most d.
    - `weights`: `(n,)`, nonnegative sample weights, may be fractional; 0 leaves a sample out.

    **Returns**, **Numerics**, **Cost** as in `mrmr_select`. The `mrmr-selection` package has the
    same rules in `mrmr_regression`. A constant or unknown target makes all indices −1.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = x[:, 3] + x[:, 1]
    >>> x = x.at[:, 4].set(x[:, 3])
    >>> sorted(mrmr_regression_select(x, y, 2).indices.tolist())
    [1, 3]
    """
    x, y, w = _checks.samples_with_target(x, y, weights)
    number = _checks.integer(num_features, "num_features", low=1, high=x.shape[1])
    sizes, options = (1, NUM_BINS, "frequency"), ("quotient", "f_regression", "pearson")
    return _greedy.select(_greedy.mrmr, number, options, sizes, x, y, membership(None, w))


def cfs_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Select features that correlate with the class and not with each other, by Hall's merit (CFS).

    The merit of a set of k features is Σ_f SU(f, Y) / √(k + Σ_{f ≠ g} SU(f, g)), which is
    k r̄_cf / √(k + k (k − 1) r̄_ff). Features are added as long as one of them
    raises the merit.

    **Arguments** as in `mrmr_select`.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 once no feature raises the
    merit; `objective (k,)`, the merit after each choice. `saturated_at` is `num_features`.

    **Numerics** as in `mrmr_select`. Symmetrical uncertainties from bins are biased upwards.
    The bias is larger between features than with the class, because tables with the class have
    fewer cells. Few features are therefore chosen if there are few samples in many bins.

    **Cost** O(n d num_bins²) per feature; memory two copies of `x`.

    **Reference** Hall, *Correlation-based feature selection for machine learning*, 1999, eq. 4.1.
    Hall's best-first search may go back up to five steps; this search stops instead.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> cfs_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices.tolist()
    [3, -1]
    """
    return _select(_greedy.cfs, x, y, num_features, num_classes, num_bins, binning, weights)


def fcbf_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    threshold: Scalar = 0.0,
    num_bins: int = NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Select features more related to the class than to any feature chosen before (FCBF).

    Features f are chosen by descending SU(f, Y), as long as it is at least `threshold`. When f is
    chosen, every feature g with SU(f, g) ≥ SU(g, Y) is removed. The paper calls the chosen
    features predominant.

    **Arguments** as in `mrmr_select`, and `threshold` in [0, 1], which may be traced.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 if no candidate is left;
    `objective (k,)`, SU with the class. `saturated_at` is `num_features`.

    **Numerics**, **Cost** as in `cfs_select`.

    **Reference** Yu and Liu, *Feature selection for high-dimensional data: a fast correlation-based
    filter solution*, 2003, Figure 2; the paper chooses bins by the class (MDL), not by
    frequency.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> fcbf_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices.tolist()
    [3, -1]
    """
    _checks.number(threshold, "threshold", low=0, high=1, scalar=True)
    common = x, y, num_features, num_classes, num_bins, binning, weights
    return _select(_greedy.fcbf, *common, (), threshold)


def jmi_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Select features that are informative about the class jointly with each chosen feature (JMI).

    S is the set of features chosen so far. The next feature k maximises Σ_{j ∈ S} I(X_k, X_j; Y).
    The first feature maximises I(X_k; Y).

    **Arguments** as in `mrmr_select`.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 if no candidate is left;
    `objective (k,)`, the criterion of each feature when it was chosen. `saturated_at` is
    `num_features`.

    **Numerics** as in `mrmr_select`: I(X_k; Y) = 0 excludes a feature.

    **Cost** O(n d C num_bins²) per feature; memory two copies of `x`.

    **Reference** Yang and Moody, *Data visualization and feature selection*, 1999; Brown et al.,
    *Conditional likelihood maximisation*, 2012, eq. 18.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> jmi_select(x, y, 2, num_classes=2).indices[0].item()
    3
    """
    return _select(_greedy.jmi, x, y, num_features, num_classes, num_bins, binning, weights)


def cmim_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    num_bins: int = NUM_BINS,
    binning: str = "frequency",
    weights: ArrayLike | None = None,
) -> Selection:
    """Select features that stay informative about the class given any chosen feature (CMIM).

    The next feature k maximises min(I(X_k; Y), min_{j ∈ S} I(X_k; Y | X_j)).

    **Arguments**, **Returns**, **Numerics**, **Cost** as in `jmi_select`. A copy of a chosen
    feature has the value 0 and comes after all features that add information.

    **Reference** Fleuret, *Fast binary feature selection with conditional mutual information*,
    2004, eq. 9.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] + x[:, 1] > 0).astype(int)
    >>> x = x.at[:, 4].set(x[:, 3])
    >>> sorted(cmim_select(x, y, 2, num_classes=2).indices.tolist())
    [1, 3]
    """
    return _select(_greedy.cmim, x, y, num_features, num_classes, num_bins, binning, weights)


def _select(criterion, x, y, number, num_classes, num_bins, binning, weights, options=(), *traced):
    """Check the arguments that all selectors share, and run the greedy search."""
    x, y, w, num_classes = _checks.labelled_samples(x, y, num_classes, weights)
    number = _checks.integer(number, "num_features", low=1, high=x.shape[1])
    num_bins = _checks.integer(num_bins, "num_bins", low=2)
    sizes = num_classes, num_bins, _checks.option(binning, "binning", _bins.BINNINGS)
    numbers = (jnp.asarray(value, x.dtype) for value in traced)
    members = membership(y, w, num_classes)
    return _greedy.select(criterion, number, options, sizes, x, y, members, *numbers)
