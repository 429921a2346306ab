"""The eigen-update of section 4.1 of the GC / GKL paper: Figures 4 to 7."""

import jax
import numpy as np
import scipy.linalg

from benchmarks.papers._parts import Answer, Part, table
from benchmarks.speed.eigh_bordered import insert
from benchmarks.timing import best
from jaxfs.linalg import eigh_bordered

SIZES = (100, 200, 400, 700, 1000, 1500, 2000)
LAST, EVERY = 2000, 100


def correlations(n: int) -> np.ndarray:
    """A positive definite matrix with a diagonal of ones."""
    return np.corrcoef(np.random.default_rng(0).normal(size=(2 * LAST, n)).T)


def relative_error(values, truth) -> float:
    return float(np.max(np.abs(values - truth) / truth))


def largest_angle(vectors, truth) -> float:
    """The largest angle between corresponding eigenvectors, in degrees."""
    signs = np.sign(np.sum(vectors * truth, axis=0))
    chord = np.linalg.norm(vectors * signs - truth, axis=0)
    return float(np.degrees(2 * np.arcsin(np.minimum(chord / 2, 1)).max()))


# ---- Figures 4 and 7: one update of LAPACK's decomposition ---------------------------------------


def run_update(split: int) -> dict:
    """Times of `eigh` and of the update at size n, and the errors of the update."""
    n = SIZES[split]
    with jax.enable_x64(True):
        a = correlations(n)
        w, v = map(jax.numpy.asarray, scipy.linalg.eigh(a[:-1, :-1]))
        edge, corner = map(jax.numpy.asarray, (a[:-1, -1], a[-1, -1]))
        ours, theirs = best(
            lambda: eigh_bordered(w, v, edge, corner), lambda: scipy.linalg.eigh(a), repeats=3
        )
        truth, basis = scipy.linalg.eigh(a)
        values, vectors = map(np.asarray, eigh_bordered(w, v, edge, corner))
    errors = relative_error(values, truth), largest_angle(vectors, basis)
    return {"n": n, "ours": ours, "LAPACK": theirs, "values": errors[0], "angle": errors[1]}


def show_figure_4(found: list[dict]) -> Answer:
    ratios = [split["LAPACK"] / split["ours"] for split in found]
    rows = [
        [split["n"], f"{1e3 * split['LAPACK']:.1f}", f"{1e3 * split['ours']:.1f}", f"{ratio:.1f}"]
        for split, ratio in zip(found, ratios, strict=True)
    ]

    def draw(figure):
        axes = figure.subplots()
        for name, label in (("LAPACK", "LAPACK"), ("ours", "eigh_bordered")):
            axes.plot(
                [split["n"] for split in found], [split[name] for split in found], "o-", label=label
            )
        axes.set(xlabel="n", ylabel="seconds", xscale="log", yscale="log")
        axes.legend()

    text = f"""
{table(["n", "LAPACK (ms)", "`eigh_bordered` (ms)", "ratio"], rows)}

Values and vectors in float64, best of three on one core of a shared machine. The paper prints its
curves without numbers; its update is in C++.
"""
    faster = [ratio > 1 for ratio in ratios]
    verdict = "reproduced" if all(faster) else "reproduced in part: slower at small n"
    return Answer(text, verdict if any(faster) else "not reproduced: the update is slower", draw)


def show_figure_7(found: list[dict]) -> Answer:
    rows = [[split["n"], f"{split['values']:.0e}", f"{split['angle']:.0e}"] for split in found]
    worst = max(split["values"] for split in found)

    def draw(figure):
        axes = figure.subplots()
        axes.semilogy([split["n"] for split in found], [split["values"] for split in found], "o-")
        axes.set(xlabel="n", ylabel="largest relative error")

    text = f"""
{table(["n", "eigenvalue error", "angle (degrees)"], rows)}

One update of LAPACK's decomposition. The paper has errors of the order 1e-10, the tolerance of its
Newton method, and angles of 0. Here the largest error is {worst:.0e}: `eigh_bordered` finds the
roots to rounding. The angles come from rounding where eigenvalues are close. An arc cosine in
double precision shows angles below 8e-7 degrees as 0.
"""
    good = worst <= 1e-10
    return Answer(text, "reproduced" if good else "not reproduced: the error is larger", draw)


# ---- Figures 5 and 6: updates of updates --------------------------------------------------------


def run_insertions(_: int) -> dict:
    """Errors of the decomposition while rows are inserted one at a time."""
    out: dict[str, list] = {"n": [], "values": [], "angle": []}
    a = correlations(LAST)
    far = 2 * np.linalg.norm(a, 2)
    with jax.enable_x64(True):
        w, v = np.linalg.eigh(a[:1, :1])
        for size in range(1, LAST):
            w, v = insert(w, v, a[:size, size], a[size, size], far)
            if (size + 1) % EVERY == 0:
                truth, basis = scipy.linalg.eigh(a[: size + 1, : size + 1])
                out["n"].append(size + 1)
                out["values"].append(relative_error(w, truth))
                out["angle"].append(largest_angle(v, basis))
    return out


def show_insertions(found: list[dict], name: str, unit: str, theirs: str, bar: float) -> Answer:
    n, errors = found[0]["n"], found[0][name]
    rows = [[n[i], f"{errors[i]:.0e}"] for i in range(len(n)) if n[i] % 500 == 0 or i == 0]

    def draw(figure):
        axes = figure.subplots()
        axes.semilogy(n, errors, "o-")
        axes.set(xlabel="insertions", ylabel=unit)

    text = f"""
{table(["insertions", unit], rows)}

Paper, after 2000 insertions: {theirs}. Here {errors[-1]:.0e} after {n[-1]}. The start is a 1 × 1
matrix, and every decomposition is an update of the one before. The matrix is the correlation
matrix of {2 * LAST} Gaussian samples.
"""
    good = errors[-1] <= bar
    return Answer(text, "reproduced" if good else "not reproduced: the error is larger", draw)


def show_figure_5(found: list[dict]) -> Answer:
    return show_insertions(found, "values", "largest relative eigenvalue error", "about 1%", 1e-2)


def show_figure_6(found: list[dict]) -> Answer:
    theirs = "less than 0.001 degrees"
    return show_insertions(found, "angle", "largest angle of eigenvectors (degrees)", theirs, 1e-3)


FIGURE_4 = Part(
    "gaussian-figure-4",
    "Figure 4",
    "time of the eigen-update against LAPACK",
    run_update,
    len(SIZES),
    show_figure_4,
)
FIGURE_5 = Part(
    "gaussian-figure-5",
    "Figure 5",
    "eigenvalue error after repeated updates",
    run_insertions,
    1,
    show_figure_5,
)
FIGURE_6 = Part(
    "gaussian-figure-6",
    "Figure 6",
    "angle of eigenvectors after repeated updates",
    run_insertions,
    1,
    show_figure_6,
    "gaussian-figure-5",
)
FIGURE_7 = Part(
    "gaussian-figure-7",
    "Figure 7",
    "eigenvalue error after one update",
    run_update,
    len(SIZES),
    show_figure_7,
    "gaussian-figure-4",
)
