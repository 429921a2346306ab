"""Claim: a function of a symmetric matrix costs at most 1.3 times one `eigh` plus one product.

python -m benchmarks.speed.spectral_functions
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import best, finish, verdict
from jaxfs import linalg

BAR = 1.3


def cubic_difference(x, y):
    return x * x + x * y + y * y


FUNCTIONS = {
    "sqrtm": linalg.sqrtm,
    "logm": linalg.logm,
    "powm": lambda a: linalg.powm(a, 0.3),
    "absm": linalg.absm,
    "expm": lambda a: linalg.expm(-a),
    "inv_sqrtm": linalg.inv_sqrtm,
    "cube": lambda a: linalg.spectral_function(a, lambda x: x**3, cubic_difference),
}


@jax.jit
def unit(a):
    w, v = jnp.linalg.eigh(a, symmetrize_input=False)
    return w, v @ v.T


def measure(name: str, d: int, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(d, 2 * d))
    a = jnp.asarray(x @ x.T / d, dtype)
    f = FUNCTIONS[name]
    value, gradient = jax.jit(f), jax.jit(jax.grad(lambda a: jnp.sum(f(a))))
    reference, own, slope = best(lambda: unit(a), lambda: value(a), lambda: gradient(a))
    ratio = verdict(own / reference, BAR)
    print(f"{dtype} d={d:5d} {name:9s} {ratio}   gradient / value {slope / own:4.2f}")


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("time / (eigh + product) of the same dtype, best of five, without compilation")
    for dtype in ("float64", "float32"):
        for d in (500, 1000):
            for name in FUNCTIONS:
                measure(name, d, dtype)


if __name__ == "__main__":
    main()
    finish()
