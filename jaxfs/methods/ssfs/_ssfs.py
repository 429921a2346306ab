"""SSFS: unsupervised scores from those eigenvectors of a graph that models predict stably.

The eigenvectors v_i of the graph's Laplacian are made pseudo-labels y_i of the samples, in two
groups each. Of d of them those k are kept on which a model fitted on parts of the samples gives the
features the most stable scores s_m(h_i) (Algorithm 1); then a feature's score is the best that
models of all samples give it (Algorithm 2):

    Ŝ_i = Σ_m Var_b s_m(h_ib),    score(m) = max_{i kept} s_m(f_i).
"""

from jaxtyping import Array

from jaxfs import _checks
from jaxfs._types import ArrayLike
from jaxfs.methods.ssfs import _steps
from jaxfs.methods.ssfs._options import Leading as Leading
from jaxfs.methods.ssfs._options import Predictable as Predictable
from jaxfs.methods.ssfs._options import Stable as Stable
from jaxfs.methods.ssfs._options import check_arguments
from jaxfs.methods.ssfs._steps import SSFSResult as SSFSResult
from jaxfs.surrogates.models import ScoringModel


def ssfs(
    key: Array,
    x: ArrayLike,
    *,
    num_pseudo_labels: int,
    num_eigenvectors: int | None = None,
    standardize: bool = True,
    mask: ArrayLike | None = None,
    num_neighbors: int = 2,
    pseudo_labels: str = "binary",
    selection: str | Stable | Predictable | Leading = "predictability",
    scoring: str | ScoringModel = "correlation",
    ranking: str = "diverse",
) -> SSFSResult:
    """Spectral self-supervised feature selection: scores of features without labels.

    The paper's method is `selection="stability", scoring="boosting", ranking="score"`. With
    the defaults the features found better clusters on the sets of
    `benchmarks/papers/ssfs_clustering.py`, which were used to choose them.

    **Arguments**

    - `key`: of `jax.random`, for the resamples of `Stable`; nothing else is random.
    - `x`: `(n, p)`, n ≥ 4.
    - `num_pseudo_labels`: k, how many eigenvectors to keep: one less than the clusters that you
      expect. The trivial eigenvector is left out, and c − 1 others tell c clusters apart; one more
      is noise where clusters are clear. The paper's experiments keep c (appendix F.3).
    - `num_eigenvectors`: d, how many to choose from, at most n − 1; 2k by default, or as many as
      there are.
    - `standardize`: whether features are first given mean 0 and variance 1.
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `num_neighbors`: the graph's affinities are exp(−‖x_i − x_j‖² / σ_i σ_j), σ_i the distance to
      the neighbour of this number, the sample itself not counted.
    - `pseudo_labels`: "binary", eigenvectors cut in two by 2-medoids, or "continuous": what models
      are fitted to and what is returned. Neighbours vote for binary labels, and features correlate
      with eigenvectors, whatever this says.
    - `selection`: the criterion for keeping eigenvectors. "stability": the paper's Ŝ, or
      `Stable(…)` with its options. "predictability" or `Predictable()`: one less the balanced
      accuracy with which the 5 nearest neighbours of a sample vote for its binary label. "leading"
      or `Leading()`: the eigenvalues.
    - `scoring`: the model that scores features. "boosting" (the paper's), "logistic" or "ridge", or
      one with its settings, as `surrogates.models.Logistic(c=0.1)`. "correlation": score(m) = Σ
      over kept eigenvectors of the squared correlation with feature m.
    - `ranking`: "score": as they are. "diverse": features are taken one after another by
      s_m (1 − max corr² with those taken + 0.001), and the score is that number. Beyond the first
      2048 features all are compared with those.

    All but `key`, `x`, `mask`, `fraction` and numbers in settings are static.

    **Returns** `SSFSResult`.

    **Numerics** features that have no part in any tree would all score 0: they are ordered by the
    sum of squared correlations with the kept eigenvectors, scaled to lie below the smallest score
    of the others. A constant feature scores 0. A resample with one side of a label only has no
    model, and does not count; labels without two models are taken last. Duplicate samples are no
    trouble (see `kernels.self_tuning_affinity`). Eigenvalues that differ by less than 1.5e-8, or
    1.5e-5 in float32, count as one, as on a graph in parts; the basis of their space is that of the
    principal axes of the features in it, the axis that explains most first, so that the order of
    the samples does not matter (but to the draws of "stability"). NaN anywhere among the samples
    present makes everything NaN, binary labels and `selected` −1, and so does a traced mask that
    leaves too few samples.

    **Derivatives** none: results are constants.

    **Cost** O(n² p + n³) for the graph; beyond 8192 samples its affinities are not held but
    computed anew, for some dozens of products of O(n² p), in memory for some rows. "diverse" O(np)
    for each of the 2048 features; for the models see `surrogates`.

    **Reference** Segal, Lindenbaum and Jaffe, *Spectral self-supervised feature selection*, 2024,
    Algorithms 1 and 2. "leading", "logistic" scoring and "continuous" are its ablations (section
    5.2); "predictability", "correlation" and "diverse" are not in the paper.

    >>> import jax, jax.numpy as jnp
    >>> noise = jax.random.normal(jax.random.key(0), (40, 4))
    >>> x = noise.at[:20, 2].add(8.0)
    >>> result = ssfs(jax.random.key(1), x, num_pseudo_labels=1)
    >>> int(jnp.argmax(result.scores))
    2
    """
    arguments = check_arguments(
        x,
        num_pseudo_labels=num_pseudo_labels,
        num_eigenvectors=num_eigenvectors,
        standardize=standardize,
        mask=mask,
        num_neighbors=num_neighbors,
        pseudo_labels=pseudo_labels,
        selection=selection,
        scoring=scoring,
        ranking=ranking,
    )
    _checks.key(key)
    return _steps.run(key, *arguments)
