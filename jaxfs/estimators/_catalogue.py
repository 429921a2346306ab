"""The methods by the names that a command line takes."""

from collections.abc import Callable
from typing import NamedTuple

from jaxfs.estimators._base import Selector
from jaxfs.estimators.gaussian import GaussianCompromise, GaussianKL
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.redundancy import CFS, CMIM, FCBF, JMI, MRMR
from jaxfs.estimators.relief import ReliefF, RReliefF


class Method(NamedTuple):
    """`estimator(**options)` makes one; its options are those of `estimator().get_params()`.

    `targets`: "classes", "numbers" or, unsupervised, "none". `summary`: what it is for.
    """

    name: str
    estimator: Callable[..., Selector]
    supervised: bool
    targets: str
    summary: str


def _method(name: str, estimator: Callable[..., Selector], targets: str, summary: str) -> Method:
    return Method(name, estimator, targets != "none", targets, summary)


_ALL = (
    _method(
        "manifest",
        ManiFeSt,
        "classes",
        "Features whose relations to the other features differ between classes; few samples.",
    ),
    _method(
        "relieff",
        ReliefF,
        "classes",
        "Features that differ between near samples of different classes; finds interactions.",
    ),
    _method(
        "gc",
        GaussianCompromise,
        "classes",
        "Features that jointly tell most about the class, without redundancy; fast for many.",
    ),
    _method(
        "gkl",
        GaussianKL,
        "classes",
        "Features that jointly set each class apart from the rest; fast for many.",
    ),
    _method(
        "mrmr",
        MRMR,
        "classes",
        "Relevant features that repeat each other least; a fast standard choice.",
    ),
    _method("jmi", JMI, "classes", "Features that tell most about the class in pairs."),
    _method(
        "cmim",
        CMIM,
        "classes",
        "Features that still tell about the class whichever other one is known.",
    ),
    _method(
        "cfs",
        CFS,
        "classes",
        "A small set that goes with the class and not with itself; decides its own size.",
    ),
    _method(
        "fcbf",
        FCBF,
        "classes",
        "Features that no better one makes redundant; decides how many, fast for very many.",
    ),
    _method(
        "rrelieff",
        RReliefF,
        "numbers",
        "ReliefF for a target that is a number; finds interactions.",
    ),
)

#: Every method by its name.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
