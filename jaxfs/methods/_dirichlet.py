"""Gates calibrated by decoys: which features have structure, and which of them to choose.

E_f below is the energy of `_dirichlet_graph`, of feature f on the graph of features behind gates z.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._gates import gates
from jaxfs._numerics import matmul, safe_divide
from jaxfs.methods._dirichlet_graph import (
    Batch,
    Options,
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
    temperature,
)
from jaxfs.surrogates.models import unit_columns

#: A feature is relevant from so many deviations of decoys below their log-energy on, and fully so
#: when its own is lower by CLEAR than that.
DEVIATIONS, CLEAR = 3.0, 0.25
#: Added to energies before their logarithm: smoother than that is smooth enough.
TINY = 0.0025
#: The noise on the gates while relevance is explored, and while the features are chosen.
EXPLORING, CHOOSING = 2.0, 0.1
#: Exploration ends warmer, in multiples of the last temperature: hard gates explore nothing.
WARMER = 4.0
#: So many decoys are put in the places of chosen features.
TRIALS = 16
#: So many samples at most are regressed, and a residual below this share counts as explained.
ROWS, _EXPLAINED = 512, 1e-3


# ---- Which features have structure: energies against decoys -------------------------------------


def decoys(key, present: Bool[Array, "n"], d: int, dtype) -> Float[Array, "n d"]:
    """Gaussian columns of mean 0 and variance 1; padding does not change them."""
    g = jax.random.normal(key, (present.size, d), dtype)
    place = jnp.maximum(jnp.cumsum(present) - 1, 0)
    return standardized(g[place], present)


def standardized(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Float[Array, "n d"]:
    """Columns of mean 0 and variance 1 over the samples present; constant ones are 0."""
    root = jnp.sqrt(jnp.sum(present).astype(x.dtype))
    return jnp.where(present[:, None], root * unit_columns(x, present), 0)


def calibrated_loss(x, decoy, present, varied, settings: Settings, options: Options):
    """Σ_f z_f c_f / m with c_f = log E_f(x; z) − log E_f(decoys; z): 0 for noise, in or out.

    A feature inside lowers its own energy, whatever it is; so does a decoy with the same gate. The
    c_f are constants to differentiation: the graph is the minimum of its own problem (eq. 5), about
    which energies move little with it.
    """
    m, d = settings.num_features, x.shape[1]

    def loss(logits, key, progress):
        noise, part, order = jax.random.split(key, 3)
        noisy = logits + EXPLORING * jax.random.gumbel(noise, logits.shape, logits.dtype)
        z = gates(noisy, m, temperature(options, progress, WARMER), varied)
        fixed = lax.stop_gradient(z)
        batch = draw_batch(part, present, settings, x.dtype)
        # Every step has other decoys for a feature, or it would be judged by the luck of one.
        place = jax.random.permutation(order, d)
        ours = energies(x, fixed, batch, settings, options.gamma)
        theirs = energies(decoy, fixed[place], batch, settings, options.gamma)[jnp.argsort(place)]
        c = jnp.log(ours + TINY) - jnp.log(theirs + TINY)
        c = lax.stop_gradient(jnp.where(varied, c, 0))
        return jnp.sum(z * c) / m

    return loss


class Judgement(NamedTuple):
    """c_f of every feature on a graph of some of them, and how far noise in its place strays."""

    c: Float[Array, "d"]
    deviation: Float[Array, "d"]


def judged(
    x,
    decoy: Float[Array, "n t"],
    features: Int[Array, "m"],
    batch: Batch,
    settings: Settings,
    gamma,
) -> Judgement:
    """log E_f on the graph of some features, each against decoys in its own place.

    A feature outside has E_f = 1 if it is noise. For one inside, decoys take its place beside the
    others: noise among structured features is smoother than noise among noise. Of many features a
    few are replaced, and their mean stands for all.
    """
    m, t = features.size, decoy.shape[1]
    inside = x[:, features]

    def log_energies(x, z):
        return jnp.log(energies(x, z, batch, settings, gamma) + TINY)

    def reference(i):
        replaced = jnp.where(jnp.arange(m)[None] == i % m, decoy[:, i][:, None], inside)
        return log_energies(replaced, jnp.ones(m, x.dtype))[i % m]

    trials = lax.map(reference, jnp.arange(t))
    own = jnp.arange(m)[:, None] == (jnp.arange(t) % m)[None]
    own = jnp.where((2 * m <= t) & jnp.ones_like(own), own, True)
    theirs = jnp.mean(jnp.broadcast_to(trials[None], own.shape), axis=1, where=own)
    z = jnp.zeros(x.shape[1] + t, x.dtype).at[features].set(1)
    both = log_energies(jnp.concat([x, decoy], axis=1), z)
    c, outside = both[: x.shape[1]], both[x.shape[1] :]
    stray = jnp.full_like(c, _deviation(outside, batch)).at[features].set(_deviation(trials, batch))
    return Judgement(c.at[features].add(-theirs), stray)


def judged_alike(
    x, decoy: Float[Array, "n t"], varied: Bool[Array, "d"], batch: Batch, settings: Settings, gamma
) -> Judgement:
    """The same on the graph of all features alike, against one decoy more among them."""
    number = jnp.maximum(jnp.sum(varied), 1).astype(x.dtype)
    share = settings.num_features / number
    z = jnp.append(jnp.where(varied, share, 0), share)

    def reference(column):
        both = jnp.concat([x, column[:, None]], axis=1)
        return jnp.log(energies(both, z, batch, settings, gamma)[-1] + TINY)

    trials = lax.map(reference, decoy.T)
    ours = jnp.log(energies(x, z[:-1], batch, settings, gamma) + TINY)
    return Judgement(ours - jnp.mean(trials), jnp.full_like(ours, _deviation(trials, batch)))


def relevance(judgement: Judgement) -> Float[Array, "d"]:
    """1 for features clearly smoother than decoys, 0 for those that decoys match by chance."""
    return jnp.clip((-judgement.c - DEVIATIONS * judgement.deviation) / CLEAR, 0, 1)


def _deviation(log_energies: Float[Array, "t"], batch: Batch) -> Float[Array, ""]:
    """Of decoys; not below that of a mean over the rows, lest few decoys that agree by chance."""
    return jnp.maximum(jnp.std(log_energies), lax.rsqrt(jnp.sum(batch.in_rows)))


# ---- Which features to choose: those on whose graph all that is relevant is smooth --------------


def covering(e: Float[Array, "d"], worth: Float[Array, "d"]) -> Float[Array, ""]:
    """The energy of all features that are relevant, Σ_f w_f E_f / Σ_f w_f."""
    return safe_divide(jnp.sum(worth * e), jnp.sum(worth))


def covering_loss(x, present, varied, worth, settings: Settings, options: Options):
    """`covering` on the graph of the gates, which take part through it alone."""

    def loss(logits, key, progress):
        noise, part = jax.random.split(key)
        noisy = logits + CHOOSING * jax.random.gumbel(noise, logits.shape, logits.dtype)
        z = gates(noisy, settings.num_features, temperature(options, progress), varied)
        batch = draw_batch(part, present, settings, x.dtype)
        return covering(energies(x, z, batch, settings, options.gamma), worth)

    return loss


def linear_covering(x, varied, worth, m: int) -> Int[Array, "m"]:
    """The greedy choice of features from which the relevant ones are best regressed.

    Feature i lowers Σ_f w_f ‖r_f‖² by r_iᵀ K r_i / ‖r_i‖², K = Σ_f w_f r_f r_fᵀ, r the residuals on
    those chosen. When nothing is left to explain, the others are explained once more.
    """
    full = jnp.sum(jnp.square(x), axis=0)

    def take(t, state):
        residual, taken, order = state
        left = varied & ~taken
        norm = jnp.sum(jnp.square(residual), axis=0)
        spent = ~jnp.any((worth > 0) & (norm > _EXPLAINED * full))
        residual = jnp.where(spent, x, residual)
        norm = jnp.where(spent, full, norm)
        k = matmul(residual * worth[None], residual.T)
        gain = jnp.sum(residual * matmul(k, residual), axis=0)
        gain = safe_divide(gain, jnp.where(norm > _EXPLAINED * full, norm, 0))
        i = jnp.argmax(jnp.where(left, gain, -1))
        v = safe_divide(residual[:, i], jnp.broadcast_to(jnp.sqrt(norm[i]), residual[:, i].shape))
        residual = residual - v[:, None] * matmul(v[None], residual)
        return residual, taken.at[i].set(True), order.at[t].set(i)

    start = x, jnp.zeros_like(varied), jnp.zeros(m, int)
    return lax.fori_loop(0, m, take, start)[2]


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
    start = jnp.zeros(task.x.shape[1], task.x.dtype)
    begun = _begin(start, task.options, settings, half, optimizer)
    explored = steps(functools.partial(_explore, task, settings, optimizer), begun)
    found = _judge(task, explored, settings)
    begun = _begin(found.start, task.options, settings, settings.num_steps - half, optimizer)
    chosen = steps(functools.partial(_choose, task, found, settings, optimizer), begun)
    return _conclude(task, found, explored, chosen, settings)


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


@functools.partial(jax.jit, static_argnames=("settings", "num_steps", "optimizer"))
def _begin(start, options: Options, settings: Settings, num_steps: int, optimizer) -> Training:
    one = begin(start, adam_or(optimizer, options), num_steps)
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (settings.num_restarts, *a.shape)), one)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _explore(task: Task, settings: Settings, optimizer, training: Training, first, last):
    _, x, present, varied, options = task
    keys, restarts, _ = _keys(task, settings)
    decoy = decoys(keys[1], present, x.shape[1], x.dtype)
    loss = calibrated_loss(x, decoy, present, varied, settings, options)
    optimizer = adam_or(optimizer, options)
    return jax.vmap(lambda key, t: advance(loss, key, t, optimizer, first, last))(
        restarts, training
    )


@functools.partial(jax.jit, static_argnames="settings")
def _judge(task: Task, explored: Training, settings: Settings) -> _Found:
    _, x, present, varied, options = task
    keys, _, _ = _keys(task, settings)
    s, judge = settings, _larger(x, settings)
    batch = draw_batch(keys[0], present, judge, x.dtype)
    trials = decoys(keys[2], present, TRIALS, x.dtype)

    def calibrated(logits):
        features = lax.top_k(jnp.where(varied, logits, -jnp.inf), s.num_features)[1]
        judgement = judged(x, trials, features, batch, judge, options.gamma)
        return jnp.mean(judgement.c[features]), relevance(judgement)

    value, worth = lax.map(calibrated, explored.parameters)
    found = worth[jnp.argmin(jnp.where(explored.failed_at < 0, value, jnp.inf))]
    # What is smooth on the graph of all has structure too, whether or not it was explored.
    plain = relevance(judged_alike(x, trials, varied, batch, judge, options.gamma))
    worth = jnp.where(varied, jnp.maximum(found, plain), 0)
    # Data in which nothing is smoother than noise have no structure to prefer.
    worth = jnp.where(jnp.any(worth > 0), worth, varied.astype(x.dtype))
    rows, there = draw(keys[3], present, ROWS, x.dtype)
    order = linear_covering(jnp.where(there[:, None], x[rows], 0), varied, worth, s.num_features)
    return _Found(worth, order, worth.at[order].add(1))


@functools.partial(jax.jit, static_argnums=(2, 3))
def _choose(
    task: Task, found: _Found, settings: Settings, optimizer, training: Training, first, last
):
    _, x, present, varied, options = task
    _, _, restarts = _keys(task, settings)
    loss = covering_loss(x, present, varied, found.worth, settings, options)
    optimizer = adam_or(optimizer, options)
    return jax.vmap(lambda key, t: advance(loss, key, t, optimizer, first, last))(
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
