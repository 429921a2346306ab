"""Scores of many labelings of the same samples: ANOVA and ReliefF.

Work that does not depend on the labels is done once, and the scores of a batch of labelings are one
matrix product.

In ReliefF, with the neighbours of each sample sorted by distance, a labeling only changes the
coefficients of the differences |x_i − x_j| between a sample and its neighbours. The neighbours that
a labeling uses are almost always among the first few candidates of each sample, so the differences
of these candidates are computed once.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._checks import Membership, membership
from jaxfs._numerics import centred, matmul, safe_divide
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import coordinate_chunks, manhattan
from jaxfs.methods.classical import anova_score, relieff_score
from jaxfs.methods.classical._class_moments import in_units

#: Default number of neighbours.
_NEIGHBORS = 10
#: Accepted probability that a sample has fewer than k candidates of the smallest class.
_SHORT = 1e-6
#: Number of differences in a block, and largest number of differences stored for all labelings.
_BLOCK, _STORED = 2**22, 2**25


@dataclasses.dataclass(frozen=True)
class _LabelScore:
    #: Number of labelings that `permutation_test` scores at a time: large matrix products are fast.
    batch: ClassVar[int] = 128
    num_classes: int

    def __post_init__(self) -> None:
        _checks.integer(self.num_classes, "num_classes", low=2)


@dataclasses.dataclass(frozen=True)
class AnovaScore(_LabelScore):
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


@dataclasses.dataclass(frozen=True)
class ReliefFScore(_LabelScore):
    """`relieff_score` of many labelings: `ReliefFScore(num_classes=2)(x, y, weights)`.

    `given(x, weights)` returns a function of labels `(b, n)` that returns scores `(b, d)`, equal to
    `relieff_score` up to rounding. It computes and sorts the distances once. A labeling then costs
    a product of n m coefficients with n m differences of d features, where m is the number of
    candidates.

    **Arguments** (all static)

    - `num_classes`: C ≥ 2.
    - `num_neighbors`: k, by default min(10, n − 1). A class with fewer neighbours uses those that
      it has.
    - `num_candidates`: m. A labeling for which some sample has fewer than k neighbours of some
      class among its m nearest samples is scored by `relieff_score`, which is exact but slow. With
      the default m and random labels, one sample in a million has too few. The default depends on
      the share of the smallest class: `permutation_test` counts it, otherwise 1 / C is assumed.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (50, 4))
    >>> y = (x[:, 2] > 0).astype(int)
    >>> of_labels = ReliefFScore(num_classes=2).given(x, jax.numpy.ones(50))
    >>> int(of_labels(y[None])[0].argmax())
    2
    """

    num_neighbors: int | None = None
    num_candidates: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_neighbors", "num_candidates"):
            if getattr(self, name) is not None:
                _checks.integer(getattr(self, name), name, low=1)

    def __call__(self, x: Array, y: Array, weights: Array | None = None) -> Float[Array, "d"]:
        options = {"num_classes": self.num_classes, "num_neighbors": self._k(x.shape[0])}
        return relieff_score(x, y, weights=weights, **options)

    def _k(self, n: int) -> int:
        return min(self.num_neighbors or _NEIGHBORS, n - 1)

    def _m(self, n: int, share: float) -> int:
        if self.num_candidates:
            return min(self.num_candidates, n - 1)
        from scipy.special import bdtr  # here, so that `import jaxfs` stays fast

        k = self._k(n)
        m = np.arange(k, n - 1)
        return k + int(np.sum(bdtr(k - 1, m, share) > _SHORT))

    def tuned(self, y: ArrayLike) -> "ReliefFScore":
        """Return the score with the default `num_candidates` for the class sizes of `y`."""
        if _checks.is_traced(y) or self.num_candidates:
            return self
        y = np.asarray(y)
        share = float(np.min(np.unique(y, return_counts=True)[1]) / y.shape[0])
        return dataclasses.replace(self, num_candidates=self._m(y.shape[0], share))

    def given(
        self, x: Float[Array, "n d"], weights: Float[Array, "n"]
    ) -> Callable[[Int[Array, "b n"]], Float[Array, "b d"]]:
        """Return the score as a function of labels `(b, n)`."""
        n = x.shape[0]
        k, m = self._k(n), self._m(n, 1 / self.num_classes)
        there = (weights > 0)[:, None]
        low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
        span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
        known = jnp.all(jnp.isfinite(span))
        z = jnp.where(there & known, x - low[None], 0)
        z = safe_divide(z, jnp.broadcast_to(span[None], z.shape))
        chunks = coordinate_chunks(z)
        apart = jnp.where(there.T & ~jnp.eye(n, dtype=bool), manhattan(chunks, chunks), jnp.inf)
        nearest = lax.top_k(-apart, m)[1]
        amount = jnp.where(nearest == jnp.arange(n, dtype=jnp.int32)[:, None], 0, weights[nearest])
        total = _cumulative(amount)
        weighted = _differences(z, nearest)

        def of_labels(y: Int[Array, "b n"]) -> Float[Array, "b d"]:
            def one(y):
                members = membership(y, weights, self.num_classes)
                return _coefficients(members, weights, nearest, amount, total, k)

            c, enough = lax.map(one, y)  # one labeling at a time stays in the cache
            worst = jnp.argsort(enough)

            def repeat(i, scores):
                return scores.at[worst[i]].set(self(x, y[worst[i]], weights))

            scores = lax.fori_loop(0, jnp.sum(~enough), repeat, weighted(c))
            return jnp.where(known, scores, jnp.nan)

        return of_labels


# ---- ReliefF ------------------------------------------------------------------------------------


def _coefficients(
    members: Membership,
    weights: Float[Array, "n"],
    order: Int[Array, "n m"],
    amount: Float[Array, "n m"],
    rest: Float[Array, "n m"],
    k: int,
) -> tuple[Float[Array, "n m"], Bool[Array, ""]]:
    """Coefficient of each neighbour in the score, and whether all k neighbours are in `order`.

    As in `_relieff._nearest`, a sample of weight w counts as w neighbours, and a weight above
    1 as copies of the sample itself, which come first. `amount` has the weights of the neighbours.
    """
    label, mass = members.label, jnp.where(members.present, weights, 0)
    near = jnp.where(members.present, label, -1)[order]
    visits, prior = mass / jnp.sum(mass), members.priors[label]
    up_to, factor = jnp.zeros_like(amount), jnp.zeros_like(amount)
    enough = jnp.all(members.present | (weights == 0))
    classes = members.priors.shape[0]
    for c in range(classes):
        own, here = label == c, near == c
        cumulative = _cumulative(jnp.where(here, amount, 0)) if c < classes - 1 else rest
        rest = rest - cumulative
        copies = jnp.where(own, jnp.maximum(mass - 1, 0), 0)
        found = copies + cumulative[:, -1]
        others = safe_divide(jnp.broadcast_to(members.priors[c], own.shape), 1 - prior)
        each = safe_divide(visits * jnp.where(own, -1, others), jnp.minimum(found, k))
        up_to = jnp.where(here, copies[:, None] + cumulative, up_to)
        factor = jnp.where(here, each[:, None], factor)
        exist = members.mass[c] - jnp.where(own, jnp.minimum(mass, 1), 0)
        enough &= jnp.all((found >= jnp.minimum(k, exist)) | (mass == 0))
    return factor * (jnp.minimum(up_to, k) - jnp.minimum(up_to - amount, k)), enough


def _cumulative(a: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """Cumulative sums of rows, by a matrix product if they are short: XLA's own are slow on CPU."""
    m = a.shape[1]
    return matmul(a, jnp.triu(jnp.ones((m, m), a.dtype))) if m <= 256 else jnp.cumsum(a, axis=1)


def _differences(z: Float[Array, "n d"], order: Int[Array, "n m"]):
    """Return the function that maps c `(b, n, m)` to Σ_ir c_ir |z_i − z_{order[i, r]}| `(b, d)`.

    The differences are stored if they are few, and computed again in each call if not.
    """
    n, d = z.shape
    m = order.shape[1]
    size = min(n, max(1, _BLOCK // (m * d)))
    fill = ((0, -n % size), (0, 0))
    blocks = (jnp.pad(z, fill).reshape(-1, size, d), jnp.pad(order, fill).reshape(-1, size, m))

    def differences(block):
        here, near = block
        return jnp.abs(here[:, None] - z[near]).reshape(-1, d)

    if n * m * d <= _STORED:
        stored = differences((z, order))
        return lambda c: matmul(c.reshape(-1, n * m), stored)

    def weighted(c: Float[Array, "b n m"]) -> Float[Array, "b d"]:
        parts = jnp.pad(c, ((0, 0), *fill)).reshape(c.shape[0], -1, size * m)

        def add(total, inputs):
            part, block = inputs
            return total + matmul(part, differences(block)), None

        start = jnp.zeros((c.shape[0], d), z.dtype)
        return lax.scan(add, start, (jnp.permute_dims(parts, (1, 0, 2)), blocks))[0]

    return weighted
