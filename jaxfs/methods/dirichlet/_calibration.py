"""Gates calibrated by decoys: which features have structure, and which of them to choose.

E_f below is the energy of `_dirichlet_graph`, of feature f on the graph of features behind gates z.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide, unit_columns
from jaxfs.methods.dirichlet._training import (
    Batch,
    Objective,
    Options,
    Settings,
    candidates,
    draw_batch,
    energies,
    energies_among,
    temperature,
)
from jaxfs.transport._gates import gates

#: A feature is relevant from so many deviations of decoys below their log-energy on, and fully so
#: when its own is lower by CLEAR than that.
DEVIATIONS, CLEAR = 3.0, 0.25
#: From so many deviations on, values count as that far away.
FAR = 3.0
#: Added to energies before their logarithm: smoother than that is smooth enough.
TINY = 0.0025
#: The noise on the gates while relevance is explored, and while the features are chosen.
EXPLORING, CHOOSING = 2.0, 0.1
#: Exploration ends warmer, in multiples of the last temperature: hard gates explore nothing.
WARMER = 4.0
#: A residual below this share counts as explained.
_EXPLAINED = 1e-3


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


def moderated(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Float[Array, "n d"]:
    """Standardised once more with values beyond FAR deviations brought there.

    A feature that is nearly constant has rare values many deviations away (the outer pixels of
    images), and its few samples would rule distances and gradients.
    """
    return standardized(jnp.clip(standardized(x, present), -FAR, FAR), present)


def calibrated_loss(x, decoy, present, varied, settings: Settings, options: Options) -> Objective:
    """Σ_f z_f c_f / m with c_f = log E_f(x; z) − log E_f(decoys; z): 0 for noise, in or out.

    A feature inside lowers its own energy, whatever it is; so does a decoy with the same gate. The
    c_f are constants to differentiation: the graph is the minimum of its own problem (eq. 5), about
    which energies move little with it.
    """
    m, d = settings.num_features, x.shape[1]

    def loss(logits, _, key, progress):
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

    return Objective(loss)


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


def promise(judgement: Judgement) -> Float[Array, "d"]:
    """1 from where features begin to be relevant on, 0 for those as rough as decoys."""
    return jnp.clip(-judgement.c / (DEVIATIONS * judgement.deviation), 0, 1)


def _deviation(log_energies: Float[Array, "t"], batch: Batch) -> Float[Array, ""]:
    """Of decoys; not below that of a mean over the rows, lest few decoys that agree by chance."""
    return jnp.maximum(jnp.std(log_energies), lax.rsqrt(jnp.sum(batch.in_rows)))


# ---- Which features to choose: those on whose graph all that is relevant is smooth --------------


def covering(e: Float[Array, "d"], worth: Float[Array, "d"]) -> Float[Array, ""]:
    """The energy of all features that are relevant, Σ_f w_f E_f / Σ_f w_f."""
    return safe_divide(jnp.sum(worth * e), jnp.sum(worth))


def covering_loss(x, present, varied, worth, settings: Settings, options: Options) -> Objective:
    """`covering` on the graph of the gates, which take part through it alone.

    A batch and its candidates may be kept for some steps, in which the gates move little.
    """

    def opened(logits, key, progress):
        noisy = logits + CHOOSING * jax.random.gumbel(key, logits.shape, logits.dtype)
        return gates(noisy, settings.num_features, temperature(options, progress), varied)

    def look(logits, key, progress):
        noise, part = jax.random.split(key)
        batch = draw_batch(part, present, settings, x.dtype)
        z = opened(logits, noise, progress)
        return batch, candidates(x, z, batch, settings.num_candidates)

    def loss(logits, kept, key, progress):
        noise, part = jax.random.split(key)
        z = opened(logits, noise, progress)
        if kept is None:
            batch = draw_batch(part, present, settings, x.dtype)
            return covering(energies(x, z, batch, settings, options.gamma), worth)
        batch, near = kept
        return covering(energies_among(x, z, batch, near, settings, options.gamma), worth)

    return Objective(loss, look, settings.refresh_every)


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
