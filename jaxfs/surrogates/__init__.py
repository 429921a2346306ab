"""Batched models that give feature importances."""

from jaxfs.surrogates import boosting as boosting
from jaxfs.surrogates import linear as linear
from jaxfs.surrogates import logistic as logistic
from jaxfs.surrogates import models as models
