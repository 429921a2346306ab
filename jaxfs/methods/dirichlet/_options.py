"""The options of the Dirichlet selector: those of one objective in its record, and their checks."""

import dataclasses

import jax.numpy as jnp
import optax
from jax import lax

from jaxfs import _checks
from jaxfs._checks import plain, presence, settle, variant
from jaxfs._numerics import varied
from jaxfs._types import Scalar
from jaxfs.methods.dirichlet._training import Options, Settings


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Objective of `fit_dirichlet_selector`: features to which the relevant ones are correlated.

    **Arguments**

    - `gamma`: γ ≥ 0 of `soft_knn`. May be traced, and is then positive. 0 chooses neighbours
      exactly: their weights are continuous and almost everywhere differentiable.
    - `batch_size`: number of samples whose neighbours a step looks for, drawn at random; static. By
      default at most 256, fewer for very many features.

    A constant: equal records are the same option, with an equal hash.

    >>> Coverage(gamma=0.1)
    Coverage(gamma=0.1, batch_size=None)
    """

    gamma: Scalar = 0.0
    batch_size: int | None = None

    def __post_init__(self):
        settle(self, gamma=_gamma(self.gamma), batch_size=_batch_size(self.batch_size))


@dataclasses.dataclass(frozen=True)
class Energy:
    """Objective of `fit_dirichlet_selector`: features on whose graph the relevant ones are smooth.

    **Arguments**

    - `gamma`, `batch_size`: as in `Coverage`.
    - `refresh_every`: number of steps for which the samples of a step and their candidates are
      kept, once features are chosen; neighbours are looked for among those only. Static. While
      gates explore, their noise is too large for that.
    """

    gamma: Scalar = 0.0
    batch_size: int | None = None
    refresh_every: int = 1

    def __post_init__(self):
        every = _checks.integer(self.refresh_every, "refresh_every", low=1)
        settle(self, gamma=_gamma(self.gamma), batch_size=_batch_size(self.batch_size))
        settle(self, refresh_every=every)


@dataclasses.dataclass(frozen=True)
class Network:
    """Objective of `fit_dirichlet_selector`: the paper's network, `DirichletSelector`.

    **Arguments**

    - `gamma`: as in `Coverage`.
    - `unique`: whether its choices are made distinct; static.
    - `refresh_every`: number of steps for which the samples of a step and their candidates are
      kept; static.
    """

    gamma: Scalar = 0.01
    unique: bool = True
    refresh_every: int = 1

    def __post_init__(self):
        every = _checks.integer(self.refresh_every, "refresh_every", low=1)
        unique = _checks.flag(self.unique, "unique")
        settle(self, gamma=_gamma(self.gamma), unique=unique, refresh_every=every)


#: The objectives by their names.
OBJECTIVES = {"coverage": Coverage, "energy": Energy, "network": Network}
_LEARNING_RATES = {"coverage": 0.1, "energy": 0.1, "network": 0.05}


def _gamma(value):
    return plain(_checks.number(value, "gamma", low=0, scalar=True))


def _batch_size(value):
    return None if value is None else _checks.integer(value, "batch_size", low=1)


# ---- Arguments ----------------------------------------------------------------------------------


def check_arguments(
    x,
    num_features,
    *,
    objective,
    num_neighbors,
    num_steps,
    learning_rate,
    optimizer,
    temperature,
    num_restarts,
    mask,
    num_candidates,
    num_anchors,
):
    """Samples, which of them are present, what may be traced, and what is static."""
    x = _checks.real(x, "x", ndim=2)
    n, d = x.shape
    if n < 3 or d < 1:
        raise _checks.fail("x", "(n, d) with n ≥ 3 samples and d ≥ 1 features", f"{x.shape}")
    objective = variant(objective, "objective", OBJECTIVES)
    kind = next(name for name, record in OBJECTIVES.items() if record is type(objective))
    m = _checks.integer(num_features, "num_features", low=1, high=d)
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 2)
    present = presence(mask, n)
    if not _checks.is_traced(present) and int(jnp.sum(present)) < k + 2:
        raise _checks.fail("mask", f"true for at least {k + 2} samples", int(jnp.sum(present)))
    if not (optimizer is None or isinstance(optimizer, optax.GradientTransformation)):
        raise _checks.fail("optimizer", "None or one of Optax", repr(optimizer))
    _checks.only_if(optimizer is None, learning_rate, "learning_rate", "optimizer is None")
    if learning_rate is None:
        learning_rate = _LEARNING_RATES[kind]
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    first, last = temperature
    for value in (first, last):
        _checks.number(value, "temperature", low=0, open_low=True, scalar=True)
    settings = Settings(
        num_features=m,
        num_neighbors=k,
        num_steps=_checks.integer(num_steps, "num_steps", low=2),
        num_restarts=_checks.integer(num_restarts, "num_restarts", low=1),
        objective=kind,
        unique=getattr(objective, "unique", True),
        refresh_every=getattr(objective, "refresh_every", 1),
        **_sizes(objective, n, d, k, num_candidates, num_anchors),
    )
    varies = varied(x, present)
    if not _checks.is_traced(varies) and not jnp.any(jnp.isnan(x)) and int(jnp.sum(varies)) < m:
        expected = f"at most the number of features that vary, {int(jnp.sum(varies))} of {d}"
        raise _checks.fail("num_features", expected, m)
    numbers = (jnp.asarray(v, x.dtype) for v in (objective.gamma, learning_rate, first, last))
    x, options = lax.stop_gradient((x, Options(*numbers)))
    return x, present, options, settings


def _sizes(
    objective: Coverage | Energy | Network, n: int, d: int, k: int, num_candidates, num_anchors
):
    """How neighbours are looked for: the parts of `Settings` that follow from sizes."""
    gamma = objective.gamma
    exact = not _checks.is_traced(gamma) and gamma == 0
    listed = not exact or getattr(objective, "refresh_every", 1) > 1
    _checks.only_if(
        listed, num_candidates, "num_candidates", "gamma is positive or refresh_every above 1"
    )
    candidates = max(32, k + 1) if num_candidates is None else num_candidates
    candidates = _checks.integer(candidates, "num_candidates", low=k + 1)
    anchors = min(n, _checks.integer(num_anchors, "num_anchors", low=k + 2))
    batch_size = getattr(objective, "batch_size", None)
    if batch_size is None:
        batch_size = min(256, max(32, 2**22 // (d * (candidates if listed else k + 1))))
    return {
        "exact": exact,
        "num_candidates": min(candidates, anchors - 1),
        "batch_size": min(n, batch_size),
        "num_anchors": anchors,
    }
