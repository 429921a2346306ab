"""Train gates so that all relevant features are smooth on the graph of the selected features."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import matmul, safe_divide
from jaxfs.methods.dirichlet._calibration import (
    Explored,
    exploration_steps,
    explore,
    larger,
    sampled_rows,
    stage_keys,
)
from jaxfs.methods.dirichlet._training import (
    Chosen,
    Descent,
    Steps,
    Task,
    Training,
    candidates,
    draw_batch,
    energies,
    energies_among,
    train,
)
from jaxfs.transport._gates import gates

#: Scale of the noise on the gates.
_NOISE = 0.1
#: Maximum number of samples in the regressions.
_REGRESSED = 512
#: Fraction of a column's squared norm below which its residual counts as explained.
_EXPLAINED = 1e-3


def fit_energy(task: Task, steps: Steps) -> Chosen:
    """Find the relevant features, then choose features on whose graph these are smooth.

    The training of the gates starts from a greedy choice by linear regression.
    """
    explored = explore(task, steps)
    order = _start(task, explored)
    chosen = train(_choice, (task, explored.relevance, order), steps)
    return _conclude(task, explored, order, chosen)


@jax.jit
def _start(task: Task, explored: Explored) -> Int[Array, "m"]:
    x, _ = sampled_rows(task, _REGRESSED)
    return linear_covering(x, task.varied, explored.relevance, task.plan.num_features)


def linear_covering(x, varied, relevance, m: int) -> Int[Array, "m"]:
    """Choose greedily the features whose linear regression explains the relevant features best.

    r_f is the residual of feature f after regression on the features chosen so far. Choosing
    feature i lowers Σ_f w_f ‖r_f‖² by r_iᵀ K r_i / ‖r_i‖², where K = Σ_f w_f r_f r_fᵀ. When all
    relevant features are explained, the next features are chosen as if none had been chosen yet.
    """
    full = jnp.sum(jnp.square(x), axis=0)

    def take(t, state):
        residual, taken, order = state
        left = varied & ~taken
        norm = jnp.sum(jnp.square(residual), axis=0)
        spent = ~jnp.any((relevance > 0) & (norm > _EXPLAINED * full))
        residual = jnp.where(spent, x, residual)
        norm = jnp.where(spent, full, norm)
        k = matmul(residual * relevance[None], residual.T)
        gain = jnp.sum(residual * matmul(k, residual), axis=0)
        gain = safe_divide(gain, jnp.where(norm > _EXPLAINED * full, norm, 0))
        i = jnp.argmax(jnp.where(left, gain, -1))
        v = safe_divide(residual[:, i], jnp.broadcast_to(jnp.sqrt(norm[i]), residual[:, i].shape))
        residual = residual - v[:, None] * matmul(v[None], residual)
        return residual, taken.at[i].set(True), order.at[t].set(i)

    start = x, jnp.zeros_like(varied), jnp.zeros(m, int)
    return lax.fori_loop(0, m, take, start)[2]


def _weighted(e: Float[Array, "d"], relevance: Float[Array, "d"]) -> Float[Array, ""]:
    """Return the mean energy of the relevant features, Σ_f w_f E_f / Σ_f w_f."""
    return safe_divide(jnp.sum(relevance * e), jnp.sum(relevance))


def _choice(task: Task, relevance: Float[Array, "d"], order: Int[Array, "m"]) -> Descent:
    """Minimise the energy of the relevant features, which depends on the gates through the graph.

    A batch and its candidates may be kept for several steps, in which the gates change little.
    """
    _, x, present, varied, plan = task

    def opened(logits, key, progress):
        noisy = logits + _NOISE * jax.random.gumbel(key, logits.shape, logits.dtype)
        return gates(noisy, plan.num_features, plan.temperature(progress), varied)

    def look(logits, key, progress):
        noise, part = jax.random.split(key)
        batch = draw_batch(part, present, plan, x.dtype)
        return batch, candidates(x, opened(logits, noise, progress), batch, plan.num_candidates)

    def loss(logits, kept, key, progress):
        noise, part = jax.random.split(key)
        z = opened(logits, noise, progress)
        if kept is None:
            batch = draw_batch(part, present, plan, x.dtype)
            return _weighted(energies(x, z, batch, plan), relevance)
        batch, near = kept
        return _weighted(energies_among(x, z, batch, near, plan), relevance)

    start = relevance.at[order].add(1)
    start = jnp.broadcast_to(start, (plan.num_restarts, *start.shape))
    optimizer, left = plan.gradient_transformation(), plan.num_steps - exploration_steps(plan)
    return Descent(optimizer, stage_keys(task)[2], start, left, loss, look, plan.refresh_every)


@jax.jit
def _conclude(task: Task, explored: Explored, order: Array, chosen: Training) -> Chosen:
    """Return the gates whose energy is smallest after rounding the gates to 0 or 1."""
    _, x, present, varied, plan = task
    training, relevance, m = explored.training, explored.relevance, plan.num_features
    judge = larger(plan, x.shape[0])
    batch = draw_batch(stage_keys(task)[0][0], present, judge, x.dtype)
    zero = jnp.zeros(x.shape[1], x.dtype)
    # The features from which training started are also a candidate, in the order chosen.
    ranked = zero.at[order].set(jnp.linspace(2, 1, m, dtype=x.dtype))
    logits = jnp.where(varied[None], jnp.concat([chosen.parameters, ranked[None]]), -jnp.inf)
    exactly = dataclasses.replace(judge, exact=True, num_candidates=plan.num_neighbors + 1)

    def hard(logits):
        z = jnp.where(varied, zero.at[lax.top_k(logits, m)[1]].set(1), 0)
        return _weighted(energies(x, z, batch, exactly), relevance)

    final = lax.map(hard, logits)
    failed = jnp.where(chosen.failed_at >= 0, exploration_steps(plan) + chosen.failed_at, -1)
    failed = jnp.where(training.failed_at >= 0, training.failed_at, failed)
    best = jnp.argmin(jnp.where(jnp.append(failed, -1) < 0, final, jnp.inf))
    history = jnp.concat([training.history, chosen.history], axis=1)
    return Chosen(logits[best], relevance, history, final, failed)
