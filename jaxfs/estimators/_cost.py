"""What a fit will need, told before it starts: memory, and roughly the time.

Times are counts of operations over the speed of one core, which one small product and one small
`eigh` of NumPy measure. They are rough: a factor of two or three either way.
"""

import functools
import time
from typing import NamedTuple

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from jaxfs.streaming import _memory

#: So many seconds are told of before they begin.
LONG = 600.0
#: A share of the free memory is left to others.
_SHARE = 0.85


class Cost(NamedTuple):
    """Predicted memory in bytes, and seconds of one core without compilation."""

    bytes: float
    seconds: float

    def __str__(self) -> str:
        return f"about {_memory.readable(self.bytes)} and {readable_seconds(self.seconds)}"


class Work(NamedTuple):
    """What is to be done: numbers held at once, and operations of three kinds.

    `products`: multiplications and additions in products of matrices; `cubes`: d³ of each symmetric
    eigendecomposition; `passes`: numbers read by simple arithmetic.
    """

    numbers: float
    products: float = 0.0
    cubes: float = 0.0
    passes: float = 0.0


def cost(work: Work, dtype: np.dtype) -> Cost:
    speed = _speed()
    half = 0.5 if dtype == np.float32 else 1.0
    seconds = half * (
        work.products / speed.products + work.cubes / speed.cubes + work.passes / speed.passes
    )
    return Cost(work.numbers * dtype.itemsize, seconds)


class _Speed(NamedTuple):
    products: float
    cubes: float
    passes: float


@functools.cache
def _speed() -> _Speed:
    """Operations a second in float64, measured once in some hundredths of a second."""
    a = np.random.default_rng(0).normal(size=(384, 384))
    a = a + a.T
    square, cube = 2 * a.size * a.shape[0], a.shape[0] ** 3
    products = square / _fastest(lambda: a @ a)
    # Small decompositions run at half the speed of large ones.
    cubes = 2 * cube / _fastest(lambda: np.linalg.eigh(a))
    passes = a.size / _fastest(lambda: np.abs(a - 1.0))
    if jax.default_backend() != "cpu":  # an accelerator, of the slower kind
        products, cubes, passes = 50 * products, 5 * cubes, 50 * passes
    return _Speed(products, cubes, passes)


def _fastest(f, times: int = 5) -> float:
    out = []
    with threadpool_limits(limits=1):  # several threads wait for each other where others compute
        for _ in range(times):
            start = time.thread_time()  # of this thread, whoever else uses the machine just now
            f()
            out.append(time.thread_time() - start)
    return max(min(out), 1e-6)


def free_memory() -> float:
    """Bytes that the device JAX computes on has left; infinite where that is not known."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "bytes_limit" in stats:
        return _SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return _SHARE * _memory.free()


def readable_seconds(number: float) -> str:
    if number < 1:
        return "less than a second"
    if number < 100:
        return f"{number:.0f} s"
    return f"{number / 60:.0f} minutes" if number < 6000 else f"{number / 3600:.0f} hours"
