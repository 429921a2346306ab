"""Batched models that give feature importances, and AdaBoost to evaluate selected features."""

from jaxfs.surrogates import adaboost, boosting, linear, logistic, models

__all__ = ["adaboost", "boosting", "linear", "logistic", "models"]
