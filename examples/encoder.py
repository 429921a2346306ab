"""Train an Equinox network through the ManiFeSt score, so that it learns features.

Two hidden sources are positively correlated in one class and negatively in the other. Thirty
sensors record mixtures of all sources, but no sensor records both of these two. Each sensor
therefore has the same distribution in both classes, and no score of single sensors can find a
difference. The encoder learns the mixtures of sensors whose associations differ most, by gradient
ascent on the sum of their scores.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.feature_selection import mutual_info_classif
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import jaxfs

NUM_SENSORS, NUM_SOURCES, NUM_FEATURES = 30, 10, 4
NUM_TRAIN, NUM_TEST = 150, 2000  # per class


def draw(generator: np.random.Generator, mixing: np.ndarray, sign: float, n: int) -> np.ndarray:
    """Samples (n, sensors) of one class."""
    sources = generator.normal(size=(n, NUM_SOURCES))
    sources[:, 1] = sign * sources[:, 0] + 0.3 * sources[:, 1]
    noise = 0.1 * generator.normal(size=(n, NUM_SENSORS))
    return (sources @ mixing + noise).astype(np.float32)


class Encoder(eqx.Module):
    """One linear layer from the sensors to a few features."""

    layer: eqx.nn.Linear

    def __init__(self, key: jax.Array):
        self.layer = eqx.nn.Linear(NUM_SENSORS, NUM_FEATURES, use_bias=False, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return jax.vmap(self.layer)(x)


def scores(encoder: Encoder, x1: jax.Array, x2: jax.Array) -> jax.Array:
    """ManiFeSt scores of the encoded features, with both classes standardised together."""
    z1, z2 = encoder(x1), encoder(x2)
    z = jnp.concat([z1, z2])
    centre, scale = z.mean(axis=0)[None], z.std(axis=0)[None]
    return jaxfs.manifest_score((z1 - centre) / scale, (z2 - centre) / scale)


def train(
    encoder: Encoder, x1: jax.Array, x2: jax.Array, steps: int
) -> tuple[Encoder, list[float]]:
    optimiser = optax.adam(1e-2)

    @eqx.filter_jit
    def step(encoder, state):
        loss, slope = eqx.filter_value_and_grad(lambda e: -scores(e, x1, x2).sum())(encoder)
        updates, state = optimiser.update(slope, state)
        return eqx.apply_updates(encoder, updates), state, loss

    state = optimiser.init(eqx.filter(encoder, eqx.is_array))
    history = []
    for _ in range(steps):
        encoder, state, loss = step(encoder, state)
        history.append(-float(loss))
    return encoder, history


def accuracy(train_x, train_y, test_x, test_y) -> float:
    """Accuracy of an RBF-SVM on test samples."""
    model = make_pipeline(StandardScaler(), SVC())
    return float(model.fit(train_x, train_y).score(test_x, test_y))


def main() -> None:
    jaxfs.enable_compilation_cache()  # later runs load the compiled programs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--steps", type=int, default=400, help="training steps (default: %(default)s)"
    )
    steps: int = parser.parse_args().steps

    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(NUM_SOURCES, NUM_SENSORS))
    mixing[0, ::2] = mixing[1, 1::2] = 0
    x1, x2 = (draw(generator, mixing, sign, NUM_TRAIN) for sign in (1.0, -1.0))
    t1, t2 = (draw(generator, mixing, sign, NUM_TEST) for sign in (1.0, -1.0))
    x, t = np.concatenate([x1, x2]), np.concatenate([t1, t2])
    y, ty = np.repeat([0, 1], NUM_TRAIN), np.repeat([0, 1], NUM_TEST)

    before = Encoder(jax.random.key(0))
    after, history = train(before, jnp.asarray(x1), jnp.asarray(x2), steps)
    print(f"sum of the scores: {history[0]:.3f} before, {history[-1]:.3f} after {steps} steps")

    best = np.argsort(-mutual_info_classif(x, y, random_state=0))[:NUM_FEATURES]
    print(f"accuracy on {2 * NUM_TEST} new samples, {NUM_FEATURES} features each:")
    print(f"  sensors of most information  {accuracy(x[:, best], y, t[:, best], ty):.1%}")
    for name, encoder in (("random encoder", before), ("trained encoder", after)):
        z, tz = np.asarray(encoder(jnp.asarray(x))), np.asarray(encoder(jnp.asarray(t)))
        print(f"  {name:28s} {accuracy(z, y, tz, ty):.1%}")
    print(f"  all {NUM_SENSORS} sensors               {accuracy(x, y, t, ty):.1%}")


if __name__ == "__main__":
    main()
