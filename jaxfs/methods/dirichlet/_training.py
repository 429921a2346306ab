"""Energies of features on the graph of gated features, and the loop that trains the gates.

Each feature x_f has mean 0, variance 1 and a gate z_f in [0, 1]. The graph has the distances
e_ij = Σ_f z_f (x_if − x_jf)² and the weights s_ij of `graphs.adaptive_weights`, or the soft weights
of `transport.soft_weights`. The energy of a feature is E_f = ½ Σ_ij s_ij (x_if − x_jf)² / n. For a
feature that is independent of the graph, E_f is 1 (up to a factor n / (n − 1)).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import matmul, safe_divide, smallest
from jaxfs._types import Scalar
from jaxfs.graphs import adaptive_weights
from jaxfs.transport import soft_knn, soft_weights
from jaxfs.transport._gates import gates


class TrainingPlan(eqx.Module):
    """The checked options of a fit; a pytree whose numbers may be traced."""

    num_features: int = eqx.field(static=True)
    num_neighbors: int = eqx.field(static=True)
    exact: bool = eqx.field(static=True)  # whether neighbours are chosen exactly, γ = 0
    num_candidates: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    num_restarts: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    num_anchors: int = eqx.field(static=True)
    gamma: Scalar
    learning_rate: Scalar
    first_temperature: Scalar
    last_temperature: Scalar
    objective: str = eqx.field(static=True, default="coverage")
    unique: bool = eqx.field(static=True, default=True)
    refresh_every: int = eqx.field(static=True, default=1)
    optimizer: optax.GradientTransformation | None = eqx.field(static=True, default=None)

    def gradient_transformation(self) -> optax.GradientTransformation:
        return self.optimizer or optax.adam(self.learning_rate)

    def temperature(self, progress: Float[Array, ""], last_factor: float = 1.0) -> Array:
        """Interpolate geometrically from the first to `last_factor` times the last temperature."""
        ratio = last_factor * self.last_temperature / self.first_temperature
        return self.first_temperature * ratio**progress


class FeatureGates(eqx.Module):
    """A gate in [0, 1] for each feature, with sum m: gates(s) = σ((s − τ) / T) for logits s."""

    logits: Float[Array, "d"]
    num_features: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.integer(self.num_features, "num_features", low=1)

    def __call__(self, temperature: Scalar, *, key: Array | None = None) -> Float[Array, "d"]:
        logits = self.logits
        if key is not None:
            logits = logits + jax.random.gumbel(key, logits.shape, logits.dtype)
        return gates(logits, self.num_features, temperature, jnp.isfinite(logits))

    def indices(self) -> Int[Array, "m"]:
        """Return the m features with the largest logits, largest first."""
        return lax.top_k(self.logits, self.num_features)[1].astype(jnp.int32)


class Task(NamedTuple):
    """The data of one fit: standardised samples, masks of present samples and varying features."""

    key: Array
    x: Float[Array, "n d"]
    present: Bool[Array, "n"]
    varied: Bool[Array, "d"]
    plan: TrainingPlan


class Chosen(NamedTuple):
    """Logits of the best restart, relevance of every feature, and the history of all restarts."""

    logits: Float[Array, "d *m"]
    relevance: Float[Array, "d"]
    history: Float[Array, "restarts steps"]
    restart_energies: Float[Array, "restarts"]
    failed_at: Int[Array, "restarts"]


# ---- Graphs of a part of the samples ------------------------------------------------------------


class Batch(NamedTuple):
    """Rows, the samples whose neighbours are searched, and anchors, the possible neighbours."""

    rows: Int[Array, "b"]
    anchors: Int[Array, "a"]
    in_rows: Float[Array, "b"]  # 0 for padding
    in_anchors: Bool[Array, "a"]


def draw(key, present: Bool[Array, "n"], size: int, dtype) -> tuple[Array, Array]:
    """Draw `size` samples without replacement, present ones first; return which are present."""
    if size >= present.size:
        chosen = jnp.arange(present.size, dtype=jnp.int32)
    else:
        # Random numbers are indexed by rank among the present samples: padding changes none.
        place = jnp.maximum(jnp.cumsum(present) - 1, 0)
        lots = jnp.where(present, jax.random.uniform(key, present.shape, dtype)[place], 2)
        chosen = lax.top_k(-lots, size)[1]
    return chosen, present[chosen]


def draw_batch(key, present: Bool[Array, "n"], plan: TrainingPlan, dtype) -> Batch:
    first, second = jax.random.split(key)
    rows, in_rows = draw(first, present, plan.batch_size, dtype)
    anchors, in_anchors = draw(second, present, plan.num_anchors, dtype)
    return Batch(rows, anchors, in_rows.astype(dtype), in_anchors)


def energies(
    x: Float[Array, "n d"], z: Float[Array, "d"], batch: Batch, plan: TrainingPlan
) -> Float[Array, "d"]:
    """Return E_f of every feature on the graph of a batch with gates z."""
    number = plan.num_neighbors + 1 if plan.exact else plan.num_candidates
    return energies_among(x, z, batch, candidates(x, z, batch, number), plan)


def candidates(
    x: Float[Array, "n d"], z: Float[Array, "d"], batch: Batch, number: int
) -> Int[Array, "b c"]:
    """Return the anchors nearest to each row by gated distance, nearest first, padded by −1."""
    a, b, z = lax.stop_gradient((x[batch.rows], x[batch.anchors], z))
    norms = jnp.sum(jnp.square(b) * z[None], axis=1)
    distances = norms[None] - 2 * matmul(a * z[None], b.T)  # up to a constant in each row
    others = batch.in_anchors[None] & (batch.rows[:, None] != batch.anchors[None])
    return _nearest(jnp.where(others, distances, jnp.inf), min(number, batch.anchors.size - 1))


def _nearest(distances: Float[Array, "r a"], m: int) -> Int[Array, "r m"]:
    """Return the indices of the m smallest numbers of each row; −1 if there are fewer."""
    return jax.vmap(lambda row: smallest(row, m)[1])(distances)


def energies_among(
    x: Float[Array, "n d"],
    z: Float[Array, "d"],
    batch: Batch,
    near: Int[Array, "b c"],
    plan: TrainingPlan,
) -> Float[Array, "d"]:
    """Return E_f on the graph in which each row chooses its neighbours among given candidates.

    Derivatives in z go through the weights of the graph. The lists of candidates are constants.
    The derivative is still exact, because the weight of a neighbour is 0 when it leaves the list.
    """
    a, b = x[batch.rows], x[batch.anchors]
    if plan.exact and near.shape[1] > plan.num_neighbors + 1:
        far = jnp.einsum("rcd,d->rc", jnp.square(a[:, None] - b[near]), lax.stop_gradient(z))
        order = _nearest(jnp.where(near >= 0, far, jnp.inf), plan.num_neighbors + 1)
        near = jnp.where(order >= 0, jnp.take_along_axis(near, order, axis=1), -1)
    found = near >= 0
    gaps = jnp.square(a[:, None] - b[near])
    e = jnp.einsum("rcd,d->rc", gaps, z, precision=lax.Precision.HIGHEST)
    if plan.exact:
        # The candidates were ranked by distances with different rounding errors.
        s = adaptive_weights(lax.cummax(jnp.where(found, e, jnp.inf), axis=1))
    else:
        s = soft_weights(e, soft_knn(e, plan.num_neighbors, gamma=plan.gamma, mask=found))
    s = s * batch.in_rows[:, None]
    gaps = gaps[:, : s.shape[1]]
    total = jnp.einsum("rc,rcd->d", s, gaps, precision=lax.Precision.HIGHEST)
    return 0.5 * safe_divide(total, jnp.broadcast_to(jnp.sum(batch.in_rows), total.shape))


# ---- Training -----------------------------------------------------------------------------------


class Descent(NamedTuple):
    """A loss to minimise by gradient descent, from several starting points, each with a key.

    The loss is `loss(parameters, kept, key, progress)`, with progress from 0 to 1. If `every` is
    above 1, `look(parameters, key, progress)` recomputes `kept` every `every` steps. Otherwise,
    `kept` is None.
    """

    optimizer: optax.GradientTransformation
    keys: Array
    start: Float[Array, "restarts *shape"]
    num_steps: int
    loss: Callable[[Any, Any, Array, Array], Array]
    look: Callable[[Any, Array, Array], Any] | None = None
    every: int = 1


class Training(NamedTuple):
    """The state of every restart.

    `history` is the loss of every step so far. Training stops at the first step at which the
    loss, its gradient or the new parameters are not finite. `failed_at` is this step, or −1.
    """

    parameters: Float[Array, "restarts *shape"]
    moments: Any  # the state of the optimiser
    history: Float[Array, "restarts steps"]
    failed_at: Int[Array, "restarts"]
    kept: Any = None


#: Function that runs `advance(training, first, last)` over all steps, in one or several calls.
Steps: TypeAlias = Callable[[Callable[[Training, Any, Any], Training], Training], Training]


def at_once(run: Callable[[Training, Any, Any], Training], training: Training) -> Training:
    return run(training, 0, training.history.shape[-1])


def train(descent_of: Callable[..., Descent], data: tuple[Any, ...], steps: Steps) -> Training:
    """Minimise the loss of `descent_of(*data)`."""
    return steps(functools.partial(advance, descent_of, data), begin(descent_of, data))


@functools.partial(jax.jit, static_argnums=0)
def begin(descent_of: Callable[..., Descent], data: tuple[Any, ...]) -> Training:
    descent = descent_of(*data)
    dtype = descent.start.dtype

    def one(parameters):
        kept = None
        if descent.look is not None and descent.every > 1:  # the first step computes `kept`
            zero = jnp.zeros((), dtype)
            shapes = jax.eval_shape(descent.look, parameters, jax.random.key(0), zero)
            kept = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
        history, moments = jnp.zeros(descent.num_steps, dtype), descent.optimizer.init(parameters)
        return Training(parameters, moments, history, jnp.int32(-1), kept)

    return jax.vmap(one)(descent.start)


@functools.partial(jax.jit, static_argnums=0)
def advance(
    descent_of: Callable[..., Descent], data: tuple[Any, ...], training: Training, first, last
) -> Training:
    """Run the training steps `first` … `last` − 1."""
    descent = descent_of(*data)
    num_steps, dtype = descent.num_steps, training.history.dtype
    differentiate = jax.value_and_grad(descent.loss)

    def step(key, i, state):
        parameters, moments, history, failed_at, kept = state
        progress = i.astype(dtype) / max(1, num_steps - 1)
        own = jax.random.fold_in(key, i)
        if kept is not None and descent.look is not None:
            look = functools.partial(descent.look, parameters, own, progress)
            kept = lax.cond(i % descent.every == 0, look, lambda: kept)
        value, gradient = differentiate(parameters, kept, own, progress)
        with jax.numpy_dtype_promotion("standard"):  # required by Optax's Adam
            updates, after = descent.optimizer.update(gradient, moments, parameters)
            moved = optax.apply_updates(parameters, updates)
        everything = value + optax.tree.sum(gradient) + optax.tree.sum(moved)
        fine = (failed_at < 0) & jnp.isfinite(everything)
        failed_at = jnp.where(fine | (failed_at >= 0), failed_at, i)
        keep = functools.partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        history = history.at[i].set(value)
        return Training(keep(moved, parameters), keep(after, moments), history, failed_at, kept)

    def one(key, state):
        start, end = jnp.int32(first), jnp.int32(last)
        return lax.fori_loop(start, end, functools.partial(step, key), state)

    return jax.vmap(one)(descent.keys, training)
