"""Find the features with structure by comparison with decoys, and select features that cover them.

A decoy is a column of Gaussian noise that replaces a feature. E_f is the energy of feature f on the
graph of the features with gates z, as `_training` defines it. The features S are selected so that
each relevant feature j is correlated with one of them. Their coverage

    coverage(S) = Σ_j w_j max_{i ∈ S} |corr(x_i, x_j)|

is monotone and submodular. The greedy choice of m features therefore has at least 1 − 1/e of the
largest coverage (Nemhauser, Wolsey and Fisher 1978).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, smallest, standard_columns, unit_columns
from jaxfs.methods.dirichlet import _training
from jaxfs.methods.dirichlet._training import (
    Batch,
    Chosen,
    Descent,
    Steps,
    Task,
    Training,
    TrainingPlan,
    draw_batch,
    energies,
)
from jaxfs.transport._gates import gates

#: A feature is relevant if its log-energy is at least DEVIATIONS standard deviations below the mean
#: log-energy of decoys. Its relevance is 1 if its log-energy is another CLEAR lower.
DEVIATIONS, CLEAR = 3.0, 0.25
#: Number of standard deviations at which values are clipped.
FAR = 3.0
#: Constant added to energies before the logarithm, so that very smooth features count as equal.
TINY = 0.0025
#: Scale of the noise on the gates during exploration.
EXPLORING = 2.0
#: Factor of the last temperature during exploration; nearly binary gates would explore nothing.
WARMER = 4.0
#: Number of decoys that replace chosen features.
TRIALS = 16
#: Maximum number of samples from which correlations are computed.
CORRELATED = 1024
#: Weights in the coverage of promising features and of all features. They are small, so that
#: irrelevant features count only when all relevant features are covered.
PROMISING, ANY = 1e-3, 1e-6
#: Number of features whose gains are computed together.
_TOGETHER = 32


def moderated(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Float[Array, "n d"]:
    """Standardise the columns, clip them at FAR standard deviations and standardise again.

    A nearly constant feature, such as an outer pixel of images, has rare values many standard
    deviations from its mean. Without clipping, these few samples would dominate distances and
    gradients.
    """
    return standard_columns(jnp.clip(standard_columns(x, present), -FAR, FAR), present)


def _decoys(key, present: Bool[Array, "n"], d: int, dtype) -> Float[Array, "n d"]:
    """Draw Gaussian columns of mean 0 and variance 1; padding does not change them."""
    g = jax.random.normal(key, (present.size, d), dtype)
    place = jnp.maximum(jnp.cumsum(present) - 1, 0)
    return standard_columns(g[place], present)


# ---- Exploration: which features have structure -------------------------------------------------


class Explored(NamedTuple):
    """The trained restarts, the mean c_f of the features each found, and two feature scores."""

    training: Training
    values: Float[Array, "restarts"]
    relevance: Float[Array, "d"]
    promise: Float[Array, "d"]


def explore(task: Task, steps: Steps) -> Explored:
    """Train gates to find features with structure, then compute the relevance of all features."""
    return _judge(task, _training.train(_exploration, (task,), steps))


def stage_keys(task: Task) -> tuple[Array, Array, Array]:
    """Return four keys, the restarts' keys for exploration, and their keys for the choice."""
    restarts = task.plan.num_restarts
    keys = jax.random.split(task.key, 4 + 2 * restarts)
    return keys[:4], keys[4 : 4 + restarts], keys[4 + restarts :]


def exploration_steps(plan: TrainingPlan) -> int:
    """Return the number of exploration steps: all for "coverage", half for "energy"."""
    return plan.num_steps if plan.objective == "coverage" else plan.num_steps // 2


def _exploration(task: Task) -> Descent:
    """Minimise Σ_f z_f c_f / m with c_f = log E_f(x; z) − log E_f(decoys; z).

    c_f is near 0 for noise, whether it is selected or not: a selected feature lowers its own
    energy, and a decoy with the same gate lowers its energy equally. The c_f are constants for
    differentiation: the graph minimises its own problem (eq. 5), and near this minimum the energies
    hardly change with the graph.
    """
    _, x, present, varied, plan = task
    (_, decoy_key, _, _), restarts, _ = stage_keys(task)
    m, d = plan.num_features, x.shape[1]
    decoy = _decoys(decoy_key, present, d, x.dtype)

    def loss(logits, _, key, progress):
        noise, part, order = jax.random.split(key, 3)
        noisy = logits + EXPLORING * jax.random.gumbel(noise, logits.shape, logits.dtype)
        z = gates(noisy, m, plan.temperature(progress, WARMER), varied)
        fixed = lax.stop_gradient(z)
        batch = draw_batch(part, present, plan, x.dtype)
        # Each step compares a feature with a different decoy, to average over decoys.
        place = jax.random.permutation(order, d)
        ours = energies(x, fixed, batch, plan)
        theirs = energies(decoy, fixed[place], batch, plan)[jnp.argsort(place)]
        c = jnp.log(ours + TINY) - jnp.log(theirs + TINY)
        c = lax.stop_gradient(jnp.where(varied, c, 0))
        return jnp.sum(z * c) / m

    start = jnp.zeros((plan.num_restarts, d), x.dtype)
    optimizer = plan.gradient_transformation()
    return Descent(optimizer, restarts, start, exploration_steps(plan), loss)


class _Judgement(NamedTuple):
    """c_f of every feature on a graph, and the standard deviation of c_f if noise replaces f."""

    c: Float[Array, "d"]
    deviation: Float[Array, "d"]

    def relevance(self) -> Float[Array, "d"]:
        """Return 1 for features clearly smoother than decoys, 0 if a decoy could be as smooth."""
        return jnp.clip((-self.c - DEVIATIONS * self.deviation) / CLEAR, 0, 1)

    def promise(self) -> Float[Array, "d"]:
        """Return 1 for features at the threshold of relevance, 0 if they are as rough as decoys."""
        return jnp.clip(-self.c / (DEVIATIONS * self.deviation), 0, 1)


@jax.jit
def _judge(task: Task, explored: Training) -> Explored:
    _, x, present, varied, plan = task
    (batch_key, _, decoy_key, _), _, _ = stage_keys(task)
    judge = larger(plan, x.shape[0])
    batch = draw_batch(batch_key, present, judge, x.dtype)
    trials = _decoys(decoy_key, present, TRIALS, x.dtype)

    def calibrated(logits):
        features = lax.top_k(jnp.where(varied, logits, -jnp.inf), plan.num_features)[1]
        judgement = _judged(x, trials, features, batch, judge)
        return jnp.mean(judgement.c[features]), judgement

    values, judgements = lax.map(calibrated, explored.parameters)
    best = jnp.argmin(jnp.where(explored.failed_at < 0, values, jnp.inf))
    found = jax.tree.map(lambda a: a[best], judgements)
    # Features that are smooth on the graph of all features have structure, even if exploration
    # did not find them.
    alike = _judged_alike(x, trials, varied, batch, judge)
    relevance = jnp.where(varied, jnp.maximum(found.relevance(), alike.relevance()), 0)
    # If no feature is smoother than noise, all features that vary are equally relevant.
    relevance = jnp.where(jnp.any(relevance > 0), relevance, varied.astype(x.dtype))
    promise = jnp.where(varied, jnp.maximum(found.promise(), alike.promise()), 0)
    return Explored(explored, values, relevance, promise)


def larger(plan: TrainingPlan, n: int) -> TrainingPlan:
    """Return the plan with four times as many samples, for an evaluation that happens only once."""
    batch_size, num_anchors = min(n, 4 * plan.batch_size), min(n, 4 * plan.num_anchors)
    return dataclasses.replace(plan, batch_size=batch_size, num_anchors=num_anchors)


def _judged(
    x, decoy: Float[Array, "n t"], features: Int[Array, "m"], batch: Batch, plan: TrainingPlan
) -> _Judgement:
    """Return log E_f on the graph of the given features, relative to decoys that replace feature f.

    If a feature outside the graph is noise, its E_f is 1. A feature inside the graph is replaced by
    decoys while the other features stay, because noise among structured features is smoother than
    noise among noise. If there are many features, decoys replace only a few of them, and the mean
    over these decoys is used for all features.
    """
    m, t = features.size, decoy.shape[1]
    inside = x[:, features]

    def reference(i):
        replaced = jnp.where(jnp.arange(m)[None] == i % m, decoy[:, i][:, None], inside)
        return _log_energies(replaced, jnp.ones(m, x.dtype), batch, plan)[i % m]

    trials = lax.map(reference, jnp.arange(t))
    own = jnp.arange(m)[:, None] == (jnp.arange(t) % m)[None]
    own = jnp.where((2 * m <= t) & jnp.ones_like(own), own, True)
    theirs = jnp.mean(jnp.broadcast_to(trials[None], own.shape), axis=1, where=own)
    z = jnp.zeros(x.shape[1] + t, x.dtype).at[features].set(1)
    both = _log_energies(jnp.concat([x, decoy], axis=1), z, batch, plan)
    c, outside = both[: x.shape[1]], both[x.shape[1] :]
    stray = jnp.full_like(c, _deviation(outside, batch)).at[features].set(_deviation(trials, batch))
    return _Judgement(c.at[features].add(-theirs), stray)


def _judged_alike(
    x, decoy: Float[Array, "n t"], varied: Bool[Array, "d"], batch: Batch, plan: TrainingPlan
) -> _Judgement:
    """Return log E_f on the graph of all features, with equal gates, relative to an added decoy."""
    number = jnp.maximum(jnp.sum(varied), 1).astype(x.dtype)
    share = plan.num_features / number
    z = jnp.append(jnp.where(varied, share, 0), share)

    def reference(column):
        return _log_energies(jnp.concat([x, column[:, None]], axis=1), z, batch, plan)[-1]

    trials = lax.map(reference, decoy.T)
    ours = _log_energies(x, z[:-1], batch, plan)
    return _Judgement(ours - jnp.mean(trials), jnp.full_like(ours, _deviation(trials, batch)))


def _log_energies(x, z, batch: Batch, plan: TrainingPlan) -> Float[Array, "d"]:
    return jnp.log(energies(x, z, batch, plan) + TINY)


def _deviation(log_energies: Float[Array, "t"], batch: Batch) -> Float[Array, ""]:
    """Return the standard deviation of the decoys' log-energies, at least 1/√(number of rows).

    The lower bound is the standard deviation of a mean over the rows. Without it, a few decoys that
    agree by chance would give a deviation near 0.
    """
    return jnp.maximum(jnp.std(log_energies), lax.rsqrt(jnp.sum(batch.in_rows)))


# ---- Coverage: which features to choose ---------------------------------------------------------


def fit_cover(task: Task, steps: Steps) -> Chosen:
    """Explore which features have structure, then choose features that cover them."""
    return _choose_cover(task, explore(task, steps))


@jax.jit
def _choose_cover(task: Task, explored: Explored) -> Chosen:
    training, values, relevance, promise = explored
    varied, m = task.varied, task.plan.num_features
    units = unit_columns(*sampled_rows(task, CORRELATED))
    weights = jnp.where(varied, relevance + PROMISING * promise + ANY, 0)
    order = cover(units, weights, varied, m)
    logits = relevance.at[order].set(jnp.linspace(3, 2, m, dtype=relevance.dtype))
    logits = jnp.where(varied, logits, -jnp.inf)
    return Chosen(logits, relevance, training.history, values, training.failed_at)


def sampled_rows(task: Task, number: int) -> tuple[Float[Array, "r d"], Bool[Array, "r"]]:
    """Draw at most `number` samples, 0 for padding; return them and which of them are present."""
    key = stage_keys(task)[0][3]
    rows, there = _training.draw(key, task.present, number, task.x.dtype)
    return jnp.where(there[:, None], task.x[rows], 0), there


def cover(
    units: Float[Array, "n d"], weights: Float[Array, "d"], allowed: Bool[Array, "d"], m: int
) -> Int[Array, "m"]:
    """Choose m features greedily for the largest coverage; return them in the order chosen.

    **Arguments**

    - `units`: columns of mean 0 and norm 1; columns of zeros for constant features.
    - `weights`: w ≥ 0, finite.
    - `allowed`: false for features that are never chosen. If fewer than m are allowed, the last
      places hold arbitrary features.

    **Numerics** ties go to the lowest index, up to rounding.

    **Cost** O(n d²) for the first feature. The gain of a feature can only fall as others are
    chosen, so that later features are searched among the features with the largest last known gains
    (Minoux 1978). The total cost is about ten times the cost of the first feature; it is higher if
    no features are correlated, at most m times.
    """
    together = min(_TOGETHER, units.shape[1])
    none = jnp.zeros_like(weights)
    every = jnp.arange(weights.size)
    gains = lax.map(lambda i: _gains(units, weights, none, i[None])[0], every, batch_size=together)

    def take(t, state):
        covered, bounds, order = state

        def stale(known):
            bounds, fresh = known
            best = jnp.argmax(bounds)
            return ~fresh[best] & jnp.isfinite(bounds[best])  # otherwise the loop would not end

        def refresh(known):
            bounds, fresh = known
            ranked = smallest(jnp.where(fresh, jnp.inf, -bounds), together)[1]
            ranked = jnp.where(ranked < 0, weights.size, ranked)  # out of range: dropped
            gains = _gains(units, weights, covered, ranked)
            bounds = bounds.at[ranked].set(gains, mode="drop")
            return bounds, fresh.at[ranked].set(True, mode="drop")

        bounds, _ = lax.while_loop(stale, refresh, (bounds, jnp.zeros_like(allowed)))
        i = jnp.argmax(bounds).astype(jnp.int32)
        covered = jnp.maximum(covered, _correlations(units, i[None])[0])
        return covered, bounds.at[i].set(-jnp.inf), order.at[t].set(i)

    start = none, jnp.where(allowed, gains, -jnp.inf), jnp.zeros(m, jnp.int32)
    return lax.fori_loop(0, m, take, start)[2]


def _correlations(units: Float[Array, "n d"], i: Int[Array, "b"]) -> Float[Array, "b d"]:
    return jnp.abs(matmul(jnp.take(units, i, axis=1, mode="clip").T, units))


def _gains(units, weights, covered, i: Int[Array, "b"]) -> Float[Array, "b"]:
    """Return the increase of the coverage if feature i is added, for each given i."""
    more = jnp.maximum(_correlations(units, i) - covered[None], 0)
    return matmul(more, weights)
