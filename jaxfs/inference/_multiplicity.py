"""q-values: p-values adjusted for the number of features, so that they control the FDR."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._types import ArrayLike

METHODS = ("bh", "by")


def q_values(p_values: ArrayLike, *, method: str = "bh") -> Float[Array, "d"]:
    """Return the q-value of each feature: the smallest FDR at which the feature is selected.

    Let p_(1) ≤ … ≤ p_(m) be the sorted p-values. The q-value of the i-th is the minimum over j ≥ i
    of c m p_(j) / j, and at most 1. If the features with q ≤ α are selected, the false discovery
    rate, the expected share of false features among the selected, is at most α.

    **Arguments**

    - `p_values`: `(d,)`, in [0, 1]; may be traced.
    - `method`: static. `"bh"` (Benjamini and Hochberg): c = 1, valid for independent p-values and
      for positively dependent ones. `"by"` (Benjamini and Yekutieli): c = Σ_{i ≤ m} 1/i, valid for
      any dependence.

    **Returns** `(d,)`, in [0, 1].

    **Numerics** a p-value of NaN gives NaN, and does not count in m.

    **Cost** two sorts.

    **Reference** Benjamini and Hochberg, *Controlling the false discovery rate*, JRSS B 57, 1995;
    Benjamini and Yekutieli, *The control of the false discovery rate in multiple testing under
    dependency*, Annals of Statistics 29, 2001, theorem 1.3.

    >>> import jax.numpy as jnp
    >>> q_values(jnp.array([0.01, 0.04, 0.03, 0.5])).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.5]
    """
    p = _checks.real(p_values, "p_values", ndim=1)
    if not p.size:
        raise _checks.fail("p_values", "(d,) with d ≥ 1 features", f"shape {p.shape}")
    if not _checks.is_traced(p) and bool(((p < 0) | (p > 1)).any()):
        raise _checks.fail("p_values", "in [0, 1]", f"{float(p.min())} to {float(p.max())}")
    return adjusted(p, _checks.option(method, "method", METHODS))


@functools.partial(jax.jit, static_argnames="method")
def adjusted(p: Float[Array, "d"], method: str) -> Float[Array, "d"]:
    """Compute `q_values` without checks."""
    known = ~jnp.isnan(p)
    m = jnp.sum(known, dtype=p.dtype)
    rank = jnp.arange(1, p.shape[0] + 1, dtype=p.dtype)
    order = jnp.argsort(p)  # NaN comes last
    factor = m
    if method == "by":
        factor = m * jnp.sum(jnp.where(rank <= m, 1 / rank, 0))
    scaled = jnp.where(rank <= m, factor * p[order] / rank, jnp.inf)
    least = jnp.minimum(jax.lax.cummin(scaled, reverse=True), 1)
    return jnp.where(known, jnp.zeros_like(p).at[order].set(least), jnp.nan)
