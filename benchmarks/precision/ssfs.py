"""Claim: batched logistic fits equal converged scikit-learn and select the same eigenvectors.

    JAXFS_DATA=… python -m benchmarks.precision.ssfs [SET …]

float32 is compared with scikit-learn at tol 1e-10 in float64, on the pseudo-labels of real data
sets. Printed is the largest error of a coefficient relative to the largest coefficient, on all
samples and on resamples of 95 %. Then both select k of 2k eigenvectors on the same masks (20; 10 on
COIL20).
"""

import sys
import warnings

import jax
import numpy as np
from sklearn.linear_model import LogisticRegression

import jaxfs
from benchmarks import clustering, data
from benchmarks.timing import finish, verdict
from jaxfs.resample import subsample_masks
from jaxfs.surrogates import logistic

SETS = ("Prostate-GE", "Yale", "COIL20")
ALLOWED = 2e-4


def converged(x, y) -> np.ndarray:
    with warnings.catch_warnings(action="ignore"):  # the line search cannot improve further
        return LogisticRegression(tol=1e-10, max_iter=100_000).fit(x, y).coef_[0]


def main() -> None:
    for name in sys.argv[1:] or SETS:
        x, y = data.load(name)
        k = len(np.unique(y))
        z = clustering.standardized(x)
        single = z.astype(np.float32)
        graph = jaxfs.ssfs(jax.random.key(0), single, num_pseudo_labels=k, selection="leading")
        labels = np.asarray(graph.pseudo_labels)
        number = 10 if len(x) > 1000 else 20
        masks = np.asarray(subsample_masks(jax.random.key(0), 2 * number, len(x)))
        both = [
            np.ptp(labels[m], axis=0).all() for m in masks
        ]  # masks with both sides of every label
        masks = masks[both][:number]

        theirs = np.array([[converged(z[m], label[m]) for m in masks] for label in labels.T])
        worst = 0.0
        for mask, betas in zip(masks[:3], np.moveaxis(theirs, 1, 0)[:3], strict=True):
            ours = np.asarray(logistic.fit(single, labels, weights=mask).coefficients)
            error = np.abs(ours - betas).max(axis=1) / np.abs(betas).max(axis=1)
            worst = max(worst, error.max())
        ours = np.asarray(logistic.fit(single, labels).coefficients)
        full = np.array([converged(z, label) for label in labels.T])
        error = (np.abs(ours - full).max(axis=1) / np.abs(full).max(axis=1)).max()
        print(f"{name}: {labels.shape[1]} labels, coefficients in units of {ALLOWED:.0e}:")
        print(
            f"  all samples {verdict(error / ALLOWED, 1)}, resamples {verdict(worst / ALLOWED, 1)}"
        )

        share = np.abs(theirs) / np.abs(theirs).sum(axis=2, keepdims=True)
        reference = share.var(axis=1, ddof=1).sum(axis=1)
        got = np.asarray(logistic.resampled_scores(single, labels, masks).variance).sum(axis=1)
        same = set(np.argsort(got)[:k]) == set(np.argsort(reference)[:k])
        print(f"  instability {np.max(np.abs(got / reference - 1)):.1e}, same eigenvectors: {same}")
        verdict(0.0 if same else 1.0, 0.5)
    finish()


if __name__ == "__main__":
    main()
