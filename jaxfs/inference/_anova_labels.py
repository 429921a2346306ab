"""ANOVA scores of many labelings of the same samples, by one matrix product."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._checks import membership
from jaxfs._numerics import centred, matmul, safe_divide
from jaxfs.methods.classical import anova_score
from jaxfs.methods.classical._class_moments import in_units


@dataclasses.dataclass(frozen=True)
class AnovaScore:
    """`anova_score` of many labelings: `AnovaScore(num_classes=2)(x, y, weights)`.

    `given(x, weights)` returns a function of labels `(b, n)` that returns scores `(b, d)`. It takes
    the sum of squares within the classes as the total minus the sum between the classes, so that a
    labeling costs one product of a `(C − 1, n)` matrix with the samples. The relative error is of
    order eps · (1 + F · C / n), larger than the error of `anova_score` if F is large.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [6.0, 2.0]])
    >>> AnovaScore(num_classes=2).given(x, jnp.ones(4))(jnp.array([[0, 0, 1, 1]])).tolist()
    [[8.0, 0.0]]
    """

    #: Number of labelings that `permutation_test` scores at a time: large matrix products are fast.
    batch: ClassVar[int] = 128
    num_classes: int

    def __post_init__(self) -> None:
        _checks.integer(self.num_classes, "num_classes", low=2)

    def __call__(self, x: Array, y: Array, weights: Array | None = None) -> Float[Array, "d"]:
        return anova_score(x, y, num_classes=self.num_classes, weights=weights)

    def given(
        self, x: Float[Array, "n d"], weights: Float[Array, "n"]
    ) -> Callable[[Int[Array, "b n"]], Float[Array, "b d"]]:
        """Return the score as a function of labels `(b, n)`."""
        present = weights > 0
        scaled, _ = in_units(x, present, jnp.argmax(present))
        z, _ = centred(scaled, weights)
        total = matmul(weights[None], jnp.square(z))[0]

        def of_labels(y: Int[Array, "n"]) -> Float[Array, "d"]:
            members = membership(y, weights, self.num_classes)
            sums = matmul(members.shares[:-1], z)  # the sums of all classes add up to 0
            per_mass = safe_divide(jnp.ones_like(members.mass), members.mass)
            between = jnp.sum(jnp.square(sums) * per_mass[:-1, None], axis=0)
            between += jnp.square(jnp.sum(sums, axis=0)) * per_mass[-1]
            classes = jnp.sum(members.mass > 0, dtype=z.dtype)
            freedom = jnp.sum(members.mass) - classes
            factor = jnp.where((freedom > 0) & (classes > 1), freedom / (classes - 1), jnp.nan)
            ratio = between / jnp.maximum(total - between, 0)
            return jnp.where(total == 0, 0, ratio) * factor  # 0 for a constant feature

        return jax.vmap(of_labels)
