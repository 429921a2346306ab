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
from jaxfs.estimators._number import FDR
from jaxfs.inference import permutation_test, q_values

#: Default number of relabelings, and the largest default of scores that share their work: ReliefF
#: of 100 samples and 6000 features takes about half a minute.
_PERMUTATIONS, _MOST = 999, 9999


@dataclasses.dataclass(frozen=True)
class CoreScore:
    """A score of the core with its options, as a function of samples, labels and weights.

    Equal scores compare equal, so that a permutation test is compiled once for them.
    """

    function: Callable[..., Array]
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Array, y: Array, weights: Array) -> Array:
        return self.function(x, y, weights=weights, **dict(self.options))


class Blocks(NamedTuple):
    """Groups and strata of the samples, any labels `(n,)`, or `None`."""

    groups: Any = None
    strata: Any = None

    def checked(self, n: int) -> "Blocks":
        """Return integer codes."""
        return Blocks(*(_codes(value, name, n) for name, value in self._asdict().items()))

    def rows(self, kept: np.ndarray) -> "Blocks":
        """Return the groups and strata of some samples."""
        return Blocks(*(None if value is None else value[kept] for value in self))


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


def by_law(data: PaddedData, test: Callable[..., Any]) -> Significance:
    """Return the significance of scores whose distribution is known, by a test of the core."""
    return _significance(data, data.call(test), "by the distribution of the score", 1)


def by_permutation(
    data: PaddedData, score: Callable[..., Array], rule: FDR, blocks: Blocks
) -> Significance:
    """Return the significance of any score by permutation; `blocks` are checked."""
    d, number = data.num_features, rule.n_permutations
    if number is None:
        most = _MOST if hasattr(score, "given") else _PERMUTATIONS
        number = min(most, max(_PERMUTATIONS, math.ceil(d / rule.level)))
    codes = [None if block is None else padded(block) for block in blocks]
    found = permutation_test(
        jax.random.key(rule.random_state),
        score,
        data.x,
        data.y,
        num_permutations=number,
        groups=codes[0],
        strata=codes[1],
        weights=data.weights,
    )
    used = int(found.num_permutations)
    least = max(1, math.ceil(d / (rule.level * (1 + used)) - 1e-9))
    return _significance(data, found, f"in a permutation test with {used} relabelings", least)


def _significance(data: PaddedData, found: Any, source: str, least: int) -> Significance:
    p = found.p_values[: data.num_features]  # without padded features
    return Significance(np.asarray(p), np.asarray(q_values(p)), source, least)


def _codes(value: Any, name: str, n: int) -> np.ndarray | None:
    if value is None:
        return None
    labels = np.asarray(value)
    if labels.shape != (n,):
        raise _checks.fail(name, f"of shape ({n},), one label a sample", f"shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise _checks.fail(name, "labels without NaN", f"{int(np.isnan(labels).sum())} NaN")
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)
