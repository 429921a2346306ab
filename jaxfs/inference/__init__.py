"""Selection with a guarantee: null distributions, error control, and the number of features."""

from jaxfs.inference._analytic import (
    FilterTest,
    anova_test,
    chi2_test,
    f_regression_test,
    pearson_test,
    t_test,
)
from jaxfs.inference._knockoff_select import KnockoffSelection, knockoff_select
from jaxfs.inference._knockoffs import knockoffs
from jaxfs.inference._label_scores import AnovaScore, ReliefFScore
from jaxfs.inference._lasso import lasso_score
from jaxfs.inference._null import PermutationTest, q_values
from jaxfs.inference._permutation import permutation_test, structure_test
from jaxfs.inference._stability_selection import (
    StabilitySelection,
    false_selection_bounds,
    stability_selection,
)

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
