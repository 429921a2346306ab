"""The methods by the names that a command line takes."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxfs.estimators._base import Selector
from jaxfs.estimators.dirichlet import DirichletGraphSelector
from jaxfs.estimators.ensemble import CombinedSelector
from jaxfs.estimators.filters import FilterSelector, MutualInformation, MutualInformationRegression
from jaxfs.estimators.gaussian import CanonicalCorrelation, GaussianCompromise, GaussianKL
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.redundancy import CFS, CMIM, FCBF, JMI, MRMR
from jaxfs.estimators.relief import ReliefF, RReliefF
from jaxfs.estimators.spectral import MCFS, SPEC, LaplacianScore
from jaxfs.estimators.ssfs import SSFS


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


def _filter(name: str, targets: str, summary: str) -> Method:
    return _method(name, functools.partial(FilterSelector, criterion=name), targets, summary)


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
        "cca",
        CanonicalCorrelation,
        "classes",
        "Features that jointly correlate most with the classes, linearly; fast for many.",
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
        "combined",
        CombinedSelector,
        "classes",
        "ManiFeSt and ReliefF added up: what one overlooks the other may find.",
    ),
    _method(
        "mi",
        MutualInformation,
        "classes",
        "Features by the information each alone has about the class; any relation counts.",
    ),
    _filter("anova", "classes", "Features whose mean differs between classes; fast and standard."),
    _filter("fisher", "classes", "Between-class over within-class spread; ranks as anova does."),
    _filter("t", "classes", "Welch's t of two classes, which may vary differently."),
    _filter("chi2", "classes", "Counts, such as words, that differ between classes."),
    _filter("gini", "classes", "Features of which one threshold parts the classes best."),
    _method(
        "rrelieff",
        RReliefF,
        "numbers",
        "ReliefF for a target that is a number; finds interactions.",
    ),
    _method(
        "mi_regression",
        MutualInformationRegression,
        "numbers",
        "Features by the information each alone has about a number; any relation counts.",
    ),
    _filter("pearson", "numbers", "Features that correlate with a number, either way."),
    _filter("f_regression", "numbers", "F of a straight line through a number; as pearson ranks."),
    _method(
        "ssfs",
        SSFS,
        "none",
        "Features that predict the clusters of the samples, without labels or redundancy.",
    ),
    _method(
        "dirichlet",
        DirichletGraphSelector,
        "none",
        "Features that stand for all with structure, linear or not, by a learnt graph; slow.",
    ),
    _method(
        "laplacian",
        LaplacianScore,
        "none",
        "Features that are smooth on a graph of the samples; fast, for clusters.",
    ),
    _method(
        "mcfs",
        MCFS,
        "none",
        "Few features that together tell clusters apart, without labels.",
    ),
    _method(
        "spec",
        SPEC,
        "none",
        "Features in the smooth eigenvectors of a graph of the samples.",
    ),
    _filter("variance", "none", "Features that vary most; they need common units."),
)

#: Every method by its name.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
