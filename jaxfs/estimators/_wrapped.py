"""Estimators inside other estimators: their target, seeds and importances."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from jaxfs import _checks
from jaxfs.estimators._base import Selector


def target_kind(inner: Any) -> str:
    """Return "classes", "numbers" or "none" for a selector or a model of scikit-learn."""
    if isinstance(inner, Selector):
        return inner._target_kind()
    if not hasattr(inner, "fit") or not (is_classifier(inner) or is_regressor(inner)):
        raise _checks.fail("estimator", "a selector, classifier or regressor", repr(inner))
    return "classes" if is_classifier(inner) else "numbers"


def seeded(inner: Any, draw: np.random.RandomState) -> Any:
    """Set every `random_state` of an estimator that is `None` to a random seed, and return it."""
    unset = [
        name
        for name, value in sorted(inner.get_params().items())
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return inner.set_params(**{name: int(draw.randint(2**31 - 1)) for name in unset})


def importances(model: Any) -> np.ndarray:
    """Return the importance of every feature of a fitted selector or scikit-learn model."""
    for name in ("scores_", "feature_importances_", "coef_"):
        found = getattr(model, name, None)
        if found is not None:
            found = np.asarray(found, np.float64)
            return np.abs(np.atleast_2d(found)).mean(axis=0) if name == "coef_" else found
    expected = "a selector of jaxfs, or a model with feature_importances_ or coef_"
    raise _checks.fail("estimator", expected, type(model).__name__)
