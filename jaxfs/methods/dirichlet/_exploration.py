"""The training of gates: explore which features have structure, then choose among them.

The formulas are those of `_dirichlet` and `_coverage`. Every stage may be compiled for itself, and
its steps be run in parts.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import unit_columns
from jaxfs.methods.dirichlet._calibration import (
    calibrated_loss,
    covering,
    covering_loss,
    decoys,
    judged,
    judged_alike,
    linear_covering,
    promise,
    relevance,
)
from jaxfs.methods.dirichlet._coverage import cover
from jaxfs.methods.dirichlet._training import (
    Objective,
    Settings,
    Steps,
    Task,
    Training,
    adam_or,
    advance,
    at_once,
    begin,
    draw,
    draw_batch,
    energies,
)

#: So many decoys are put in the places of chosen features.
TRIALS = 16
#: So many samples at most are regressed, and so many correlated.
ROWS, CORRELATED = 512, 1024
#: What features count that are not relevant: those of some promise, and any. Where none of the
#: relevant is left, the others are covered.
PROMISING, ANY = 1e-3, 1e-6


class Chosen(NamedTuple):
    """Gates of the best restart, `relevance` of every feature, and how each restart went."""

    logits: Float[Array, "d"]
    relevance: Float[Array, "d"]
    history: Float[Array, "restarts steps"]
    restart_energies: Float[Array, "restarts"]
    failed_at: Int[Array, "restarts"]


def fit_gates(task: Task, settings: Settings, optimizer, steps: Steps = at_once) -> Chosen:
    """Explore which features have structure, then choose those on whose graph they are smooth."""
    half = settings.num_steps // 2
    explored = _exploration(task, settings, optimizer, half, steps)
    found = _start(task, explored, settings)
    begun = _begin_choosing(task, found, settings, optimizer)
    chosen = steps(functools.partial(_choose, task, found, settings, optimizer), begun)
    return _conclude(task, found, explored.training, chosen, settings)


def fit_cover(task: Task, settings: Settings, optimizer, steps: Steps = at_once) -> Chosen:
    """Explore which features have structure, then choose those that cover them."""
    explored = _exploration(task, settings, optimizer, settings.num_steps, steps)
    return _choose_cover(task, explored, settings)


class _Explored(NamedTuple):
    """How restarts explored, the mean c of what each found; relevance and promise of features."""

    training: Training
    values: Float[Array, "restarts"]
    worth: Float[Array, "d"]
    promise: Float[Array, "d"]


class _Found(NamedTuple):
    """The relevance of every feature, the greedy choice, and the gates it starts from."""

    worth: Float[Array, "d"]
    order: Int[Array, "m"]
    start: Float[Array, "d"]


def _keys(task: Task, s: Settings):
    """Four keys, and those of the restarts while they explore and while they choose."""
    keys = jax.random.split(task.key, 4 + 2 * s.num_restarts)
    return keys[:4], keys[4 : 4 + s.num_restarts], keys[4 + s.num_restarts :]


def _larger(x, s: Settings) -> Settings:
    """For judging: once, on more samples."""
    n = x.shape[0]
    return s._replace(batch_size=min(n, 4 * s.batch_size), num_anchors=min(n, 4 * s.num_anchors))


def _exploring(task: Task, settings: Settings) -> Objective:
    _, x, present, varied, options = task
    decoy = decoys(_keys(task, settings)[0][1], present, x.shape[1], x.dtype)
    return calibrated_loss(x, decoy, present, varied, settings, options)


def _choosing(task: Task, found: _Found, settings: Settings) -> Objective:
    _, x, present, varied, options = task
    return covering_loss(x, present, varied, found.worth, settings, options)


def _exploration(
    task: Task, settings: Settings, optimizer, num_steps: int, steps: Steps
) -> _Explored:
    begun = _begin_exploring(task, settings, optimizer, num_steps)
    explored = steps(functools.partial(_explore, task, settings, optimizer), begun)
    return _judge(task, explored, settings)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _begin_exploring(task: Task, settings: Settings, optimizer, num_steps: int) -> Training:
    start = jnp.zeros(task.x.shape[1], task.x.dtype)
    optimizer = adam_or(optimizer, task.options)
    return _restarts(begin(_exploring(task, settings), start, optimizer, num_steps), settings)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _begin_choosing(task: Task, found: _Found, settings: Settings, optimizer) -> Training:
    optimizer = adam_or(optimizer, task.options)
    objective, left = _choosing(task, found, settings), settings.num_steps - settings.num_steps // 2
    return _restarts(begin(objective, found.start, optimizer, left), settings)


def _restarts(one: Training, settings: Settings) -> Training:
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (settings.num_restarts, *a.shape)), one)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _explore(task: Task, settings: Settings, optimizer, training: Training, first, last):
    objective, restarts = _exploring(task, settings), _keys(task, settings)[1]
    optimizer = adam_or(optimizer, task.options)
    return jax.vmap(lambda key, t: advance(objective, key, t, optimizer, first, last))(
        restarts, training
    )


@functools.partial(jax.jit, static_argnames="settings")
def _judge(task: Task, explored: Training, settings: Settings) -> _Explored:
    _, x, present, varied, options = task
    keys, _, _ = _keys(task, settings)
    s, judge = settings, _larger(x, settings)
    batch = draw_batch(keys[0], present, judge, x.dtype)
    trials = decoys(keys[2], present, TRIALS, x.dtype)

    def calibrated(logits):
        features = lax.top_k(jnp.where(varied, logits, -jnp.inf), s.num_features)[1]
        judgement = judged(x, trials, features, batch, judge, options.gamma)
        return jnp.mean(judgement.c[features]), judgement

    values, judgements = lax.map(calibrated, explored.parameters)
    best = jnp.argmin(jnp.where(explored.failed_at < 0, values, jnp.inf))
    found = jax.tree.map(lambda a: a[best], judgements)
    # What is smooth on the graph of all has structure too, whether or not it was explored.
    plain = judged_alike(x, trials, varied, batch, judge, options.gamma)

    def either(measure):
        return jnp.where(varied, jnp.maximum(measure(found), measure(plain)), 0)

    worth = either(relevance)
    # Data in which nothing is smoother than noise have no structure to prefer.
    worth = jnp.where(jnp.any(worth > 0), worth, varied.astype(x.dtype))
    return _Explored(explored, values, worth, either(promise))


def _sampled(task: Task, settings: Settings, number: int) -> tuple[Array, Array]:
    """At most so many of the samples, and which of them are present; others are 0."""
    rows, there = draw(_keys(task, settings)[0][3], task.present, number, task.x.dtype)
    return jnp.where(there[:, None], task.x[rows], 0), there


@functools.partial(jax.jit, static_argnames="settings")
def _choose_cover(task: Task, explored: _Explored, settings: Settings) -> Chosen:
    (training, values, worth, doubtful), m = explored, settings.num_features
    units = unit_columns(*_sampled(task, settings, CORRELATED))
    counts = jnp.where(task.varied, worth + PROMISING * doubtful + ANY, 0)
    order = cover(units, counts, task.varied, m)
    logits = worth.at[order].set(jnp.linspace(3, 2, m, dtype=worth.dtype))
    logits = jnp.where(task.varied, logits, -jnp.inf)
    return Chosen(logits, worth, training.history, values, training.failed_at)


@functools.partial(jax.jit, static_argnames="settings")
def _start(task: Task, explored: _Explored, settings: Settings) -> _Found:
    (x, _), worth = _sampled(task, settings, ROWS), explored.worth
    order = linear_covering(x, task.varied, worth, settings.num_features)
    return _Found(worth, order, worth.at[order].add(1))


@functools.partial(jax.jit, static_argnums=(2, 3))
def _choose(
    task: Task, found: _Found, settings: Settings, optimizer, training: Training, first, last
):
    objective, restarts = _choosing(task, found, settings), _keys(task, settings)[2]
    optimizer = adam_or(optimizer, task.options)
    return jax.vmap(lambda key, t: advance(objective, key, t, optimizer, first, last))(
        restarts, training
    )


@functools.partial(jax.jit, static_argnames="settings")
def _conclude(
    task: Task, found: _Found, explored: Training, chosen: Training, settings: Settings
) -> Chosen:
    """The gates with the smallest hard energy."""
    _, x, present, varied, options = task
    worth, order, _ = found
    s, judge = settings, _larger(x, settings)
    batch = draw_batch(_keys(task, s)[0][0], present, judge, x.dtype)
    zero = jnp.zeros(x.shape[1], x.dtype)
    # The start is one of the candidates, in its own order.
    ranked = zero.at[order].set(jnp.linspace(2, 1, s.num_features, dtype=x.dtype))
    logits = jnp.where(varied[None], jnp.concat([chosen.parameters, ranked[None]]), -jnp.inf)
    exactly = judge._replace(exact=True, num_candidates=s.num_neighbors + 1)

    def hard(logits):
        z = zero.at[lax.top_k(logits, s.num_features)[1]].set(1)
        z = jnp.where(varied, z, 0)
        return covering(energies(x, z, batch, exactly, options.gamma), worth)

    final = lax.map(hard, logits)
    failed = jnp.where(chosen.failed_at >= 0, s.num_steps // 2 + chosen.failed_at, -1)
    failed = jnp.where(explored.failed_at >= 0, explored.failed_at, failed)
    best = jnp.argmin(jnp.where(jnp.append(failed, -1) < 0, final, jnp.inf))
    history = jnp.concat([explored.history, chosen.history], axis=1)
    return Chosen(logits[best], worth, history, final, failed)
