"""Dirichlet energy: the sections of the page on downstream tasks, from `dirichlet_downstream`."""

import numpy as np

from benchmarks.papers._parts import Answer, Tables, agrees, numbers_in, state, table
from benchmarks.papers.dirichlet_downstream import TREES

#: Table 1.
TABLE_1 = {
    "madelon": (2600, 500, 2),
    "COIL20": (1440, 1024, 20),
    "Yale": (165, 1024, 15),
    "pixraw10P": (100, 10000, 10),
    "warpPIE10P": (210, 2420, 10),
    "GLIOMA": (50, 4434, 4),
    "Prostate-GE": (102, 5966, 2),
}
#: Tables S1 to S3: means and deviations at the best number of features of each method, by set.
CLASSIFICATION = {
    "Our": ((90, 1), (100, 0), (81, 5), (100, 0), (99, 2), (81, 9), (89, 5)),
    "LS": ((51, 1), (98, 1), (67, 7), (97, 6), (96, 5), (67, 13), (88, 7)),
    "AllFea": ((73, 2), (100, 0), (75, 6), (97, 3), (98, 4), (72, 14), (89, 6)),
}
CLUSTERING = {
    "Our": ((60, 1), (66, 3), (62, 4), (87, 7), (51, 5), (75, 8), (68, 9)),
    "LS": ((52, 1), (53, 4), (58, 6), (85, 10), (55, 5), (63, 13), (71, 13)),
    "AllFea": ((58, 4), (63, 5), (61, 8), (78, 5), (45, 5), (62, 8), (64, 10)),
}
_OUR_ERRORS = (0.0, 0.02, 0.02, 0.03, 0.01, 0.04, 0.13)
_LS_ERRORS = (0.0, 0.02, 0.04, 0.05, 0.06, 0.04, 0.1)
RECONSTRUCTION = {
    "Our": tuple(zip((0.98, 0.38, 0.54, 0.39, 0.25, 0.69, 0.73), _OUR_ERRORS, strict=True)),
    "LS": tuple(zip((0.99, 0.48, 0.78, 0.63, 0.45, 0.71, 0.72), _LS_ERRORS, strict=True)),
    "AllFea": ((0.28, 0.0),),  # jaxfs reconstructs only Madelon from all features
}
PAPER = {"forest": CLASSIFICATION, "k-means": CLUSTERING, "RMSE": RECONSTRUCTION}
#: The methods of the paper that jaxfs has.
OURS = {"Our": "default", "LS": "Laplacian score", "AllFea": "all features"}
PAPER_SPLITS = 10
MISSING = (
    "PCMAC, Jaffe, LUNG, SRBCT and SMK are not available. CAE, DUFS, WAST, AEFS, RSR and UDFS are "
    "not part of jaxfs. LS is `laplacian_score`, whose graph is not the paper's 5-NN graph."
)


def _values(found: list[dict], name: str, method: str, task: str) -> np.ndarray:
    """Values (splits, counts)."""
    return np.array([one[name]["methods"][method][task] for one in found], np.float64)


def _error(*deviations: tuple[float, int]) -> float:
    """Standard error of a difference of means, from the deviation and number of splits of each."""
    return float(np.sqrt(sum(d**2 / n for d, n in deviations)))


def _best(values: np.ndarray, task: str) -> tuple[float, float, int]:
    """Mean, deviation and index of the best count, chosen on the test parts as in the paper."""
    means = values.mean(axis=0)
    i = int(np.argmin(means) if task == "RMSE" else np.argmax(means))
    return float(means[i]), float(values[:, i].std(ddof=1)), i


def _compared(found: list[dict], task: str, names=tuple(OURS)) -> list[list]:
    """Rows of paper, jaxfs and difference."""
    digits = 2 if task == "RMSE" else 1
    rows = []
    for i, name in enumerate(TABLE_1):
        for method in names:
            if i >= len(PAPER[task][method]):
                continue
            mean, deviation = PAPER[task][method][i]
            values = _values(found, name, OURS[method], task)
            ours, spread, at = _best(values, task)
            error = _error((deviation, PAPER_SPLITS), (spread, len(values)))
            counts = found[0][name]["counts"]
            count = "" if method == "AllFea" else f" ({counts[-1 if task == 'RMSE' else at]})"
            rows.append(
                [
                    name,
                    f"{method}: `fit_dirichlet_selector`" if method == "Our" else method,
                    f"{mean} ± {deviation}",
                    f"{ours:.{digits}f} ± {spread:.{digits}f}{count}",
                    f"{ours - mean:+.{digits}f} ± {error:.{digits}f}",
                ]
            )
    return rows


def _judged(task: str, paper: str, ours: str) -> tuple[bool, bool]:
    """Whether printed means ± deviations agree, and whether ours is worse than the paper's."""
    (mean, deviation), (own, spread) = numbers_in(paper)[:2], numbers_in(ours)[:2]
    gap = own - mean
    error = _error((deviation, PAPER_SPLITS), (spread, PAPER_SPLITS))
    near = agrees(gap, error, 0.005 if task == "RMSE" else 0.5)
    return near, not near and (gap > 0) == (task == "RMSE")


#: How the verdicts judge, and what all tables have in common.
RULE = (
    "The default misses the paper if it is worse by more than two standard errors and the rounding "
    "of the paper. A number agrees if it differs by less than that."
)
_NETWORK = (
    'The paper\'s network was not run: "Our" is compared with the default of jaxfs, which has '
    "another objective, coverage, that was chosen on these sets. Smaller sets of features are the "
    "first features of one fit for the largest number, where the paper fits each number. There is "
    "no set of 75 or 150 features. "
)
_FORESTS = f"Forests have {TREES} trees (the paper: 1000). "
_ERRORS = (
    "The reconstruction has the largest number of features only, and its RMSE is rescaled: every "
    "feature has variance 1 over all samples, so that no gene dominates. For many features the "
    "network predicts coordinates in the span of the training samples. "
)
DIFFERS = {"forest": _NETWORK + _FORESTS, "k-means": _NETWORK, "RMSE": _NETWORK + _ERRORS}
DIFFERS_TABLE_2 = _NETWORK + _FORESTS + _ERRORS


def _section(found: list[dict], task: str, what: str) -> Answer:
    return Answer(f"""
{what} {len(found)} splits; the paper has {PAPER_SPLITS}. The numbers of features (in brackets) are
chosen on the test parts, as in the paper. Difference with its standard error. {RULE} {MISSING}

{table(["Set", "Method", "Paper", "jaxfs", "Difference"], _compared(found, task))}
""")


def judge(name: str, task: str, tables: Tables) -> str:
    """The verdict on Table S1, S2 or S3."""
    _, *rows = tables[name][0]
    ours = [_judged(task, row[2], row[3]) for row in rows if row[1].startswith("Our")]
    others = [_judged(task, row[2], row[3])[0] for row in rows if not row[1].startswith("Our")]
    near = sum(agree for agree, _ in ours)
    # The paper's network was not run, so that the table as a whole is not reproduced.
    kind = state([agree for agree, _ in ours] + others + [False])
    return (
        f"{kind}: the paper's network was not run; the default of jaxfs agrees with its numbers on "
        f"{near} of {len(ours)} sets and misses them on {sum(worse for _, worse in ours)}, and "
        f"{sum(others)} of {len(others)} numbers of LS and AllFea agree"
    )


def judge_table_2(tables: Tables) -> str:
    _, *rows = tables["dirichlet-table-2"][0]
    verdicts = []
    for task in PAPER:
        near = [_judged(task, row[2], row[3])[0] for row in rows if row[0] == task]
        verdicts.append(f"{sum(near)} of {len(near)} sets ({task})")
    kind = state([_judged(row[0], row[2], row[3])[0] for row in rows] + [False])
    return (
        f"{kind}: the paper's network was not run; the default of jaxfs agrees with its numbers on "
        f"{', '.join(verdicts)}"
    )


def show_table_s1(found: list[dict]) -> Answer:
    return _section(found, "forest", f"Accuracy of a random forest of {TREES} trees (paper: 1000).")


def show_table_s2(found: list[dict]) -> Answer:
    return _section(found, "k-means", "Accuracy of k-means on the test parts.")


def show_table_s3(found: list[dict]) -> Answer:
    return _section(
        found,
        "RMSE",
        "RMSE of a network that reconstructs all features of the test parts. On genes some test "
        "values lie up to 200 training deviations from the mean.",
    )


def show_table_1(found: list[dict]) -> Answer:
    rows = [
        [
            name,
            paper,
            tuple(found[0][name]),
            "none" if paper == tuple(found[0][name]) else "differs",
        ]
        for name, paper in TABLE_1.items()
    ]
    text = f"""
Samples, features and classes of the files. PCMAC, Jaffe, LUNG, SRBCT and SMK are not available.

{table(["Set", "Paper", "jaxfs", "Difference"], rows)}
"""
    return Answer(text, "reproduced for the sets that are available")


def show_table_2(found: list[dict]) -> Answer:
    methods = ("default", "untrained", "coverage", "random", "Laplacian score")
    means = {
        m: np.stack([_values(found, name, m, "forest").mean(axis=1) for name in TABLE_1], axis=1)
        for m in methods
    }  # (splits, sets)
    splits = len(found)
    rows = [[m, *(f"{v:.1f}" for v in means[m].mean(axis=0))] for m in methods]
    every = [f"{_values(found, name, 'all features', 'forest').mean():.1f}" for name in TABLE_1]
    rows.append(["all features", *every])
    pairs = []
    for other in methods[1:]:
        gap = means["default"] - means[other]
        error = gap.std(axis=0, ddof=1) / np.sqrt(splits)
        over = gap.mean(axis=0)
        between = over.std(ddof=1) / np.sqrt(len(over))
        cells = (f"{g:+.1f} ± {e:.1f}" for g, e in zip(over, error, strict=True))
        pairs.append([f"minus {other}", *cells, f"{over.mean():+.1f} ± {between:.1f}"])
    gap = (means["default"] - means["coverage"]).mean(axis=0)[1:]
    rest = f"{gap.mean():+.1f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.1f}"
    trained = sum(one[name]["trained"] for one in found for name in TABLE_1)
    summary = [
        [task, row[0], *row[2:]] for task in PAPER for row in _compared(found, task, ("Our",))
    ]
    text = f"""
The default options of `fit_dirichlet_selector` against the paper's method, at the best number of
features (in brackets), mean ± standard deviation over {splits} splits of 80% and 20%. Tables S1 to
S3 have the other methods. Numbers of features: 25, 50, 100, 200 and 300 (Madelon 5 to 20). The best
number is chosen on the test parts, as in the paper. {RULE} {MISSING}

{table(["Task", "Set", "Paper", "jaxfs", "Difference"], summary)}

Random forests, mean over all numbers of features and {splits} splits. "untrained" is the default
without training of gates, "coverage" has no graph:

{table(["", *TABLE_1], rows)}

Paired differences of the default, with standard errors over splits, and over sets in the last
column:

{table(["Default", *TABLE_1, "Mean"], pairs)}

Without Madelon, the first set, the mean difference to coverage is {rest}.

The default trained gates in {trained} of {splits * len(TABLE_1)} fits. No gates are trained if the
graph of all features shows enough relevant features; the default and "untrained" are then the same.
The paper's network, `objective="network"`, is in Table 3.
"""
    return Answer(text)
