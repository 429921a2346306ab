"""Energies of features on the graph of gated features, and the loop that trains the gates.

Each feature x_f has mean 0, variance 1 and a gate z_f in [0, 1]. The graph has the distances
e_ij = Σ_f z_f (x_if − x_jf)² and the weights s_ij of `KNNGraphLearner`. The energy of a feature is
E_f = ½ Σ_ij s_ij (x_if − x_jf)² / n. For a feature that is independent of the graph, E_f is 1 (up
to a factor n / (n − 1)).
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

from jaxfs._numerics import matmul, rank_present
from jaxfs._types import Scalar
from jaxfs.methods.dirichlet._network import KNNGraphLearner


class TrainingPlan(eqx.Module):
    """The checked options of a fit; a pytree whose numbers may be traced."""

    objective: str = eqx.field(static=True)
    num_features: int = eqx.field(static=True)
    num_neighbors: int = eqx.field(static=True)
    num_candidates: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    num_restarts: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    num_anchors: int = eqx.field(static=True)
    gamma: Scalar | None  # None: neighbours are chosen exactly, γ = 0
    learning_rate: Scalar
    temperatures: tuple[Scalar, Scalar]
    unique: bool = eqx.field(static=True, default=True)
    refresh_every: int = eqx.field(static=True, default=1)
    optimizer: optax.GradientTransformation | None = eqx.field(static=True, default=None)

    @property
    def learner(self) -> KNNGraphLearner:
        gamma = 0.0 if self.gamma is None else self.gamma
        return KNNGraphLearner(self.num_neighbors, gamma, self.num_candidates)

    @property
    def num_searched(self) -> int:
        """Number of anchors among which a row chooses its neighbours in a new search."""
        return self.num_neighbors + 1 if self.gamma is None else self.num_candidates

    @property
    def gradient_transformation(self) -> optax.GradientTransformation:
        return self.optimizer or optax.adam(self.learning_rate)

    def temperature(self, progress: Float[Array, ""], last_factor: float = 1.0) -> Array:
        """Interpolate geometrically from the first to `last_factor` times the last temperature."""
        first, last = self.temperatures
        return first * (last_factor * last / first) ** progress


class Task(NamedTuple):
    """The data of one fit: standardised samples, masks of present samples and varying features."""

    keys: Array  # for the samples of evaluations, decoys, exploration, and the choice of features
    x: Float[Array, "n d"]
    decoys: Float[Array, "n t"]  # Gaussian columns, standardised; none for the network
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
        lots = jax.random.uniform(key, present.shape, dtype)[rank_present(present)]
        lots = jnp.where(present, lots, 2)
        chosen = lax.top_k(-lots, size)[1]
    return chosen, present[chosen]


def draw_batch(key, task: Task, larger: int = 1) -> Batch:
    """Draw the rows and anchors of a step, or `larger` times as many for an evaluation."""
    plan, dtype = task.plan, task.x.dtype
    first, second = jax.random.split(key)
    rows, in_rows = draw(first, task.present, larger * plan.batch_size, dtype)
    anchors, in_anchors = draw(second, task.present, larger * plan.num_anchors, dtype)
    return Batch(rows, anchors, in_rows.astype(dtype), in_anchors)


def distances(x: Float[Array, "n d"], z: Float[Array, "d"], batch: Batch) -> Float[Array, "b a"]:
    """Return Σ_f z_f (x_if − x_jf)² from rows to anchors; infinite to padding and to itself."""
    a, b, z = lax.stop_gradient((x[batch.rows], x[batch.anchors], z))
    norms = matmul(jnp.square(a), z)[:, None] + matmul(jnp.square(b), z)[None]
    squared = jnp.maximum(norms - 2 * matmul(a * z[None], b.T), 0)
    others = batch.in_anchors[None] & (batch.rows[:, None] != batch.anchors[None])
    return jnp.where(others, squared, jnp.inf)


def nearest(squared: Float[Array, "b a"], number: int) -> tuple[Array, Int[Array, "b c"]]:
    """Return the smallest squared distances of each row and their anchors, −1 if missing."""
    found, near = lax.top_k(-squared, min(number, squared.shape[1] - 1))
    return -found, jnp.where(jnp.isfinite(found), near, -1)


def energies(
    x: Float[Array, "n d"],
    z: Float[Array, "d"],
    batch: Batch,
    plan: TrainingPlan,
    near: Int[Array, "b c"] | None = None,
) -> Float[Array, "d"]:
    """Return E_f of every feature on the graph of a batch with gates z.

    Each row chooses its neighbours among the candidates `near`; by default the nearest anchors.
    Derivatives in z go through the weights of the graph. The lists of candidates are constants.
    The derivative is still exact, because the weight of a neighbour is 0 when it leaves the list.
    """
    if near is None:
        near = nearest(distances(x, z, batch), plan.num_searched)[1]
    gaps = jnp.square(x[batch.rows][:, None] - x[batch.anchors[near]])
    e = jnp.einsum("rcd,d->rc", gaps, z, precision=lax.Precision.HIGHEST)
    s = plan.learner.weights(jnp.where(near >= 0, e, jnp.inf)) * batch.in_rows[:, None]
    total = jnp.einsum("rc,rcd->d", s, gaps, precision=lax.Precision.HIGHEST)
    return 0.5 * total / jnp.maximum(jnp.sum(batch.in_rows), 1)


# ---- Training -----------------------------------------------------------------------------------


class Descent(NamedTuple):
    """A loss to minimise by gradient descent, from several starting points.

    The loss is `loss(parameters, kept, keys, progress)`, with two keys and progress from 0 to 1.
    The value of `look(parameters, keys, progress)` is kept for `refresh_every` steps. No step is
    made unless `wanted`.
    """

    key: Array
    start: Float[Array, "restarts *shape"]
    loss: Callable[[Any, Any, Array, Array], Array]
    look: Callable[[Any, Array, Array], Any] = lambda *_: None
    wanted: Bool[Array, ""] | bool = True


class Training(NamedTuple):
    """The state of every restart.

    `history` is the loss of every step so far, NaN for the others. Training stops at the first step
    at which the loss, its gradient or the new parameters are not finite. `failed_at` is this step,
    or −1.
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
    """Minimise the loss of `descent_of(*data)`; the first entry of `data` is the task."""
    return steps(functools.partial(advance, descent_of, data), begin(descent_of, data))


@functools.partial(jax.jit, static_argnums=0)
def begin(descent_of: Callable[..., Descent], data: tuple[Any, ...]) -> Training:
    descent, plan = descent_of(*data), data[0].plan

    def one(parameters):
        dtype = parameters.dtype
        keys = jax.eval_shape(jax.random.split, descent.key)
        shapes = jax.eval_shape(descent.look, parameters, keys, jnp.zeros((), dtype))
        kept = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
        history = jnp.full(plan.num_steps, jnp.nan, dtype)
        moments = plan.gradient_transformation.init(parameters)
        return Training(parameters, moments, history, jnp.int32(-1), kept)

    return jax.vmap(one)(descent.start)


@functools.partial(jax.jit, static_argnums=0)
def advance(
    descent_of: Callable[..., Descent], data: tuple[Any, ...], training: Training, first, last
) -> Training:
    """Run the training steps `first` … `last` − 1."""
    descent, plan = descent_of(*data), data[0].plan

    def step(keys, i, state):
        parameters, moments, history, failed_at, kept = state
        progress = i.astype(history.dtype) / (plan.num_steps - 1)
        look = functools.partial(descent.look, parameters, keys[i], progress)
        every = plan.refresh_every
        kept = look() if every == 1 else lax.cond(i % every == 0, look, lambda: kept)
        value, gradient = jax.value_and_grad(descent.loss)(parameters, kept, keys[i], progress)
        with jax.numpy_dtype_promotion("standard"):  # required by Optax's Adam
            updates, after = plan.gradient_transformation.update(gradient, moments, parameters)
            moved = optax.apply_updates(parameters, updates)
        everything = value + optax.tree.sum(gradient) + optax.tree.sum(moved)
        fine = (failed_at < 0) & jnp.isfinite(everything)
        failed_at = jnp.where(fine | (failed_at >= 0), failed_at, i)
        keep = functools.partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        history = history.at[i].set(value)
        return Training(keep(moved, parameters), keep(after, moments), history, failed_at, kept)

    def one(keys, state):
        start, end = jnp.int32(first), jnp.where(descent.wanted, jnp.int32(last), first)
        return lax.fori_loop(start, end, functools.partial(step, keys), state)

    keys = jax.random.split(descent.key, (len(descent.start), plan.num_steps, 2))
    return jax.vmap(one)(keys, training)
