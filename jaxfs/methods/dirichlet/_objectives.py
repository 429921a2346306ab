"""The three objectives: coverage of relevant features, their energy, and the paper's network."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs._numerics import flat_draw, safe_divide
from jaxfs.methods.dirichlet._calibration import LARGER, covering, explore
from jaxfs.methods.dirichlet._network import (
    DirichletSelector,
    KNNGraphLearner,
    UniqueFeatureSelector,
)
from jaxfs.methods.dirichlet._training import (
    Chosen,
    Descent,
    Steps,
    Task,
    Training,
    distances,
    draw,
    draw_batch,
    energies,
    nearest,
    train,
)
from jaxfs.transport._gates import gates

#: Scale of the noise on the gates while features are chosen by their energy.
_NOISE = 0.1


def fit_coverage(task: Task, steps: Steps) -> Chosen:
    """Find the relevant features, then choose features that are correlated with them."""
    return covering(task, *explore(task, steps))


def fit_energy(task: Task, steps: Steps) -> Chosen:
    """Find the relevant features, then train gates so that these are smooth on their graph."""
    start = covering(task, *explore(task, steps))
    return _smoothest(task, start, train(_smoothing, (task, start), steps))


def _weighted(e: Float[Array, "d"], relevance: Float[Array, "d"]) -> Float[Array, ""]:
    """Return the mean energy of the relevant features, Σ_f w_f E_f / Σ_f w_f."""
    return safe_divide(jnp.sum(relevance * e), jnp.sum(relevance))


def _smoothing(task: Task, start: Chosen) -> Descent:
    """Minimise the energy of the relevant features, which depends on the gates through the graph.

    Training starts from the features that cover the relevant ones. A batch and its candidates may
    be kept for several steps, in which the gates change little.
    """
    x, varied, plan = task.x, task.varied, task.plan

    def opened(logits, key, progress):
        noisy = logits + _NOISE * flat_draw(jax.random.gumbel, key, logits.shape, logits.dtype)
        return gates(noisy, plan.num_features, plan.temperature(progress), varied)

    def look(logits, keys, progress):
        z, batch = opened(logits, keys[0], progress), draw_batch(keys[1], task)
        return batch, nearest(distances(x, z, batch), plan.num_candidates)[1]

    def loss(logits, kept, keys, progress):
        z = opened(logits, keys[0], progress)
        return _weighted(energies(x, z, kept[0], plan, kept[1]), start.relevance)

    logits = jnp.where(varied, start.logits, 0)
    logits = jnp.broadcast_to(logits, (plan.num_restarts, *logits.shape))
    return Descent(task.keys[3], logits, loss, look)


@jax.jit
def _smoothest(task: Task, start: Chosen, trained: Training) -> Chosen:
    """Return the gates whose energy is smallest after rounding the gates to 0 or 1."""
    x, plan = task.x, task.plan
    batch = draw_batch(task.keys[0], task, LARGER)
    # The features from which training started are also a candidate, in the order chosen.
    logits = jnp.concat([trained.parameters, start.logits[None]])
    logits = jnp.where(task.varied[None], logits, -jnp.inf)

    def rounded(logits):
        chosen = lax.top_k(logits, plan.num_features)[1]
        z = jnp.where(task.varied, jnp.zeros_like(x[0]).at[chosen].set(1), 0)
        return _weighted(energies(x, z, batch, plan), start.relevance)

    final = lax.map(rounded, logits)
    late = jnp.where(trained.failed_at >= 0, plan.num_steps + trained.failed_at, -1)
    failed_at = jnp.where(start.failed_at >= 0, start.failed_at, late)
    best = jnp.argmin(jnp.where(jnp.append(failed_at, -1) < 0, final, jnp.inf))
    history = jnp.concat([start.history, trained.history], axis=1)
    return Chosen(logits[best], start.relevance, history, final, failed_at)


def fit_network(task: Task, steps: Steps) -> Chosen:
    """Train the network from several keys; keep the discrete selection with the smallest energy."""
    return _least(task, train(_network, (task,), steps))


def _network(task: Task) -> Descent:
    """Minimise the energy on a random subset of the samples.

    The subset and its candidates may be kept for several steps.
    """
    x, present, plan = task.x, task.present, task.plan

    def look(logits, keys, progress):
        rows, there = draw(keys[1], present, plan.num_anchors, x.dtype)
        selector = UniqueFeatureSelector(logits, plan.unique)
        chosen = selector.project(x[rows], plan.temperature(progress), key=keys[0])
        return rows, there, plan.learner.candidates(chosen, there)

    def loss(logits, kept, keys, progress):
        rows, there, near = kept
        model = DirichletSelector(UniqueFeatureSelector(logits, plan.unique), plan.learner)
        t = plan.temperature(progress)
        return model(x[rows], t, key=keys[0], candidates=near, mask=there)

    shape = plan.num_restarts, x.shape[1], plan.num_features
    start = 0.01 * flat_draw(jax.random.normal, task.keys[2], shape, x.dtype)
    start = jnp.where(task.varied[None, :, None], start, -1e6)
    return Descent(task.keys[3], start, loss, look)


@jax.jit
def _least(task: Task, trained: Training) -> Chosen:
    x, plan = task.x, task.plan
    rows, there = draw(task.keys[0], task.present, LARGER * plan.num_anchors, x.dtype)
    exact = KNNGraphLearner(plan.num_neighbors, 0.0, plan.num_neighbors + 1)

    def rounded(logits):
        chosen = UniqueFeatureSelector(logits, plan.unique).indices()
        return exact.energy(x[rows][:, chosen], mask=there)

    final = lax.map(rounded, trained.parameters)
    best = jnp.argmin(jnp.where(trained.failed_at < 0, final, jnp.inf))
    relevance = task.varied.astype(x.dtype)
    return Chosen(trained.parameters[best], relevance, trained.history, final, trained.failed_at)


#: The function that fits each objective.
FITS = {"coverage": fit_coverage, "energy": fit_energy, "network": fit_network}
