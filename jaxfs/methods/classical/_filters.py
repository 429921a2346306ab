"""Filters: scores of each feature separately, computed from its moments or counts.

A weight of 2 counts a sample twice, and a weight of 0 leaves it out. Sums of squares are taken
about the means, so features may have any offset and any units, also in float32. Let m_c be the
weight of class c, m = Σ_c m_c the total weight, and μ_c and μ the class mean and overall mean of a
feature:

    between = Σ_c m_c (μ_c − μ)²        within = Σ_c Σ_{i ∈ c} w_i (x_i − μ_c)²
"""

import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._checks import Membership, membership
from jaxfs._types import ArrayLike
from jaxfs.methods.classical import _bins, _class_moments
from jaxfs.methods.classical._class_moments import class_statistic


def fisher_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Fisher score of each feature: between / within.

    It divides the spread between the classes by the spread within the classes.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `weights`: `(n,)`, nonnegative sample weights, may be fractional; 0 leaves a sample out.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 0 for a constant feature, infinite for a feature that varies only between classes.
    NaN or infinity in a feature make its own score NaN. Every class needs a sample. Under `jit`
    this cannot be checked: an absent class, and samples with labels out of range, are left out.

    **Derivatives** in `x` and positive `weights`.

    **Cost** O(n d C), as a matrix product; the same for all filters except `gini_score`.

    **Reference** Duda, Hart and Stork, *Pattern classification*, 2001; Gu, Li and Han 2012, eq. 2.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> fisher_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [4.0, 0.0]
    """
    return class_statistic(_class_moments.fisher_ratio, *_with_members(x, y, num_classes, weights))


def anova_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """ANOVA F statistic of each feature: between / (C − 1) divided by within / (m − C).

    F equals scikit-learn's `f_classif`, except that constant features have 0 and not NaN. F is a
    multiple of `fisher_score` and ranks features in the same order.

    **Arguments**, **Returns**, **Numerics**, **Derivatives** as in `fisher_score`. C is the number
    of classes present and m the sum of the weights, so scaling the weights changes F. F is NaN if
    m does not exceed C or, under `jit`, if fewer than two classes are present.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> anova_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [8.0, 0.0]
    """
    return class_statistic(_class_moments.f_statistic, *_with_members(x, y, num_classes, weights))


def t_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int = 2, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Absolute Welch t statistic of two classes: |μ₀ − μ₁| / √(s₀²/m₀ + s₁²/m₁).

    s_c² is the variance of class c, with the denominator m_c − 1. The pooled t statistic, whose
    square is `anova_score`, assumes equal variances, which classes rarely have.

    **Arguments** as in `fisher_score`, with two classes.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** as in `fisher_score`; NaN if a class has a weight of 1 or less, because its
    variance is then undefined.

    **Derivatives** in `x` and positive `weights`; 0 at the kink, where t is 0.

    **Reference** Welch, *The generalization of Student's problem*, 1947.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [6.0, 0.0], [8.0, 2.0]])
    >>> t_score(x, jnp.array([0, 0, 1, 1])).round(4).tolist()
    [4.2426, 0.0]
    """
    if _checks.integer(num_classes, "num_classes", low=1) != 2:
        raise _checks.fail("num_classes", "2 for t_score; anova_score takes more", num_classes)
    return class_statistic(
        _class_moments.welch_statistic, *_with_members(x, y, num_classes, weights)
    )


def chi2_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """χ² statistic of each feature of counts: Σ_c (O_c − E_c)² / E_c.

    O_c is the sum of the feature in class c, and E_c = m_c / m Σ_c O_c is the sum expected if the
    class makes no difference. The score equals scikit-learn's `chi2`. Use it for features that
    count something, such as words.

    **Arguments** as in `fisher_score`; `x` is nonnegative.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** χ² is computed as between / μ, which is equal and avoids cancellation. It is 0 for
    constant features, also for zeros, for which scikit-learn gives NaN. Negative values
    raise an error. Under `jit` this cannot be checked: negative values make the score of their
    feature NaN. Otherwise as in `fisher_score`.

    **Derivatives** in `x` and positive `weights`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0], [3.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> chi2_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [2.0, 0.0]
    """
    x, members = _with_members(x, y, num_classes, weights)
    if not _checks.is_traced(x) and not _checks.is_traced(members.present):
        concrete = np.asarray(x)
        negative = (concrete < 0) & members.present[:, None]
        if negative.any():
            i, j = np.argwhere(negative)[0].tolist()
            raise _checks.fail("x", "nonnegative for χ²", f"x[{i}, {j}] = {concrete[i, j]}")
    return _class_moments.chi2(x, members)


def gini_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Largest decrease of the Gini impurity by one threshold: the gain of a tree's first split.

    The score is the maximum over θ of G(all) − m_L/m G(x ≤ θ) − m_R/m G(x > θ), where
    G = 1 − Σ_c p_c². The Gini index in the literature is the impurity after the split, where small
    is good; here large is good.

    **Arguments** as in `fisher_score`.

    **Returns** `(d,)`, in [0, G(all)]; larger is better.

    **Numerics** equal values are never separated. Otherwise as in `fisher_score`; 0 for a constant.

    **Derivatives** none, because the score is a function of ranks.

    **Cost** one sort and O(n C) operations per feature; memory for a chunk of features.

    **Reference** Breiman et al., *Classification and regression trees*, 1984.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0], [6.0, 1.0]])
    >>> gini_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [0.5, 0.0]
    """
    return _bins.gini_decrease(*_checks.labelled_samples(x, y, num_classes, weights))


def pearson_score(
    x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Absolute Pearson correlation of each feature with a target, |r|.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, real; for two classes, their codes. Codes of more classes would be treated as
      numbers: use `anova_score` for them.
    - `weights`: `(n,)`, nonnegative sample weights, may be fractional; 0 leaves a sample out.

    **Returns** `(d,)`, in [0, 1]; larger is better.

    **Numerics** 0 for a constant feature, and for all features if the target is constant. NaN or
    infinity in a feature make its own score NaN; in the target, they make all scores NaN.

    **Derivatives** in `x`, `y` and positive `weights`; 0 at the kink, where r is 0.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> pearson_score(x, jnp.array([3.0, 2.0, 1.0])).round(4).tolist()
    [1.0, 0.0]
    """
    return _class_moments.absolute_correlation(*_with_target(x, y, weights))


def f_regression_score(
    x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """F statistic of a linear regression of the target on each feature: r² / (1 − r²) · (m − 2).

    F equals scikit-learn's `f_regression`, except that F is not bounded for a perfect fit.

    **Arguments**, **Derivatives** as in `pearson_score`; F is a function of |r|.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 1 − r² is summed from the residuals, which avoids cancellation. For a perfect fit
    1 − r² is rounding error, and F is infinite or of the order of 1 / eps². m is the sum of the
    weights; F is NaN if m does not exceed 2. Otherwise as in `pearson_score`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> f_regression_score(x, jnp.array([0.0, 2.0, 1.0, 3.0])).round(1).tolist()
    [3.6, 8.0]
    """
    return _class_moments.regression_f(*_with_target(x, y, weights))


def variance_score(x: ArrayLike, *, weights: ArrayLike | None = None) -> Float[Array, "d"]:
    """Variance of each feature, Σ w (x − μ)² / Σ w.

    The score needs no labels. Scores are comparable only between features of the same unit.

    **Arguments** `x (n, d)`, and `weights (n,)` as in `fisher_score`.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** exactly 0 for a constant feature; NaN for a feature with NaN or infinity.

    **Derivatives** in `x` and positive `weights`.

    >>> import jax.numpy as jnp
    >>> variance_score(jnp.array([[0.0, 5.0], [2.0, 5.0]])).tolist()
    [1.0, 0.0]
    """
    x = _checks.samples(x)
    members = membership(None, _checks.sample_weights(weights, x))
    return class_statistic(_class_moments.variance, x, members)


def _with_members(x, y, num_classes, weights) -> tuple[Array, Membership]:
    x, y, w, num_classes = _checks.labelled_samples(x, y, num_classes, weights)
    return x, membership(y, w, num_classes)


def _with_target(x, y, weights) -> tuple[Array, Array, Membership]:
    x, y, w = _checks.samples_with_target(x, y, weights)
    return x, y, membership(None, w)
