"""SSFS: the sections of the page on clustering, from the numbers of `ssfs_clustering`."""

import numpy as np
from matplotlib.figure import Figure

from benchmarks import clustering
from benchmarks.papers._parts import Answer, table
from benchmarks.papers.ssfs_clustering import CLASSES, SHOWN

#: Table 1: mean and deviation of the accuracy, and the number of features.
TABLE_1 = {
    "Prostate-GE": {
        "Random": (63.0, 0.7, 30),
        "LS": (58.8, 0.0, 2),
        "MCFS": (61.8, 0.0, 100),
        "SSFS": (75.9, 0.5, 10),
    },
    "Yale": {
        "Random": (47.8, 3.5, 250),
        "LS": (43.9, 3.2, 300),
        "MCFS": (44.4, 2.9, 300),
        "SSFS": (50.3, 2.3, 100),
    },
    "COIL20": {
        "Random": (65.1, 2.1, 250),
        "LS": (61.9, 2.4, 300),
        "MCFS": (67.4, 3.3, 300),
        "SSFS": (67.1, 2.8, 300),
    },
}
#: Table 2: the accuracy and the number of features.
ABLATIONS = ("no selection", "no XGBoost", "no selection, regression", "regression", "SSFS")
TABLE_2 = {
    "Prostate-GE": ((59.8, 30), (69.6, 30), (61.8, 150), (61.8, 150), (75.9, 10)),
    "Yale": ((48.6, 50), (42.7, 250), (49.8, 200), (47.4, 250), (50.3, 100)),
    "COIL20": ((65.0, 150), (62.1, 150), (70.5, 100), (69.0, 300), (67.1, 300)),
}
#: Table 4: mean and deviation of the variation of information on Yale.
TABLE_4 = {"SSFS": (2.12, 0.27), "all features": (2.25, 0.27)}
#: Table 5.
TABLE_5 = {"Prostate-GE": (102, 5966, 2), "Yale": (165, 1024, 15), "COIL20": (1440, 1024, 20)}
MISSING = "GISETTE, TOX-171, ALLAML, ORL and ISOLET are not available."


def _summaries(found: list[dict]) -> dict[str, dict[str, clustering.Summary]]:
    return {
        one["set"]: {m: clustering.summary(np.array(a)) for m, a in one["accuracies"].items()}
        for one in found
    }


def _added(found: list[dict]) -> str:
    """A sentence on the sets that are not in the paper."""
    names = [one["set"] for one in found if one["set"] not in TABLE_1]
    return f"Not in the paper: {', '.join(names)}." if names else ""


def _standard_error(*deviations: float) -> float:
    """Standard error of the difference of two means over the runs of k-means."""
    return float(np.sqrt(np.sum(np.square(deviations)) / clustering.NUM_RUNS))


def _best(s: clustering.Summary) -> str:
    return f"{s.best:.1f} ± {s.best_deviation:.1f} ({s.best_count or 'all'})"


def show_table_1(found: list[dict]) -> Answer:
    rows, missed, close, chance = [], 0, 0, []
    for name, methods in _summaries(found).items():
        if name in TABLE_1 and methods["SSFS"].best < methods["Random"].best:
            chance.append(name)
        for method, ours in methods.items():
            if method in ABLATIONS and method != "SSFS":
                continue
            paper = TABLE_1.get(name, {}).get(method)
            difference = ""
            if paper:
                gap, error = ours.best - paper[0], _standard_error(paper[1], ours.best_deviation)
                difference = f"{gap:+.1f} ± {error:.1f}"
                if method == "SSFS":
                    missed += gap < -2 * error
                    close += gap >= -2 * error
            text = f"{paper[0]} ± {paper[1]} ({paper[2]})" if paper else ""
            label = {"SSFS": "SSFS, the paper's rules", "ssfs": "`ssfs`, defaults"}
            rows.append([name, label.get(method, method), text, _best(ours), difference])
    text = f"""
Accuracy of k-means at the best number of features (in brackets), mean ± standard deviation over 20
runs. The standard error of the difference is over runs. The number of features is chosen by the
accuracy, as in the paper, and the defaults of `ssfs` were chosen on these sets. "The paper's
rules" are `selection="stability", scoring="boosting", ranking="score"`, with 500 resamples (100 on
COIL20). NDFS, UDFS, KNMFS and LS-CAE are not part of jaxfs. {MISSING} {_added(found)}

{table(["Set", "Method", "Paper", "jaxfs", "Difference"], rows)}
"""
    verdict = (
        f"reproduced in part: SSFS reaches the paper's accuracy on {close} of {close + missed}"
        " available sets"
    )
    if not close:
        verdict = f"not reproduced: SSFS stays below the paper on all {missed} sets"
    if not missed:
        verdict = "reproduced on the sets that are available"
    if chance:
        verdict += f"; it stays below random features on {' and '.join(chance)}"
    return Answer(text, verdict)


def show_table_2(found: list[dict]) -> Answer:
    summaries = {n: m for n, m in _summaries(found).items() if n in TABLE_2}
    rows, firsts, ties = [], 0, 0
    for name, methods in summaries.items():
        for method, paper in zip(ABLATIONS, TABLE_2[name], strict=True):
            ours = methods[method]
            error = _standard_error(ours.best_deviation)
            gap = f"{ours.best - paper[0]:+.1f} ± {error:.1f}"
            rows.append([name, method, f"{paper[0]} ({paper[1]})", _best(ours), gap])
        rivals = max(methods[method].best for method in ABLATIONS if method != "SSFS")
        firsts += methods["SSFS"].best > rivals
        ties += methods["SSFS"].best == rivals
    ranks = _ranks({n: [m[a].best for a in ABLATIONS] for n, m in summaries.items()})
    paper_ranks = _ranks({n: [value for value, _ in row] for n, row in TABLE_2.items()})
    pairs = zip(ABLATIONS, paper_ranks, ranks, strict=True)
    mean = ", ".join(f"{name} {p:.2f} → {o:.2f}" for name, p, o in pairs)
    text = f"""
Accuracy of k-means at the best number of features (in brackets). The standard error is over the 20
runs of jaxfs; the paper gives none. {MISSING}

{table(["Set", "Method", "Paper", "jaxfs", "Difference"], rows)}

Mean rank over these sets, paper → jaxfs: {mean}.
"""
    verdict = f"not reproduced: SSFS is the best variant on {firsts} of {len(summaries)} sets"
    if firsts == len(summaries):
        verdict = "reproduced on the sets that are available"
    elif firsts:
        verdict = (
            f"reproduced in part: SSFS is the best variant on {firsts} of {len(summaries)} sets"
        )
    tied = f", tied on {ties}" if ties else ""
    return Answer(text, verdict + ("" if firsts == 3 else f"{tied}, in the paper on 2 of these 3"))


def _ranks(values: dict[str, list[float]]) -> np.ndarray:
    return clustering.ranks(np.array(list(values.values())).T)


def show_figure_5(found: list[dict]) -> Answer:
    methods = ("Random", "LS", "MCFS", "SSFS", "ssfs")
    summaries = _summaries(found)
    names = [*methods, "all features"]
    rows = [[n, *(f"{s[m].mean:.1f}" for m in names)] for n, s in summaries.items()]
    curves = [s for n, s in summaries.items() if n in TABLE_1]
    leads = sum(max(methods[:4], key=lambda m: s[m].mean) == "SSFS" for s in curves)
    header = ["Set", *methods[:3], "SSFS, the paper's rules", "`ssfs`, defaults", "all features"]
    text = f"""
Accuracy of k-means by the number of features. The table has the mean over 10 to 300 features and 20
runs. The paper gives curves without numbers. The defaults of `ssfs` were chosen on these sets, and
the number of classes was given. {MISSING} {_added(found)}

{table(header, rows)}
"""
    kind = "reproduced in part" if leads else "not reproduced"
    verdict = f"{kind}: of the four methods of the paper here, SSFS has the best mean on "
    verdict += f"{leads} of {len(curves)} sets"
    return Answer(text, verdict, lambda figure: _curves(figure, found, methods))


def _curves(figure: Figure, found: list[dict], methods) -> None:
    shown = [one for one in found if one["set"] in TABLE_1]
    for axes, one in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for method in methods:
            mean = 100 * np.array(one["accuracies"][method]).mean(axis=1)
            axes.plot(clustering.FEATURE_COUNTS, mean, marker=".", lw=1, label=method)
        axes.set(title=one["set"], xlabel="features", xscale="log")
    figure.axes[0].set_ylabel("accuracy (%)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)


def show_figure_7(found: list[dict]) -> Answer:
    shown = [one for one in found if one["set"] in TABLE_2]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for i, method in enumerate(ABLATIONS):
            best = [_summaries([one])[one["set"]][method].best for one in shown]
            axes.bar(np.arange(len(shown)) + 0.16 * (i - 2), best, 0.15, label=method)
        axes.set_xticks(range(len(shown)), [one["set"] for one in shown])
        axes.set_ylabel("accuracy (%)")
        axes.legend(ncols=2, loc="lower left")

    text = "The best accuracy of each ablation. The numbers are those of Table 2."
    verdict = show_table_2(found).verdict
    return Answer(text, verdict, draw)


def show_figure_11(found: list[dict]) -> Answer:
    summaries = {n: s for n, s in _summaries(found).items() if n in TABLE_2}
    rows = [[n, *(f"{s[m].mean:.1f}" for m in ABLATIONS)] for n, s in summaries.items()]
    leads = sum(max(ABLATIONS, key=lambda m: s[m].mean) == "SSFS" for s in summaries.values())
    text = f"""
Accuracy of each ablation by the number of features. The table has the mean over 10 to 300 features
and 20 runs. The paper gives curves without numbers. {MISSING}

{table(["Set", *ABLATIONS], rows)}
"""
    kind = "reproduced in part" if leads else "not reproduced"
    verdict = f"{kind}: SSFS has the best mean on {leads} of {len(rows)} sets"
    return Answer(text, verdict, lambda figure: _curves(figure, found, ABLATIONS))


def show_table_4(found: list[dict]) -> Answer:
    bits = {
        method: (one["mean"] / np.log(2), one["deviation"] / np.log(2))
        for method, one in found[0]["methods"].items()
    }
    rows = []
    for method, (mean, deviation) in bits.items():
        paper = TABLE_4.get(method)
        old = (f"{paper[0]} ± {paper[1]}", f"{mean - paper[0]:+.2f}") if paper else ("", "")
        name = {"SSFS": "SSFS, the paper's rules", "ssfs": "`ssfs`, defaults"}.get(method, method)
        rows.append([name, old[0], f"{mean:.2f} ± {deviation:.2f}", old[1]])
    gain = bits["all features"][0] - bits["SSFS"][0]
    chance = bits["all features"][0] - bits["random"][0]
    text = f"""
Yale: variation of information between all pairs of 500 runs of k-means with 15 clusters, mean ±
standard deviation, in bits (`evaluate.clustering_stability` answers in nats; the paper does not
name its unit, and with bits its value for all features is ours). Small is stable. 100 features are
selected. The pairs are not independent, so that no standard error is given. TOX-171 is
not available.

{table(["Features", "Paper", "jaxfs", "Difference"], rows)}

All features minus SSFS: {gain:+.2f}; in the paper +0.13. All features minus random features:
{chance:+.2f}.
"""
    verdict = "not reproduced: SSFS is less stable on Yale"
    if gain > 0:
        kind = "reproduced in part" if chance > gain / 2 else "reproduced for Yale"
        verdict = f"{kind}: clusters gain {gain:.2f} bits, and {chance:.2f} with random features"
    return Answer(text, verdict)


def show_figure_8(found: list[dict]) -> Answer:
    edges = np.array(found[0]["edges"])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for method in ("all features", "SSFS"):
            shares = found[0]["methods"][method]["shares"]
            axes.stairs(shares, edges / np.log(2), fill=True, alpha=0.6, label=method)
        axes.set(xlabel="variation of information (bits)", ylabel="share of the pairs")
        axes.legend()

    text = "Yale: the distributions of the variation of information in Table 4."
    return Answer(text, show_table_4(found).verdict, draw)


def show_figure_9(found: list[dict]) -> Answer:
    one = found[0]
    text = f"""
The first {SHOWN} features of SSFS, by the paper's rules with 100 resamples, in {CLASSES} classes of
COIL20. The classes explain {100 * one["explained"]:.0f}% of the variance of these features, mean
over features, and {100 * one["explained by all"]:.0f}% of the variance of all features. The paper
shows a picture without numbers.
"""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.imshow(one["values"], aspect="auto", vmin=-2, vmax=2)
        for border in np.flatnonzero(np.diff(one["labels"])) + 0.5:
            axes.axvline(border, color="white")
        axes.set(xlabel="samples, by class", ylabel="features")

    better = one["explained"] > one["explained by all"]
    verdict = "reproduced"
    if not better:
        verdict += " in part: the features differ between classes, but not more than others do"
    return Answer(text, verdict, draw)


def show_table_5(found: list[dict]) -> Answer:
    rows = []
    for one in found:
        if one["set"] in TABLE_5:
            paper, ours = TABLE_5[one["set"]], tuple(one["shape"])
            rows.append([one["set"], paper, ours, "none" if paper == ours else "differs"])
    text = f"""
Samples, features and classes of the files. {MISSING}

{table(["Set", "Paper", "jaxfs", "Difference"], rows)}
"""
    return Answer(text, "reproduced for the sets that are available")
