"""p-values and q-values of the scores of an estimator, by permutation or by their distribution."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jaxfs import _checks
from jaxfs.estimators._arrays import PaddedData, padded
from jaxfs.inference import permutation_test, q_values

#: Default number of relabelings, and the largest default of scores that share their work: ReliefF
#: of 100 samples and 6000 features takes about half a minute.
_PERMUTATIONS, _MOST = 999, 9999


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


@dataclasses.dataclass(frozen=True)
class CoreScore:
    """A score of the core with its options, as a function of samples, labels and weights.

    Equal scores compare equal, so that a permutation test is compiled once for them.
    """

    function: Callable[..., Array]
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Array, y: Array, weights: Array) -> Array:
        return self.function(x, y, weights=weights, **dict(self.options))


class Significance(NamedTuple):
    """p-values and q-values of d features.

    `source`: the test in words. `least`: the smallest number of features that can be significant
    together.
    """

    p_values: np.ndarray
    q_values: np.ndarray
    source: str = ""
    least: int = 1

    def selected(self, level: float, name: str) -> np.ndarray:
        """Return the mask of features with q ≤ `level`; raise `ValueError` if there is none."""
        found = self.q_values <= level
        if found.any():
            return found
        few = ""
        if self.least > 1:
            few = (
                f" At least {self.least} features must be significant together with this number of"
                " permutations; FDR(n_permutations=…) sets a larger one."
            )
        smallest = np.nanmin(self.q_values, initial=1)
        raise ValueError(
            f"{name} found no feature with q ≤ {level:g} {self.source}: the smallest q is"
            f" {smallest:.3g}.{few} Ask for a number of features to select some anyway"
        )

    def reason(self, level: float) -> str:
        """Say how the q-values gave the number of features."""
        found, d = (self.q_values <= level).sum(), self.q_values.size
        return f"{found} of {d} features have q ≤ {level:g} {self.source}."


def tested(data: PaddedData, found: Any, source: str, least: int) -> Significance:
    """Return the significance of the features by a test of the core, without padded features."""
    p = found.p_values[: data.num_features]
    return Significance(np.asarray(p), np.asarray(q_values(p)), source, least)


def by_permutation(
    data: PaddedData, score: Callable[..., Array], rule: FDR, blocks: dict[str, np.ndarray]
) -> Significance:
    """Return the significance of any score by permutation; `blocks` are codes of the samples."""
    d, number = data.num_features, rule.n_permutations
    if number is None:
        most = _MOST if hasattr(score, "given") else _PERMUTATIONS
        number = min(most, max(_PERMUTATIONS, math.ceil(d / rule.level)))
    codes: dict[str, Any] = {name: padded(block) for name, block in blocks.items()}
    found = permutation_test(
        jax.random.key(rule.random_state),
        score,
        data.x,
        data.y,
        num_permutations=number,
        weights=data.weights,
        **codes,
    )
    used = int(found.num_permutations)
    least = max(1, math.ceil(d / (rule.level * (1 + used)) - 1e-9))
    return tested(data, found, f"in a permutation test with {used} relabelings", least)


def block_codes(value: Any, name: str, kept: np.ndarray) -> np.ndarray:
    """Return integer codes of groups or strata, for the samples of the mask `kept`."""
    labels = np.asarray(value)
    if labels.shape != kept.shape:
        expected = f"of shape ({kept.size},), one label a sample"
        raise _checks.fail(name, expected, f"shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise _checks.fail(name, "labels without NaN", f"{int(np.isnan(labels).sum())} NaN")
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)[kept]
