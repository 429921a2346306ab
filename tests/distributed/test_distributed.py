"""The answers of one device from several, and from several processes."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs import distributed
from tests.distributed.problem import RANK, answers, problem
from tests.helpers import rng

ROOT = Path(__file__).parents[2]
KEY = jax.random.key(3)


def mesh_of(number: int, explicit: bool = True) -> jax.sharding.Mesh:
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto
    return jax.make_mesh((number,), ("data",), (kind,), devices=jax.devices()[:number])


@pytest.fixture(scope="module")
def expected():
    """By the functions that know of no mesh."""
    p = problem()
    x1, x2 = p["x"][p["y"] == 0], p["x"][p["y"] == 1]
    chosen = jaxfs.gc_select(p["x"], p["y"], 5, num_classes=2)
    batch = np.array(jax.vmap(jaxfs.manifest_score)(*p["sets"]))
    batch[0] = np.nan
    return {
        "batch": batch,
        "score": jaxfs.manifest_lowrank_score(KEY, x1, x2, rank=RANK),
        "indices": chosen.indices,
        "objective": chosen.objective,
    }


def assert_expected(got, expected) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.thorough
@pytest.mark.parametrize(("devices", "explicit"), [(3, True), (2, False)])
def test_one_process(devices, explicit, expected):
    assert_expected(answers(mesh_of(devices, explicit)), expected)


# ---- Several processes --------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def together(commands: list[list[str]], folder: Path, seconds: float) -> None:
    """Run until all have ended well; the first that does not ends all, and is quoted."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    logs = [folder / f"{rank}.log" for rank in range(len(commands))]
    running = []
    for command, log in zip(commands, logs, strict=True):
        with log.open("w") as out:
            running.append(
                subprocess.Popen(command, env=environment, cwd=ROOT, stdout=out, stderr=out)
            )
    end = time.monotonic() + seconds
    try:
        while any(p.poll() is None for p in running) or any(p.poll() for p in running):
            for rank, process in enumerate(running):
                if process.poll():
                    words = logs[rank].read_text()[-3000:]
                    pytest.fail(f"process {rank} ended with {process.returncode}:\n{words}")
            if time.monotonic() > end:
                words = "\n".join(log.read_text()[-1500:] for log in logs)
                pytest.fail(f"not finished within {seconds:.0f} s:\n{words}")
            time.sleep(0.1)
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_two_processes_of_two_devices(tmp_path, expected):
    port = free_port()
    files = [tmp_path / f"{rank}.npz" for rank in range(2)]
    worker = [sys.executable, "-m", "tests.distributed.problem", str(port)]
    together([[*worker, str(rank), "2", str(f)] for rank, f in enumerate(files)], tmp_path, 180)
    for file in files:
        got = np.load(file)
        assert got["devices"] == 4
        assert_expected(got, expected)


def test_a_process_that_dies_is_quoted_at_once(tmp_path):
    die = [sys.executable, "-c", "raise SystemExit('out of luck')"]
    wait = [sys.executable, "-c", "import time; time.sleep(60)"]
    start = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match="process 1 ended with 1:\nout of luck"):
        together([wait, die], tmp_path, seconds=60)
    assert time.monotonic() - start < 30


FOREVER = """
import sys, jax, numpy as np
address, rank = sys.argv[1:]
jax.distributed.initialize(address, 2, int(rank), heartbeat_timeout_seconds=10)
from jaxfs.distributed import sharded_gc_select
mesh = jax.make_mesh((2,), ("data",))
x, y = np.random.default_rng(0).normal(size=(64, 200)), np.arange(64) % 2
while True:
    chosen = sharded_gc_select(x, y, 100, num_classes=2, mesh=mesh, axis="data")
    jax.block_until_ready(chosen)
    print("chosen", flush=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("lost", [1, 0])
def test_a_lost_process_is_told_of(tmp_path, lost):
    """Killed while both compute together; 30 s is what the documentation promises."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    logs, running = [tmp_path / "0.log", tmp_path / "1.log"], []
    address = f"127.0.0.1:{free_port()}"
    for rank, log in enumerate(logs):
        command = [sys.executable, "-c", FOREVER, address, str(rank)]
        with log.open("w") as out:
            running.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
    try:
        end = time.monotonic() + 180
        while any(log.read_text().count("chosen") < 2 for log in logs):
            assert time.monotonic() < end, logs[0].read_text() + logs[1].read_text()
            assert all(process.poll() is None for process in running), logs[0].read_text()
            time.sleep(0.1)
        running[lost].kill()
        assert running[1 - lost].wait(30) != 0
    finally:
        for process in running:
            process.kill()
            process.wait()
    words = logs[1 - lost].read_text()
    reasons = ("Connection closed by peer", "heartbeat timeout", "Socket closed")
    assert any(reason in words for reason in reasons), words


# ---- Many data sets -----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3, 8])
@pytest.mark.parametrize("replicate", [False, True])
def test_answers_come_in_order(number, replicate):
    """Any pytree of answers, from fewer data sets than devices, too."""
    x = np.arange(2.0 * number).reshape(number, 2)
    run = distributed.map_datasets(
        lambda a: {"twice": 2 * a}, mesh_of(3), batch_size=2, replicate=replicate
    )
    np.testing.assert_array_equal(run(x)["twice"], 2 * x)
    np.testing.assert_array_equal(run(list(x))["twice"], 2 * x)
    np.testing.assert_array_equal(run(jnp.asarray(x))["twice"], 2 * x)


def test_data_that_is_already_spread():
    mesh = mesh_of(3)
    x = jax.device_put(np.arange(12.0).reshape(6, 2), jax.NamedSharding(mesh, jax.P("data")))
    out = distributed.map_datasets(jnp.sum, mesh)(x)
    np.testing.assert_array_equal(out, np.arange(12.0).reshape(6, 2).sum(axis=1))
    assert len(out.sharding.device_set) == 3


def test_a_mesh_in_force():
    mesh = mesh_of(2)
    with jax.set_mesh(mesh):
        out = distributed.map_datasets(jnp.sum, mesh)(np.ones((3, 2)))
    np.testing.assert_array_equal(out, [2.0, 2.0, 2.0])


def test_several_axes():
    mesh = jax.make_mesh((1, 3), ("host", "chip"))
    x = np.arange(10.0).reshape(5, 2)
    for axis in (None, "chip", ("host", "chip")):
        out = distributed.map_datasets(jnp.sum, mesh, axis=axis)(x)
        np.testing.assert_array_equal(out, x.sum(axis=1))


def test_mistakes_are_named():
    mesh, x = mesh_of(2), rng().normal(size=(4, 5, 3))
    with pytest.raises(ValueError, match=r"axis must be of the mesh, which has 'data', got 'rows'"):
        distributed.map_datasets(jnp.sum, mesh, axis="rows")
    run = distributed.map_datasets(jaxfs.manifest_score, mesh)
    with pytest.raises(ValueError, match=r"argument 1 must be data sets of one shape; `bucket`"):
        run(x, [x[0], x[1][:, :2]])
    with pytest.raises(ValueError, match=r"of the same number of data sets, got \[3, 4\]"):
        run(x, x[:3])
    with pytest.raises(ValueError, match=r"data sets on its first axis, got shape \(0,\)"):
        run([], [])
    options = {"mesh": mesh, "axis": "rows"}
    with pytest.raises(ValueError, match=r"axis must be of the mesh"):
        distributed.sharded_gc_select(x[0], np.zeros(5, int), 2, num_classes=2, **options)
    with pytest.raises(ValueError, match=r"axis must be of the mesh"):
        distributed.sharded_manifest_score(KEY, x[0], x[1], rank=2, **options)
    options["axis"] = ("data",)
    with pytest.raises(ValueError, match=r"axis must be the name of one axis"):
        distributed.sharded_manifest_score(KEY, x[0], x[1], rank=2, **options)
    options["axis"] = "data"
    with pytest.raises(ValueError, match=r"rank must be an integer in \[1, 3\], got 4"):
        distributed.sharded_manifest_score(KEY, x[0], x[1], rank=4, **options)
    with pytest.raises(ValueError, match=r"num_features must be an integer in \[1, 3\], got 4"):
        distributed.sharded_gc_select(x[0], np.arange(5) % 2, 4, num_classes=2, **options)


# ---- Data sets of different sizes ---------------------------------------------------------------


def test_bucket_pads_without_weight():
    generator = rng(1)
    sizes = [(5, 9, 4), (12, 7, 4), (6, 8, 4), (5, 5, 3), (11, 8, 4)]

    def difference(a, b, v, w):
        """Difference of the weighted means of two classes."""
        return (v @ a) / jnp.sum(v) - (w @ b) / jnp.sum(w)

    datasets = [(generator.normal(size=(n, d)), generator.normal(size=(m, d))) for n, m, d in sizes]
    buckets = distributed.bucket(datasets, num_shapes=2)
    assert len(buckets) == 3
    assert sorted(i for b in buckets for i in b.places) == [0, 1, 2, 3, 4]
    run = distributed.map_datasets(difference, mesh_of(2))
    out = distributed.unbucket(buckets, [run(*b.arrays, *b.weights) for b in buckets])
    for (a, b), answer in zip(datasets, out, strict=True):
        np.testing.assert_allclose(answer, a.mean(axis=0) - b.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("labels", [True, False])
def test_bucket_of_samples_and_labels(labels):
    generator = rng(2)
    sets = [generator.normal(size=(n, 3)) for n in (4, 6, 20)]
    targets = [np.arange(len(x)) % 2 for x in sets]
    buckets = distributed.bucket(zip(sets, targets, strict=True) if labels else sets, num_shapes=2)
    assert sorted(b.arrays[0].shape for b in buckets) == [(1, 20, 3), (2, 6, 3)]
    for b in buckets:
        assert len(b.arrays) == 1 + labels
        for row, i in enumerate(b.places):
            (weights,) = b.weights
            np.testing.assert_array_equal(b.arrays[0][row][weights[row] == 1], sets[i])
            assert weights[row].sum() == len(sets[i])
            if labels:
                np.testing.assert_array_equal(b.arrays[1][row][: len(sets[i])], targets[i])


def test_ten_thousand_sizes_become_a_few():
    sizes = rng(3).integers(20, 800, size=2000)
    buckets = distributed.bucket([np.zeros((n, 1), np.float32) for n in sizes], num_shapes=4)
    assert len(buckets) == 4
    padded = sum(b.arrays[0].shape[0] * b.arrays[0].shape[1] for b in buckets)
    assert padded < 1.3 * sizes.sum()
    one = distributed.bucket([np.zeros((n, 1), np.float32) for n in sizes], num_shapes=1)
    assert [b.arrays[0].shape[0] for b in one] == [2000]


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ([], "datasets must be at least one"),
        ([np.zeros(3)], r"data set 0 must be \(x1, x2\), \(x, y\) or x, got shapes \(3,\)"),
        ([(np.zeros((3, 2)), np.zeros(2))], "as many labels as samples"),
        ([(np.zeros((3, 2)), np.zeros((3, 4)))], "as many features in both classes"),
        ([np.zeros((3, 2)), (np.zeros((3, 2)), np.zeros(3))], "of one kind and dtype"),
        ([(np.zeros((2, 2)), np.array(["a", "b"]))], "data set 0 must be an array of real numbers"),
        ([()], r"data set 0 must be \(x1, x2\), \(x, y\) or x"),
    ],
)
def test_bucket_names_mistakes(datasets, message):
    with pytest.raises(ValueError, match=message):
        distributed.bucket(datasets)


# ---- One data set -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "explicit"),
    [
        ({"landmarks": 23, "bandwidth": 4.0, "t": 0.3}, False),
        ({"refine": 2}, True),
        ({"block": 6}, False),
    ],
    ids=["landmarks", "refine", "block"],
)
def test_features_spread(options, explicit):
    p = problem()
    x1, x2 = p["x"][:N1], p["x"][N1:]
    w = rng(4).uniform(size=len(x1))
    options = {"rank": RANK, "weights1": w, **options}
    over = {"mesh": mesh_of(3, explicit), "axis": "data"}
    got = distributed.sharded_manifest_score(KEY, x1, x2, **over, **options)
    np.testing.assert_allclose(got, jaxfs.manifest_lowrank_score(KEY, x1, x2, **options), atol=1e-9)


N1 = 30


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "entropy", "ridge": 1e-3},
        {"fallback": "random", "key": KEY, "shrinkage": 0.0},
        {"initial": [7, 2]},
    ],
    ids=["entropy", "random", "initial"],
)
def test_samples_spread(options):
    """Uneven classes, weights, a device whose samples have none, and a constant feature."""
    p = problem()
    x, y = p["x"].copy(), np.sort(p["y"])
    x[:, 0] = 1e3
    w = rng(5).uniform(size=len(x))
    w[:21] = 0
    w[21:25] = 1
    options = {"num_classes": 2, "weights": w, **options}
    mesh = mesh_of(3, explicit="initial" not in options)
    got = distributed.sharded_gc_select(x, y, 6, mesh=mesh, axis="data", **options)
    expected = jaxfs.gc_select(x, y, 6, **options)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_allclose(got.objective, expected.objective, atol=1e-9)
    assert 0 not in got.indices


def spread(x, mesh, *spec):
    return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))


def test_data_that_lie_on_the_mesh():
    """Data on explicit mesh axes, inside and outside of `jax.set_mesh`."""
    mesh, p = mesh_of(2), problem()
    x, y = spread(p["x"], mesh, "data"), spread(p["y"], mesh, "data")
    got = distributed.sharded_gc_select(x, y, 3, num_classes=2, mesh=mesh, axis="data")
    expected = jaxfs.gc_select(p["x"], p["y"], 3, num_classes=2)
    np.testing.assert_array_equal(got.indices, expected.indices)
    x1, x2 = p["x"][:, :22].reshape(2, -1, 22)
    expected = jaxfs.manifest_lowrank_score(KEY, x1, x2, rank=RANK)
    with jax.set_mesh(mesh):
        got = distributed.sharded_manifest_score(
            KEY, spread(x1, mesh, None, "data"), x2, rank=RANK, mesh=mesh, axis="data"
        )
    np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("d", "rank", "ridge"),
    [(2, 1, 1e-2), (4, 4, 0.0), pytest.param(5, 5, 1e-2, marks=pytest.mark.thorough)],
)
def test_fewer_features_than_the_devices_could_take(d, rank, ridge):
    x1, x2 = rng(6).normal(size=(2, 9, d))
    options = {"rank": rank, "ridge": ridge, "bandwidth": 2.0}
    got = distributed.sharded_manifest_score(KEY, x1, x2, mesh=mesh_of(3), axis="data", **options)
    expected = jaxfs.manifest_lowrank_score(KEY, x1, x2, **options)
    assert np.all(np.isfinite(expected))
    np.testing.assert_allclose(got, expected, atol=1e-9)


def test_gradient_over_a_mesh():
    x1, x2 = rng(7).normal(size=(2, 8, 7))
    weight = jnp.arange(7.0)
    options = {"rank": 3, "refine": 1}
    over = {"mesh": mesh_of(2), "axis": "data"}

    def loss(score, x1):
        return jnp.vdot(weight, score(KEY, x1, x2, **options))

    alone = jax.jit(jax.grad(lambda x: loss(jaxfs.manifest_lowrank_score, x)))(x1)
    mapped = lambda *a, **o: distributed.sharded_manifest_score(*a, **o, **over)  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: loss(mapped, x)))(x1), alone, atol=1e-7)


def test_mapping_inside_jit():
    run = distributed.map_datasets(jnp.sum, mesh_of(2, explicit=False))
    np.testing.assert_array_equal(jax.jit(run)(np.ones((3, 2))), [2.0, 2.0, 2.0])
