"""Mutual information of each feature with the class or with a real target, in nats."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._checks import membership
from jaxfs._numerics import varied
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import squarable
from jaxfs.methods.classical import _bins, _knn_information

ESTIMATORS = ("knn", "binned")


def mutual_information_score(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_classes: int,
    estimator: str = "knn",
    num_neighbors: int | None = None,
    num_bins: int | None = None,
    binning: str | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, "d"]:
    """Mutual information of each single feature with the class, I(X_j; Y), in nats.

    "knn" suits features of any kind. r_i is the distance from sample i to its k-th neighbour in its
    class, and m_i is the number of samples of all classes nearer than r_i, including sample i. The
    score is ψ(N) + ψ(k) − ⟨ψ(N_c)⟩ − ⟨ψ(m_i)⟩, or 0 if negative. It equals scikit-learn's
    `mutual_info_classif` without the noise that scikit-learn adds to the features, so it needs no
    seed. "binned": the score is Σ p_bc log(p_bc / p_b p_c) over the table of bins and classes.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_classes`: static, C ≥ 2.
    - `estimator`: static, "knn" or "binned".
    - `num_neighbors`: static, k ≥ 1, by default 3; "knn" only.
    - `num_bins`, `binning`: static; "binned" only. By default 10 bins of equal "frequency"; "width"
      gives bins of equal width.
    - `weights`: `(n,)`, nonnegative sample weights; 0 leaves a sample out. "binned" accepts
      fractional weights; "knn" treats all positive weights alike.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 0 for a constant feature. NaN or infinity in a feature make its own score NaN.
    "knn": if values repeat in a class, ψ(k) − ψ(m_i) is replaced by its mean over arbitrarily small
    noise that breaks the ties. This mean is exact if the k-th neighbour is at distance 0: k and m_i
    become the numbers of equal samples (the discrete estimate with its bias removed to first
    order). Otherwise the mean is approximate. Equal distances between different values may differ
    by rounding, and float32 data have more ties; this changes scores by about 1e-3. A class of k
    samples or fewer raises an error. Under `jit` such a class uses the neighbours that it has, and
    a class of one sample is left out, as in scikit-learn. "binned": the score is biased upwards by
    about (num_bins − 1)(C − 1) / 2N, equally for all features.

    **Derivatives** none, because the score is a function of ranks and counts.

    **Cost** per feature: "knn" takes sorts and bisections, O(n log n); "binned" takes one sort and
    O(n C num_bins) operations. Memory for a chunk of features.

    **Reference** Ross, *Mutual information between discrete and continuous data sets*, 2014; Gao et
    al., *Estimating mutual information for discrete-continuous mixtures*, 2017.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (100, 3))
    >>> y = (x[:, 2] > 0).astype(int)
    >>> int(jnp.argmax(mutual_information_score(x, y, num_classes=2)))
    2
    """
    _checks.option(estimator, "estimator", ESTIMATORS)
    _checks.only_if(estimator == "knn", num_neighbors, "num_neighbors", 'estimator="knn"')
    for value, name in ((num_bins, "num_bins"), (binning, "binning")):
        _checks.only_if(estimator == "binned", value, name, 'estimator="binned"')
    binning = "frequency" if binning is None else binning
    _checks.option(binning, "binning", _bins.BINNINGS)
    k = _checks.integer(3 if num_neighbors is None else num_neighbors, "num_neighbors", low=1)
    num_bins = _checks.integer(10 if num_bins is None else num_bins, "num_bins", low=2)
    x, y, w, num_classes = _checks.labelled_samples(x, y, num_classes, weights)
    if estimator == "binned":
        return _binned(x, y, w, num_classes, num_bins, binning)
    if x.shape[0] * (num_classes + 1) >= 2**31:  # one integer holds a class and a place
        raise _checks.fail("x", "of less than 2³¹ / (num_classes + 1) samples", f"{x.shape}")
    _check_neighbors(y, w, num_classes, k)
    return _knn_information.with_classes(x, y, w > 0, num_classes, min(k, x.shape[0]))


def mutual_information_regression_score(
    x: ArrayLike, y: ArrayLike, *, num_neighbors: int = 3, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Mutual information of each single feature with a real target, I(X_j; Y), in nats.

    The feature and the target are divided by their standard deviations. The distance between two
    samples is the larger of the differences in the feature and in the target. r_i is the distance
    from sample i to its k-th neighbour. m_i and m'_i are the numbers of samples nearer than r_i
    along the feature and along the target, including sample i. The score is
    ψ(N) + ψ(k) − ⟨ψ(m_i) + ψ(m'_i)⟩, or 0 if this is negative. It equals scikit-learn's
    `mutual_info_regression` without the noise that scikit-learn adds.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, real.
    - `num_neighbors`: static, k ≥ 1, less than the number of samples present.
    - `weights`: `(n,)`; weight 0 leaves a sample out, and all positive weights are treated alike.

    **Returns** `(d,)`, at least 0; larger is better.

    **Numerics** 0 for a constant feature or target. NaN or infinity in a feature make its own score
    NaN. NaN or infinity in the target, or too few samples under `jit`, make all scores NaN. If the
    k-th neighbour has the same feature and target as sample i, k is the number of samples with this
    feature and target, and m_i and m'_i are the numbers of equal values, including sample i (Gao et
    al., 2017).

    **Derivatives** none, because the score is a function of ranks and counts.

    **Cost** a sort and four bisections per feature, and up to n²/2 distances. These are computed
    for pairs of samples whose targets are nearer than a k-th neighbour. One outlier can make this
    all pairs.

    **Reference** Kraskov, Stögbauer and Grassberger, *Estimating mutual information*, 2004, eq. 8.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (100, 3))
    >>> int(jnp.argmax(mutual_information_regression_score(x, x[:, 1] ** 2)))
    1
    """
    k = _checks.integer(num_neighbors, "num_neighbors", low=1)
    x, y, w = _checks.samples_with_target(x, y, weights)
    if not _checks.is_traced(w) and (number := np.count_nonzero(np.asarray(w))) <= k:
        raise _checks.fail("num_neighbors", f"less than the {number} samples present", k)
    equal = (w > 0).astype(x.dtype)  # all positive weights are treated alike
    return _knn_information.with_target(x, y, membership(None, equal), k)


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _binned(x, y, w, num_classes: int, num_bins: int, binning: str) -> Float[Array, "d"]:
    x, w = lax.stop_gradient((x, w))
    w = jnp.where((y >= 0) & (y < num_classes), w, 0)
    known = jnp.all(squarable(x) | (w == 0)[:, None], axis=0)
    codes = _bins.bin_codes(x, w, num_bins, binning)
    counts = _bins.joint_counts(codes, y, w, num_bins, num_classes)
    score = jnp.where(varied(x, w > 0), _bins.mutual_information(counts), 0)
    return jnp.where(known, score, jnp.nan)


def _check_neighbors(y, w, num_classes: int, k: int) -> None:
    """Refuse classes with no more than k samples, if labels and weights are concrete."""
    if _checks.is_traced(y) or _checks.is_traced(w):
        return
    sizes = np.bincount(np.asarray(y)[np.asarray(w) > 0], minlength=num_classes)
    if sizes.min() <= k:
        smallest = int(np.argmin(sizes))
        expected = f"less than the {sizes[smallest]} samples of class {smallest}"
        raise _checks.fail("num_neighbors", expected, k)
