"""A network with one hidden layer that reconstructs all features from a few selected ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

#: Batch size and learning rate are those of scikit-learn's networks. More epochs are not better on
#: colon and lung_small, where networks of few features overfit the training samples.
BATCH, EPOCHS, LEARNING_RATE = 200, 100, 1e-3


def rmse(train, test, chosen, units, hidden: int, seed: int) -> float:
    """Root mean squared error of `predict` on `test`."""
    error = predict(train, test, chosen, units, hidden, seed) - test * units
    return float(np.sqrt(np.mean(np.square(error))))


def predict(train, test, chosen, units, hidden: int, seed: int) -> np.ndarray:
    """All features of `test` times `units`, by a ReLU network, trained by Adam on `train`.

    `units (d,)` scale the features in the error; the inputs of the network are not scaled.

    If there are fewer samples than features, the network predicts coordinates in the span of the
    training samples, one number per sample. Predictions that fit the training samples lie in this
    span, and a network for thousands of genes costs no more than one for tens. The basis is random,
    so that all outputs have about the same variance, as the features have. Adam on coordinates
    differs from Adam on features: compare methods with each other, not with published numbers.
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
    return unit * np.asarray(predicted) @ basis


@functools.partial(jax.jit, static_argnames="hidden")
def _fit_predict(key, x, y, x_test, hidden: int):
    (n, m), r = x.shape, y.shape[1]
    first, drawn = jax.random.split(key)
    params = {
        "in": jax.nn.initializers.he_normal()(first, (m, hidden)),
        "bias": jnp.zeros(hidden),
        "out": jnp.zeros((hidden, r)),  # few samples cannot remove the noise of a random start
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
