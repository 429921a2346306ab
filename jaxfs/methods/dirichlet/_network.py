"""The modules of the paper on Dirichlet energy: selected features, and the k-NN graph they define.

m softmaxes f_j choose m features, and a Cholesky step makes these features distinct. They define a
soft k-NN graph of the samples with weights s_ij and squared distances e_ij. Training minimises the
energy of the chosen features on this graph, tr(X̂ᵀ L_S X̂) = ½ Σ s_ij e_ij, where

    F = [softmax((log w_j + g_j) / T)],   L Lᵀ = FᵀF + ε I,   F̂ = F L⁻ᵀ,   X̂ = X F̂.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int
from optax.assignment import hungarian_algorithm

from jaxfs import _checks
from jaxfs._checks import presence
from jaxfs._numerics import flat_draw, gram, map_chunks, matmul, safe_divide
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import nearest_neighbors
from jaxfs.linalg._lapack import cholesky, solve_triangular
from jaxfs.transport import soft_knn, soft_weights
from jaxfs.transport._gates import gates

_EPSILON = 1e-3
#: Maximum number of coordinate differences between samples in memory.
_AT_ONCE = 2**21


def _noisy(logits: Float[Array, "*s"], key: Array | None) -> Float[Array, "*s"]:
    if key is None:
        return logits
    return logits + flat_draw(jax.random.gumbel, key, logits.shape, logits.dtype)


class UniqueFeatureSelector(eqx.Module):
    """m soft choices of one feature each, made distinct by orthogonality (section 3.1).

    `logits (d, m)` are the unconstrained log W of eq. 4. A call with a temperature T returns F̂
    `(d, m)`. If a key is given, Gumbel noise is added to the logits. `unique=False` omits the
    Cholesky step and its `epsilon`, as in the paper's ablation. The same feature can then be chosen
    twice.

    The paper adds ε I. Here ε is relative to the mean diagonal entry of FᵀF, which decreases as T
    grows.
    """

    logits: Float[Array, "d m"]
    unique: bool = eqx.field(static=True, default=True)
    epsilon: float = eqx.field(static=True, default=_EPSILON)

    def __check_init__(self):
        _checks.flag(self.unique, "unique")
        if type(self.epsilon) is not float or not 0 < self.epsilon < math.inf:
            # The field is static: an array is not hashable, and NaN would recompile in every call.
            raise _checks.fail("epsilon", "a positive float", repr(self.epsilon))
        if not self.unique and self.epsilon != _EPSILON:
            raise _checks.fail("epsilon", f"the default {_EPSILON} if unique=False", self.epsilon)

    def __call__(self, temperature: Scalar, *, key: Array | None = None) -> Float[Array, "d m"]:
        f = jax.nn.softmax(_noisy(self.logits, key) / temperature, axis=0)
        return divided_by_root(f, f, self.epsilon) if self.unique else f

    def project(
        self, x: ArrayLike, temperature: Scalar, *, key: Array | None = None
    ) -> Float[Array, "n m"]:
        """Return X F̂, computed as (X F) L⁻ᵀ, which is cheaper if n < d."""
        f = jax.nn.softmax(_noisy(self.logits, key) / temperature, axis=0)
        chosen = matmul(_checks.real(x, "x", ndim=2), f)
        return divided_by_root(chosen, f, self.epsilon) if self.unique else chosen

    def indices(self) -> Int[Array, "m"]:
        """Return the chosen features; if `unique`, by the assignment with the largest logit sum."""
        if not self.unique:
            return jnp.argmax(self.logits, axis=0).astype(jnp.int32)
        costs = -self.logits.astype(jnp.result_type(float))  # the only dtype that Optax accepts
        features, slots = hungarian_algorithm(costs)
        return features[jnp.argsort(slots)].astype(jnp.int32)


def divided_by_root(
    a: Float[Array, "r m"], f: Float[Array, "d m"], epsilon: float
) -> Float[Array, "r m"]:
    """Return A L⁻ᵀ, where L Lᵀ = FᵀF + ε · mean diag(FᵀF) · I (Algorithm 1, as in section S2)."""
    g = gram(f)
    ridge = epsilon * jnp.trace(g) / g.shape[0]
    root = cholesky(g + ridge * jnp.eye(g.shape[0], dtype=f.dtype))
    return solve_triangular(root, a.T).T


class FeatureGates(eqx.Module):
    """A gate σ((s − τ) / T) in [0, 1] for each logit s, with τ such that the gates sum to m."""

    logits: Float[Array, "d"]
    num_features: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.integer(self.num_features, "num_features", low=1)

    def __call__(self, temperature: Scalar, *, key: Array | None = None) -> Float[Array, "d"]:
        logits = _noisy(self.logits, key)
        return gates(logits, self.num_features, temperature, jnp.isfinite(logits))

    def indices(self) -> Int[Array, "m"]:
        """Return the m features with the largest logits, largest first."""
        return lax.top_k(self.logits, self.num_features)[1].astype(jnp.int32)


class KNNGraph(NamedTuple):
    """Neighbours of every sample, padded by −1, and their weights; rows of weights sum to 1."""

    indices: Int[Array, "n c"]
    weights: Float[Array, "n c"]


class KNNGraphLearner(eqx.Module):
    """A k-NN graph whose weights are differentiable in the samples (section 3.2).

    A call with samples `(n, m)` returns a `KNNGraph` on their `num_candidates` nearest neighbours.
    With γ = 0 the k nearest neighbours are chosen exactly, and the derivative is the derivative of
    eq. 9 with fixed neighbours. To skip the search, pass `candidates`: for each sample, the samples
    from which its neighbours are chosen.
    """

    num_neighbors: int = eqx.field(static=True, default=5)
    gamma: Scalar = 0.01
    num_candidates: int = eqx.field(static=True, default=32)

    def __check_init__(self):
        _checks.integer(self.num_neighbors, "num_neighbors", low=1)
        _checks.integer(self.num_candidates, "num_candidates", low=1)

    def __call__(
        self,
        x: Float[Array, "n m"],
        *,
        candidates: Int[Array, "n c"] | None = None,
        mask: ArrayLike | None = None,
    ) -> KNNGraph:
        near, e = self.distances(x, candidates=candidates, mask=mask)
        return KNNGraph(near, self.weights(e))

    def candidates(self, x: Float[Array, "n m"], mask: ArrayLike | None = None) -> Array:
        """Return the `num_candidates` nearest neighbours of every sample, without derivatives."""
        number = min(self.num_candidates, x.shape[0] - 1)
        return nearest_neighbors(lax.stop_gradient(x), number, mask=mask).indices

    def distances(self, x, *, candidates=None, mask=None) -> tuple[Array, Array]:
        """Return the candidates and their squared distances; missing ones are infinite."""
        x = _cleared(x, mask)
        if candidates is None:
            candidates = self.candidates(x, mask)
        if candidates.shape[1] <= self.num_neighbors:
            expected = f"of more than num_neighbors = {self.num_neighbors} columns"
            raise _checks.fail("candidates", expected, f"shape {candidates.shape}")
        e = jnp.where(candidates >= 0, _distances_to(x, candidates), jnp.inf)
        return candidates, jnp.where(jnp.all(jnp.isfinite(x)), e, jnp.nan)

    def weights(self, e: Float[Array, "n c"]) -> Float[Array, "n c"]:
        """Return the weights of candidates at squared distances e; infinite ones are missing."""
        k = self.num_neighbors
        if not _checks.is_traced(self.gamma) and float(self.gamma) == 0:
            # Eq. 9 with fixed neighbours, in any order; equal weights if the k + 1 nearest tie.
            few = e.shape[1] == k + 1  # then no sort is needed
            last = (jnp.max(e, axis=1) if few else -lax.top_k(-e, k + 1)[0][:, -1])[:, None]
            unit = lax.stop_gradient(jnp.where(jnp.isfinite(last) & (last > 0), last, 1))
            gap = jnp.where(jnp.isposinf(last), 0, jnp.maximum((last - e) / unit, 0))
            tied = ~jnp.any(gap > 0, axis=1, keepdims=True)
            s = jnp.where(tied, ((e <= last) & jnp.isfinite(e)).astype(e.dtype), gap)
            return safe_divide(s, jnp.broadcast_to(jnp.sum(s, axis=1, keepdims=True), s.shape))
        found = ~jnp.isposinf(e)  # a NaN distance makes its row NaN
        e = jnp.where(found, e, 0)
        return soft_weights(e, soft_knn(e, k, gamma=self.gamma, mask=found))

    def energy(self, x, *, candidates=None, mask=None) -> Float[Array, ""]:
        """Return ½ Σ s_ij e_ij / (n m): the mean energy of the columns on the graph of the rows.

        The energy is 1 for standardised features that are independent of the graph.
        """
        _, e = self.distances(x, candidates=candidates, mask=mask)
        present = presence(mask, x.shape[0]).astype(x.dtype)
        total = jnp.sum(self.weights(e) * jnp.where(jnp.isposinf(e), 0, e) * present[:, None])
        return 0.5 * total / (jnp.sum(present) * x.shape[1])


def _distances_to(x: Float[Array, "n m"], candidates: Int[Array, "n c"]) -> Float[Array, "n c"]:
    """Return squared distances to the candidates, in blocks of at most `_AT_ONCE` differences."""

    @jax.checkpoint  # recompute the differences for the derivative
    def one(row):
        point, near = row
        return jnp.sum(jnp.square(point[None] - x[near]), axis=1)

    rows = max(1, _AT_ONCE // (x.shape[1] * candidates.shape[1]))
    return map_chunks(one, (x, candidates), rows)


def _cleared(x: ArrayLike, mask: ArrayLike | None) -> Float[Array, "n m"]:
    """Return samples with padding set to 0."""
    x = _checks.real(x, "x", ndim=2)
    return jnp.where(presence(mask, x.shape[0])[:, None], x, 0)


class DirichletSelector(eqx.Module):
    """The paper's network: the energy of selected features on the graph built from them."""

    selector: UniqueFeatureSelector
    learner: KNNGraphLearner

    def __call__(
        self,
        x: Float[Array, "n d"],
        temperature: Scalar,
        *,
        key: Array | None = None,
        candidates: Int[Array, "n c"] | None = None,
        mask: ArrayLike | None = None,
    ) -> Float[Array, ""]:
        """Return the energy ½ Σ s_ij e_ij / (n m), with the squared distances e of X̂ = X F̂."""
        chosen = self.selector.project(_cleared(x, mask), temperature, key=key)
        return self.learner.energy(chosen, candidates=candidates, mask=mask)
