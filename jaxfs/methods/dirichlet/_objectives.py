"""The three objectives: coverage of relevant features, their energy, and the paper's network.

A decoy is a column of Gaussian noise. E_f is the energy of feature f on the graph of the features
with gates z, as `_training` defines it. Feature f has structure if its energy is clearly below the
energy that a decoy has in its place,

    c_f = log E_f − mean log E(decoy),   w_f = clip((−c_f − 3σ) / 0.25, 0, 1),

where σ is the standard deviation over decoys and w_f the relevance. Features are first judged on
the graph of all features with equal gates. Only if too few are relevant there, gates are trained
to find more. Then features S are selected so that each relevant feature j is correlated with one of
them. Their coverage

    coverage(S) = Σ_j w_j max_{i ∈ S} |corr(x_i, x_j)|

is monotone and submodular. The greedy choice of m features therefore has at least 1 − 1/e of the
largest coverage (Nemhauser, Wolsey and Fisher 1978).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._checks import is_traced
from jaxfs._numerics import flat_draw, matmul, rank_present, safe_divide, standard_columns
from jaxfs.methods.dirichlet._network import (
    DirichletSelector,
    KNNGraphLearner,
    UniqueFeatureSelector,
)
from jaxfs.methods.dirichlet._training import (
    Found,
    Objective,
    Task,
    Training,
    best,
    nearest,
    trained,
)

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
#: Scale of the noise on the gates during exploration, and while they are trained by the energy.
EXPLORING, SMOOTHING = 2.0, 0.1
#: Number of decoys with which features are compared.
TRIALS = 16
#: Factor by which samples are more in an evaluation than in a training step.
LARGER = 4
#: Number of features whose gains are computed together.
_TOGETHER = 32
#: Maximum number of samples from which correlations are computed.
CORRELATED = 1024
#: Weights in the coverage of promising features, whose log-energy is at the threshold of relevance,
#: and of all features. They count only when all relevant features are covered.
PROMISING, ANY = 2.0**-10, 1e-6


def moderated(key, x: Float[Array, "n d"], present: Bool[Array, "n"]) -> tuple[Array, Array]:
    """Return the columns, standardised and clipped at FAR standard deviations, and decoys.

    A nearly constant feature, such as an outer pixel of images, has rare values many standard
    deviations from its mean. Without clipping, these few samples would dominate distances and
    gradients. Decoys are Gaussian columns; padding does not change them.
    """
    n, d = x.shape
    noise = flat_draw(jax.random.normal, key, (n, max(d, TRIALS)), x.dtype)[rank_present(present)]
    clipped = jnp.clip(standard_columns(x, present), -FAR, FAR)
    both = standard_columns(jnp.concat([clipped, noise], axis=1), present)
    return both[:, :d], both[:, d:]


@eqx.filter_jit
def judge(task: Task, z: Float[Array, "d"]) -> tuple[Float[Array, ""], Float[Array, "d"]]:
    """Return Σ_f z_f c_f / m, and the weight of every feature on the graph with gates z.

    The weight is the relevance plus PROMISING times clip(−c_f / 3σ, 0, 1), which is 1 if the
    relevance is positive.

    A decoy replaces a feature of the graph while the others stay, because noise among structured
    features is smoother than noise among noise. Features outside of the graph are compared with
    decoys outside of the graph.
    """
    x, m, drawn = task.x, task.num_features, task.draw(task.keys[0], LARGER)
    squared, chosen = task.distances(x, z, drawn, LARGER), lax.top_k(z, m)[1]
    rows, d = drawn[: len(squared)], z.size

    def gap(column):
        return jnp.square(column[rows][:, None] - column[drawn][None])

    def inside(t):
        f, decoy = chosen[t % m], gap(task.decoys[:, t])
        e, near = nearest(squared + z[f] * (decoy - gap(x[:, f])), task.num_searched)
        gaps = jnp.take_along_axis(decoy, near, axis=1)
        return task.mean_energy(jnp.maximum(e, 0), gaps, drawn)

    columns = jnp.concat([x, task.decoys[:, :TRIALS]], axis=1)
    near = nearest(squared, task.num_searched)[1]
    ours = jnp.log(task.energies(columns, jnp.pad(z, (0, TRIALS)), drawn, near) + TINY)
    trials = jnp.log(lax.map(inside, jnp.arange(TRIALS)) + TINY)
    trials = jnp.where(z[:, None] > 0, trials[None], ours[None, d:])
    # At least the deviation of a mean over the rows: a few decoys may agree by chance.
    least = lax.rsqrt(jnp.sum(task.present[rows], dtype=x.dtype))
    noise = DEVIATIONS * jnp.maximum(jnp.std(trials, axis=1), least)
    c = ours[:d] - jnp.mean(trials, axis=1)
    weights = jnp.clip((-c - noise) / CLEAR, 0, 1) + PROMISING * jnp.clip(-c / noise, 0, 1)
    return jnp.sum(z * c) / m, jnp.where(task.varied, weights, 0)


def explored(task: Task, logits, kept, keys, progress) -> Float[Array, ""]:
    """Return Σ_f z_f c_f / m with c_f = log E_f(x; z) − log E_f(decoys; z).

    c_f is near 0 for noise, whether it is selected or not: a selected feature lowers its own
    energy, and a decoy with the same gate lowers its energy equally. The c_f are constants for
    differentiation: the graph minimises its own problem (eq. 5), and near this minimum the energies
    hardly change with the graph.
    """
    t = task.temperature(progress)
    z = task.gates(logits / EXPLORING)(t / EXPLORING, key=keys[0])
    fixed, drawn = lax.stop_gradient(z), task.draw(keys[1])

    def log_energies(x):
        near = nearest(task.distances(x, fixed, drawn), task.num_searched)[1]
        return jnp.log(task.energies(x, fixed, drawn, near) + TINY)

    # Each step compares a feature with another decoy, to average over decoys.
    shift = jnp.round(progress * task.num_steps).astype(jnp.int32)
    decoys = jnp.roll(task.decoys[:, : z.size], shift, axis=1)
    ours, theirs = lax.map(log_energies, jnp.stack([task.x, decoys]))
    return jnp.sum(z * lax.stop_gradient(ours - theirs)) / task.num_features


@eqx.filter_jit
def opened(task: Task, logits) -> Float[Array, "d"]:
    """Return gates of 1 for the m features with the largest logits, and 0 for the others."""
    largest = jnp.zeros_like(logits).at[task.gates(logits).indices()].set(1)
    return jnp.where(task.varied, largest, 0)


EXPLORATION = Objective(explored, lambda task, logits: judge(task, opened(task, logits)))


def fit_coverage(task: Task) -> Found:
    """Find the relevant features, then choose features that are correlated with them."""
    common, few = unexplored(task, judge(task, task.relevance)[1])  # first all that vary

    def explore(_, common: Found) -> Found:
        training = trained(EXPLORATION, task, common.logits[None], task.keys[2])
        return best(EXPLORATION, task, training)

    if is_traced(few):
        return covering(task, common, lax.fori_loop(0, few.astype(jnp.int32), explore, common))
    return covering(task, common, explore(0, common) if few else common)  # compiled only if needed


@eqx.filter_jit
def unexplored(task: Task, weights: Float[Array, "d"]) -> tuple[Found, Bool[Array, ""]]:
    """Return the weights on the graph of all features, and whether too few are relevant."""
    history = jnp.full((task.num_restarts, task.num_steps), jnp.nan, weights.dtype)
    never = jnp.full(task.num_restarts, -1, jnp.int32)
    found = Found(jnp.zeros_like(weights), weights, history, history[:, 0], never)
    relevance = jnp.maximum(weights - PROMISING, 0)
    return found, jnp.sum(relevance) < ENOUGH * task.num_features


@eqx.filter_jit
def covering(task: Task, common: Found, found: Found) -> Found:
    """Choose features that cover the features that are relevant on one of the two graphs."""
    weights = jnp.maximum(common.relevance, found.relevance)
    relevance = jnp.maximum(weights - PROMISING, 0)
    # If no feature is smoother than noise, all features that vary are equally relevant.
    relevance = jnp.where(jnp.any(relevance > 0), relevance, task.relevance)
    units = task.x[task.draw(task.keys[0], LARGER)[:CORRELATED]]
    units = safe_divide(units, jnp.broadcast_to(jnp.linalg.norm(units, axis=0), units.shape))
    weights = relevance + jnp.minimum(weights, PROMISING) + ANY * task.relevance
    order = cover(units, weights, task.varied, task.num_features)
    largest = jnp.linspace(3, 2, task.num_features, dtype=relevance.dtype)
    logits = task.gates(relevance.at[order].set(largest)).logits
    return found._replace(logits=logits, relevance=relevance)


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
            return bounds.at[i].min(gains), fresh.at[i].set(True)

        bounds, _ = lax.while_loop(stale, refresh, (bounds, jnp.zeros_like(allowed)))
        i = jnp.argmax(bounds).astype(jnp.int32)
        covered = jnp.maximum(covered, correlations(i))
        return covered, bounds.at[i].set(-jnp.inf), order.at[t].set(i)

    bounds = jnp.where(allowed, jnp.asarray(jnp.inf, weights.dtype), -jnp.inf)
    start = jnp.zeros_like(weights), bounds, jnp.zeros(m, jnp.int32)
    return lax.fori_loop(0, m, take, start)[2]


def soft_gates(task: Task, logits, keys, progress) -> Float[Array, "d"]:
    t = task.temperature(progress)
    return task.gates(logits / SMOOTHING)(t / SMOOTHING, key=keys[0])


def gated_candidates(task: Task, logits, keys, progress):
    """Return samples and candidates for several steps, in which the gates change little."""
    drawn, z = task.draw(keys[1]), soft_gates(task, logits, keys, progress)
    return drawn, nearest(task.distances(task.x, z, drawn), task.learner.num_candidates)[1]


def smoothness(task: Task, z: Float[Array, "d"], drawn, near) -> Float[Array, ""]:
    """Return Σ_f w_f E_f / Σ_f w_f, which depends on the gates through the graph."""
    e = task.energies(task.x, z, drawn, near)
    return safe_divide(jnp.sum(task.relevance * e), jnp.sum(task.relevance))


def soft_smoothness(task: Task, logits, kept, keys, progress) -> Float[Array, ""]:
    return smoothness(task, soft_gates(task, logits, keys, progress), *kept)


def smoothness_of_largest(task: Task, logits) -> tuple[Float[Array, ""], Float[Array, "d"]]:
    z, drawn = opened(task, logits), task.draw(task.keys[0], LARGER)
    near = nearest(task.distances(task.x, z, drawn, LARGER), task.num_searched)[1]
    return smoothness(task, z, drawn, near), task.relevance


SMOOTH = Objective(soft_smoothness, smoothness_of_largest, gated_candidates)


def fit_energy(task: Task) -> Found:
    """Find the relevant features, then train gates on whose graph these features are smooth."""
    start = fit_coverage(task)
    task = dataclasses.replace(task, relevance=start.relevance)
    logits = jnp.where(task.varied, start.logits, 0)[None]
    return _smoothest(task, start, trained(SMOOTH, task, logits, task.keys[3]))


@eqx.filter_jit
def _smoothest(task: Task, start: Found, training: Training) -> Found:
    """Keep the best gates, or the features from which training started if they are better."""
    parameters = jnp.concat([training.parameters, start.logits[None]])
    failed_at = jnp.append(training.failed_at, -1)
    found = best(SMOOTH, task, training._replace(parameters=parameters, failed_at=failed_at))
    late = jnp.where(training.failed_at >= 0, task.num_steps + training.failed_at, -1)
    return found._replace(
        logits=task.gates(found.logits).logits,
        history=jnp.concat([start.history, training.history], axis=1),
        failed_at=jnp.where(start.failed_at >= 0, start.failed_at, late),
    )


def network_candidates(task: Task, logits, keys, progress):
    """Return samples and their candidates."""
    drawn, selector = task.draw(keys[1]), UniqueFeatureSelector(logits, task.unique)
    chosen = selector.project(task.x[drawn], task.temperature(progress), key=keys[0])
    return drawn, task.learner.candidates(chosen, task.present[drawn])


def network_energy(task: Task, logits, kept, keys, progress) -> Float[Array, ""]:
    drawn, near = kept
    model = DirichletSelector(UniqueFeatureSelector(logits, task.unique), task.learner)
    t, mask = task.temperature(progress), task.present[drawn]
    return model(task.x[drawn], t, key=keys[0], candidates=near, mask=mask)


@eqx.filter_jit
def energy_of_chosen(task: Task, logits) -> tuple[Float[Array, ""], Float[Array, "d"]]:
    drawn, k = task.draw(task.keys[0], LARGER), task.learner.num_neighbors
    x = task.x[drawn][:, UniqueFeatureSelector(logits, task.unique).indices()]
    return KNNGraphLearner(k, 0.0, k + 1).energy(x, mask=task.present[drawn]), task.relevance


NETWORK = Objective(network_energy, energy_of_chosen, network_candidates)


def fit_network(task: Task) -> Found:
    """Train the network from several keys; keep the discrete selection with the smallest energy."""
    shape = task.num_restarts, task.x.shape[1], task.num_features
    start = 0.01 * flat_draw(jax.random.normal, task.keys[2], shape, task.x.dtype)
    start = jnp.where(task.varied[:, None], start, -1e6)
    return best(NETWORK, task, trained(NETWORK, task, start, task.keys[3]))
