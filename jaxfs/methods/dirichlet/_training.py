"""Energies of features on the graph of gated features, and the loop that trains the gates.

Each feature x_f has mean 0, variance 1 and a gate z_f in [0, 1]. The graph has the distances
e_ij = Σ_f z_f (x_if − x_jf)² and the weights s_ij of `KNNGraphLearner`. The energy of a feature is
E_f = ½ Σ_ij s_ij (x_if − x_jf)² / n. For a feature that is independent of the graph, E_f is 1 (up
to a factor n / (n − 1)).
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._checks import is_traced
from jaxfs._numerics import matmul, rank_present
from jaxfs._types import Scalar
from jaxfs.methods.dirichlet._network import FeatureGates, KNNGraphLearner

#: Number of training steps in a program; an interrupt takes effect between two programs.
CHUNK = 25
_report: ContextVar[Callable[[int], Any]] = ContextVar("report", default=lambda steps: None)


@contextlib.contextmanager
def reporting(done: Callable[[int], Any]) -> Iterator[None]:
    """Call `done` with a number of training steps whenever they are made; not in a traced fit."""
    token = _report.set(done)
    try:
        yield
    finally:
        _report.reset(token)


class Task(eqx.Module):
    """The standardised samples of one fit and its checked options; numbers may be traced."""

    x: Float[Array, "n d"]
    decoys: Float[Array, "n t"]  # Gaussian columns, standardised; none for the network
    present: Bool[Array, "n"]
    varied: Bool[Array, "d"]
    relevance: Float[Array, "d"]
    keys: Array  # for the samples of evaluations, decoys, exploration, and the choice of features
    learner: KNNGraphLearner
    learning_rate: Scalar
    temperatures: tuple[Scalar, Scalar]
    num_features: int = eqx.field(static=True)
    num_searched: int = eqx.field(static=True)  # candidates of a row, if they are not kept
    num_steps: int = eqx.field(static=True)
    num_restarts: int = eqx.field(static=True)
    num_anchors: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    refresh_every: int = eqx.field(static=True)
    unique: bool = eqx.field(static=True)
    optimizer: optax.GradientTransformation | None = eqx.field(static=True)

    @property
    def transformation(self) -> optax.GradientTransformation:
        return self.optimizer or optax.adam(self.learning_rate)

    def temperature(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """Interpolate geometrically from the first to the last temperature."""
        first, last = self.temperatures
        return first * (last / first) ** progress

    def gates(self, logits: Float[Array, "d"]) -> FeatureGates:
        return FeatureGates(jnp.where(self.varied, logits, -jnp.inf), self.num_features)

    def draw(self, key: Array, larger: int = 1) -> Int[Array, "s"]:
        """Draw `larger` times `num_anchors` samples in random order, padding last."""
        # Random numbers are indexed by rank among the present samples: padding changes none.
        lots = jax.random.uniform(key, self.present.shape)[rank_present(self.present)]
        size = min(larger * self.num_anchors, lots.size)
        return lax.top_k(jnp.where(self.present, lots, -1), size)[1]

    def distances(
        self, x: Float[Array, "n t"], z: Float[Array, "t"], drawn: Int[Array, "s"], larger: int = 1
    ) -> Float[Array, "b s"]:
        """Return Σ_f z_f (x_if − x_jf)² from the first samples drawn to all samples drawn.

        The first samples are `larger` times `batch_size`. Distances to padding and from a sample
        to itself are infinite.
        """
        x, z = lax.stop_gradient((x[drawn], z))
        rows, norms = x[: larger * self.batch_size], matmul(jnp.square(x), z)
        squared = norms[: len(rows), None] + norms[None] - 2 * matmul(rows * z[None], x.T)
        others = self.present[drawn][None] & ~jnp.eye(len(rows), len(norms), dtype=bool)
        return jnp.where(others, jnp.maximum(squared, 0), jnp.inf)

    def energies(
        self, x: Float[Array, "n t"], z: Float[Array, "t"], drawn: Int[Array, "s"], near: Array
    ) -> Float[Array, "t"]:
        """Return E_f of every column on the graph of the samples drawn with gates z.

        Each row chooses its neighbours among its candidates `near`. Derivatives in z go through the
        weights of the graph. The lists of candidates are constants. The derivative is still exact,
        because the weight of a neighbour is 0 when it leaves the list.
        """
        gaps = jnp.square(x[drawn[: len(near)]][:, None] - x[drawn[near]])
        e = jnp.einsum("rcd,d->rc", gaps, z, precision=lax.Precision.HIGHEST)
        return self.mean_energy(jnp.where(near >= 0, e, jnp.inf), gaps, drawn)

    def mean_energy(self, e: Float[Array, "b c"], gaps: Float[Array, "b c *t"], drawn) -> Array:
        """Return ½ Σ_ij s_ij gap_ij / n, where s are the weights for the squared distances e."""
        there = self.present[drawn[: len(e)]].astype(e.dtype)
        s = self.learner.weights(e) * there[:, None]
        total = jnp.einsum("rc,rc...->...", s, gaps, precision=lax.Precision.HIGHEST)
        return 0.5 * total / jnp.maximum(jnp.sum(there), 1)


def nearest(squared: Float[Array, "b s"], number: int) -> tuple[Array, Int[Array, "b c"]]:
    """Return the smallest squared distances of each row and their places, −1 if missing."""
    found, near = lax.top_k(-squared, min(number, squared.shape[1] - 1))
    return -found, jnp.where(jnp.isfinite(found), near, -1)


class Objective(NamedTuple):
    """Functions of a task and of the parameters of one restart.

    `loss(task, parameters, kept, keys, progress)` is minimised by gradient descent. `keys` are two
    keys, and progress goes from 0 to 1. `kept` is the value of `look(task, parameters, keys,
    progress)`, which is kept for `refresh_every` steps. `rounded(task, parameters)` returns the
    value of the features that are selected at the end, and the relevance of all features.
    """

    loss: Callable[..., Array]
    rounded: Callable[..., tuple[Array, Array]]
    look: Callable[..., Any] = lambda *_: None


class Training(NamedTuple):
    """The state of every restart.

    `history` is the loss of every step so far, NaN for the others. `failed_at` is the first step at
    which the loss, its gradient or the new parameters are not finite, or −1. From this step on, the
    parameters do not change.
    """

    parameters: Float[Array, "restarts *shape"]
    moments: Any  # the state of the optimiser
    history: Float[Array, "restarts steps"]
    failed_at: Int[Array, "restarts"]


class Found(NamedTuple):
    """Logits of the best restart, relevance of every feature, and the history of all restarts."""

    logits: Float[Array, "d *m"]
    relevance: Float[Array, "d"]
    history: Float[Array, "restarts steps"]
    restart_energies: Float[Array, "restarts"]
    failed_at: Int[Array, "restarts"]


def trained(objective: Objective, task: Task, start: Array, key: Array) -> Training:
    """Minimise the loss in every restart; in chunks of steps, unless traced.

    `start` has a row for every restart, or one row for all.
    """
    every, total = task.refresh_every, task.num_steps
    size = total if is_traced(task.x) else every * math.ceil(CHUNK / every)
    training = begin(task, start)
    for first in range(0, total, size):
        last = min(first + size, total)
        training = advance(objective, task, training, key, np.int32(first), np.int32(last))
        jax.block_until_ready(training)
        _report.get()(last - first)
    return training


@eqx.filter_jit
def begin(task: Task, start: Array) -> Training:
    parameters = jnp.broadcast_to(start, (task.num_restarts, *start.shape[1:]))
    history = jnp.full((task.num_restarts, task.num_steps), jnp.nan, start.dtype)
    moments = jax.vmap(task.transformation.init)(parameters)
    return Training(parameters, moments, history, jnp.full(task.num_restarts, -1, jnp.int32))


@eqx.filter_jit
def advance(objective: Objective, task: Task, training: Training, key, first, last) -> Training:
    """Run the steps `first` … `last` − 1, where `first` is a multiple of `refresh_every`."""
    progress = jnp.linspace(0, 1, task.num_steps, dtype=training.history.dtype)

    def step(keys, kept, i, state: Training) -> Training:
        parameters, moments, history, failed_at = state
        loss = functools.partial(objective.loss, task)
        value, gradient = jax.value_and_grad(loss)(parameters, kept, keys[i], progress[i])
        with jax.numpy_dtype_promotion("standard"):  # required by Optax's Adam
            updates, after = task.transformation.update(gradient, moments, parameters)
            moved = optax.apply_updates(parameters, updates)
        fine = (failed_at < 0) & jnp.isfinite(value + jnp.sum(gradient) + jnp.sum(moved))
        parameters, moments = jax.tree.map(
            lambda new, old: jnp.where(fine, new, old), (moved, after), (parameters, moments)
        )
        failed_at = jnp.where(fine | (failed_at >= 0), failed_at, i)
        return Training(parameters, moments, history.at[i].set(value), failed_at)

    def run(keys, state: Training) -> Training:
        def refresh(r, state):
            i = task.refresh_every * r
            kept = objective.look(task, state.parameters, keys[i], progress[i])
            end = jnp.minimum(i + task.refresh_every, last)
            return lax.fori_loop(i, end, functools.partial(step, keys, kept), state)

        number = -(-last // task.refresh_every)
        return lax.fori_loop(first // task.refresh_every, number, refresh, state)

    return jax.vmap(run)(jax.random.split(key, (task.num_restarts, task.num_steps, 2)), training)


def best(objective: Objective, task: Task, training: Training) -> Found:
    """Keep the restart whose rounded parameters have the smallest value."""
    rounded = functools.partial(objective.rounded, task)
    if is_traced(task.x):
        values, relevance = lax.map(rounded, training.parameters)
    else:  # a program of its own, which may already be compiled
        values, relevance = map(jnp.stack, zip(*map(rounded, training.parameters), strict=True))
    i = jnp.argmin(jnp.where(training.failed_at < 0, values, jnp.inf))
    return Found(training.parameters[i], relevance[i], training.history, values, training.failed_at)
