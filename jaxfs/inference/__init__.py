"""Selection with a guarantee: null distributions, error control, and the number of features."""

from jaxfs.inference._analytic import (
    FilterTest,
    anova_test,
    chi2_test,
    f_regression_test,
    pearson_test,
    t_test,
)
from jaxfs.inference._anova_labels import AnovaScore
from jaxfs.inference._knockoff_select import KnockoffSelection, knockoff_select
from jaxfs.inference._knockoffs import knockoffs
from jaxfs.inference._lasso import lasso_score
from jaxfs.inference._multiplicity import q_values
from jaxfs.inference._null import PermutationTest
from jaxfs.inference._permutation import permutation_test, structure_test
from jaxfs.inference._relieff_labels import ReliefFScore
from jaxfs.inference._stability_bounds import false_selection_bounds
from jaxfs.inference._stability_selection import StabilitySelection, stability_selection

__all__ = [
    "AnovaScore",
    "FilterTest",
    "KnockoffSelection",
    "PermutationTest",
    "ReliefFScore",
    "StabilitySelection",
    "anova_test",
    "chi2_test",
    "f_regression_test",
    "false_selection_bounds",
    "knockoff_select",
    "knockoffs",
    "lasso_score",
    "permutation_test",
    "pearson_test",
    "q_values",
    "stability_selection",
    "structure_test",
    "t_test",
]
