"""Classical scores and selectors: filters, information, ReliefF, redundancy, graphs of samples."""

from jaxfs.methods.classical._combination import combine_scores
from jaxfs.methods.classical._diversity import diverse_ranking
from jaxfs.methods.classical._filters import (
    anova_score,
    chi2_score,
    f_regression_score,
    fisher_score,
    gini_score,
    pearson_score,
    t_score,
    variance_score,
)
from jaxfs.methods.classical._information import (
    mutual_information_regression_score,
    mutual_information_score,
)
from jaxfs.methods.classical._redundancy import (
    cfs_select,
    cmim_select,
    fcbf_select,
    jmi_select,
    mrmr_regression_select,
    mrmr_select,
)
from jaxfs.methods.classical._relieff import relieff_score, rrelieff_score
from jaxfs.methods.classical._spectral import laplacian_score, mcfs_score, spec_score

__all__ = [
    "anova_score",
    "cfs_select",
    "chi2_score",
    "cmim_select",
    "combine_scores",
    "diverse_ranking",
    "f_regression_score",
    "fcbf_select",
    "fisher_score",
    "gini_score",
    "jmi_select",
    "laplacian_score",
    "mcfs_score",
    "mrmr_regression_select",
    "mrmr_select",
    "mutual_information_regression_score",
    "mutual_information_score",
    "pearson_score",
    "relieff_score",
    "rrelieff_score",
    "spec_score",
    "t_score",
    "variance_score",
]
