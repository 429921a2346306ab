"""The Dirichlet selector: gates, energies and modules against plain loops; its trainings."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.datasets import make_blobs, make_circles, make_moons

import jaxfs
from jaxfs import graphs
from jaxfs.methods.dirichlet import _network, _training
from jaxfs.methods.dirichlet._network import divided_by_root
from jaxfs.transport._gates import gates
from tests.helpers import assert_close, assert_derivatives, rng

N, D, K = 24, 6, 3


def task(**changes) -> _training.Task:
    """A task whose training steps use all samples, with exact neighbours."""
    known = {"num_features": 2, "num_searched": K + 1, "num_steps": 8, "num_restarts": 2}
    known |= {"num_anchors": N, "batch_size": N, "refresh_every": 1, "unique": True}
    known |= {"learner": jaxfs.KNNGraphLearner(K, 0.0, K + 1), "optimizer": None}
    known |= {"learning_rate": 0.1, "temperatures": (1.0, 0.1)}
    known |= {"present": jnp.ones(N, bool), "keys": jax.random.split(jax.random.key(0), 4)}
    known |= changes
    x = jnp.zeros((known["present"].size, D))
    return _training.Task(x=x, decoys=x, varied=jnp.ones(D, bool), relevance=x[0], **known)


WHOLE = task()


def energies(x, z, task=WHOLE, drawn=None, near=None):
    """The energies on the graph of all samples, in a program of its own."""
    drawn = jnp.arange(N) if drawn is None else drawn

    @jax.jit
    def of(x, z, near):
        if near is None:
            near = _training.nearest(task.distances(x, z, drawn), task.num_searched)[1]
        return task.energies(x, z, drawn, near)

    return of(jnp.asarray(x), jnp.asarray(z), near)


# ---- Gates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1e-3, 0.2, 10.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gates_open_for_m(temperature, dtype):
    scores = rng().normal(size=40).astype(dtype)
    z = gates(scores, 7, temperature)
    assert z.dtype == dtype
    assert_close(jnp.sum(z), 7, 1e-5 if dtype == "float32" else 1e-10)
    assert np.all(np.diff(np.asarray(z)[np.argsort(scores)]) >= 0)
    if temperature == 1e-3:
        assert set(np.argsort(z)[-7:]) == set(np.argsort(scores)[-7:])


def test_gates_of_what_is_absent_are_shut_and_of_few_are_open():
    scores, there = jnp.array([3.0, 1.0, 2.0, 0.0]), jnp.array([False, True, True, True])
    z = gates(scores, 2, 0.5, there)
    assert z[0] == 0
    assert_close(jnp.sum(z), 2, 1e-12)
    assert gates(scores, 3, 0.5, there).tolist() == [0, 1, 1, 1]


def test_gates_have_the_derivative_of_their_threshold():
    scores, weights, direction = rng().normal(size=(3, 9))
    assert_derivatives(lambda s: jnp.vdot(gates(s, 4, 0.3), weights), scores, direction)
    shut = jax.grad(lambda s: gates(s, 4, 1e-6)[0])(jnp.arange(9.0))
    assert np.all(shut == 0)


# ---- Energies -----------------------------------------------------------------------------------


def literal_energies(x, z, k: int) -> np.ndarray:
    """½ Σ_ij s_ij (x_if − x_jf)² / n with the weights of S18, sample by sample."""
    n, total = len(x), np.zeros(x.shape[1])
    for i in range(n):
        e = np.sum(z * (x - x[i]) ** 2, axis=1)
        e[i] = np.inf
        order = np.argsort(e, kind="stable")
        gap = e[order[k]] - e[order[:k]]
        s = gap / gap.sum() if gap.sum() > 0 else np.full(k, 1 / k)
        total += 0.5 * s @ (x[order[:k]] - x[i]) ** 2
    return total / n


def test_energies_are_those_of_a_loop():
    x, z = rng(1).normal(size=(N, D)), rng(2).uniform(size=D)
    assert_close(energies(x, z), literal_energies(x, z, K), 1e-10)
    hard = np.array([1.0, 0, 0, 1, 0, 0])
    assert_close(energies(x, hard), literal_energies(x, hard, K), 1e-10)
    twice = np.repeat(x[: N // 2], 2, axis=0)  # distances of 0
    assert_close(energies(twice, hard), literal_energies(twice, hard, K), 1e-10)
    assert np.all(energies(np.ones((N, D)), hard) == 0)  # and ties alone


def test_candidates_that_were_kept_are_ranked_anew():
    x, z = rng(1).normal(size=(N, D)), rng(2).uniform(size=D)
    near = jnp.arange(N)[:, None] + jnp.arange(1, N)[None]  # in an order that means nothing
    assert_close(energies(x, z, near=near % N), literal_energies(x, z, K), 1e-10)


def test_what_is_kept_is_looked_up_every_so_many_steps():
    """Descend (p − kept)² / 2 where kept = p at the step of the last look."""
    objective = _training.Objective(
        loss=lambda task, p, kept, *_: 0.5 * (p - kept + 1) ** 2,
        rounded=lambda task, p: (p, task.relevance),
        look=lambda task, p, *_: p,
    )
    data = task(optimizer=optax.sgd(0.5), refresh_every=3, num_steps=6, num_restarts=1)

    def advance(training, first, last):
        first, last = np.int32(first), np.int32(last)
        return _training.advance(objective, data, training, data.keys[2], first, last)

    begun = _training.begin(data, jnp.zeros(1))
    assert np.all(np.isnan(begun.history))
    whole_run = advance(begun, 0, 6)
    assert_close(whole_run.history[0], np.tile([0.5, 0.125, 0.03125], 2), 1e-12)
    parts = advance(advance(begun, 0, 3), 3, 6)
    assert parts.parameters == whole_run.parameters
    best = _training.best(objective, data, whole_run)
    assert best.logits == whole_run.parameters[0]


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "soft"])
def test_energies_move_with_the_gates(exact):
    x = jnp.asarray(rng(1).normal(size=(N, D)))
    z, direction = rng(2).uniform(size=D), rng(3).normal(size=D)
    soft = task(learner=jaxfs.KNNGraphLearner(K, 0.3, 12), num_searched=12)

    def total(z):
        return jnp.sum(jnp.log(energies(x, z, WHOLE if exact else soft)))

    assert_derivatives(total, z, direction, step=1e-7, rtol=1e-5)  # small: a kink may be near


def test_a_batch_knows_padding():
    x = rng(1).normal(size=(N, D))
    padded = np.concatenate([x, np.full((3, D), 9.0)])
    there = jnp.arange(N + 3) < N
    everything = task(present=there, batch_size=N + 3, num_anchors=N + 3)
    drawn = everything.draw(jax.random.key(0))
    got = energies(padded, np.ones(D), everything, drawn)
    assert_close(got, literal_energies(x, np.ones(D), K), 1e-10)
    few = task(present=there, batch_size=5, num_anchors=9)
    part = few.draw(jax.random.key(0))
    assert len(set(part.tolist())) == 9
    assert np.all(part < N)
    assert few.distances(jnp.asarray(padded), jnp.ones(D), part).shape == (5, 9)


# ---- The modules --------------------------------------------------------------------------------


def test_choices_are_orthogonal_as_s4_says():
    f = rng().uniform(size=(D, 3))
    got = divided_by_root(jnp.asarray(f), jnp.asarray(f), 1e-3)
    ridge = 1e-3 * np.trace(f.T @ f) / 3
    root = np.linalg.cholesky(f.T @ f + ridge * np.eye(3))
    inverse = np.linalg.inv(root)
    assert_close(got, f @ inverse.T, 1e-10)
    assert_close(got.T @ got, np.eye(3) - ridge * inverse @ inverse.T, 1e-10)


@pytest.mark.parametrize("unique", [True, False])
def test_projections_are_products_with_the_choices(unique):
    x, selector = (
        rng(1).normal(size=(N, D)),
        jaxfs.UniqueFeatureSelector(rng(2).normal(size=(D, 3)), unique),
    )
    key = jax.random.key(0)
    got = selector.project(jnp.asarray(x), 0.5, key=key)
    assert_close(got, x @ np.asarray(selector(0.5, key=key)), 1e-10)


def test_projections_are_differentiable_in_the_choices():
    """Through the Gram matrix, whose derivative has a rule; also where two choices are alike."""
    x, direction = rng(1).normal(size=(N, D)), rng(3).normal(size=(D, 3))
    logits = rng(2).normal(size=(D, 3))
    for start in (logits, logits[:, [0, 0, 1]]):
        assert_derivatives(
            lambda logits: jnp.sum(jnp.sin(jaxfs.UniqueFeatureSelector(logits).project(x, 0.5))),
            start,
            direction,
        )


def test_features_are_assigned_once():
    logits = np.zeros((D, 3))
    logits[4] = [3.0, 2.0, 1.0]  # all three want feature 4
    logits[1, 1], logits[2, 2] = 1.5, 0.9
    assert jaxfs.UniqueFeatureSelector(jnp.asarray(logits)).indices().tolist() == [4, 1, 2]
    twice = jaxfs.UniqueFeatureSelector(jnp.asarray(logits), unique=False)
    assert twice.indices().tolist() == [4, 4, 4]
    f = twice(0.5)
    assert_close(jnp.sum(f, axis=0), np.ones(3), 1e-12)
    assert np.any(twice(0.5, key=jax.random.key(0)) != f)


@pytest.mark.parametrize("gamma", [0.0, 0.05])
def test_the_graph_and_the_energy_belong_together(gamma):
    x = rng(1).normal(size=(N, D))
    x[3] = x[5]
    learner = jaxfs.KNNGraphLearner(K, gamma, num_candidates=10)
    model = jaxfs.DirichletSelector(
        jaxfs.UniqueFeatureSelector(jnp.asarray(rng(2).normal(size=(D, 2)))), learner
    )
    energy_of = jax.jit(lambda x: model(x, 0.5))
    value, gradient = jax.jit(jax.value_and_grad(energy_of))(x)
    chosen = x @ model.selector(0.5)
    graph = jax.jit(learner)(chosen)
    assert_close(jnp.sum(graph.weights, axis=1), np.ones(N), 1e-10)
    whole_energy = graphs.dirichlet_energy(chosen, graph.weights, indices=graph.indices)
    assert_close(value, whole_energy / (2 * N), 1e-10)
    if gamma == 0:
        assert_close(value, literal_energies(np.asarray(chosen), np.ones(2), K).mean(), 1e-10)
    assert np.all(np.isfinite(gradient))
    near = jax.jit(learner.candidates)(chosen)
    assert_close(jax.jit(lambda x: model(x, 0.5, candidates=near))(x), value, 1e-12)
    padded = jnp.asarray(np.insert(x, [4, 9], np.nan, axis=0))
    mask = ~jnp.isnan(padded[:, 0])
    energy, slope = jax.jit(jax.value_and_grad(lambda a: model(a, 0.5, mask=mask)))(padded)
    assert_close(energy, value, 1e-10)
    assert np.all(np.isfinite(slope))
    assert np.isnan(energy_of(np.where(np.arange(N)[:, None] == 2, np.nan, x)))


# ---- Training -----------------------------------------------------------------------------------

TOYS = {
    "blobs": lambda seed: make_blobs(
        200, centers=[[-2, -2], [2, 2]], cluster_std=1, random_state=seed
    )[0],
    "moons": lambda seed: make_moons(200, noise=0.1, random_state=seed)[0],
    "circles": lambda seed: make_circles(200, noise=0.1, factor=0.5, random_state=seed)[0],
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("circles", {}),  # the hardest
        pytest.param("blobs", {}, marks=pytest.mark.thorough),
        pytest.param("moons", {}, marks=pytest.mark.thorough),
        pytest.param("moons", {"objective": "energy"}, marks=pytest.mark.thorough),
    ],
    ids=["circles", "blobs", "moons", "moons by the energy"],
)
def test_the_toys_are_found(name, options):
    """The paper's three, section 4.2; `benchmarks/papers/dirichlet_toys.py` has many seeds."""
    x = np.concatenate([TOYS[name](7), rng(7).normal(size=(200, 18))], axis=1).astype("float32")
    order = rng(8).permutation(20)
    found = jaxfs.fit_dirichlet_selector(jax.random.key(0), x[:, order], 2, **options)
    assert set(order[found.indices]) == {0, 1}
    assert set(order[np.argsort(found.relevance)[-2:]]) == {0, 1}
    assert np.all(np.asarray(found.energies)[found.indices] < 0.1)
    assert found.energies.dtype == jnp.float32
    assert np.all(found.failed_at == -1)


def pair(n: int = 40, d: int = 5, seed: int = 0) -> np.ndarray:
    """Features 1 and 3 lie on a curve; the others are noise."""
    x = rng(seed).normal(size=(n, d))
    x[:, 3] = np.sin(2 * x[:, 1]) + 0.1 * x[:, 3]
    return x


STEPS = 30


@functools.cache
def fitted(**options):
    return jax.jit(
        lambda key, x, mask=None: jaxfs.fit_dirichlet_selector(
            key, x, 2, num_neighbors=3, num_steps=STEPS, num_restarts=2, mask=mask, **options
        )
    )


GATES = pytest.mark.parametrize("objective", ["coverage", "energy"])
#: For what both do by the same code.
SHARED = pytest.mark.parametrize(
    "objective", ["coverage", pytest.param("energy", marks=pytest.mark.thorough)]
)


@SHARED
def test_fit_is_pure_and_batches(objective):
    x, key, fit = pair(), jax.random.key(3), fitted(objective=objective)
    first, second = fit(key, x), fit(key, x)
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(second)))
    assert set(first.indices.tolist()) == {1, 3}
    assert first.graph.indices.shape == first.graph.weights.shape == (40, 3)
    assert_close(jnp.sum(first.graph.weights, axis=1), np.ones(40), 1e-10)
    stages = 2 if objective == "energy" else 1
    assert first.energy_history.shape == (2, stages * STEPS)
    many = jax.vmap(fit)(jax.random.split(key, 2), np.stack([pair(seed=1), pair(seed=2)]))
    for i in range(2):
        one = fit(jax.random.split(key, 2)[i], pair(seed=i + 1))
        np.testing.assert_array_equal(many.indices[i], one.indices)


@SHARED
def test_padding_changes_nothing(objective):
    x, key, fit = pair(), jax.random.key(3), fitted(objective=objective)
    rows = np.insert(x, [7, 7, 20], np.nan, axis=0)
    mask = ~np.isnan(rows[:, 0])
    got, expected = fit(key, rows, mask), fit(key, x)
    np.testing.assert_array_equal(got.indices, expected.indices)
    assert_close(got.energies, expected.energies, 1e-8)
    assert np.all(got.graph.indices[~mask] == -1)
    again = fit(key, np.where(mask[:, None], rows, 1e30), mask)
    assert all(map(np.array_equal, jax.tree.leaves(got), jax.tree.leaves(again)))


@GATES
def test_constants_are_left_out_and_nan_is_no_ranking(objective):
    x, key, fit = pair(), jax.random.key(3), fitted(objective=objective)
    x[:, 0] = 4.0
    x[10:20] = x[20:30]  # duplicates too
    found = fit(key, x)
    assert found.varied.tolist() == [False, True, True, True, True]
    assert 0 not in found.indices
    assert len(set(found.indices.tolist())) == 2
    assert found.relevance[0] == 0
    certain = found.indices, found.graph, found.energies, found.relevance
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(certain))
    x[2, 2] = np.nan
    unknown = fit(key, x)
    assert unknown.indices.tolist() == [-1, -1]
    assert np.all(np.isnan(unknown.energies))
    few = fit(key, np.where(np.arange(5) == 1, pair(), 1.0))  # traced: one feature varies
    assert few.indices.tolist() == [-1, -1]


def test_the_network_picks_twice_without_its_cholesky_step():
    """The paper's ablation (Fig. 3e): the lowest energy is that of one feature, twice."""
    x = np.concatenate([TOYS["blobs"](1), rng(1).normal(size=(200, 4))], axis=1).astype("float32")
    fit = functools.partial(
        jaxfs.fit_dirichlet_selector,
        jax.random.key(0),
        x[:80],
        2,
        num_steps=80,
        num_restarts=4,
        temperature=(1.0, 0.2),
    )
    assert set(fit(objective="network").indices.tolist()) == {0, 1}
    first, second = fit(objective=jaxfs.Network(unique=False)).indices.tolist()
    assert first == second


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            {"objective": jaxfs.Coverage(gamma=0.1, batch_size=16), "num_anchors": 24},
            marks=pytest.mark.thorough,
        ),
        {"objective": jaxfs.Energy(0.1, batch_size=16, refresh_every=3), "num_anchors": 60},
        pytest.param(
            {"objective": jaxfs.Energy(batch_size=16), "num_anchors": 24},
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"objective": jaxfs.Network(gamma=0.1, refresh_every=3), "num_anchors": 24},
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["coverage", "soft, kept", "exact", "network, kept"],
)
def test_batches_among_anchors_and_keys_of_the_old_kind(options):
    x = pair(60).astype("float32")
    found = jaxfs.fit_dirichlet_selector(
        jax.random.PRNGKey(0), x, 2, num_steps=8, num_restarts=2, **options
    )
    assert len(set(found.indices.tolist()) - {-1}) == 2
    assert np.all(np.isfinite(found.restart_energies))


def test_exploration_is_skipped_where_the_graph_of_all_features_shows_enough():
    """Eight features on a line, and noise; circles among noise need exploration."""
    x = rng(1).normal(size=(60, 1)) + 0.3 * rng(2).normal(size=(60, 10))
    x[:, 8:] = rng(3).normal(size=(60, 2))
    found = fitted()(jax.random.key(0), x)
    assert np.all(np.isnan(found.energy_history))
    assert np.all(np.isnan(found.restart_energies))
    assert found.failed_at.tolist() == [-1, -1]
    assert np.all(found.relevance[:8] == 1)
    assert np.all(found.relevance[8:] < 1)
    assert set(found.indices.tolist()) < set(range(8))
    options = {"num_neighbors": 3, "num_steps": STEPS, "num_restarts": 2}
    eager = jaxfs.fit_dirichlet_selector(jax.random.key(0), x, 2, **options)
    assert eager.indices.tolist() == found.indices.tolist()
    assert_close(eager.energies, found.energies, 1e-10)
    noise = fitted()(jax.random.key(0), rng(4).normal(size=(60, 10)))
    assert np.all(np.isfinite(noise.energy_history))


@SHARED
def test_a_run_that_fails_stops_and_says_where(objective):
    def spoil(updates, state, params=None):
        return jax.tree.map(lambda u: jnp.where(state == 4, jnp.nan, u), updates), state + 1

    optimizer = optax.GradientTransformation(lambda params: jnp.int32(0), spoil)
    found = fitted(optimizer=optimizer, objective=objective)(jax.random.key(0), pair())
    assert found.failed_at.tolist() == [4, 4]
    assert np.all(np.isfinite(found.energy_history))  # the parameters before it are kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_features": 6}, r"num_features must be an integer in \[1, 5\], got 6"),
        ({"num_neighbors": 39}, r"num_neighbors must be an integer in \[1, 38\], got 39"),
        (
            {"objective": "paper"},
            r"objective must be one of 'coverage', 'energy', 'network', or Coverage\(…\), Energy",
        ),
        ({"objective": jaxfs.Network}, "objective must be one of 'coverage'"),
        ({"temperature": (1.0, 0.0)}, "temperature must be positive, got 0.0"),
        ({"learning_rate": 0}, "learning_rate must be positive"),
        ({"mask": np.arange(40) < 4}, "mask must be true for at least 7 samples, got 4"),
        (
            {"num_candidates": 3, "objective": jaxfs.Coverage(gamma=0.1)},
            "num_candidates must be at least 6, got 3",
        ),
    ],
)
def test_mistakes_are_named(options, message):
    options = {"num_features": 2} | options
    with pytest.raises(ValueError, match=message):
        jaxfs.fit_dirichlet_selector(jax.random.key(0), pair(), **options)


def test_too_few_features_that_vary_are_named():
    with pytest.raises(ValueError, match="num_features must be at most the number of features tha"):
        jaxfs.fit_dirichlet_selector(jax.random.key(0), np.ones((9, 3)), 1)


def test_distances_to_candidates_in_blocks_of_rows(monkeypatch):
    """What bounds memory changes neither the graph nor its derivative."""
    x = jax.random.normal(jax.random.key(0), (23, 4))
    near = jax.jit(jaxfs.KNNGraphLearner(num_candidates=6).candidates)(x)

    def energy(x):
        return jnp.sum(jnp.sin(_network._distances_to(x, near)))

    whole = jax.jit(jax.value_and_grad(energy))(x)
    monkeypatch.setattr(_network, "_AT_ONCE", 5 * 4 * 6)  # five rows, and three are left
    parts = jax.jit(jax.value_and_grad(lambda x: energy(x)))(x)
    assert_close(parts[0], whole[0], 1e-12)
    assert_close(parts[1], whole[1], 1e-12)
    direct = jnp.sum(jnp.square(x[:, None] - x[near]), axis=2)
    assert_close(_network._distances_to(x, near), direct, 1e-12)


# ---- Records of options -------------------------------------------------------------------------


def test_records_mean_the_same_exactly_if_they_are_equal():
    """They are static arguments: equality and hash must tell programs and answers apart."""
    same = [jaxfs.Coverage(), jaxfs.Coverage(gamma=-0.0), jaxfs.Coverage(np.float32(0), None)]
    assert len({*same, jaxfs.Coverage(jnp.zeros(()))}) == 1
    assert all(type(r.gamma) is float and not np.signbit(r.gamma) for r in same)
    assert jaxfs.Coverage() != jaxfs.Energy()  # although the fields that both have are equal
    narrow, wide = jaxfs.Network(np.float32(0.1)), jaxfs.Network(0.1)
    assert narrow != wide  # NumPy calls the two numbers equal
    assert narrow.gamma == float(np.float32(0.1))
    for mistake, message in (
        (lambda: jaxfs.Coverage(gamma=np.nan), "gamma must be at least 0, got nan"),
        (lambda: jaxfs.Coverage(gamma=True), "gamma must be a real number, got True"),
        (lambda: jaxfs.Energy(gamma=-0.1), "gamma must be at least 0, got -0.1"),
        (lambda: jaxfs.Energy(refresh_every=True), "refresh_every must be an integer, got True"),
        (lambda: jaxfs.Network(refresh_every=1.0), "refresh_every must be an integer, got 1.0"),
        (lambda: jaxfs.Network(unique=1), "unique must be True or False, got 1"),
        (lambda: jaxfs.Coverage(batch_size=0), "batch_size must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            mistake()


def test_a_traced_gamma_is_no_constant():
    """One program serves all; candidates among anchors, kept for two steps."""

    @jax.jit
    def history(gamma):
        options = {"num_steps": 3, "num_restarts": 1, "num_anchors": 14}
        objective = jaxfs.Network(gamma=gamma, refresh_every=2)
        return jaxfs.fit_dirichlet_selector(
            jax.random.key(0), pair(20), 2, objective=objective, **options
        ).energy_history

    assert np.all(np.isfinite(history(0.01)))
    assert np.all(history(0.01) != history(1.0))
    with pytest.raises(TypeError, match="unhashable"):
        jax.jit(lambda gamma: hash(jaxfs.Coverage(gamma=gamma)) * gamma)(0.1)
