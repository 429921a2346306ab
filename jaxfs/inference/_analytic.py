"""p-values of the filters whose null distribution is known: ANOVA, Welch's t, Pearson, χ².

They hold for samples that are independent, and for F and t also normal within the classes.
`permutation_test` needs neither, but many relabelings for small p-values.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import betainc, gammaincc
from jaxtyping import Array, Float

from jaxfs._checks import labelled_samples, membership
from jaxfs._types import ArrayLike
from jaxfs.inference._null import adjusted
from jaxfs.methods.classical import (
    anova_score,
    chi2_score,
    f_regression_score,
    pearson_score,
    t_score,
)
from jaxfs.methods.classical._class_moments import class_statistic


class FilterTest(NamedTuple):
    """`scores (d,)` of a filter, and their `p_values (d,)` and `q_values (d,)`."""

    scores: Float[Array, "d"]
    p_values: Float[Array, "d"]
    q_values: Float[Array, "d"]


def anova_test(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> FilterTest:
    """Return the ANOVA F statistic of each feature with its p-value, as scikit-learn's `f_classif`.

    **Arguments** as in `anova_score`. Weights are counts of samples: the degrees of freedom are
    C − 1 and m − C, where m is the sum of the weights.

    **Returns** `FilterTest`: the scores of `anova_score`, P(F ≥ score), and q-values
    (Benjamini–Hochberg).

    **Numerics** the p-values agree with SciPy's to a relative error of 1e-10 in float64.
    A constant feature has p = 1, where scikit-learn has NaN.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> anova_test(x, jnp.array([0, 0, 1, 1]), num_classes=2).p_values.round(4).tolist()
    [0.1056, 1.0]
    """
    scores = anova_score(x, y, num_classes=num_classes, weights=weights)
    mass = _masses(x, y, num_classes, weights)
    classes = jnp.sum(mass > 0, dtype=scores.dtype)
    return _finished(scores, f_survival(scores, classes - 1, jnp.sum(mass) - classes))


def t_test(
    x: ArrayLike, y: ArrayLike, *, num_classes: int = 2, weights: ArrayLike | None = None
) -> FilterTest:
    """Return the absolute Welch t statistic of two classes with its two-sided p-value.

    **Arguments** as in `t_score`. The degrees of freedom are those of Welch and Satterthwaite,
    (v₀ + v₁)² / (v₀²/(m₀ − 1) + v₁²/(m₁ − 1)) with v_c = s_c²/m_c.

    **Returns** `FilterTest`; the p-values equal `scipy.stats.ttest_ind(equal_var=False)`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [6.0, 0.0], [8.0, 2.0]])
    >>> [round(p, 3) for p in t_test(x, jnp.array([0, 0, 1, 1])).p_values.tolist()]
    [0.051, 1.0]
    """
    scores = t_score(x, y, num_classes=num_classes, weights=weights)
    samples, y, w, num_classes = labelled_samples(x, y, num_classes, weights)
    freedom = class_statistic(_welch_freedom, samples, membership(y, w, num_classes))
    return _finished(scores, f_survival(jnp.square(scores), jnp.ones_like(freedom), freedom))


def pearson_test(x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> FilterTest:
    """Return the absolute Pearson correlation of each feature with its two-sided p-value.

    **Arguments** as in `pearson_score`; **returns** `FilterTest`. The p-values are those of
    `f_regression_test`, and of `scipy.stats.pearsonr`.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> pearson_test(x, jnp.array([0.0, 2.0, 1.0, 3.0])).p_values.round(4).tolist()
    [0.2, 0.1056]
    """
    _, p, q = f_regression_test(x, y, weights=weights)
    return FilterTest(pearson_score(x, y, weights=weights), p, q)


def f_regression_test(
    x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> FilterTest:
    """Return the F statistic of a linear regression on each feature, with its p-value.

    **Arguments** as in `f_regression_score`; **returns** `FilterTest`. The p-values equal
    scikit-learn's `f_regression`, with 1 and m − 2 degrees of freedom.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> f_regression_test(x, jnp.array([0.0, 2.0, 1.0, 3.0])).p_values.round(4).tolist()
    [0.2, 0.1056]
    """
    scores = f_regression_score(x, y, weights=weights)
    w = jnp.ones(len(x)) if weights is None else jnp.asarray(weights)
    freedom = jnp.sum(w).astype(scores.dtype) - 2
    return _finished(scores, f_survival(scores, jnp.ones_like(freedom), freedom))


def chi2_test(
    x: ArrayLike, y: ArrayLike, *, num_classes: int, weights: ArrayLike | None = None
) -> FilterTest:
    """Return the χ² statistic of each feature of counts with its p-value, as scikit-learn's `chi2`.

    **Arguments** as in `chi2_score`; **returns** `FilterTest`. The degrees of freedom are C − 1.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0], [3.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> chi2_test(x, jnp.array([0, 0, 1, 1]), num_classes=2).p_values.round(4).tolist()
    [0.1573, 1.0]
    """
    scores = chi2_score(x, y, num_classes=num_classes, weights=weights)
    classes = jnp.sum(_masses(x, y, num_classes, weights) > 0, dtype=scores.dtype)
    half = jnp.broadcast_to((classes - 1) / 2, scores.shape)
    return _finished(scores, gammaincc(half, scores / 2))


# ---- Distributions ------------------------------------------------------------------------------


def f_survival(f: Float[Array, "d"], numerator, denominator) -> Float[Array, "d"]:
    """P(F ≥ f) for degrees of freedom 2a and 2b: I_z(b, a) at z = b / (b + a f)."""
    a, b = (jnp.broadcast_to(freedom / 2, f.shape) for freedom in (numerator, denominator))
    infinite = jnp.isinf(f)
    z = b / (b + a * jnp.where(infinite, 0, f))
    return jnp.where(infinite, 0, betainc(b, a, z))


def _welch_freedom(m) -> Float[Array, "d"]:
    v = m.squares / (m.mass * (m.mass - 1))[:, None]
    below = jnp.sum(jnp.square(v) / (m.mass - 1)[:, None], axis=0)
    # Any freedom will do for a feature without variance: its t is 0 or infinite.
    return jnp.where(
        below == 0, 1, jnp.square(jnp.sum(v, axis=0)) / jnp.where(below == 0, 1, below)
    )


def _masses(x, y, num_classes, weights) -> Float[Array, "c"]:
    _, y, w, num_classes = labelled_samples(x, y, num_classes, weights)
    return jnp.asarray(membership(y, w, num_classes).mass, w.dtype)


def _finished(scores, p) -> FilterTest:
    p = jnp.where(jnp.isnan(scores), jnp.nan, p)
    return FilterTest(scores, p, adjusted(p, "bh"))
