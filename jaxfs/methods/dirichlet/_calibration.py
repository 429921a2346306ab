"""Find the features with structure by comparison with decoys, and select features that cover them.

A decoy is a column of Gaussian noise. E_f is the energy of feature f on the graph of the features
with gates z, as `_training` defines it. Feature f has structure if its energy is clearly below the
energy that a decoy has in its place,

    c_f = log E_f − mean log E(decoy),   w_f = clip((−c_f − 3σ) / 0.25, 0, 1),

where σ is the standard deviation over decoys and w_f the relevance. Features are first judged on
the graph of all features with equal gates. Only if too few of them are relevant there, gates are
trained to find the others. Then the features S are selected so that each relevant feature j is
correlated with one of them. Their coverage

    coverage(S) = Σ_j w_j max_{i ∈ S} |corr(x_i, x_j)|

is monotone and submodular. The greedy choice of m features therefore has at least 1 − 1/e of the
largest coverage (Nemhauser, Wolsey and Fisher 1978).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._checks import is_traced
from jaxfs._numerics import flat_draw, matmul, rank_present, safe_divide, standard_columns
from jaxfs.methods.dirichlet import _training
from jaxfs.methods.dirichlet._training import (
    Batch,
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
)
from jaxfs.transport._gates import gates

#: A feature is relevant if its log-energy is at least DEVIATIONS standard deviations below the mean
#: log-energy of decoys. Its relevance is 1 if its log-energy is another CLEAR lower.
DEVIATIONS, CLEAR = 3.0, 0.25
#: Number of standard deviations at which values are clipped.
FAR = 3.0
#: Constant added to energies before the logarithm, so that very smooth features count as equal.
TINY = 0.0025
#: Fraction of the wanted features that must be relevant on the graph of all features. Otherwise
#: training explores other graphs. Below 1, because the relevance of weak features is below 1.
ENOUGH = 0.75
#: Scale of the noise on the gates during exploration.
EXPLORING = 2.0
#: Factor of the last temperature during exploration; nearly binary gates would explore nothing.
WARMER = 4.0
#: Temperature at which gates are 0 or 1, unless logits are equal.
BINARY = 1e-4
#: Number of decoys with which features are compared.
TRIALS = 16
#: Number by which batches are larger in a judgement, which happens only once.
LARGER = 4
#: Maximum number of samples from which correlations are computed.
CORRELATED = 1024
#: Weights in the coverage of promising features and of all features. They are small, so that
#: irrelevant features count only when all relevant features are covered.
PROMISING, ANY = 1e-3, 1e-6
#: Number of features whose gains are computed together.
_TOGETHER = 32


def moderated(key, x: Float[Array, "n d"], present: Bool[Array, "n"]) -> tuple[Array, Array]:
    """Return the columns, standardised and clipped at FAR standard deviations, and decoys.

    A nearly constant feature, such as an outer pixel of images, has rare values many standard
    deviations from its mean. Without clipping, these few samples would dominate distances and
    gradients. Decoys are Gaussian columns; padding does not change them.
    """
    n, d = x.shape
    noise = flat_draw(jax.random.normal, key, (n, max(d, TRIALS)), x.dtype)[rank_present(present)]
    clipped = jnp.clip(standard_columns(x, present), -FAR, FAR)
    both = jnp.where(present[:, None], jnp.concat([clipped, noise], axis=1), 0)
    size = jnp.maximum(jnp.sum(present), 1).astype(x.dtype)
    both = jnp.where(present[:, None], both - jnp.sum(both, axis=0, keepdims=True) / size, 0)
    scale = jnp.sqrt(jnp.sum(jnp.square(both), axis=0, keepdims=True) / size)
    both = safe_divide(both, jnp.broadcast_to(scale, both.shape))
    return both[:, :d], both[:, d:]


# ---- Which features have structure --------------------------------------------------------------


class Judgement(NamedTuple):
    """The relevance of every feature on the best of several graphs, and the value of each graph.

    - `relevance`: 1 for features clearly smoother than decoys, 0 if a decoy could be as smooth.
    - `promise`: 1 for features at the threshold of relevance, 0 if they are as rough as decoys.
    - `values`: the mean c_f of the gated features; NaN for graphs that were not judged.
    - `more`: number of restarts that should explore, 0 if enough features are relevant.
    """

    relevance: Float[Array, "d"]
    promise: Float[Array, "d"]
    values: Float[Array, "restarts"]
    more: Int[Array, ""]


def explore(task: Task, steps: Steps) -> tuple[Judgement, Judgement, Training]:
    """Judge the graph of all features; if this shows too few, train gates and judge theirs."""
    restarts, d = task.plan.num_restarts, task.x.shape[1]
    equal = np.zeros((restarts, d), task.x.dtype), np.full(restarts, -1, np.int32)
    alike = judge(task, *equal, np.int32(1))
    if not is_traced(alike.more) and alike.more == 0:
        steps = lambda _, training: training  # noqa: E731  no step: the loop is not even compiled
    training = _training.train(_exploration, (task, alike.more), steps)
    return alike, judge(task, training.parameters, training.failed_at, alike.more), training


def _exploration(task: Task, restarts: Int[Array, ""]) -> Descent:
    """Minimise Σ_f z_f c_f / m with c_f = log E_f(x; z) − log E_f(decoys; z).

    c_f is near 0 for noise, whether it is selected or not: a selected feature lowers its own
    energy, and a decoy with the same gate lowers its energy equally. The c_f are constants for
    differentiation: the graph minimises its own problem (eq. 5), and near this minimum the energies
    hardly change with the graph.
    """
    x, varied, plan = task.x, task.varied, task.plan
    m, d = plan.num_features, x.shape[1]
    both = jnp.stack([x, task.decoys[:, :d]])

    def loss(logits, _, keys, progress):
        noisy = logits + EXPLORING * flat_draw(
            jax.random.gumbel, keys[0], logits.shape, logits.dtype
        )
        z = gates(noisy, m, plan.temperature(progress, WARMER), varied)
        fixed, batch = lax.stop_gradient(z), draw_batch(keys[1], task)
        # Each step compares a feature with the next decoy, to average over decoys.
        shift = jnp.round(progress * plan.num_steps).astype(jnp.int32) % d
        gated = both, jnp.stack([fixed, jnp.roll(fixed, shift)])
        ours, theirs = jnp.log(lax.map(lambda a: energies(a[0], a[1], batch, plan), gated) + TINY)
        c = jnp.where(varied, ours - jnp.roll(theirs, -shift), 0)
        return jnp.sum(z * lax.stop_gradient(c)) / m

    start = jnp.zeros((plan.num_restarts, d), x.dtype)
    return Descent(task.keys[2], start, loss, wanted=restarts > 0)


@jax.jit
def judge(
    task: Task,
    logits: Float[Array, "restarts d"],
    failed_at: Int[Array, "restarts"],
    number: Int[Array, ""],
) -> Judgement:
    """Judge all features on the best of the first `number` graphs.

    The gates of a graph are nearly binary, or equal if all logits are equal.
    """
    plan, zero = task.plan, jnp.zeros_like(task.x[0])
    batch = draw_batch(task.keys[0], task, LARGER)

    def one(r, state):
        values, least, best = state
        z = gates(logits[r], plan.num_features, BINARY, task.varied)
        c, deviation = _compared(task, z, batch)
        value = jnp.sum(z * c) / plan.num_features
        relevance = jnp.clip((-c - DEVIATIONS * deviation) / CLEAR, 0, 1)
        promise = jnp.clip(-c / (DEVIATIONS * deviation), 0, 1)
        better = (failed_at[r] < 0) & (value < least)
        new = values.at[r].set(value), value, (relevance, promise)
        return new[0], *jax.tree.map(lambda a, b: jnp.where(better, a, b), new[1:], (least, best))

    nothing = jnp.full(len(logits), jnp.nan, zero.dtype), jnp.asarray(jnp.inf, zero.dtype)
    values, _, best = lax.fori_loop(0, number, one, (*nothing, (zero, zero)))
    relevance, promise = (jnp.where(task.varied, a, 0) for a in best)
    few = jnp.sum(relevance) < ENOUGH * plan.num_features
    return Judgement(relevance, promise, values, jnp.where(few, jnp.int32(len(logits)), 0))


def _compared(task: Task, z: Float[Array, "d"], batch: Batch) -> tuple[Array, Array]:
    """Return c_f of every feature on the graph with gates z, and its standard deviation for decoys.

    A decoy replaces a feature of the graph while the others stay, because noise among structured
    features is smoother than noise among noise. Features with smaller gates than the m chosen are
    compared with decoys outside of the graph.
    """
    x, plan = task.x, task.plan
    squared = distances(x, z, batch)
    chosen = lax.top_k(z, plan.num_features)[1]

    def between(column):
        return jnp.square(column[batch.rows][:, None] - column[batch.anchors][None])

    def trial(t):
        f, decoy = chosen[t % TRIALS % plan.num_features], task.decoys[:, t % TRIALS]
        gate = jnp.where(t < TRIALS, z[f], 0)
        e, near = nearest(squared + gate * (between(decoy) - between(x[:, f])), plan.num_searched)
        gaps = jnp.square(decoy[batch.rows][:, None] - decoy[batch.anchors[near]])
        s = plan.learner.weights(jnp.maximum(e, 0)) * batch.in_rows[:, None]
        return 0.5 * jnp.sum(s * gaps) / jnp.maximum(jnp.sum(batch.in_rows), 1)

    trials = jnp.log(lax.map(trial, jnp.arange(2 * TRIALS)) + TINY).reshape(2, TRIALS)
    # At least the deviation of a mean over the rows: a few decoys may agree by chance.
    deviations = jnp.maximum(jnp.std(trials, axis=1), lax.rsqrt(jnp.sum(batch.in_rows)))
    outside = (z < z[chosen[-1]]).astype(int)
    reference, m = jnp.mean(trials, axis=1)[outside], plan.num_features
    if 2 * m <= TRIALS:  # enough decoys to replace each chosen feature by its own
        own = jnp.mean(trials[0, : TRIALS // m * m].reshape(-1, m), axis=0)
        reference = reference.at[chosen].set(own)
    ours = energies(x, z, batch, plan, nearest(squared, plan.num_searched)[1])
    return jnp.log(ours + TINY) - reference, deviations[outside]


# ---- Which features to choose -------------------------------------------------------------------


@jax.jit
def covering(task: Task, alike: Judgement, found: Judgement, training: Training) -> Chosen:
    """Choose features that cover the features that are relevant on one of the two graphs."""
    varied, m = task.varied, task.plan.num_features
    relevance = jnp.maximum(alike.relevance, found.relevance)
    # If no feature is smoother than noise, all features that vary are equally relevant.
    relevance = jnp.where(jnp.any(relevance > 0), relevance, varied.astype(relevance.dtype))
    promise = jnp.maximum(alike.promise, found.promise)
    rows, there = draw(task.keys[0], task.present, CORRELATED, relevance.dtype)
    x = jnp.where(there[:, None], task.x[rows], 0)
    units = safe_divide(x, jnp.broadcast_to(jnp.linalg.norm(x, axis=0), x.shape))
    weights = jnp.where(varied, relevance + PROMISING * promise + ANY, 0)
    order = cover(units, weights, varied, m)
    logits = relevance.at[order].set(jnp.linspace(3, 2, m, dtype=relevance.dtype))
    logits = jnp.where(varied, logits, -jnp.inf)
    return Chosen(logits, relevance, training.history, found.values, training.failed_at)


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

    def correlations(i):
        return jnp.abs(matmul(units[:, i].T, units))

    def take(t, state):
        covered, bounds, order = state

        def stale(known):
            bounds, fresh = known
            best = jnp.argmax(bounds)
            return ~fresh[best] & (bounds[best] > -jnp.inf)

        def refresh(known):
            bounds, fresh = known
            _, i = lax.top_k(jnp.where(fresh, -jnp.inf, bounds), min(_TOGETHER, weights.size))
            gains = matmul(jnp.maximum(correlations(i) - covered[None], 0), weights)
            gains = jnp.where(bounds[i] > -jnp.inf, gains, -jnp.inf)
            return bounds.at[i].set(gains), fresh.at[i].set(True)

        bounds, _ = lax.while_loop(stale, refresh, (bounds, jnp.zeros_like(allowed)))
        i = jnp.argmax(bounds).astype(jnp.int32)
        covered = jnp.maximum(covered, correlations(i))
        return covered, bounds.at[i].set(-jnp.inf), order.at[t].set(i)

    bounds = jnp.where(allowed, jnp.asarray(jnp.inf, weights.dtype), -jnp.inf)
    start = jnp.zeros_like(weights), bounds, jnp.zeros(m, jnp.int32)
    return lax.fori_loop(0, m, take, start)[2]
