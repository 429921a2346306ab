"""Unsupervised feature selection by the Dirichlet energy on a learned k-NN graph of the samples.

`_network` has the modules of the paper, `_training` the loop that trains them, `_calibration` finds
the features with structure, and `_objectives` selects features in one of three ways.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._checks import plain, presence, settle, variant
from jaxfs._numerics import nan_unless, standard_columns, varied
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import adaptive_weights, dirichlet_energies
from jaxfs.methods.dirichlet._calibration import moderated
from jaxfs.methods.dirichlet._network import FeatureGates, KNNGraph, UniqueFeatureSelector
from jaxfs.methods.dirichlet._objectives import FITS
from jaxfs.methods.dirichlet._training import (
    Batch,
    Chosen,
    Steps,
    Task,
    TrainingPlan,
    at_once,
    distances,
    nearest,
)

_TEMPERATURE, _NUM_ANCHORS = (1.0, 0.05), 1024


class _Checked:
    """A frozen record that checks its fields and converts them to plain Python values."""

    def __post_init__(self):
        for name, value in list(vars(self).items()):
            if name == "gamma":
                value = plain(_checks.number(value, name, low=0, scalar=True))
            elif name == "unique":
                value = _checks.flag(value, name)
            elif value is not None or name != "batch_size":
                value = _checks.integer(value, name, low=1)
            settle(self, **{name: value})


@dataclasses.dataclass(frozen=True)
class Coverage(_Checked):
    """Objective of `fit_dirichlet_selector`: select features correlated with the relevant ones.

    **Arguments**

    - `gamma`: γ ≥ 0 of `soft_knn`. May be traced, and must then be positive. With 0, the nearest
      neighbours are chosen exactly. Their weights are then continuous and almost everywhere
      differentiable.
    - `batch_size`: number of random samples whose neighbours a step searches; static. The default
      is at most 256, and smaller if there are very many features.

    Equal records are the same option and have equal hashes.

    >>> Coverage(gamma=0.1)
    Coverage(gamma=0.1, batch_size=None)
    """

    gamma: Scalar = 0.0
    batch_size: int | None = None


@dataclasses.dataclass(frozen=True)
class Energy(_Checked):
    """Objective of `fit_dirichlet_selector`: make relevant features smooth on the selected graph.

    The graph is the k-NN graph of the samples in the selected features.

    **Arguments**

    - `gamma`, `batch_size`: as in `Coverage`.
    - `refresh_every`: number of steps for which the samples of a step and their candidates are
      kept while features are chosen; static. Neighbours are searched among these candidates only.
      The exploration that comes first does not keep them, because its noise on the gates is too
      large.
    """

    gamma: Scalar = 0.0
    batch_size: int | None = None
    refresh_every: int = 1


@dataclasses.dataclass(frozen=True)
class Network(_Checked):
    """Objective of `fit_dirichlet_selector`: the paper's network, `DirichletSelector`.

    **Arguments**

    - `gamma`: as in `Coverage`.
    - `unique`: whether the selected features are made distinct; static.
    - `refresh_every`: number of steps for which the samples of a step and their candidates are
      kept; static.
    """

    gamma: Scalar = 0.01
    unique: bool = True
    refresh_every: int = 1


#: The objectives by name.
OBJECTIVES = {"coverage": Coverage, "energy": Energy, "network": Network}


class DirichletResult(NamedTuple):
    """The features that `fit_dirichlet_selector` selected, and how it found them.

    - `selector`: the trained `FeatureGates` or `UniqueFeatureSelector`. For "coverage" the gates
      are not trained: they are open for the selected features.
    - `indices (m,)`: the selected features, distinct, in the order of selection. For "network" they
      have no order, and are distinct only if `unique`. They are −1 if the data contain NaN or too
      few features vary.
    - `graph`: the k-NN graph of the samples in the selected features, `(n, k)`.
    - `energies (d,)`: energies of all features on this graph; 1 for an independent feature.
    - `relevance (d,)`: in [0, 1]; 0 for a feature no smoother than noise. For "network" it is 1 for
      features that vary.
    - `varied (d,)`: false for constant features, which are never selected.
    - `energy_history (restarts, steps)`: the loss at each step; NaN for steps that were not needed.
      For "energy", the steps of the exploration come first.
    - `restart_energies (restarts,)`: for "coverage", the mean c_f of the features that each restart
      found; NaN if no training was needed. For "network" and "energy", the energy of the features
      that each restart selected; "energy" adds a last entry for the features from which training
      starts, `(restarts + 1,)`. The restart with the smallest value is used.
    - `failed_at (restarts,)`: the step at which the loss, its gradient or the parameters were not
      finite and the restart stopped; −1 if it did not stop.
    """

    selector: Any
    indices: Int[Array, "m"]
    graph: KNNGraph
    energies: Float[Array, "d"]
    relevance: Float[Array, "d"]
    varied: Bool[Array, "d"]
    energy_history: Float[Array, "restarts steps"]
    restart_energies: Float[Array, "restarts"]
    failed_at: Int[Array, "restarts"]


def fit_dirichlet_selector(
    key: Array,
    x: ArrayLike,
    num_features: int,
    *,
    objective: str | Coverage | Energy | Network = "coverage",
    num_neighbors: int = 5,
    num_steps: int = 200,
    learning_rate: Scalar | None = None,
    optimizer: optax.GradientTransformation | None = None,
    temperature: tuple[Scalar, Scalar] = _TEMPERATURE,
    num_restarts: int = 4,
    mask: ArrayLike | None = None,
    num_candidates: int | None = None,
    num_anchors: int = _NUM_ANCHORS,
) -> DirichletResult:
    """Select features with structure, without labels, by learning a k-NN graph of the samples.

    Every feature has a gate z_f, and the gates sum to m. The distances of the graph are
    Σ_f z_f (x_if − x_jf)². A feature has structure if its energy on the graph is clearly lower than
    the energy of a Gaussian decoy column in its place, c_f = log E_f − mean log E(decoy). Its
    relevance w_f in [0, 1] is clip((−c_f − 3σ) / 0.25, 0, 1), where σ is the standard deviation
    over decoys. All features are first judged on their common graph, with equal gates. Only if this
    shows too few relevant features (Σ_f w_f < 0.75 m), gates are trained: they minimise
    Σ_f z_f c_f / m, and the graph of the best gates is judged too. The larger relevance counts.
    Then the `objective` selects features:

    "coverage": features that are correlated with the relevant ones. A greedy search maximises
    Σ_j w_j max_{i selected} |corr_ij| over at most 1024 random samples. Features that are not
    relevant have weights of at most 0.001, proportional to clip(−c_f / 3σ, 0, 1), and so come last.
    The graph returned is the graph of the selected features.

    "energy": gates are then trained so that all relevant features are smooth on the graph of the
    open gates. The loss is Σ_f w_f E_f / Σ_f w_f, differentiated through the graph. Training starts
    from the features that "coverage" selects. These are also a candidate for the result.

    "network": the paper's `DirichletSelector`, without relevance. A selected feature lowers its own
    energy, so that training tends to keep the features that it selected first. Features that
    resemble each other also have low energies. `benchmarks/papers/dirichlet.py` compares the
    objectives.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `x`: `(n, d)`. Features are first scaled to mean 0 and variance 1. Except for the network,
      values are clipped at three standard deviations so that outliers do not dominate the
      distances.
    - `num_features`: m, in [1, d].
    - `objective`: "coverage", "energy" or "network", or `Coverage(…)`, `Energy(…)` or `Network(…)`
      with the options of that objective.
    - `num_neighbors`: k, in [1, n − 2].
    - `num_steps`: number of steps of the optimiser. "energy" uses it for exploration and training
      each.
    - `learning_rate`: learning rate of Adam; by default 0.1 for gates, 0.05 for the network.
    - `optimizer`: an Optax optimiser, in place of Adam and its `learning_rate`.
    - `temperature`: temperatures of the gates or softmaxes at the first and the last step
      (exploration ends at four times the last temperature).
    - `num_restarts`: number of runs with different keys, in one batch.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_candidates`: number of nearest samples from which neighbours are chosen; 32 by default.
      It applies if the choice is soft (γ above 0) or if candidates are kept for several steps
      (`refresh_every` above 1). Otherwise passing this option is an error.
    - `num_anchors`: number of random samples among which a step searches for neighbours. For the
      network, these samples are also the samples whose neighbours are searched.

    All arguments are static except `key`, `x`, `gamma`, `learning_rate`, `temperature` and `mask`.

    **Returns** `DirichletResult`.

    **Numerics** constant features are never selected. NaN in a sample that is present makes the
    indices −1 and the real-valued results NaN. Duplicate samples are allowed. Padding changes
    results only by rounding errors.

    **Derivatives** none: the results are constants for differentiation.

    **Cost** a step of a restart takes O(b · a · d), where b is the batch size and a the number of
    anchors. The coverage takes about ten times O(r d²) with r ≤ 1024 samples. The final graph takes
    O(n² m). Memory is O(nd), plus O(b k d) for each restart. If the training is not needed, no step
    is made.

    **Reference** *Dirichlet energy and k-NN by optimal transport* (Algorithm 1, eqs. 3–14). Gates,
    decoys and coverage are not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (60, 6))
    >>> x = x.at[:, 4].set(jnp.sin(2 * x[:, 1]) + 0.1 * x[:, 4])
    >>> found = fit_dirichlet_selector(jax.random.key(1), x, 2, num_steps=60)
    >>> sorted(found.indices.tolist())
    [1, 4]
    """
    return fit_in_steps(
        at_once,
        key,
        x=x,
        num_features=num_features,
        objective=objective,
        num_neighbors=num_neighbors,
        num_steps=num_steps,
        learning_rate=learning_rate,
        optimizer=optimizer,
        temperature=temperature,
        num_restarts=num_restarts,
        mask=mask,
        num_candidates=num_candidates,
        num_anchors=num_anchors,
    )


def fit_in_steps(steps: Steps, key, **arguments) -> DirichletResult:
    """Fit with training run by `steps`; the other arguments are those of `training_plan`.

    Every part is a program of its own, so that parts that are used twice are compiled once.
    """
    x, present, plan = training_plan(**arguments)
    _checks.key(key)
    task, known = _prepared(key, x, present, plan)
    return _finished(task, known, FITS[plan.objective](task, steps))


def training_plan(
    x,
    num_features,
    *,
    mask,
    objective,
    num_neighbors,
    num_steps,
    learning_rate,
    num_restarts,
    optimizer=None,
    temperature=_TEMPERATURE,
    num_candidates=None,
    num_anchors=_NUM_ANCHORS,
) -> tuple[Array, Array, TrainingPlan]:
    """Check the arguments of a fit; return the samples, the mask as booleans, and the options."""
    x = _checks.real(x, "x", ndim=2)
    n, d = x.shape
    if n < 3 or d < 1:
        raise _checks.fail("x", "(n, d) with n ≥ 3 samples and d ≥ 1 features", f"{x.shape}")
    objective = variant(objective, "objective", OBJECTIVES)
    kind = next(name for name, record in OBJECTIVES.items() if record is type(objective))
    m = _checks.integer(num_features, "num_features", low=1, high=d)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 2)
    present = presence(mask, n)
    size, varying, unknown = _facts(x, present)
    if not _checks.is_traced(size) and size < k + 2:
        raise _checks.fail("mask", f"true for at least {k + 2} samples", int(size))
    if not _checks.is_traced(varying) and not unknown and varying < m:
        expected = f"at most the number of features that vary, {varying} of {d}"
        raise _checks.fail("num_features", expected, m)
    if not (optimizer is None or isinstance(optimizer, optax.GradientTransformation)):
        raise _checks.fail("optimizer", "None or an optimiser of Optax", repr(optimizer))
    _checks.only_if(optimizer is None, learning_rate, "learning_rate", "optimizer is None")
    if learning_rate is None:
        learning_rate = 0.05 if kind == "network" else 0.1
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    first, last = temperature
    for value in (first, last):
        _checks.number(value, "temperature", low=0, open_low=True, scalar=True)
    # How neighbours are searched.
    exact = not _checks.is_traced(objective.gamma) and objective.gamma == 0
    refresh_every = getattr(objective, "refresh_every", 1)
    listed = not exact or refresh_every > 1
    setting = "gamma is positive or refresh_every above 1"
    _checks.only_if(listed, num_candidates, "num_candidates", setting)
    candidates = max(32, k + 1) if num_candidates is None else num_candidates
    candidates = _checks.integer(candidates, "num_candidates", low=k + 1) if listed else k + 1
    anchors = min(n, _checks.integer(num_anchors, "num_anchors", low=k + 2))
    batch_size = getattr(objective, "batch_size", None)
    if batch_size is None:
        batch_size = min(256, max(32, 2**22 // (d * candidates)))

    def number(a):  # NumPy's, because a conversion to JAX would be compiled
        return jnp.asarray(a, x.dtype) if _checks.is_traced(a) else np.asarray(a, x.dtype)

    plan = TrainingPlan(
        objective=kind,
        num_features=m,
        num_neighbors=k,
        num_candidates=min(candidates, anchors - 1),
        num_steps=_checks.integer(num_steps, "num_steps", low=2),
        num_restarts=_checks.integer(num_restarts, "num_restarts", low=1),
        batch_size=min(n, batch_size),
        num_anchors=anchors,
        gamma=None if exact else number(objective.gamma),
        learning_rate=number(learning_rate),
        temperatures=(number(first), number(last)),
        unique=getattr(objective, "unique", True),
        refresh_every=refresh_every,
        optimizer=optimizer,
    )
    return x, present, plan


@jax.jit
def _facts(x, present) -> tuple[Array, Array, Array]:
    """Return the numbers of samples present and of features that vary, and whether x has NaN."""
    return jnp.sum(present), jnp.sum(varied(x, present)), jnp.any(jnp.isnan(x))


@jax.jit
def _prepared(key, x, present, plan: TrainingPlan) -> tuple[Task, Bool[Array, ""]]:
    x, plan = lax.stop_gradient((x, plan))
    enough = jnp.sum(present) >= plan.num_neighbors + 2
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & enough
    x = jnp.where(present[:, None] & known, x, 0)
    keys = jax.random.split(key, 4)
    if plan.objective == "network":
        scaled = standard_columns(x, present), x[:, :0]
    else:
        scaled = moderated(keys[1], x, present)
    return Task(keys, *scaled, present, varied(x, present), plan), known


@jax.jit
def _finished(task: Task, known, chosen: Chosen) -> DirichletResult:
    x, varies, plan = task.x, task.varied, task.plan
    selector: Any = FeatureGates(chosen.logits, plan.num_features)
    if plan.objective == "network":
        selector = UniqueFeatureSelector(chosen.logits, plan.unique)
    indices = selector.indices()
    graph = _graph(x[:, indices], task.present, plan)
    size = jnp.sum(task.present).astype(x.dtype)
    energies = dirichlet_energies(x, graph.weights, indices=graph.indices) / size
    enough = known & (jnp.sum(varies) >= plan.num_features)
    indices = jnp.where(enough, indices, -1)
    graph, energies, chosen = nan_unless(known, (graph, energies, chosen))
    return DirichletResult(
        selector, indices, graph, energies, chosen.relevance, varies & known, *chosen[2:]
    )


def _graph(x: Float[Array, "n m"], present: Bool[Array, "n"], plan: TrainingPlan) -> KNNGraph:
    """Return the k-NN graph of the samples; rows are searched a block at a time.

    Candidates are found by a matrix product and ranked again by distances from differences.
    """
    n, k = x.shape[0], plan.num_neighbors
    every = jnp.arange(n)

    def neighbors(i):
        batch = Batch(i[None], every, present[i][None], present)
        _, near = nearest(distances(x, jnp.ones_like(x[0]), batch), 2 * (k + 1))
        e = jnp.sum(jnp.square(x[i][None] - x[near[0]]), axis=1)
        e, near = lax.sort_key_val(jnp.where((near[0] >= 0) & present[i], e, jnp.inf), near[0])
        found = jnp.isfinite(e[:k])
        return jnp.where(found, near[:k], -1), e[: k + 1]

    size = max(1, 2**23 // (4 * n + 2 * (k + 1) * x.shape[1]))
    indices, e = lax.map(neighbors, every, batch_size=min(n, size))
    return KNNGraph(indices, adaptive_weights(e))
