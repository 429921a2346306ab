"""The methods of the command line by name."""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jaxfs.estimators import auto, dirichlet, ensemble, filters, greedy, manifest
from jaxfs.estimators._base import Selector
from jaxfs.estimators.ssfs import SSFS

#: Estimators by the name of their method. The first docstring line of a class is the summary.
_ESTIMATORS: dict[str, type[Selector]] = {
    "auto": auto.AutoSelector,
    "manifest": manifest.ManiFeSt,
    "relieff": filters.ReliefF,
    "gc": greedy.GaussianCompromise,
    "gkl": greedy.GaussianKL,
    "cca": greedy.CanonicalCorrelation,
    "mrmr": greedy.MRMR,
    "jmi": greedy.JMI,
    "cmim": greedy.CMIM,
    "cfs": greedy.CFS,
    "fcbf": greedy.FCBF,
    "combined": ensemble.CombinedSelector,
    "mi": filters.MutualInformation,
    "rrelieff": filters.RReliefF,
    "mrmr_regression": greedy.MRMRRegression,
    "mi_regression": filters.MutualInformationRegression,
    "ssfs": SSFS,
    "dirichlet": dirichlet.DirichletGraphSelector,
    "laplacian": filters.LaplacianScore,
    "mcfs": filters.MCFS,
    "spec": filters.SPEC,
}
#: Summaries of the criteria of `FilterSelector`. Each criterion is also a method.
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


class Method(NamedTuple):
    """A feature-selection method of the command line.

    `estimator(**options)` creates its estimator; `get_params()` of that estimator lists the
    options. `targets` is "classes", "numbers", "none" for unsupervised methods, or "any" for a
    method that accepts all of these; such a method is not `supervised`, because it needs no target.
    `summary` describes the method in one line.
    """

    name: str
    estimator: Callable[..., Selector]
    supervised: bool
    targets: str
    summary: str


def _methods() -> Iterator[Method]:
    for name, cls in _ESTIMATORS.items():
        targets, summary = cls()._target_kind(), (cls.__doc__ or "").partition("\n")[0]
        yield Method(name, cls, targets in ("classes", "numbers"), targets, summary)
    for targets, names in filters.CRITERIA.items():
        for name in names:
            make = functools.partial(filters.FilterSelector, criterion=name)
            yield Method(name, make, targets != "none", targets, _FILTERS[name])


_ORDER = ["any", *filters.CRITERIA]
#: All methods by name: the automatic choice, then methods for classes, then for numbers, then
#: unsupervised methods.
METHODS = {m.name: m for m in sorted(_methods(), key=lambda m: _ORDER.index(m.targets))}
