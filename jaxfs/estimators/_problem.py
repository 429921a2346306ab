"""The data of one fit, as the core takes them: padded samples, codes of classes, weights.

The folds of a cross-validation differ by a sample or two, and every new shape is compiled anew. So
samples are padded to sizes that repeat; the padding has weight 0 and no influence. Few features are
padded too, by columns of zeros, for methods to which constant features are as if absent.
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
    """Up to 128 the next power of two from 32 on; then within an eighth above n.

    >>> [padded_size(n) for n in (5, 80, 150, 455, 456, 5000)]
    [32, 128, 160, 480, 480, 5000]
    """
    if n >= _LARGE:
        return n
    if n <= 128:
        return max(32, 2 ** (n - 1).bit_length())
    step = 2 ** (n.bit_length() - 4)
    return -(-n // step) * step


def padded_width(d: int) -> int:
    """The next multiple of 8, for less than 64."""
    return d if d >= 64 else -(-d // 8) * 8


@dataclasses.dataclass(frozen=True)
class Problem:
    """Samples `values (n, d)` and, unless it is unsupervised, a target `(n,)`.

    The target holds codes of classes, 0 … `num_classes` − 1, or numbers (`num_classes` 0).
    """

    values: np.ndarray
    target: np.ndarray | None
    num_classes: int
    pad_features: bool = False

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
        d = self.num_features
        more = padded_width(d) - d if self.pad_features else 0
        return _padded(np.pad(self.values, [(0, 0), (0, more)]))

    @functools.cached_property
    def y(self) -> Array:
        assert self.target is not None
        return _padded(self.target)

    @functools.cached_property
    def weights(self) -> Array:
        return _padded(np.ones(self.num_samples, self.values.dtype))

    def neighbors(self, wanted: int, name: str) -> int:
        """So many neighbours in every class, or as many as the smallest class allows."""
        least = int(self.class_sizes.min())
        if least < 2:
            raise ValueError(f"{name} needs at least 2 samples of every class, got 1 sample of one")
        return min(wanted, least - 1)

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
