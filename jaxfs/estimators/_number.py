"""How many features to select: the rules of `n_features_to_select`, and a sentence on each result.

The sentences are the attribute `n_features_reason_` of the estimators.
"""

import dataclasses
import numbers
from typing import Any

import numpy as np

from jaxfs import _checks
from jaxfs.estimators._validation import AccuracyCurve

#: Rules by name. "gap" and "fdr" need a score of every feature.
RULES = ("auto", "gap", "fdr", "one_se")
#: Maximum number of features that a greedy method selects for "auto".
_MOST = 50


@dataclasses.dataclass(frozen=True)
class FDR:
    """A rule for `n_features_to_select`: all features with a q-value of at most `level`.

    `n_features_to_select="fdr"` is `FDR()`.

    **Parameters**

    - `level`: the accepted false discovery rate, the expected share of false features among the
      selected ones, in (0, 1).
    - `n_permutations`: number of relabelings of the permutation test. `None` uses the distribution
      of the score if it is known (`"anova"`, `"t"`, `"chi2"`, `"pearson"` and `"f_regression"` of
      `FilterSelector`, without groups and strata). For other scores it is ⌈d / level⌉, with which
      a single feature can be significant, but at least 999 and at most 9999 for ANOVA and ReliefF,
      and 999 for scores that share no work between relabelings. With fewer than d / level,
      several features must be significant together.
    - `random_state`: integer seed of the relabelings.

    For methods that score every feature individually, such as `FilterSelector`, the q-values bound
    the false discovery rate. The scores of ReliefF and ManiFeSt also depend on the other features,
    and the relabelings remove the relation of all features to the target at once: a feature with
    q ≤ level has a larger score than in data in which no feature is relevant.

    >>> from sklearn.datasets import load_wine
    >>> from jaxfs.estimators import FilterSelector
    >>> selector = FilterSelector(n_features_to_select=FDR(level=0.01)).fit(
    ...     *load_wine(return_X_y=True)
    ... )
    >>> selector.n_features_reason_
    '13 of 13 features have q ≤ 0.01 by the distribution of the score.'
    """

    level: float = 0.1
    n_permutations: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        level = _checks.number(self.level, "level", low=0, high=1, open_low=True, scalar=True)
        if level == 1:
            raise _checks.fail("level", "in (0, 1)", self.level)
        if self.n_permutations is not None:
            _checks.integer(self.n_permutations, "n_permutations", low=1)
        _checks.integer(self.random_state, "random_state", low=0)


def fdr_rule(wanted: Any) -> FDR | None:
    """Return the rule if `n_features_to_select` is a false discovery rate, otherwise `None`."""
    if isinstance(wanted, FDR):
        return wanted
    return FDR() if isinstance(wanted, str) and wanted == "fdr" else None


def asked_number(wanted: Any, d: int) -> int | None:
    """Return `n_features_to_select` as a number of features; `None` for a rule."""
    if isinstance(wanted, FDR) or (isinstance(wanted, str) and wanted in RULES):
        return None
    if isinstance(wanted, numbers.Real) and not isinstance(wanted, bool):
        if isinstance(wanted, numbers.Integral):
            return _checks.integer(wanted, "n_features_to_select", low=1, high=d)
        if 0 < float(wanted) <= 1:
            return max(1, round(float(wanted) * d))
    expected = 'an integer, a fraction in (0, 1], "auto", "gap", "fdr" or "one_se"'
    raise _checks.fail("n_features_to_select", expected, repr(wanted))


def default_number(d: int) -> int:
    """Return ⌈√d⌉, at most 50."""
    return min(_MOST, int(np.ceil(np.sqrt(d))))


def upper_group(falling: np.ndarray) -> int:
    """Return the size of the upper group when numbers in descending order are split into two.

    The split has the least variance within the groups. Infinite numbers are replaced by the largest
    or smallest finite number. If all numbers are equal, they form one group.

    >>> upper_group(np.array([9.0, 8.0, 8.5, 1.0, 0.5, 0.0]))
    3
    """
    finite = falling[np.isfinite(falling)]
    if finite.size == 0 or falling.size == 1:
        return falling.size
    s = np.clip(falling.astype(np.float64), finite.min(), finite.max())
    s = s - s.mean()
    if not np.any(s):
        return s.size
    s = s / np.abs(s).max()
    above = np.cumsum(s)[:-1]  # the mean is 0, so the sums of the lower groups are −`above`
    count = np.arange(1, s.size)
    return int(np.argmax(above**2 * (1 / count + 1 / (s.size - count)))) + 1


# ---- Reasons ------------------------------------------------------------------------------------


def gap_reason(number: int, d: int) -> str:
    """Say how `upper_group` found the number of features."""
    if number == d:
        return f"All {d} features have the same score."
    return f"The scores of {d} features form two groups; {number} are in the upper group."


def curve_reason(curve: AccuracyCurve, measure: str) -> str:
    """Say how the one-standard-error rule found the number of features."""
    place, best = curve.smallest_as_good(), int(np.argmax(curve.mean()))
    mean, error = curve.mean(), curve.standard_error()
    return (
        f"{curve.counts[place]} is the smallest number of features with {measure} within one"
        f" standard error of the best: {mean[place]:.3f}, and {mean[best]:.3f} ± {error[best]:.3f}"
        f" with {curve.counts[best]} features."
    )


def plain_reason(wanted: Any, number: int, d: int) -> str:
    """Say how a number that was asked for, or the default of greedy methods, gave the number."""
    asked = asked_number(wanted, d)
    if asked is None:
        asked, words = default_number(d), f"⌈√{d}⌉, at most {_MOST}, is the default"
    elif isinstance(wanted, numbers.Integral):
        words = f"{asked} of {d} features were asked for"
    else:
        words = f"a share of {wanted:g} of {d} features was asked for"
    stopped = "" if number == asked else f"; the method stopped at {number}"
    return f"{words[0].upper()}{words[1:]}{stopped}."
