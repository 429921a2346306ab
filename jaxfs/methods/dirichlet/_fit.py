"""Features and a k-NN graph of the samples learnt together, by the Dirichlet energy.

`fit_dirichlet_selector` trains the paper's network (`_dirichlet_network`), or gates in its place
(`_dirichlet`), which tell features with structure, and covers those (`_coverage`).
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import varied
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import adaptive_weights, dirichlet_energies, nearest_neighbors
from jaxfs.methods.dirichlet._calibration import moderated, standardized
from jaxfs.methods.dirichlet._exploration import Chosen, fit_cover, fit_gates
from jaxfs.methods.dirichlet._network import DirichletSelector as DirichletSelector
from jaxfs.methods.dirichlet._network import KNNGraph as KNNGraph
from jaxfs.methods.dirichlet._network import KNNGraphLearner as KNNGraphLearner
from jaxfs.methods.dirichlet._network import UniqueFeatureSelector as UniqueFeatureSelector
from jaxfs.methods.dirichlet._network import fit_network
from jaxfs.methods.dirichlet._options import Coverage as Coverage
from jaxfs.methods.dirichlet._options import Energy as Energy
from jaxfs.methods.dirichlet._options import Network as Network
from jaxfs.methods.dirichlet._options import check_arguments
from jaxfs.methods.dirichlet._training import Options, Settings, Steps, Task, at_once
from jaxfs.transport._gates import gates


class FeatureGates(eqx.Module):
    """One gate a feature, m of them open: gates(s) = σ((s − τ) / T) of sum m."""

    logits: Float[Array, "d"]
    num_features: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.integer(self.num_features, "num_features", low=1)

    def __call__(self, temperature: Scalar, *, key: Array | None = None) -> Float[Array, "d"]:
        logits = self.logits
        if key is not None:
            logits = logits + jax.random.gumbel(key, logits.shape, logits.dtype)
        return gates(logits, self.num_features, temperature, jnp.isfinite(logits))

    def indices(self) -> Int[Array, "m"]:
        """The open ones, the widest first."""
        return lax.top_k(self.logits, self.num_features)[1].astype(jnp.int32)


# ---- Training -----------------------------------------------------------------------------------


class DirichletResult(NamedTuple):
    """What `fit_dirichlet_selector` found.

    `selector`: the trained `FeatureGates` ("coverage": gates open for those chosen, untrained), or
    `UniqueFeatureSelector`. `indices (m,)`: the features chosen, distinct, in the order chosen
    ("network": in no order, and distinct if `unique`); −1 for data with NaN, and where there are
    too few that vary. `graph`: the k-NN graph of the samples in those features, `(n, k)`.
    `energies (d,)`: of every feature on that graph, 1 for one that knows nothing of it.
    `relevance (d,)`: in [0, 1], 0 for a feature no smoother than noise ("network": 1 for those that
    vary). `varied (d,)`: false for constant features, which are left out. `energy_history
    (restarts, steps)`: the loss. `restart_energies (restarts,)`: the mean c_f of the features that
    each restart explored; "network": the energy of those that it chose, and "energy",
    `(restarts + 1,)`: last that of the features they started from. The smallest won.
    `failed_at (restarts,)`: the step at which the loss was not finite, where that restart stopped;
    −1 if it always was.
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
    num_steps: int = 400,
    learning_rate: Scalar | None = None,
    optimizer: optax.GradientTransformation | None = None,
    temperature: tuple[Scalar, Scalar] = (1.0, 0.05),
    num_restarts: int = 4,
    mask: ArrayLike | None = None,
    num_candidates: int | None = None,
    num_anchors: int = 1024,
) -> DirichletResult:
    """Choose features without labels: those with structure, by a k-NN graph that is learnt.

    Every feature has a gate z_f, m of them open, and the graph has the distances
    Σ_f z_f (x_if − x_jf)². Training explores which features have structure, by
    c_f = log E_f − log E_f(decoy), energies relative to Gaussian columns behind the same gates; the
    loss is Σ_f z_f c_f / m. The relevance w_f in [0, 1] is clip((−c_f − 3σ) / 0.25, 0, 1), σ the
    deviation of decoys, on the graph of the best features explored, with decoys in the places of
    those, or on the graph of all features alike, whichever is larger. Then the `objective` chooses:

    "coverage": features to which the relevant ones are correlated, a greedy maximum of
    Σ_j w_j max_{i chosen} |corr_ij|, over at most 1024 samples, drawn at random. Features that are
    not relevant count as well, up to 0.001 by clip(−c_f / 3σ, 0, 1), and so come after. Whether
    features belong together is judged by correlation alone; the graph is that of those chosen.

    "energy": half of the steps explore; the other half train gates so that all relevant
    features are smooth on their graph. The loss is Σ_f w_f E_f / Σ_f w_f, and its derivative goes
    through the graph. They start from a greedy choice by linear regression, itself a candidate.

    "network": the paper's, `DirichletSelector`, in place of all that. A feature inside lowers its
    own energy, so that training tends to keep the features it took first, and features that
    resemble one another have low energies: `benchmarks/papers/dirichlet_toys.py` and
    `dirichlet_downstream.py` compare.

    **Arguments**

    - `key`: of `jax.random`.
    - `x`: `(n, d)`; features are given mean 0 and variance 1 first (unless for the network, with
      values beyond three deviations brought there, lest rare ones rule the distances).
    - `num_features`: m, in [1, d].
    - `objective`: "coverage", "energy" or "network", or with the options that belong to it
      `Coverage(…)`, `Energy(…)` or `Network(…)`.
    - `num_neighbors`: k, in [1, n − 2].
    - `num_steps`: number of steps of the optimiser.
    - `learning_rate`: of Adam; by default 0.1 for gates, 0.05 for the network.
    - `optimizer`: of Optax, in place of Adam and its `learning_rate`.
    - `temperature`: of the gates or softmaxes, at the first and at the last step (exploration ends
      at four times the last).
    - `num_restarts`: runs from other keys, side by side.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_candidates`: number of nearest samples among which neighbours are chosen, by a soft
      choice (γ above 0) or from lists that are kept (`refresh_every` above 1); 32 by default. An
      exact choice has no such list, and refuses the option.
    - `num_anchors`: number of samples, drawn at random, among which a step looks for neighbours
      (for the network: drawn samples look among themselves).

    All but `key`, `x`, `gamma`, `learning_rate`, `temperature` and `mask` are static.

    **Returns** `DirichletResult`.

    **Numerics** constant features are never chosen. NaN among the samples present gives indices −1
    and NaN. Duplicate samples are no trouble. Padding changes nothing but rounding.

    **Derivatives** none: results are constants.

    **Cost** a step of a restart O(b · a · d), b and a the batch and its anchors; the coverage some
    ten times O(r d²), r ≤ 1024 samples, or the regressions O(m r² d), r ≤ 512; the final graph
    O(n² m). Memory O(nd), and O(b k d) a restart.

    **Reference** *Dirichlet energy and k-NN by optimal transport* (Algorithm 1, eqs. 3–14). Gates,
    decoys and coverage are not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (60, 6))
    >>> x = x.at[:, 4].set(jnp.sin(2 * x[:, 1]) + 0.1 * x[:, 4])
    >>> found = fit_dirichlet_selector(jax.random.key(1), x, 2, num_steps=60)
    >>> sorted(found.indices.tolist())
    [1, 4]
    """
    problem = check_arguments(
        x,
        num_features,
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
    _checks.key(key)
    return _fit(key, *problem, optimizer)


@functools.partial(jax.jit, static_argnames=("settings", "optimizer"))
def _fit(key, x, present, options: Options, settings: Settings, optimizer):
    return fit_in_steps(key, x, present, options, settings, optimizer, at_once)


def fit_in_steps(
    key,
    x,
    present,
    options: Options,
    settings: Settings,
    optimizer: optax.GradientTransformation | None,
    steps: Steps,
) -> DirichletResult:
    """The fit, its training run by `steps`: every part between is compiled separately."""
    task, known = _prepared(key, x, present, options, settings)
    fit = {"coverage": fit_cover, "energy": fit_gates, "network": fit_network}[settings.objective]
    return _finished(task, known, fit(task, settings, optimizer, steps), settings)


@functools.partial(jax.jit, static_argnames="settings")
def _prepared(key, x, present, options: Options, settings: Settings):
    enough = jnp.sum(present) >= settings.num_neighbors + 2
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & enough
    x = jnp.where(present[:, None] & known, x, 0)
    scaled = standardized(x, present) if settings.objective == "network" else moderated(x, present)
    return Task(key, scaled, present, varied(x, present), options), known


@functools.partial(jax.jit, static_argnames="settings")
def _finished(task: Task, known, chosen: Chosen, settings: Settings) -> DirichletResult:
    _, x, present, varies, _ = task
    s = settings
    selector: Any = FeatureGates(chosen.logits, s.num_features)
    if s.objective == "network":
        selector = UniqueFeatureSelector(chosen.logits, s.unique)
    indices = selector.indices()
    enough = known & (jnp.sum(varies) >= s.num_features)
    near = nearest_neighbors(x[:, indices], s.num_neighbors + 1, mask=present)
    graph = KNNGraph(near.indices[:, :-1], adaptive_weights(near.squared_distances))
    size = jnp.sum(present).astype(x.dtype)
    energies = dirichlet_energies(x, graph.weights, indices=graph.indices) / size

    def unless(a, otherwise=jnp.nan):
        return jnp.where(known, a, jnp.full_like(a, otherwise))

    return DirichletResult(
        selector,
        jnp.where(enough, indices, -1),
        KNNGraph(unless(graph.indices, -1), unless(graph.weights)),
        unless(energies),
        unless(chosen.relevance),
        varies & known,
        unless(chosen.history),
        unless(chosen.restart_energies),
        chosen.failed_at,
    )
