"""The computation of a finite score has no NaN and no division by zero, even in unused values.

`jax_debug_nans` and `checkify` stop at the first NaN. A user who searches for a NaN in other code
must not be stopped by one in jaxfs.
"""

import jax
import pytest
from jax.experimental import checkify

from tests.test_contract import EVERYTHING, as_users_have_it, data

#: Scores that apply `vmap` to a loop, which `checkify` does not support.
UNCHECKED = {
    "manifest_multiclass_score",
    "mutual_information_score",
    "mutual_information_regression_score",
    "mcfs_score",
}
ALWAYS = {
    "manifest_score",
    "fisher_score",
    "anova_score",
    "t_score",
    "chi2_score",
    "pearson_score",
    "f_regression_score",
    "gini_score",
    "variance_score",
}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ALWAYS else pytest.param(name, marks=pytest.mark.thorough)
        for name in EVERYTHING
        if name not in UNCHECKED
    ],
)
def test_nothing_undefined_on_the_way(name):
    plain = data(dtype="float32")
    degenerate = plain.copy()
    degenerate[:, 4], degenerate[:, 5] = 7, degenerate[:, 2]  # a constant feature and a duplicate
    degenerate[1] = degenerate[0]
    score = EVERYTHING[name]
    with as_users_have_it("float32"):
        checked = jax.jit(checkify.checkify(lambda x: score(x), errors=checkify.float_checks))
        for x in (plain, degenerate, (plain > 0).astype("float32")):
            error, _ = checked(x)
            assert error.get() is None, error.get()
