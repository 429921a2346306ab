"""The network of the paper on Dirichlet energy, as Equinox modules, and its training.

m softmaxes f_j choose m features, and a Cholesky step makes these features distinct. They define a
soft k-NN graph of the samples with weights s_ij and squared distances e_ij. Training minimises the
energy of the chosen features on this graph, tr(X̂ᵀ L_S X̂) = ½ Σ s_ij e_ij, where

    F = [softmax((log w_j + g_j) / T)],   L Lᵀ = FᵀF + ε I,   F̂ = F L⁻ᵀ,   X̂ = X F̂.
"""

import functools
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
from jaxfs._numerics import gram, matmul
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import adaptive_weights, nearest_neighbors
from jaxfs.linalg._lapack import cholesky, solve_triangular
from jaxfs.methods.dirichlet._training import Chosen, Descent, Steps, Task, Training, draw, train
from jaxfs.transport import soft_knn, soft_weights

_EPSILON = 1e-3
#: Maximum number of coordinate differences between samples in memory.
_AT_ONCE = 2**23


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
        f = self._softmaxes(temperature, key)
        return divided_by_root(f, f, self.epsilon) if self.unique else f

    def project(
        self, x: ArrayLike, temperature: Scalar, *, key: Array | None = None
    ) -> Float[Array, "n m"]:
        """Return X F̂, computed as (X F) L⁻ᵀ, which is cheaper if n < d."""
        f = self._softmaxes(temperature, key)
        chosen = matmul(_checks.real(x, "x", ndim=2), f)
        return divided_by_root(chosen, f, self.epsilon) if self.unique else chosen

    def _softmaxes(self, temperature: Scalar, key: Array | None) -> Float[Array, "d m"]:
        logits = self.logits
        if key is not None:
            logits = logits + jax.random.gumbel(key, logits.shape, logits.dtype)
        return jax.nn.softmax(logits / temperature, axis=0)

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
        indices, e = self.distances(x, candidates=candidates, mask=mask)
        return KNNGraph(indices, self.weights(e))

    def candidates(self, x: Float[Array, "n m"], mask: ArrayLike | None = None) -> Array:
        """Return the `num_candidates` nearest neighbours of every sample, without derivatives."""
        number = min(self.num_candidates, x.shape[0] - 1)
        return nearest_neighbors(lax.stop_gradient(x), number, mask=mask).indices

    def distances(self, x, *, candidates=None, mask=None) -> tuple[Array, Array]:
        """Return candidates and squared distances in ascending order; missing ones are infinite."""
        x, known = _cleared(x, mask)
        if candidates is None:
            candidates = self.candidates(x, mask)
        if candidates.shape[1] <= self.num_neighbors:
            expected = f"of more than num_neighbors = {self.num_neighbors} columns"
            raise _checks.fail("candidates", expected, f"shape {candidates.shape}")
        found = candidates >= 0
        e = _distances_to(x, candidates)
        order = jnp.argsort(jnp.where(found, lax.stop_gradient(e), jnp.inf), axis=1)
        e = jnp.where(known, jnp.where(found, e, jnp.inf), jnp.nan)
        ordered = functools.partial(jnp.take_along_axis, indices=order, axis=1)
        return ordered(candidates), ordered(e)

    def weights(self, e: Float[Array, "n c"]) -> Float[Array, "n c"]:
        """Return the weights of candidates whose squared distances e are in ascending order."""
        k = self.num_neighbors
        if not _checks.is_traced(self.gamma) and float(self.gamma) == 0:
            s = adaptive_weights(e[:, : k + 1])
            return jnp.pad(s, ((0, 0), (0, e.shape[1] - k)))
        found = ~jnp.isposinf(e)  # a NaN distance makes its row NaN
        e = jnp.where(found, e, jnp.zeros_like(e))
        return soft_weights(e, soft_knn(e, k, gamma=self.gamma, mask=found))


def _distances_to(x: Float[Array, "n m"], candidates: Int[Array, "n c"]) -> Float[Array, "n c"]:
    """Return squared distances to the candidates, in blocks of at most `_AT_ONCE` differences."""

    @jax.checkpoint  # recompute the differences for the derivative
    def one(row):
        point, near = row
        return jnp.sum(jnp.square(point[None] - x[near]), axis=1)

    (n, m), c = x.shape, candidates.shape[1]
    rows = max(1, _AT_ONCE // (m * c))
    if rows >= n:
        return jax.vmap(one)((x, candidates))
    return lax.map(one, (x, candidates), batch_size=rows)


def _cleared(x: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Array]:
    """Return samples with padding set to 0, and whether all present samples are finite."""
    x = _checks.real(x, "x", ndim=2)
    x = jnp.where(presence(mask, x.shape[0])[:, None], x, jnp.zeros_like(x))
    known = jnp.all(jnp.isfinite(x))
    return jnp.where(known, x, jnp.zeros_like(x)), known


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
        """Return the energy ½ Σ s_ij e_ij / (n m), with the squared distances e of X̂ = X F̂.

        The energy is 1 for features that are independent of the graph.
        """
        x, known = _cleared(x, mask)
        chosen = self.selector.project(x, temperature, key=key)
        _, e = self.learner.distances(chosen, candidates=candidates, mask=mask)
        s = self.learner.weights(e)
        present = presence(mask, x.shape[0]).astype(x.dtype)
        total = jnp.sum(s * jnp.where(jnp.isposinf(e), 0, e) * present[:, None])
        energy = 0.5 * total / (jnp.sum(present) * self.selector.logits.shape[1])
        return jnp.where(known, energy, jnp.nan)


# ---- Training -----------------------------------------------------------------------------------


def fit_network(task: Task, steps: Steps) -> Chosen:
    """Train the network from several keys; keep the discrete selection with the smallest energy."""
    return _conclude(task, train(_descent, (task,), steps))


def _keys(task: Task) -> tuple[Array, Array, Array]:
    """Return a key for the final evaluation, and two keys for every restart."""
    keys = jax.random.split(task.key, task.plan.num_restarts + 1)
    restarts = jax.vmap(jax.random.split)(keys[1:])
    return keys[0], restarts[:, 0], restarts[:, 1]


def _descent(task: Task) -> Descent:
    """Return the loss to minimise: the energy on a random subset of the samples.

    The subset and its candidates may be kept for several steps.
    """
    _, x, present, varied, plan = task
    gamma = 0.0 if plan.exact else plan.gamma
    learner = KNNGraphLearner(plan.num_neighbors, gamma, plan.num_candidates)

    def look(logits, key, progress):
        noise, part = jax.random.split(key)
        rows, there = draw(part, present, plan.num_anchors, x.dtype)
        selector = UniqueFeatureSelector(logits, plan.unique)
        chosen = selector.project(x[rows], plan.temperature(progress), key=noise)
        return rows, there, learner.candidates(chosen, there)

    def loss(logits, kept, key, progress):
        noise, part = jax.random.split(key)
        if kept is None:
            kept = *draw(part, present, plan.num_anchors, x.dtype), None
        rows, there, near = kept
        model = DirichletSelector(UniqueFeatureSelector(logits, plan.unique), learner)
        t = plan.temperature(progress)
        return model(x[rows], t, key=noise, candidates=near, mask=there)

    def start(key):
        logits = 0.01 * jax.random.normal(key, (x.shape[1], plan.num_features), x.dtype)
        return jnp.where(varied[:, None], logits, -1e6)

    _, first, keys = _keys(task)
    optimizer, every = plan.gradient_transformation(), plan.refresh_every
    return Descent(optimizer, keys, jax.vmap(start)(first), plan.num_steps, loss, look, every)


@jax.jit
def _conclude(task: Task, trained: Training) -> Chosen:
    _, x, present, varied, plan = task
    rows, there = draw(_keys(task)[0], present, 4 * plan.num_anchors, x.dtype)

    def hard(logits):
        chosen = UniqueFeatureSelector(logits, plan.unique).indices()
        near = nearest_neighbors(x[rows][:, chosen], plan.num_neighbors + 1, mask=there)
        e = near.squared_distances
        s = adaptive_weights(e)
        size = jnp.sum(there).astype(x.dtype) * plan.num_features
        return 0.5 * jnp.sum(s * jnp.where(jnp.isfinite(e[:, :-1]), e[:, :-1], 0)) / size

    final = lax.map(hard, trained.parameters)
    best = jnp.argmin(jnp.where(trained.failed_at < 0, final, jnp.inf))
    relevance = varied.astype(x.dtype)
    return Chosen(trained.parameters[best], relevance, trained.history, final, trained.failed_at)
