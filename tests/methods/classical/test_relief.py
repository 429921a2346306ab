"""ReliefF and RReliefF: against the papers' loops, against skrebate, and at the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from tests.helpers import RTOL, assert_close, assert_derivatives, rng
from tests.methods.classical import relief_oracle as oracle

N, D, K = 45, 5, 4
SIZES = (20, 15, 10)
Y = np.repeat(np.arange(3), SIZES)


def data(dtype: str = "float64") -> np.ndarray:
    """Feature 1 tells the classes apart, 0 and 2 by their product; the last is constant."""
    x = rng(0).normal(size=(N, D)) * np.array([1, 1, 50, 1e-3, 1]) + np.array([0, 0, 1e3, 0, 0])
    x[:, 1] += Y
    x[:, 4] = 7.0
    return x.astype(dtype)


def target(x: np.ndarray) -> np.ndarray:
    return x[:, 1] + 0.3 * rng(1).normal(size=len(x))


relieff = jax.jit(
    jaxfs.relieff_score, static_argnames=("num_classes", "num_neighbors", "block_size")
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relieff_is_the_papers(dtype):
    x = data(dtype)
    score = jaxfs.relieff_score(x, Y, num_classes=3, num_neighbors=K)
    assert score.dtype == dtype
    # float32 may take another of two neighbours that are equally near to its rounding; here not.
    assert_close(score, oracle.relieff(x.astype(float), Y, K), RTOL[dtype])
    assert score[4] == 0


def test_blocks_do_not_change_the_answer():
    x = data()
    whole = relieff(x, Y, num_classes=3, num_neighbors=K)
    assert_close(relieff(x, Y, num_classes=3, num_neighbors=K, block_size=7), whole, 1e-14)


@pytest.mark.parametrize("sigma", [None, 3.0])
def test_rrelieff_is_the_papers(sigma):
    x = data()
    score = jaxfs.rrelieff_score(x, target(x), num_neighbors=7, sigma=sigma)
    assert_close(score, oracle.rrelieff(x, target(x), 7, sigma), RTOL["float64"])
    assert int(jnp.argmax(score)) == 1


def test_skrebate_for_two_classes_is_the_same():
    """Its numbers, and so its ranking; for three classes it leaves out the priors."""
    skrebate = pytest.importorskip("skrebate")
    x = data()[:, :4]
    two = Y[Y < 2]
    peer = skrebate.ReliefF(n_neighbors=K).fit(x[Y < 2], two).feature_importances_
    ours = jaxfs.relieff_score(x[Y < 2], two, num_classes=2, num_neighbors=K)
    assert_close(ours, peer, RTOL["float64"])
    peer = skrebate.ReliefF(n_neighbors=K).fit(x, Y).feature_importances_
    assert_close(peer, oracle.relieff(x, Y, K, priors=False), RTOL["float64"])


def test_duplicates_are_neighbours_at_no_distance():
    """Samples that coincide are told apart by index: of equal distances the first are taken."""
    x = np.repeat(rng(2).integers(0, 2, size=(15, D)).astype(float), 3, axis=0)
    score = relieff(x, Y, num_classes=3, num_neighbors=K)
    assert_close(score, oracle.relieff(x, Y, K), RTOL["float64"])
    x = data()
    x[:, 3] = x[:, 1]
    score = relieff(x, Y, num_classes=3, num_neighbors=K)
    assert score[1] == score[3]


@pytest.mark.parametrize("sigma", [None, 3.0])
def test_weights_of_rrelieff_count_samples(sigma):
    x, w = data(), np.ones(N)
    w[3:6] = (3, 0, 2)
    tau = target(x)
    twice = np.repeat(np.arange(N), w.astype(int))
    got = jaxfs.rrelieff_score(x, tau, num_neighbors=7, sigma=sigma, weights=w)
    assert_close(got, oracle.rrelieff(x[twice], tau[twice], 7, sigma), RTOL["float64"])


def test_gradients_with_the_neighbours_held():
    x = data()

    def some(x):
        score = jaxfs.rrelieff_score(x, x[:, 1] ** 2, num_neighbors=K, sigma=jnp.exp(x[0, 0]))
        return jnp.vdot(score, jnp.arange(1.0, D + 1))

    direction = rng(3).normal(size=x.shape) * np.array([1, 1, 50, 1e-3, 0])
    assert_derivatives(some, x, direction, step=1e-6)


def test_small_classes_are_named_or_have_fewer_neighbours():
    x = data()
    with pytest.raises(
        ValueError, match="num_neighbors must be below the 10 samples of class 2, got 10"
    ):
        jaxfs.relieff_score(x, Y, num_classes=3, num_neighbors=10)
    mask = np.where(Y == 1, np.arange(N) < 23, 1.0)
    with pytest.raises(ValueError, match="below the 3 samples of class 1, got 4"):
        jaxfs.relieff_score(x, Y, num_classes=3, num_neighbors=K, weights=mask)
    with pytest.raises(ValueError, match="each of 4 classes has samples, got none of 3"):
        jaxfs.relieff_score(x, Y, num_classes=4)
    # Traced: the three hits and misses there are, two for each of the class itself.
    traced = relieff(x, Y, num_classes=3, num_neighbors=K, weights=mask)
    assert np.all(np.isfinite(traced))
    alone = relieff(x, Y, num_classes=3, num_neighbors=K, weights=(Y != 1) * 1.0)
    two = np.flatnonzero(Y != 1)
    expected = oracle.relieff(x[two], Y[two], K)
    assert_close(alone, expected, RTOL["float64"])


def test_by_default_as_many_neighbours_as_the_smallest_class_allows():
    """Ten samples a class are nine neighbours for each; more than ten are not taken."""
    x, ten = data(), np.repeat([0, 1], 10)
    for n, y, k in ((20, ten, 9), (N, Y > 0, 10)):
        got = jaxfs.relieff_score(x[:n], y, num_classes=2)
        same = jaxfs.relieff_score(x[:n], y, num_classes=2, num_neighbors=k)
        np.testing.assert_array_equal(got, same)
    half = np.where(np.arange(N) < 30, 0.5, 0.0)  # ten samples of class 1
    got = jaxfs.relieff_score(x, Y > 0, num_classes=2, weights=half)
    same = jaxfs.relieff_score(x, Y > 0, num_classes=2, weights=half, num_neighbors=9)
    np.testing.assert_array_equal(got, same)
    got = jaxfs.rrelieff_score(x[:6], target(x)[:6])
    np.testing.assert_array_equal(got, jaxfs.rrelieff_score(x[:6], target(x)[:6], num_neighbors=5))
    # Labels that are traced say nothing of their number.
    traced = jax.jit(lambda y: jaxfs.relieff_score(x[:20], y, num_classes=2))(ten)
    same = relieff(x[:20], ten, num_classes=2, num_neighbors=10)
    assert_close(traced, same, RTOL["float64"])


def test_bad_input_is_named():
    x = data()
    for call, message in {
        lambda: jaxfs.relieff_score(x, Y, num_classes=3, num_neighbors=0): "in \\[1, 44\\], got 0",
        lambda: jaxfs.relieff_score(x, Y, num_classes=3, num_neighbors=N): "\\[1, 44\\], got 45",
        lambda: jaxfs.relieff_score(x, Y, num_classes=1): "num_classes must be at least 2",
        lambda: jaxfs.relieff_score(x, Y > 0, num_classes=2, block_size=0): "block_size must be",
        lambda: jaxfs.rrelieff_score(x, Y[:3]): "y must be of shape \\(45,\\)",
        lambda: jaxfs.rrelieff_score(x, Y, sigma=-1.0): "sigma must be positive, got -1.0",
        lambda: jaxfs.rrelieff_score(x, Y, num_neighbors=9, weights=np.arange(N) < 9): (
            "below the 9 samples present"
        ),
        lambda: jaxfs.rrelieff_score(x, Y, weights=np.arange(N) < 1): (
            "weights must be such that every sample has a neighbour, got 1 sample present"
        ),
        lambda: jaxfs.rrelieff_score(x[:1], Y[:1]): "x must be .* n ≥ 2 samples, got \\(1, 5\\)",
        lambda: jaxfs.relieff_score(x[:21], Y[:21], num_classes=2): (
            "y must be such that every sample has a neighbour of its class, got 1 sample of class 1"
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_targets_that_say_nothing():
    x = data()
    assert np.all(jaxfs.rrelieff_score(x, np.ones(N)) == 0)
    tau = target(x)
    tau[0] = np.nan
    assert np.all(np.isnan(jaxfs.rrelieff_score(x, tau)))
