"""Energies of features on the graph of gated features, on parts of the samples; and training.

Features x_f of mean 0 and variance 1 have gates z_f in [0, 1]. The graph's distances are
e_ij = Σ_f z_f (x_if − x_jf)², its weights s_ij those of `graphs.adaptive_weights`, or their soft
form, and a feature's energy is E_f = ½ Σ_ij s_ij (x_if − x_jf)² / n, which is 1 for a feature that
has nothing to do with the graph (up to n / (n − 1)).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide, smallest
from jaxfs.graphs import adaptive_weights
from jaxfs.transport import soft_knn, soft_weights


class Settings(NamedTuple):
    """What is static."""

    num_features: int
    num_neighbors: int
    exact: bool
    num_candidates: int
    num_steps: int
    num_restarts: int
    batch_size: int
    num_anchors: int
    objective: str = "coverage"
    unique: bool = True
    refresh_every: int = 1


class Options(NamedTuple):
    """What may be traced."""

    gamma: Float[Array, ""]
    learning_rate: Float[Array, ""]
    first_temperature: Float[Array, ""]
    last_temperature: Float[Array, ""]


class Task(NamedTuple):
    """The data of one fit: standardised samples, which are there and which features vary."""

    key: Array
    x: Float[Array, "n d"]
    present: Bool[Array, "n"]
    varied: Bool[Array, "d"]
    options: Options


def adam_or(
    optimizer: optax.GradientTransformation | None, options: Options
) -> optax.GradientTransformation:
    return optax.adam(options.learning_rate) if optimizer is None else optimizer


# ---- Graphs of a part of the samples ------------------------------------------------------------


class Batch(NamedTuple):
    """Samples whose neighbours are looked for, and the samples among which; weights 0 or 1."""

    rows: Int[Array, "b"]
    anchors: Int[Array, "a"]
    in_rows: Float[Array, "b"]
    in_anchors: Bool[Array, "a"]


def draw(key, present: Bool[Array, "n"], size: int, dtype) -> tuple[Array, Array]:
    """`size` samples without replacement, those present first, and which of them are present."""
    if size >= present.size:
        chosen = jnp.arange(present.size, dtype=jnp.int32)
    else:
        # By their place among those present: padding changes no lot.
        place = jnp.maximum(jnp.cumsum(present) - 1, 0)
        lots = jnp.where(present, jax.random.uniform(key, present.shape, dtype)[place], 2)
        chosen = lax.top_k(-lots, size)[1]
    return chosen, present[chosen]


def draw_batch(key, present: Bool[Array, "n"], settings: Settings, dtype) -> Batch:
    first, second = jax.random.split(key)
    rows, in_rows = draw(first, present, settings.batch_size, dtype)
    anchors, in_anchors = draw(second, present, settings.num_anchors, dtype)
    return Batch(rows, anchors, in_rows.astype(dtype), in_anchors)


def energies(
    x: Float[Array, "n d"], z: Float[Array, "d"], batch: Batch, settings: Settings, gamma
) -> Float[Array, "d"]:
    """E_f of every feature on the graph that the gates z make of a batch."""
    number = settings.num_neighbors + 1 if settings.exact else settings.num_candidates
    near = candidates(x, z, batch, number)
    return energies_among(x, z, batch, near, settings, gamma)


def candidates(
    x: Float[Array, "n d"], z: Float[Array, "d"], batch: Batch, number: int
) -> Int[Array, "b c"]:
    """The anchors nearest to each row behind the gates, nearest first; −1 where there are fewer."""
    a, b, z = lax.stop_gradient((x[batch.rows], x[batch.anchors], z))
    norms = jnp.sum(jnp.square(b) * z[None], axis=1)
    distances = norms[None] - 2 * matmul(a * z[None], b.T)  # up to a constant of the row
    others = batch.in_anchors[None] & (batch.rows[:, None] != batch.anchors[None])
    return nearest(jnp.where(others, distances, jnp.inf), min(number, batch.anchors.size - 1))


def energies_among(
    x: Float[Array, "n d"],
    z: Float[Array, "d"],
    batch: Batch,
    near: Int[Array, "b c"],
    settings: Settings,
    gamma,
) -> Float[Array, "d"]:
    """E_f with the neighbours of each row looked for among its candidates.

    Weights move with the gates: derivatives in z are those of the graph. Lists of candidates are
    constants, which loses nothing, since a weight is 0 where its neighbour leaves the list.
    """
    a, b = x[batch.rows], x[batch.anchors]
    if settings.exact and near.shape[1] > settings.num_neighbors + 1:
        far = jnp.einsum("rcd,d->rc", jnp.square(a[:, None] - b[near]), lax.stop_gradient(z))
        order = nearest(jnp.where(near >= 0, far, jnp.inf), settings.num_neighbors + 1)
        near = jnp.where(order >= 0, jnp.take_along_axis(near, order, axis=1), -1)
    found = near >= 0
    gaps = jnp.square(a[:, None] - b[near])
    e = jnp.einsum("rcd,d->rc", gaps, z, precision=lax.Precision.HIGHEST)
    s = weights(e, found, settings, gamma) * batch.in_rows[:, None]
    gaps = gaps[:, : s.shape[1]]
    total = jnp.einsum("rc,rcd->d", s, gaps, precision=lax.Precision.HIGHEST)
    return 0.5 * safe_divide(total, jnp.broadcast_to(jnp.sum(batch.in_rows), total.shape))


def nearest(distances: Float[Array, "r a"], m: int) -> Int[Array, "r m"]:
    """The m smallest of each row; −1 where there are fewer."""
    return jax.vmap(lambda row: smallest(row, m)[1])(distances)


def weights(
    e: Float[Array, "r c"], found: Bool[Array, "r c"], settings: Settings, gamma
) -> Float[Array, "r k"]:
    """Weights of the candidates, nearest first: of k of them if the choice is exact, or of all."""
    if settings.exact:
        # Candidates were ranked by another rounding of their distances.
        e = jnp.where(found, e, jnp.inf)
        return adaptive_weights(lax.cummax(e, axis=1))
    soft = soft_knn(e, settings.num_neighbors, gamma=gamma, mask=found)
    return soft_weights(e, soft)


# ---- Training -----------------------------------------------------------------------------------


class Training(NamedTuple):
    """Parameters, the optimiser's own state, the loss of every step so far, and the step at which
    it, its gradient or the parameters after it were not finite, where training stopped; −1 if they
    always were; and what is kept from step to step.
    """

    parameters: Any
    moments: Any
    history: Float[Array, "steps"]
    failed_at: Int[Array, ""]
    kept: Any = None


class Objective(NamedTuple):
    """`loss(parameters, kept, key, progress)`, progress from 0 to 1, and what it keeps: made by
    `look(parameters, key, progress)` every so many steps. If those are 1 nothing is kept, and
    `loss` has None.
    """

    loss: Callable[[Any, Any, Array, Array], Array]
    look: Callable[[Any, Array, Array], Any] | None = None
    every: int = 1


def begin(
    objective: Objective, parameters: Any, optimizer: optax.GradientTransformation, num_steps: int
) -> Training:
    dtype = jax.tree.leaves(parameters)[0].dtype
    kept = None
    if objective.look is not None and objective.every > 1:  # the first step fills it
        shapes = jax.eval_shape(objective.look, parameters, jax.random.key(0), jnp.zeros((), dtype))
        kept = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    moments = optimizer.init(parameters)
    return Training(parameters, moments, jnp.zeros(num_steps, dtype), jnp.int32(-1), kept)


def advance(
    objective: Objective,
    key: Array,
    training: Training,
    optimizer: optax.GradientTransformation,
    first: int | Int[Array, ""],
    last: int | Int[Array, ""],
) -> Training:
    """Descend the objective from step `first` on to the one before `last`."""
    num_steps, dtype = training.history.size, training.history.dtype
    differentiate = jax.value_and_grad(objective.loss)

    def step(i, state):
        parameters, moments, history, failed_at, kept = state
        progress = i.astype(dtype) / max(1, num_steps - 1)
        own = jax.random.fold_in(key, i)
        if kept is not None and objective.look is not None:
            look = functools.partial(objective.look, parameters, own, progress)
            kept = lax.cond(i % objective.every == 0, look, lambda: kept)
        value, gradient = differentiate(parameters, kept, own, progress)
        with jax.numpy_dtype_promotion("standard"):  # Optax's Adam knows no other
            updates, after = optimizer.update(gradient, moments, parameters)
            moved = optax.apply_updates(parameters, updates)
        everything = value + optax.tree.sum(gradient) + optax.tree.sum(moved)
        fine = (failed_at < 0) & jnp.isfinite(everything)
        failed_at = jnp.where(fine | (failed_at >= 0), failed_at, i)
        keep = functools.partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        history = history.at[i].set(value)
        return Training(keep(moved, parameters), keep(after, moments), history, failed_at, kept)

    return lax.fori_loop(jnp.int32(first), jnp.int32(last), step, training)


class Steps(Protocol):
    """How a training of a number of steps is run: at once, or in parts that a person can follow."""

    def __call__(
        self, run: Callable[[Training, Any, Any], Training], training: Training
    ) -> Training: ...


def at_once(run: Callable[[Training, Any, Any], Training], training: Training) -> Training:
    return run(training, 0, training.history.shape[-1])


def temperature(
    options: Options, progress: Float[Array, ""], last_factor: float = 1.0
) -> Float[Array, ""]:
    """From the first to the last, or a multiple of it, geometrically."""
    ratio = last_factor * options.last_temperature / options.first_temperature
    return options.first_temperature * ratio**progress
