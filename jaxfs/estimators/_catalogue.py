"""The methods of the command line by name."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxfs.estimators._base import Selector
from jaxfs.estimators.dirichlet import DirichletGraphSelector
from jaxfs.estimators.ensemble import CombinedSelector
from jaxfs.estimators.filters import (
    FilterSelector,
    MutualInformation,
    MutualInformationRegression,
    ReliefF,
    RReliefF,
)
from jaxfs.estimators.gaussian import CanonicalCorrelation, GaussianCompromise, GaussianKL
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.redundancy import CFS, CMIM, FCBF, JMI, MRMR
from jaxfs.estimators.spectral import MCFS, SPEC, LaplacianScore
from jaxfs.estimators.ssfs import SSFS

#: The first line of a class's docstring is the summary of its method.
_ESTIMATORS: dict[str, type[Selector]] = {
    "manifest": ManiFeSt,
    "relieff": ReliefF,
    "gc": GaussianCompromise,
    "gkl": GaussianKL,
    "cca": CanonicalCorrelation,
    "mrmr": MRMR,
    "jmi": JMI,
    "cmim": CMIM,
    "cfs": CFS,
    "fcbf": FCBF,
    "combined": CombinedSelector,
    "mi": MutualInformation,
    "rrelieff": RReliefF,
    "mi_regression": MutualInformationRegression,
    "ssfs": SSFS,
    "dirichlet": DirichletGraphSelector,
    "laplacian": LaplacianScore,
    "mcfs": MCFS,
    "spec": SPEC,
}
#: Summaries of the criteria of `FilterSelector`, which are methods too.
_FILTERS = {
    "anova": "Features whose mean differs between classes; fast and standard.",
    "fisher": "Variance between classes over variance within them; same ranking as anova.",
    "t": "Welch's t of two classes, whose variances may differ.",
    "chi2": "Counts, such as word counts, that differ between classes.",
    "gini": "Features that separate the classes best by one threshold.",
    "pearson": "Features that correlate with a number, positively or negatively.",
    "f_regression": "F statistic of a linear fit to a number; same ranking as pearson.",
    "variance": "Features of largest variance; they need common units.",
}
_TARGETS = ("classes", "numbers", "none")


class Method(NamedTuple):
    """A method: `estimator(**options)` makes its estimator, whose `get_params()` are the options.

    `targets`: "classes", "numbers" or, for unsupervised methods, "none". `summary`: its purpose.
    """

    name: str
    estimator: Callable[..., Selector]
    supervised: bool
    targets: str
    summary: str


def _method(name: str, estimator: Callable[..., Selector], summary: str) -> Method:
    targets = estimator()._target_kind()
    return Method(name, estimator, targets != "none", targets, summary)


_ALL = [
    *(
        _method(name, cls, (cls.__doc__ or "").partition("\n")[0])
        for name, cls in _ESTIMATORS.items()
    ),
    *(
        _method(name, functools.partial(FilterSelector, criterion=name), summary)
        for name, summary in _FILTERS.items()
    ),
]
#: Every method by its name: supervised ones first, those for classes before those for numbers.
METHODS: dict[str, Method] = {
    method.name: method for method in sorted(_ALL, key=lambda m: _TARGETS.index(m.targets))
}
