"""How many features each rule keeps, and what they are worth:
`python -m benchmarks.inference.evidence [METHODS [SETS]]`, names separated by commas.

Nested cross-validation: each of five outer folds standardises, selects and fits logistic regression
on its training rows, and the rules work inside these rows. Where no feature is significant, the
most frequent class is predicted.
"""

import sys
import warnings

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks import data
from jaxfs.estimators import FDR, FilterSelector, ManiFeSt, ReliefF

SETS = ("gravier", "shipp", "su", "sorlie", "colon", "Prostate-GE", "GLIOMA")
METHODS = {
    "anova": FilterSelector(dtype="float32"),
    "relieff": ReliefF(dtype="float32"),
    "manifest": ManiFeSt(dtype="float32", random_state=0),
}
#: The scores of relabelings cannot be compared: each relabeling chooses its own bandwidth.
UNTESTED = ("manifest",)


def rules(method: str) -> dict:
    fdr = {} if method in UNTESTED else {"fdr": FDR(n_permutations=999)}
    if method == "anova":
        fdr = {"fdr": FDR()}
    return {"gap": "gap", **fdr, "one_se": "one_se", "k = 20": 20}


def fold(selector, x, y, train, test) -> tuple[int, float]:
    """Return the number of selected features, and the accuracy on the test rows."""
    scaler = StandardScaler().fit(x[train])
    a, b = scaler.transform(x[train]), scaler.transform(x[test])
    model, number = LogisticRegression(max_iter=1000), x.shape[1]
    if selector is not None:
        try:
            selector.fit(a, y[train])
            a, b, number = selector.transform(a), selector.transform(b), selector.n_features_
        except ValueError as error:
            if "no feature with q" not in str(error):
                raise
            model, number = DummyClassifier(), 0
    return number, model.fit(a, y[train]).score(b, y[test])


def main(methods: list[str], sets: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in sets:
        x, y = data.load(name)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(x, y))
        everything = np.array([fold(None, x, y, *part) for part in folds])
        print(
            f"{name}, {x.shape[0]} × {x.shape[1]}: all features {everything[:, 1].mean():.3f}, "
            f"largest class {np.bincount(y).max() / y.size:.3f}",
            flush=True,
        )
        for method in methods:
            for rule, wanted in rules(method).items():
                chosen = METHODS[method].set_params(n_features_to_select=wanted)
                found = np.array([fold(chosen, x, y, *part) for part in folds])
                gap = found[:, 1] - everything[:, 1]
                number = (
                    f"{found[:, 0].mean():.0f} ({found[:, 0].min():.0f}–{found[:, 0].max():.0f})"
                )
                print(
                    f"  {method:8s} {rule:7s} {number:18s} features: {found[:, 1].mean():.3f}, "
                    f"{gap.mean():+.3f} ± {gap.std(ddof=1) / len(gap) ** 0.5:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(METHODS)
    main(names, sys.argv[2].split(",") if len(sys.argv) > 2 else list(SETS))
