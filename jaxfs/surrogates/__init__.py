"""Batched models that give feature importances."""

from jaxfs.surrogates import logistic as logistic
