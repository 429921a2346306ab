"""Filters: one number a feature, from its own moments or counts.

Samples count by their weights: a weight of 2 is the sample twice, and 0 as if absent. Sums of
squares are taken about the means, so features may have any offset and any units, in float32 too.
With m_c the weight of class c, m = Σ_c m_c, and μ_c, μ the means of a feature,

    between = Σ_c m_c (μ_c − μ)²        within = Σ_c Σ_{i ∈ c} w_i (x_i − μ_c)²
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike
from jaxfs.methods.classical import _class_moments


def fisher_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """How far the means of the classes lie apart for their width: between / within.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `weights`: `(n,)`, nonnegative sample weights, fractional ones too; 0 is as if absent.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 0 for a constant feature, infinite for one that varies between the classes only.
    NaN or infinity in a feature make its own score NaN. Every class needs a sample: under `jit`,
    where that cannot be checked, an absent class, and samples with labels out of range, are left
    out.

    **Derivatives** in `x` and positive `weights`.

    **Cost** O(n d C), as a product of matrices; that of all filters in this file but `gini_score`.

    **Reference** Duda, Hart and Stork, *Pattern classification*, 2001; Gu, Li and Han 2012, eq. 2.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> fisher_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [4.0, 0.0]
    """
    return _class_moments.fisher(*classified(x, y, num_classes, weights))


def anova_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """The F of a one-way analysis of variance: between / (C − 1) over within / (m − C).

    It is scikit-learn's `f_classif`, except that constant features have 0 and not NaN. It ranks
    features as `fisher_score` does, of which it is a multiple.

    **Arguments**, **Returns**, **Numerics**, **Derivatives** as in `fisher_score`. C counts the
    classes that are there, and m is the sum of the weights: multiplied, they multiply F. NaN where
    m does not exceed C, or under `jit` where fewer than two classes are there.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> anova_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [8.0, 0.0]
    """
    return _class_moments.anova(*classified(x, y, num_classes, weights))


def t_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int = 2, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Welch's |t| of two classes: |μ₀ − μ₁| / √(s₀²/m₀ + s₁²/m₁), s_c² with m_c − 1.

    Welch's, since classes seldom vary alike: the pooled t assumes it, and adds nothing here, its
    square being `anova_score`.

    **Arguments** as in `fisher_score`, with two classes.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** as in `fisher_score`; NaN where a class has a weight of 1 or less, and no variance.

    **Derivatives** in `x` and positive `weights`; taken as 0 at the kink, where t is 0.

    **Reference** Welch, *The generalization of Student's problem*, 1947.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [6.0, 0.0], [8.0, 2.0]])
    >>> t_score(x, jnp.array([0, 0, 1, 1])).round(4).tolist()
    [4.2426, 0.0]
    """
    if _checks.integer(num_classes, "num_classes", low=1) != 2:
        raise _checks.fail("num_classes", "2 for t_score; anova_score takes more", num_classes)
    return _class_moments.welch(*classified(x, y, num_classes, weights))


def chi2_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """χ² of counts: Σ_c (O_c − E_c)² / E_c, with O_c the sum of a feature in class c.

    E_c = m_c / m Σ_c O_c would be that sum if the class made no difference. It is scikit-learn's
    `chi2`, for features that count something, such as words.

    **Arguments** as in `fisher_score`; `x` is nonnegative.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** computed as between / μ, which it is, and which does not cancel. 0 for a feature of
    zeros, whose score scikit-learn leaves NaN, and for other constants. Negative values raise;
    under `jit`, where they cannot be seen, the score of their feature is NaN. Otherwise as
    `fisher_score`.

    **Derivatives** in `x` and positive `weights`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0], [3.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> chi2_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [2.0, 0.0]
    """
    x, y, w, num_classes = classified(x, y, num_classes, weights)
    if not _checks.is_traced(x) and not _checks.is_traced(w):
        concrete = np.asarray(x)
        negative = (concrete < 0) & (np.asarray(w) > 0)[:, None]
        if negative.any():
            i, j = np.argwhere(negative)[0].tolist()
            raise _checks.fail("x", "nonnegative for χ²", f"x[{i}, {j}] = {concrete[i, j]}")
    return _class_moments.chi2(x, y, w, num_classes)


def gini_score(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """The decrease of the Gini impurity by the best threshold: what the root of a tree would gain.

    max over θ of G(all) − m_L/m G(x ≤ θ) − m_R/m G(x > θ), with G = 1 − Σ_c p_c². The Gini index of
    the literature is what the impurity is decreased to, where small is good; here large is.

    **Arguments** as in `fisher_score`.

    **Returns** `(d,)`, in [0, G(all)]; larger is better.

    **Numerics** equal values are never parted. Otherwise as `fisher_score`; 0 for a constant.

    **Derivatives** none: a function of ranks.

    **Cost** one sort a feature and O(n C); memory of a chunk of features.

    **Reference** Breiman et al., *Classification and regression trees*, 1984.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0], [6.0, 1.0]])
    >>> gini_score(x, jnp.array([0, 0, 1, 1]), num_classes=2).tolist()
    [0.5, 0.0]
    """
    return _class_moments.gini(*classified(x, y, num_classes, weights))


def pearson_score(
    x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """The absolute correlation of each feature with a target, |r|.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, real; of two classes, their codes. Codes of more classes would be taken for
      numbers: `anova_score` is for them.
    - `weights`: `(n,)`, nonnegative sample weights, fractional ones too; 0 is as if absent.

    **Returns** `(d,)`, in [0, 1]; larger is better.

    **Numerics** 0 for a constant feature, and for all if the target is constant. NaN or infinity in
    a feature make its own score NaN; in the target, all.

    **Derivatives** in `x`, `y` and positive `weights`; taken as 0 at the kink, where r is 0.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> pearson_score(x, jnp.array([3.0, 2.0, 1.0])).round(4).tolist()
    [1.0, 0.0]
    """
    return jnp.abs(_class_moments.correlation(*targeted(x, y, weights))[0])


def f_regression_score(
    x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """The F of a linear regression of the target on each feature: r² / (1 − r²) · (m − 2).

    It is scikit-learn's `f_regression`, except that a perfect fit has no largest value.

    **Arguments**, **Derivatives** as in `pearson_score`, of which this is a function.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 1 − r² is summed from the residuals and does not cancel; of a perfect fit it is
    rounding, and F infinite or of the order of 1 / eps². m is the sum of the weights; NaN where it
    does not exceed 2. Otherwise as `pearson_score`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> f_regression_score(x, jnp.array([0.0, 2.0, 1.0, 3.0])).round(1).tolist()
    [3.6, 8.0]
    """
    x, y, w = targeted(x, y, weights)
    r, rest = _class_moments.correlation(x, y, w)
    freedom = jnp.sum(w) - 2
    return jnp.where(freedom > 0, _class_moments.quotient(jnp.square(r), rest) * freedom, jnp.nan)


def variance_score(x: ArrayLike, *, weights: ArrayLike | None = None) -> Float[Array, "d"]:
    """The variance of each feature, Σ w (x − μ)² / Σ w: no labels are needed, but common units.

    **Arguments** `x (n, d)`, and `weights (n,)` as in `fisher_score`.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** exactly 0 for a constant feature; NaN for one with NaN or infinity.

    **Derivatives** in `x` and positive `weights`.

    >>> import jax.numpy as jnp
    >>> variance_score(jnp.array([[0.0, 5.0], [2.0, 5.0]])).tolist()
    [1.0, 0.0]
    """
    x = samples(x)
    return _class_moments.variance(x, sample_weights(weights, x))


# ---- Arguments ----------------------------------------------------------------------------------


def samples(x: ArrayLike) -> Float[Array, "n d"]:
    x = _checks.real(x, "x", ndim=2)
    if 0 in x.shape:
        raise _checks.fail("x", "(n, d) with n ≥ 1 samples and d ≥ 1 features", f"{x.shape}")
    return x


def sample_weights(weights: ArrayLike | None, x: Float[Array, "n d"]) -> Float[Array, "n"]:
    if weights is None:
        return jnp.ones(x.shape[0], x.dtype)
    return _checks.weights(weights, "weights", x.shape[0], x.dtype)


def classified(x, y, num_classes, weights):
    x = samples(x)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    w = sample_weights(weights, x)
    _checks.has_every_class(y, w, "y", num_classes)
    return x, y, w, num_classes


def targeted(x, y, weights):
    """Samples with a real target."""
    x = samples(x)
    y = _checks.array(y, "y", x.dtype)
    if y.shape != (x.shape[0],):
        raise _checks.fail("y", f"of shape ({x.shape[0]},), one target a sample", f"{y.shape}")
    return x, y, sample_weights(weights, x)
