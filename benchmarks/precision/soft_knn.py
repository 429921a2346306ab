"""Claim: float32 soft neighbours are within 60 eps of float64, 1000 eps if many distances tie.

    python -m benchmarks.precision.soft_knn

Rows of 32 and 500 distances, k of 1, 5 and 15, γ from 10 to 1e-4. The distances are Gamma variates,
those of Gaussian points in 20 dimensions, numbers that differ by a few per cent, and small integers
with many ties. Printed is the largest deviation of `soft_knn` in float32 from `soft_knn` of the
same numbers in float64, in units of the eps of float32. The remaining error is rounding of the
logits of the plan, whose size is about 1/γ.
"""

import functools

import jax
import numpy as np

import jaxfs
from benchmarks.timing import finish, verdict

ROWS = 200
GAMMAS = (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4)
KINDS = {"Gamma variates": 60, "Gaussian points": 60, "near each other": 60, "integers": 1000}


def rows(kind: str, m: int) -> np.ndarray:
    r = np.random.default_rng(0)
    match kind:
        case "Gamma variates":
            e = r.gamma(2.0, size=(ROWS, m))
        case "Gaussian points":
            x = r.normal(size=(ROWS + m, 20))
            e = np.square(x[:ROWS, None] - x[None, ROWS:]).sum(axis=2)
        case "near each other":
            e = 1 + 0.01 * r.normal(size=(ROWS, m))
        case _:
            e = r.integers(0, 8, size=(ROWS, m))
    return e.astype(np.float32)


@functools.partial(jax.jit, static_argnames="k")
def soft(e, gamma, k: int):
    return jaxfs.soft_knn(e, k, gamma=gamma)


def deviation(e: np.ndarray, gamma: float, k: int) -> float:
    """Largest deviation of float32 from float64, in units of eps."""
    narrow = np.float32(gamma)
    with jax.enable_x64(True):
        truth = jax.tree.map(np.asarray, soft(e.astype(np.float64), np.float64(narrow), k))
    pairs = zip(soft(e, narrow, k), truth, strict=True)
    return max(np.abs(np.asarray(a) - b).max() for a, b in pairs) / np.finfo(np.float32).eps


def main() -> None:
    for kind, allowed in KINDS.items():
        print(f"{kind}: largest deviation in eps, by γ = {', '.join(f'{g:g}' for g in GAMMAS)}")
        for m in (32, 500):
            e = rows(kind, m)
            for k in (1, 5, 15):
                found = [deviation(e, gamma, k) for gamma in GAMMAS]
                each = " ".join(f"{value:6.1f}" for value in found)
                print(f"  {m:3} candidates, k = {k:2}: {each}   {verdict(max(found), allowed)}")
    finish()


if __name__ == "__main__":
    main()
