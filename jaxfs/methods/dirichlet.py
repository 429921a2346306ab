"""Features and a k-NN graph of the samples learnt together, by the Dirichlet energy.

The paper's network chooses m features by m softmaxes f_j, made distinct by a Cholesky step, builds
a soft k-NN graph s_ij of the samples in those features, and lowers tr(X̂ᵀ L_S X̂) = ½ Σ s_ij e_ij:

    F = [softmax((log w_j + g_j) / T)],   L Lᵀ = FᵀF + ε I,   F̂ = F L⁻ᵀ,   X̂ = X F̂.

`fit_dirichlet_selector` trains it, or gates in its place; see there.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from optax.assignment import hungarian_algorithm

from jaxfs import _checks
from jaxfs._gates import gates
from jaxfs._numerics import matmul
from jaxfs._types import ArrayLike, Scalar
from jaxfs.graphs import adaptive_weights, dirichlet_energies, nearest_neighbors
from jaxfs.kernels import presence
from jaxfs.methods import _dirichlet
from jaxfs.methods._dirichlet import Options, Settings
from jaxfs.surrogates._common import varied
from jaxfs.transport import soft_knn, soft_weights

_OBJECTIVES = ("calibrated", "network")
_EPSILON = 1e-3


# ---- The modules --------------------------------------------------------------------------------


class UniqueFeatureSelector(eqx.Module):
    """m soft choices of one feature each, kept distinct by orthogonality (section 3.1).

    `logits (d, m)` are log W of eq. 4, without a constraint. Called with a temperature T, and a key
    for Gumbel noise or none for no noise, it gives F̂ `(d, m)`. `unique=False` leaves out the
    Cholesky step, as the paper's ablation does: it then chooses features twice.

    The paper's ε I is taken relative to the mean of the diagonal of FᵀF, which falls with T.
    """

    logits: Float[Array, "d m"]
    unique: bool = eqx.field(static=True, default=True)
    epsilon: float = eqx.field(static=True, default=_EPSILON)

    def __call__(self, temperature: Scalar, *, key: Array | None = None) -> Float[Array, "d m"]:
        logits = self.logits
        if key is not None:
            logits = logits + jax.random.gumbel(key, logits.shape, logits.dtype)
        f = jax.nn.softmax(logits / temperature, axis=0)
        return orthogonalized(f, self.epsilon) if self.unique else f

    def indices(self) -> Int[Array, "m"]:
        """The chosen features: distinct, by the assignment of largest total logit."""
        if not self.unique:
            return jnp.argmax(self.logits, axis=0).astype(jnp.int32)
        costs = -self.logits.astype(jnp.result_type(float))  # the only dtype that Optax takes
        features, slots = hungarian_algorithm(costs)
        return features[jnp.argsort(slots)].astype(jnp.int32)


def orthogonalized(f: Float[Array, "d m"], epsilon: float) -> Float[Array, "d m"]:
    """F̂ = F L⁻ᵀ, L Lᵀ = FᵀF + ε · mean diag(FᵀF) · I (Algorithm 1, and S2 for this form)."""
    gram = matmul(f.T, f)
    ridge = epsilon * jnp.trace(gram) / gram.shape[0]
    root = jnp.linalg.cholesky(gram + ridge * jnp.eye(gram.shape[0], dtype=f.dtype))
    return lax.linalg.triangular_solve(root, f, left_side=False, lower=True, transpose_a=True)


class KNNGraph(NamedTuple):
    """Neighbours of every sample, `(n, c)`, −1 for none, and their weights, rows of sum 1."""

    indices: Int[Array, "n c"]
    weights: Float[Array, "n c"]


class KNNGraphLearner(eqx.Module):
    """A k-NN graph whose weights are differentiable in the samples (section 3.2).

    Called with samples `(n, m)` it gives a `KNNGraph` on their `num_candidates` nearest. With γ = 0
    the k nearest are chosen exactly, and the derivative is that of eq. 9 with fixed neighbours.
    `candidates` are lists to choose from in place of the nearest, which need a search.
    """

    num_neighbors: int = eqx.field(static=True, default=5)
    gamma: Scalar = 0.01
    num_candidates: int = eqx.field(static=True, default=32)

    def __call__(
        self,
        x: Float[Array, "n m"],
        *,
        candidates: Int[Array, "n c"] | None = None,
        mask: ArrayLike | None = None,
    ) -> KNNGraph:
        indices, e = self.distances(x, candidates=candidates, mask=mask)
        return KNNGraph(indices, self.weights(e))

    def candidates(self, x: Float[Array, "n m"], mask: ArrayLike | None = None) -> Array:
        """The nearest `num_candidates` of every sample, as constants."""
        number = min(self.num_candidates, x.shape[0] - 1)
        return nearest_neighbors(lax.stop_gradient(x), number, mask=mask).indices

    def distances(self, x, *, candidates=None, mask=None) -> tuple[Array, Array]:
        """Candidates and their squared distances, by rising distance; infinite for none."""
        x = _checks.real(x, "x", ndim=2)
        if candidates is None:
            candidates = self.candidates(x, mask)
        found = candidates >= 0
        e = jnp.sum(jnp.square(x[:, None] - x[candidates]), axis=2)
        order = jnp.argsort(jnp.where(found, lax.stop_gradient(e), jnp.inf), axis=1)
        e = jnp.where(found, e, jnp.inf)
        ordered = functools.partial(jnp.take_along_axis, indices=order, axis=1)
        return ordered(candidates), ordered(e)

    def weights(self, e: Float[Array, "n c"]) -> Float[Array, "n c"]:
        """Weights of candidates at rising squared distances e."""
        k = self.num_neighbors
        if not _checks.is_traced(self.gamma) and self.gamma == 0:
            s = adaptive_weights(e[:, : k + 1])
            return jnp.pad(s, ((0, 0), (0, e.shape[1] - k)))
        finite = jnp.isfinite(e)
        e = jnp.where(finite, e, jnp.zeros_like(e))
        return soft_weights(e, soft_knn(e, k, gamma=self.gamma, mask=finite))


class DirichletSelector(eqx.Module):
    """The paper's network: features chosen, a graph built on them, and their energy on it."""

    selector: UniqueFeatureSelector
    learner: KNNGraphLearner

    def __call__(
        self,
        x: Float[Array, "n d"],
        temperature: Scalar,
        *,
        key: Array | None = None,
        candidates: Int[Array, "n c"] | None = None,
        mask: ArrayLike | None = None,
    ) -> Float[Array, ""]:
        """½ Σ s_ij e_ij / (n m), e of X̂ = X F̂: 1 for features that know nothing of the graph."""
        x = _checks.real(x, "x", ndim=2)
        chosen = matmul(x, self.selector(temperature, key=key))
        _, e = self.learner.distances(chosen, candidates=candidates, mask=mask)
        s = self.learner.weights(e)
        present = presence(mask, x.shape[0]).astype(x.dtype)
        total = jnp.sum(s * jnp.where(jnp.isfinite(e), e, 0) * present[:, None])
        return 0.5 * total / (jnp.sum(present) * self.selector.logits.shape[1])


class FeatureGates(eqx.Module):
    """One gate a feature, m of them open: gates(s) = σ((s − τ) / T) of sum m."""

    logits: Float[Array, "d"]
    num_features: int = eqx.field(static=True)

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

    `selector`: the trained `FeatureGates`, or `UniqueFeatureSelector`. `indices (m,)`: the features
    chosen, distinct, the most certain first; −1 for data with NaN, and where there are too few that
    vary. `graph`: the k-NN graph of the samples in those features, `(n, k)`. `energies (d,)`: of
    every feature on that graph, 1 for one that knows nothing of it. `relevance (d,)`: in [0, 1],
    0 for a feature no smoother than noise ("network": 1 for those that vary). `varied (d,)`: false
    for constant features, which are left out. `energy_history (restarts, steps)`: the loss.
    `restart_energies (restarts + 1,)`: of the features each restart chose, and of those that all
    started from ("network": without the latter); the smallest won.
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
    objective: str = "calibrated",
    num_neighbors: int = 5,
    gamma: Scalar | None = None,
    num_steps: int = 400,
    learning_rate: Scalar | None = None,
    optimizer: optax.GradientTransformation | None = None,
    temperature: tuple[Scalar, Scalar] = (1.0, 0.05),
    num_restarts: int = 4,
    standardize: bool = True,
    unique: bool = True,
    mask: ArrayLike | None = None,
    num_candidates: int = 32,
    batch_size: int | None = None,
    num_anchors: int = 1024,
) -> DirichletResult:
    """Choose features without labels: those on whose k-NN graph the data are smooth.

    "calibrated": every feature has a gate z_f, m of them open, and the graph has the distances
    Σ_f z_f (x_if − x_jf)². Half of the steps explore which features have structure, by
    c_f = log E_f − log E_f(decoy), energies relative to Gaussian columns behind the same gates;
    their loss is Σ_f z_f c_f / m. The other half choose features on whose graph all that have
    structure are smooth: the loss is Σ_f w_f E_f / Σ_f w_f, and its derivative goes through the
    graph. They start from a greedy choice by linear regression, which is itself a candidate. The
    relevance w_f in [0, 1] is clip((−c_f − 3σ) / 0.25, 0, 1), σ the deviation of decoys, on the
    graph of the best features explored, with decoys in the places of those, or on the graph of all
    features alike, whichever is larger.

    "network": the paper's, `DirichletSelector`. Its energy is lowest for features that resemble
    one another, a feature inside lowers its own energy, and training seldom leaves the features it
    took first: see `benchmarks/papers/dirichlet_toys.py`.

    **Arguments**

    - `key`: of `jax.random`.
    - `x`: `(n, d)`.
    - `num_features`: m, in [1, d].
    - `objective`: "calibrated" or "network".
    - `num_neighbors`: k, in [1, n − 2].
    - `gamma`: γ ≥ 0 of `soft_knn`. By default 0 for gates, whose weights are continuous and almost
      everywhere differentiable as they are, and 0.01 for the network.
    - `num_steps`: of the optimiser.
    - `learning_rate`: of Adam; by default 0.1 for gates, 0.05 for the network. Or `optimizer`, of
      Optax, static.
    - `temperature`: of the gates or softmaxes, at the first and at the last step (exploration ends
      at four times the last).
    - `num_restarts`: runs from other keys, side by side.
    - `standardize`: whether features are first given mean 0 and variance 1; without, energies are
      relative to their scale.
    - `unique`: for the network: whether its choices are made distinct.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_candidates`: among how many nearest samples a soft choice is made.
    - `batch_size`, `num_anchors`: a step looks for the neighbours of so many samples, drawn at
      random, among so many (for the network: of all that are drawn among themselves). By default
      at most 256, fewer for very many features, among 1024.

    All but `key`, `x`, `gamma`, `learning_rate`, `temperature` and `mask` are static.

    **Returns** `DirichletResult`.

    **Numerics** constant features are never chosen. NaN among the samples present gives indices −1
    and NaN. Duplicate samples are no trouble. With n ≤ `batch_size` padding changes nothing but
    rounding; above, it changes which samples are drawn.

    **Derivatives** none: results are constants.

    **Cost** a step of a restart O(b · a · d), b and a the batch and its anchors; memory O(nd).

    **Reference** *Dirichlet energy and k-NN by optimal transport* (Algorithm 1, eqs. 3–14). The
    calibrated objective is not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (60, 6))
    >>> x = x.at[:, 4].set(jnp.sin(2 * x[:, 1]) + 0.1 * x[:, 4])
    >>> found = fit_dirichlet_selector(jax.random.key(1), x, 2, num_steps=60)
    >>> sorted(found.indices.tolist())
    [1, 4]
    """
    x = _checks.real(x, "x", ndim=2)
    n, d = x.shape
    if n < 3 or d < 1:
        raise _checks.fail("x", "(n, d) with n ≥ 3 samples and d ≥ 1 features", f"{x.shape}")
    network = _checks.option(objective, "objective", _OBJECTIVES) == "network"
    m = _checks.integer(num_features, "num_features", low=1, high=d)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 2)
    present = presence(mask, n)
    if not _checks.is_traced(present) and int(jnp.sum(present)) < k + 2:
        raise _checks.fail("mask", f"true for at least {k + 2} samples", int(jnp.sum(present)))
    if gamma is None:
        gamma = 0.01 if network else 0.0
    _checks.number(gamma, "gamma", low=0, scalar=True)
    exact = not _checks.is_traced(gamma) and float(gamma) == 0
    if learning_rate is None:
        learning_rate = 0.05 if network else 0.1
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    first, last = temperature
    for value in (first, last):
        _checks.number(value, "temperature", low=0, open_low=True, scalar=True)
    candidates = _checks.integer(num_candidates, "num_candidates", low=k + 1)
    if batch_size is None:
        batch_size = min(256, max(32, 2**22 // (d * (k + 1 if exact else candidates))))
    settings = Settings(
        num_features=m,
        num_neighbors=k,
        exact=exact,
        num_candidates=min(k + 1 if exact else candidates, n - 1),
        num_steps=_checks.integer(num_steps, "num_steps", low=2),
        num_restarts=_checks.integer(num_restarts, "num_restarts", low=1),
        batch_size=min(n, _checks.integer(batch_size, "batch_size", low=1)),
        num_anchors=min(n, _checks.integer(num_anchors, "num_anchors", low=k + 2)),
    )
    varies = varied(x, present)
    if not _checks.is_traced(varies) and not jnp.any(jnp.isnan(x)) and int(jnp.sum(varies)) < m:
        expected = f"at most the number of features that vary, {int(jnp.sum(varies))} of {d}"
        raise _checks.fail("num_features", expected, m)
    _checks.flag(standardize, "standardize")
    _checks.flag(unique, "unique")
    numbers = (jnp.asarray(v, x.dtype) for v in (gamma, learning_rate, first, last))
    x, options = lax.stop_gradient((x, Options(*numbers)))
    return _fit(key, x, present, options, settings, network, unique, standardize, optimizer)


@functools.partial(
    jax.jit, static_argnames=("settings", "network", "unique", "standardize", "optimizer")
)
def _fit(
    key, x, present, options: Options, settings: Settings, network, unique, standardize, optimizer
) -> DirichletResult:
    s = settings
    known = jnp.all(jnp.isfinite(x) | ~present[:, None]) & (jnp.sum(present) >= s.num_neighbors + 2)
    x = jnp.where(present[:, None] & known, x, 0)
    varies = varied(x, present)
    if standardize:
        x = _dirichlet.standardized(x, present)
    if optimizer is None:
        optimizer = optax.adam(options.learning_rate)
    if network:
        chosen = _fit_network(key, x, present, varies, s, options, optimizer, unique)
        selector: Any = UniqueFeatureSelector(chosen.logits, unique)
    else:
        chosen = _dirichlet.fit_gates(key, x, present, varies, s, options, optimizer)
        selector = FeatureGates(chosen.logits, s.num_features)
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


def _fit_network(
    key, x, present, varies, settings: Settings, options: Options, optimizer, unique: bool
) -> _dirichlet.Chosen:
    """The paper's network, trained from several keys; the smallest hard energy wins."""
    s = settings
    gamma = 0.0 if s.exact else options.gamma
    learner = KNNGraphLearner(s.num_neighbors, gamma, s.num_candidates)
    shape = (x.shape[1], s.num_features)

    def loss(logits, key, progress):
        noise, part = jax.random.split(key)
        rows, there = _dirichlet.draw(part, present, s.num_anchors, x.dtype)
        model = DirichletSelector(UniqueFeatureSelector(logits, unique), learner)
        t = _dirichlet.temperature(options, progress)
        return model(x[rows], t, key=noise, mask=there), None

    def run(key):
        first, second = jax.random.split(key)
        logits = 0.01 * jax.random.normal(first, shape, x.dtype)
        return _dirichlet.train(
            loss, second, jnp.where(varies[:, None], logits, -1e6), optimizer, s.num_steps
        )

    trained = jax.vmap(run)(jax.random.split(key, s.num_restarts))
    rows, there = _dirichlet.draw(key, present, 4 * s.num_anchors, x.dtype)

    def hard(logits):
        chosen = UniqueFeatureSelector(logits, unique).indices()
        near = nearest_neighbors(x[rows][:, chosen], s.num_neighbors + 1, mask=there)
        e = near.squared_distances
        s_ij = adaptive_weights(e)
        size = jnp.sum(there).astype(x.dtype) * s.num_features
        return 0.5 * jnp.sum(s_ij * jnp.where(jnp.isfinite(e[:, :-1]), e[:, :-1], 0)) / size

    final = lax.map(hard, trained.parameters)
    best = jnp.argmin(jnp.where(trained.failed_at < 0, final, jnp.inf))
    worth = varies.astype(x.dtype)
    return _dirichlet.Chosen(
        trained.parameters[best], worth, trained.history, final, trained.failed_at
    )
