"""A network of one hidden layer that predicts all features from a few: how much those tell."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

#: Batches and rate are those of scikit-learn's networks. So many epochs do no worse than more on
#: colon and lung_small, where networks for few features learn the training samples by heart.
BATCH, EPOCHS, LEARNING_RATE = 200, 100, 1e-3


def rmse(train, test, chosen, units, hidden: int, seed: int) -> float:
    """Root mean squared error on `test` of a network of ReLUs, trained by Adam on `train`.

    `units (d,)` are those of the error: features are predicted in them, and read as they are.

    Where there are fewer samples than features, the outputs are coordinates in the span of the
    training samples, which are as many numbers as samples: predictions that fit these lie there,
    and a network for thousands of genes costs no more than one for tens. The basis is a random one,
    so that outputs have about the same variance, as the features have. Adam on coordinates is
    not Adam on features: compare methods, not numbers with those of others.
    """
    (n, d), goal = train.shape, train * units
    basis = np.eye(d, dtype=train.dtype)
    if n < d:
        rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
        basis = rotation @ np.linalg.svd(goal, full_matrices=False)[2]
    unit = np.sqrt(d / len(basis))
    targets = (goal @ basis.T / unit).astype(np.float32)
    predicted = _fit_predict(
        jax.random.key(seed),
        train[:, chosen].astype(np.float32),
        targets,
        test[:, chosen].astype(np.float32),
        hidden,
    )
    error = unit * np.asarray(predicted) @ basis - test * units
    return float(np.sqrt(np.mean(np.square(error))))


@functools.partial(jax.jit, static_argnames="hidden")
def _fit_predict(key, x, y, x_test, hidden: int):
    (n, m), r = x.shape, y.shape[1]
    first, drawn = jax.random.split(key)
    params = {
        "in": jax.nn.initializers.he_normal()(first, (m, hidden)),
        "bias": jnp.zeros(hidden),
        "out": jnp.zeros((hidden, r)),  # or it starts from noise, and few samples leave it there
        "mean": jnp.zeros(r),
    }
    optimizer = optax.adam(LEARNING_RATE)

    def predict(params, x):
        return jax.nn.relu(x @ params["in"] + params["bias"]) @ params["out"] + params["mean"]

    def loss(params, rows):
        return jnp.mean(jnp.square(predict(params, x[rows]) - y[rows]))

    def step(state, key):
        params, moments = state
        rows = jnp.arange(n) if n <= BATCH else jax.random.randint(key, (BATCH,), 0, n)
        updates, moments = optimizer.update(jax.grad(loss)(params, rows), moments)
        return (optax.apply_updates(params, updates), moments), None

    start = (params, optimizer.init(params))
    keys = jax.random.split(drawn, EPOCHS * -(-n // BATCH))
    (params, _), _ = jax.lax.scan(step, start, keys)
    return predict(params, x_test)
