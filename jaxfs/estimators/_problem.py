"""The data of one fit, as the core takes them: padded samples, codes of classes, weights.

The folds of a cross-validation differ by a sample or two, and every new shape is compiled anew. So
samples are padded, by an eighth at most, to sizes that repeat; the padding has weight 0 and no
influence.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

#: From so many samples on, computing takes longer than compiling.
_LARGE = 4096


def padded_size(n: int) -> int:
    """The next multiple of an eighth of the power of two below n, and of 8.

    >>> [padded_size(n) for n in (5, 30, 455, 456, 5000)]
    [8, 32, 480, 480, 5000]
    """
    if n >= _LARGE:
        return n
    step = max(8, 2 ** (n.bit_length() - 4))
    return -(-n // step) * step


@dataclasses.dataclass(frozen=True)
class Problem:
    """Samples `values (n, d)` and, unless it is unsupervised, a target `(n,)`.

    The target holds codes of classes, 0 … `num_classes` − 1, or numbers (`num_classes` 0).
    """

    values: np.ndarray
    target: np.ndarray | None
    num_classes: int

    @property
    def num_samples(self) -> int:
        return self.values.shape[0]

    @property
    def num_features(self) -> int:
        return self.values.shape[1]

    @functools.cached_property
    def class_sizes(self) -> np.ndarray:
        assert self.target is not None
        return np.bincount(self.target, minlength=self.num_classes)

    @functools.cached_property
    def x(self) -> Array:
        return _padded(self.values)

    @functools.cached_property
    def y(self) -> Array:
        assert self.target is not None
        return _padded(self.target)

    @functools.cached_property
    def weights(self) -> Array:
        return _padded(np.ones(self.num_samples, self.values.dtype))

    def of_class(self, code: int) -> tuple[Array, Array]:
        """The samples of one class, and their weights."""
        rows = self.values[self.target == code]
        return _padded(rows), _padded(np.ones(rows.shape[0], rows.dtype))


def _padded(values: np.ndarray) -> Array:
    more = padded_size(values.shape[0]) - values.shape[0]
    return jnp.asarray(np.pad(values, [(0, more)] + [(0, 0)] * (values.ndim - 1)))


def random_key(random_state: int | np.random.RandomState | None) -> Array:
    from sklearn.utils import check_random_state

    return jax.random.key(int(check_random_state(random_state).randint(2**31 - 1)))
