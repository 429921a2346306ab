"""Unsupervised feature selection by the Dirichlet energy on a learned k-NN graph of the samples.

`_network` has the modules of the paper, `_training` the energies and the loop that trains gates,
and `_objectives` finds the features with structure and selects features in one of three ways.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._checks import is_traced, plain, presence, settle, variant
from jaxfs._numerics import nan_unless, standard_columns, varied
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import adaptive_weights, dirichlet_energies, nearest_neighbors
from jaxfs.methods.dirichlet._network import (
    FeatureGates,
    KNNGraph,
    KNNGraphLearner,
    UniqueFeatureSelector,
)
from jaxfs.methods.dirichlet._objectives import fit_coverage, fit_energy, fit_network, moderated
from jaxfs.methods.dirichlet._training import Found, Task


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
    - `batch_size`: number of random samples whose neighbours a step searches, at most
      `num_anchors`; static. The default is at most 256, and smaller if there are very many
      features.

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
#: The function that fits each objective.
FITS = {Coverage: fit_coverage, Energy: fit_energy, Network: fit_network}


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
    temperature: tuple[Scalar, Scalar] = (1.0, 0.05),
    num_restarts: int = 4,
    mask: ArrayLike | None = None,
    num_candidates: int | None = None,
    num_anchors: int = 1024,
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
    - `temperature`: temperatures of the gates or softmaxes at the first and the last step.
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
    x = _checks.samples(x, n=3)
    n, d = x.shape
    record: Any = variant(objective, "objective", OBJECTIVES)
    m = _checks.integer(num_features, "num_features", low=1, high=d)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 2)
    present = presence(mask, n)
    if not (optimizer is None or isinstance(optimizer, optax.GradientTransformation)):
        raise _checks.fail("optimizer", "None or an optimiser of Optax", repr(optimizer))
    _checks.only_if(optimizer is None, learning_rate, "learning_rate", "optimizer is None")
    if learning_rate is None:
        learning_rate = 0.05 if isinstance(record, Network) else 0.1
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    for value in temperature:
        _checks.number(value, "temperature", low=0, open_low=True, scalar=True)
    # How neighbours are searched.
    exact = not is_traced(record.gamma) and record.gamma == 0
    refresh_every = getattr(record, "refresh_every", 1)
    listed = not exact or refresh_every > 1
    setting = "gamma is positive or refresh_every above 1"
    _checks.only_if(listed, num_candidates, "num_candidates", setting)
    candidates = max(32, k + 1) if num_candidates is None else num_candidates
    candidates = _checks.integer(candidates, "num_candidates", low=k + 1) if listed else k + 1
    batch_size = getattr(record, "batch_size", None)
    if batch_size is None:
        batch_size = min(256, max(32, 2**22 // (d * candidates)))

    def number(a):  # NumPy's, because a conversion to JAX would be compiled
        return (
            lax.stop_gradient(jnp.asarray(a, x.dtype)) if is_traced(a) else np.asarray(a, x.dtype)
        )

    _checks.key(key)
    task, known = _prepared(
        key,
        x,
        present,
        isinstance(record, Network),
        learner=KNNGraphLearner(k, 0.0 if exact else number(record.gamma), candidates),
        learning_rate=number(learning_rate),
        temperatures=tuple(map(number, temperature)),
        num_features=m,
        num_searched=k + 1 if exact else candidates,
        num_steps=_checks.integer(num_steps, "num_steps", low=2),
        num_restarts=_checks.integer(num_restarts, "num_restarts", low=1),
        num_anchors=_checks.integer(num_anchors, "num_anchors", low=k + 2),
        batch_size=batch_size,
        refresh_every=refresh_every,
        unique=getattr(record, "unique", True),
        optimizer=optimizer,
    )
    if not is_traced(known):
        size, varying = np.count_nonzero(present), np.count_nonzero(task.varied)
        if size < k + 2:
            raise _checks.fail("mask", f"true for at least {k + 2} samples", size)
        if known and varying < m:
            expected = f"at most the number of features that vary, {varying} of {d}"
            raise _checks.fail("num_features", expected, m)
    return _finished(task, known, FITS[type(record)](task))


@eqx.filter_jit
def _prepared(key, x, present, network: bool, **options) -> tuple[Task, Bool[Array, ""]]:
    enough = jnp.sum(present) >= options["learner"].num_neighbors + 2
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & enough
    x, keys = lax.stop_gradient(jnp.where(present[:, None] & known, x, 0)), jax.random.split(key, 4)
    varies, decoys = varied(x, present), x[:, :0]
    if network:
        x = standard_columns(x, present)
    else:
        x, decoys = moderated(keys[1], x, present)
    return Task(x, decoys, present, varies, varies.astype(x.dtype), keys, **options), known


@eqx.filter_jit
def _finished(task: Task, known, found: Found) -> DirichletResult:
    selector: Any = FeatureGates(found.logits, task.num_features)
    if found.logits.ndim == 2:
        selector = UniqueFeatureSelector(found.logits, task.unique)
    indices, k = selector.indices(), task.learner.num_neighbors
    near = nearest_neighbors(task.x[:, indices], k + 1, mask=task.present)
    graph = KNNGraph(near.indices[:, :k], adaptive_weights(near.squared_distances))
    size = jnp.sum(task.present).astype(task.x.dtype)
    energies = dirichlet_energies(task.x, graph.weights, indices=graph.indices) / size
    enough = known & (jnp.sum(task.varied) >= task.num_features)
    indices = jnp.where(enough, indices, -1)
    graph, energies, found = nan_unless(known, (graph, energies, found))
    return DirichletResult(
        selector, indices, graph, energies, found.relevance, task.varied & known, *found[2:]
    )
