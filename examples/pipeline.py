"""ManiFeSt in a scikit-learn pipeline, tuned by cross-validation and compared with all features.

The bandwidth percentile and the number of features are chosen on the training part of every outer
fold. The test part compares the result with all features. The data are the breast-cancer data of
scikit-learn: 569 tumours and 30 measurements.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxfs
from jaxfs.estimators import ManiFeSt

GRID = {
    "manifest__percentile": [5.0, 25.0, 50.0, 75.0],
    "manifest__n_features_to_select": [5, 10, 15, 20],
}


def main() -> None:
    jaxfs.enable_compilation_cache()  # later runs load the compiled programs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--folds", type=int, default=5, help="number of outer and of inner folds (default: 5)"
    )
    number = parser.parse_args().folds

    def folds(seed: int) -> StratifiedKFold:
        return StratifiedKFold(number, shuffle=True, random_state=seed)

    data = load_breast_cancer()
    every = make_pipeline(StandardScaler(), KNeighborsClassifier())
    some = make_pipeline(StandardScaler(), ManiFeSt(), KNeighborsClassifier())
    search = GridSearchCV(some, GRID, cv=folds(1))
    found = {
        "all 30 features": cross_val_score(every, data.data, data.target, cv=folds(0)),
        "ManiFeSt, searched": cross_val_score(search, data.data, data.target, cv=folds(0)),
    }
    for name, accuracies in found.items():
        print(f"{name:20s} {100 * accuracies.mean():5.1f}%")
    before, after = found.values()
    change = after - before
    doubt = change.std(ddof=1) / np.sqrt(change.size)
    print(f"change: {100 * change.mean():+.1f} points, standard error {100 * doubt:.1f}")
    if change.mean() > 2 * doubt:
        print("Selection improves on all features.")
    elif change.mean() < -2 * doubt:
        print("Selection does worse than all features.")
    else:
        print("Selection makes no significant difference.")

    best = search.fit(data.data, data.target).best_estimator_[1]
    print(f"parameters chosen on all samples: {search.best_params_}")
    print(f"selected features: {', '.join(best.get_feature_names_out(data.feature_names))}")


if __name__ == "__main__":
    main()
