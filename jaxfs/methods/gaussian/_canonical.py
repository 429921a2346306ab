"""Greedy selection by canonical correlation with the classes."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs._types import ArrayLike, Scalar, Selection
from jaxfs.methods.gaussian import _groups
from jaxfs.methods.gaussian import _search as _gaussian_search
from jaxfs.methods.gaussian import _select as _gaussian_select
from jaxfs.methods.gaussian._criteria import regularisation
from jaxfs.methods.gaussian._moments import Moments, column, moments


def cca_select(
    x: ArrayLike,
    y: ArrayLike,
    num_features: int,
    *,
    num_classes: int,
    ridge: Scalar | None = None,
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Selection:
    """The features that together correlate most with the classes, chosen one at a time.

    The criterion of a set S is the sum of its squared canonical correlations with the indicators of
    the classes, tr(Σ_T⁻¹ Σ_B) ≤ C − 1: Σ_T is the covariance of all samples, Σ_B that of the means
    of their classes. It sees means only, where `gc_select` sees covariances too; it needs fewer
    samples, and its answer is that of linear discriminant analysis.

    **Arguments**

    - `x`: `(n, d)`; with a ridge of `None` or 0 its units do not matter.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_features`: static; at most the number of features that vary.
    - `num_classes`: static, C ≥ 2.
    - `ridge`: nonnegative, added to the diagonal of Σ_T, in the units of x². `None`: the default of
      `gc_select`, in the units of each feature. 0, the correlations themselves, needs at least
      `num_features` + C samples.
    - `initial`: `(m,)`, distinct features to begin with, in this order, m ≤ `num_features`.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.

    **Returns** `Selection`: `indices (k,)` in the order chosen, −1 where nothing was left;
    `objective (k,)`, the criterion with that many features; `saturated_at` is `num_features`.

    **Numerics** as `gc_select`: constants are never chosen, copies of a chosen feature only when
    nothing else is left, ties, to rounding, go to the lowest index, and NaN or infinity in `x` make
    all indices −1.

    **Cost** for each feature chosen one pass over `x` and O(k + C) a candidate; memory (k + C) d
    numbers and two copies of `x`.

    **Reference** S. Zhang, Z.-Q. Lang, *Orthogonal least squares based fast feature selection for
    linear classification*, Pattern Recognition 123, 2022. With `ridge=0` the features are those of
    the package fastcan.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (200, 5))
    >>> y = (x[:, 3] > 0).astype(int)
    >>> cca_select(x.at[:, 4].set(x[:, 3]), y, 2, num_classes=2).indices[0].item()
    3
    """
    arguments, options = _gaussian_select.problem(
        x, y, num_features, num_classes, "mi", ridge, 1.0, initial, weights
    )
    x, y, ridge, _, start, weights = arguments
    k, c = options["num_features"], options["num_classes"]
    return _select(x, y, ridge, start, weights, num_features=k, num_classes=c)


@functools.partial(jax.jit, static_argnames=("num_features", "num_classes"))
def _select(x, y, ridge, initial, weights, *, num_features, num_classes):
    m = moments(x, y, weights, num_classes)
    return _gaussian_search.run(_search(m, ridge, initial, num_features), m, num_features)


def _search(m: Moments, ridge, initial, num_features: int) -> _gaussian_search.Search:
    ridge, _ = regularisation(m, ridge, 0.0)
    total = _groups.total_variances(m)
    whole = jnp.ones(1, total.dtype)  # one group: all samples

    def gains(residual: Float[Array, "d"], shift: Float[Array, "c d"]) -> Float[Array, "d"]:
        """Σ_c p_c shift² / σ²_{j|S}."""
        return _groups.weighted_sum(m.priors, shift / residual[None] * shift)

    def choose(step, carry):
        search, factor, shift, so_far = carry
        factor = factor._replace(rows=_groups.write(factor.rows, factor.newest, step))
        gain = gains(factor.residual[0], shift)
        left = _gaussian_search.independent(factor, (total + ridge)[None], whole)
        i, search = _gaussian_search.choose_best(
            m, search, step, initial, left, so_far + gain, gain
        )
        return i, (i, search, factor, shift, so_far + column(gain, i))

    def absorb(chosen, own):
        i, search, factor, shift, so_far = chosen
        row = _groups.total_row(m, i, own)
        search = search._replace(copies=search.copies | _groups.is_copy(m, total, row, i))
        after = _groups.extend(factor, i, row[None], ridge)
        gamma = after.newest[0] / jnp.sqrt(column(factor.residual[0], i))
        return search, after, shift - column(shift, i)[:, None] * gamma[None], so_far

    def finish(carry):
        return Selection(carry[0].indices, carry[0].objective, jnp.int32(num_features))

    # `shift`: the means, in the classes, of what the chosen features leave of each feature.
    factor = _groups.empty_factor((total + ridge)[None], num_features)
    so_far: Array = jnp.zeros((), total.dtype)
    start = (_gaussian_search.beginning(m, num_features), factor, m.deviations, so_far)
    return _gaussian_search.Search(start, choose, absorb, finish)
