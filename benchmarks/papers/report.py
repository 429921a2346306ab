"""The page of a report that evaluates ManiFeSt by AdaBoost."""

import functools

import numpy as np

from benchmarks.papers._parts import Answer, Part, table
from benchmarks.papers.report_runs import (
    METHODS,
    NUM_FEATURES,
    NUM_SAMPLES,
    RATIO_SAMPLES,
    RATIOS,
    TRAININGS,
    TS,
    best,
    errors,
    pixel_scores,
    ratio_errors,
)

TITLE = "ManiFeSt and AdaBoost: figures of the report"
INTRO = """
A report reviews ManiFeSt: it selects pixels of MNIST's digits 4 and 9 with ManiFeSt, ReliefF and at
random, and measures the error of AdaBoost on them. It has no tables, and its figures are pictures
without printed numbers. Its text makes five claims, which the section *Conclusions* compares with
our numbers.

The report defines the difference operator as D = Log_M K₁ at the midpoint M of the geodesic and
proposes other points M(t). There the logarithms of the two kernels differ: Log_M K₁ = 2t D(t) and
Log_M K₂ = −2(1 − t) D(t), where D(t) = ½(Log_M K₁ − Log_M K₂) is the operator of `manifest_score(…,
t=t)`. So the score of the report at t is 2t times ours. Both rank the pixels in the same order for
t > 0; at t = 0 that of the report is zero, and ours is not.

The report does not name the training set of AdaBoost. We train AdaBoost once on the N images that
the score sees, and once on 2000 images, so that only the choice of the pixels depends on N. ReliefF
has 10 neighbours, or as many as there are. ManiFeSt has its default options. AdaBoost has 30 stumps
on pixels that are black or white (threshold 128), and its error is the mean of the errors of both
digits. The numbers N and M of images and pixels are our choice.
"""

#: Verdict of a figure about which the report claims nothing.
PICTURE = "illustration, nothing to reproduce: the report prints no numbers and makes no claim"

# ---- Figures 1 and 2 ----------------------------------------------------------------------------


def show_scores(size: int, found: list[dict]) -> Answer:
    positive = np.maximum(np.array([split[str(size)] for split in found]), 0)  # (draws, 2, 784)
    counts = np.sum(positive > 0.5 * positive.max(axis=2, keepdims=True), axis=2)
    effective = positive.sum(axis=2) ** 2 / np.square(positive).sum(axis=2)
    tops = [[set(best(np.array(s), 50).tolist()) for s in split[str(size)]] for split in found]
    common = np.mean([len(a & b) for a, b in tops])
    again = [np.mean([len(a[i] & b[i]) for a in tops for b in tops if a is not b]) for i in (0, 1)]
    rows = [
        (name, *(f"{v[:, i].mean():.0f}" for v in (counts, effective)), f"{again[i]:.0f}")
        for i, name in enumerate(METHODS[:2])
    ]
    header = (
        "",
        "pixels above half of the largest score",
        "effective number of pixels",
        "of the 50 best, in common between draws",
    )
    text = f"""Scores of the 784 pixels from {size} images, half of each digit; the picture shows
draw 0 of {len(found)}. Of their 50 best pixels, ManiFeSt and ReliefF have {common:.0f} in common.
The effective number is (Σ s)² / Σ s², over the positive scores s. The report prints no numbers.

{table(header, rows)}"""

    def draw(figure):
        figure.set_size_inches(5, 2.4)
        names = ("ReliefF", "ManiFeSt")
        for axis, name, s in zip(
            figure.subplots(1, 2), names, found[0][str(size)][::-1], strict=True
        ):
            axis.imshow(np.array(s).reshape(28, 28), cmap="viridis")
            axis.set(xticks=[], yticks=[], title=name)

    if size < 1000:
        return Answer(text, PICTURE, draw)
    fewer = [v[:, 0].mean() < v[:, 1].mean() for v in (counts, effective)]
    word = {2: "reproduced", 1: "reproduced in part", 0: "not reproduced"}[sum(fewer)]
    fact = {
        2: "fewer pixels have high scores in ManiFeSt than in ReliefF, by both measures",
        1: "fewer pixels have high scores in ManiFeSt than in ReliefF by one of two measures",
        0: "by both measures, more pixels have high scores in ManiFeSt than in ReliefF",
    }[sum(fewer)]
    return Answer(text, f"{word}: {fact}", draw)


# ---- Figures 3 to 7 -----------------------------------------------------------------------------


def all_errors(found: list[dict]) -> np.ndarray:
    """Errors (repeats, trainings, methods, sizes, counts) in per cent."""
    return 100 * np.array([split["errors"] for split in found])


def show_map(method: str, found: list[dict]) -> Answer:
    values = all_errors(found)[:, :, METHODS.index(method)]
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) / len(found) ** 0.5
    rows = [
        (size, *(f"{mean[1, i, j]:.1f} ± {spread[1, i, j]:.1f}" for j in range(len(NUM_FEATURES))))
        for i, size in enumerate(NUM_SAMPLES)
    ]
    text = f"""Mean test error (%) ± standard error over {len(found)} draws (the report has 10),
AdaBoost trained on 2000 images, by the number N of images that the score sees (rows) and the number
M of pixels (columns). The mean over the table is {mean[1].mean():.1f}; with AdaBoost trained on the
N images it is {mean[0].mean():.1f}. The report prints no numbers.

{table(("N", *(f"M = {count}" for count in NUM_FEATURES)), rows)}"""

    def draw(figure):
        figure.set_size_inches(9, 3.4)
        for axis, e, training in zip(figure.subplots(1, 2), mean, TRAININGS, strict=True):
            limits = {"vmin": mean.min(), "vmax": mean.max()}
            axis.imshow(e, cmap="cividis", aspect="auto", **limits)
            axis.set(xticks=range(len(NUM_FEATURES)), yticks=range(len(NUM_SAMPLES)))
            axis.set_xticklabels(NUM_FEATURES)
            axis.set_yticklabels(NUM_SAMPLES)
            axis.set(xlabel="pixels M", ylabel="images N")
            axis.set_title(f"AdaBoost({method}), trained on {training}", fontsize=8)
            middle = 0.5 * (mean.min() + mean.max())
            for i, j in np.ndindex(e.shape):
                color = "black" if e[i, j] > middle else "white"
                axis.text(j, i, f"{e[i, j]:.0f}", ha="center", va="center", color=color, fontsize=7)

    return Answer(text, PICTURE, draw)


def show_spread(method: str, found: list[dict]) -> Answer:
    values = all_errors(found)[:, :, METHODS.index(method)]  # (repeats, trainings, sizes, counts)
    rows = []
    sides = (("M", NUM_FEATURES, 3), ("N", NUM_SAMPLES, 2))
    for name, ticks, axis in sides:
        for i, tick in enumerate(ticks):
            both = np.take(values, i, axis=axis)
            cells = (f"{both[:, t].mean():.1f} ± {both[:, t].std():.1f}" for t in (0, 1))
            rows.append((f"{name} = {tick}", *cells))
    text = f"""Test error (%), mean ± standard deviation over {len(found)} draws and over the other
variable. The report prints no numbers.

{table(("", *(f"trained on {training}" for training in TRAININGS)), rows)}"""

    def draw(figure):
        panels = figure.subplots(1, 2, sharey=True)
        for axis, (name, ticks, which) in zip(panels, sides, strict=True):
            shown = np.moveaxis(values[:, 1], which - 1, 0).reshape(len(ticks), -1)
            axis.violinplot(list(shown), showmedians=True)
            axis.set(xticks=range(1, len(ticks) + 1), xlabel=name)
            axis.set_xticklabels(ticks)
        panels[0].set_ylabel("test error (%)")
        figure.suptitle(f"AdaBoost({method}), trained on 2000 images", fontsize=9)

    mean = values[:, 1].mean(axis=(0, 1))
    change = values[:, 1, 0].mean(axis=1) - values[:, 1, -1].mean(axis=1)
    error = change.std(ddof=1) / len(change) ** 0.5
    moves = "falls" if change.mean() > 0 else "rises"
    text += f"""

With AdaBoost trained on 2000 images, the mean error is {mean[0]:.1f} with the fewest pixels and
{mean[-1]:.1f} with the most. From the fewest to the most images it {moves} by
{abs(change.mean()):.1f} ± {error:.1f}."""
    if method == "random":
        text += " Random pixels do not depend on the images, so any change with N is noise."
    return Answer(text, PICTURE, draw)


def estimate(values: np.ndarray) -> str:
    """The mean of the draws and its standard error."""
    return f"{values.mean():+.1f} ± {values.std(ddof=1) / len(values) ** 0.5:.1f}"


def show_claims(found: list[dict]) -> Answer:
    rows, verdicts = [], []
    for t, training in enumerate(TRAININGS):
        values = all_errors(found)[:, t]  # (repeats, methods, sizes, counts)
        mean = values.mean(axis=(2, 3))  # (repeats, methods)

        def gap(a, b, mean=mean):
            return estimate(mean[:, a] - mean[:, b])

        first, last = values[..., 0].mean(axis=2), values[..., -1].mean(axis=2)
        falls = first - last  # (repeats, methods)
        fall = falls.mean(axis=0)
        less = falls[:, 0] - falls[:, 1]
        most = values[:, :, -1, 0] - values[:, :, -1, -1]
        few = values[:, 0, 0].mean(axis=1) - values[:, 1, 0].mean(axis=1)
        noise = values.std(axis=0, ddof=1).mean(axis=(1, 2))
        means = ", ".join(f"{m} {v:.1f}" for m, v in zip(METHODS, mean.mean(axis=0), strict=True))
        rows += [
            (f"**{training}**: mean error", means),
            (
                "1. selection is better than chance",
                f"ManiFeSt − random {gap(0, 2)}, ReliefF − random {gap(1, 2)}",
            ),
            ("2. ReliefF is slightly better", f"ManiFeSt − ReliefF {gap(0, 1)}"),
            (
                "3. the error of ManiFeSt falls less with M",
                (
                    f"from M = 5 to 100: ManiFeSt {fall[0]:.1f}, ReliefF {fall[1]:.1f}, difference "
                    f"{estimate(less)}; for N = 1000 alone {estimate(most[:, 0] - most[:, 1])}"
                ),
            ),
            (
                "4. ReliefF varies less",
                f"standard deviation over draws: ManiFeSt {noise[0]:.2f}, ReliefF {noise[1]:.2f}",
            ),
            (
                "5. ManiFeSt is competitive with few samples",
                f"N = {NUM_SAMPLES[0]}: ManiFeSt − ReliefF {estimate(few)}",
            ),
        ]
        m = mean.mean(axis=0)
        close = few.mean() <= 2 * few.std(ddof=1) / len(few) ** 0.5
        verdicts.append(
            (m[2] > max(m[:2]), m[1] < m[0], fall[0] < fall[1], noise[1] < noise[0], close)
        )
    text = f"""The claims of the report, {len(found)} draws; differences in points, with their
standard error over draws. The report supports claim 4 by narrower distributions in Figure 5 than in
Figure 6, but by its captions Figure 5 is that of ManiFeSt. Claim 5 is in the abstract; it holds if
ManiFeSt is at most two standard errors behind ReliefF here.

{table(("claim of the report", "jaxfs"), rows)}"""
    failed = []
    for i, marks in enumerate(zip(*verdicts, strict=True)):
        where = [training for training, mark in zip(TRAININGS, marks, strict=True) if not mark]
        if where:
            failed.append(f"claim {i + 1} fails if AdaBoost is trained on {' and on '.join(where)}")
    verdict = "reproduced" if not failed else f"reproduced in part: {'; '.join(failed)}"
    return Answer(text, verdict)


# ---- The proposition for future work ------------------------------------------------------------


def show_ratio(found: list[dict]) -> Answer:
    values = 100 * np.array([split["errors"] for split in found])  # (repeats, ratios, t)
    half = TS.index(0.5)
    # Swapping the classes turns (R₁, t) into (1 − R₁, 1 − t); the mean is free of the digits.
    folded = 0.5 * (values + values[:, ::-1, ::-1])[:, : (len(RATIOS) + 1) // 2]

    def rows(errors, ratios):
        answer = []
        for i, ratio in enumerate(ratios):
            mean = errors[:, i].mean(axis=0)
            at = int(mean.argmin())
            gain = errors[:, i, half] - errors[:, i, at]
            error = gain.std(ddof=1) / len(gain) ** 0.5
            gains = f"{gain.mean():.2f} ± {error:.2f}"
            answer.append((ratio, *(f"{m:.1f}" for m in mean), TS[at], gains))
        return answer

    header = ("R₁", *(f"t = {t}" for t in TS), "best t", "gain over ½")
    middle = values[:, :, 2:7].mean(axis=0)
    text = f"""The report asks how the best t depends on the share R₁ of the first class, the fours,
among the images. {RATIO_SAMPLES} images, {len(found)} draws, AdaBoost trained on 2000 images with
equally many of each digit, so that the ratio affects only the choice of the pixels. Test error (%),
mean over 10 to 50 pixels:

{table(header, rows(values, RATIOS))}

Averaged over both orders of the digits, which removes what is specific to 4 and 9:

{table(header, rows(folded, RATIOS[: folded.shape[1]]))}

The gains are those of the best t of the same draws, so they are optimistic. From t = 0.3 to 0.7 the
error stays within {np.abs(middle - middle[:, 2:3]).max():.1f} points of that of t = ½, at every
ratio."""

    def draw(figure):
        axis = figure.subplots()
        for ratio, mean in zip(RATIOS, values.mean(axis=0), strict=True):
            axis.plot(TS, mean - mean[half], marker="o", markersize=3, label=f"R₁ = {ratio}")
        axis.set(xlabel="t", ylabel="error minus that of t = ½")
        axis.legend(fontsize=6)

    verdict = "illustration, nothing to reproduce: the report proposes this study without a result"
    return Answer(text, verdict, draw)


def _figure(number: int, title: str, run, splits: int, store: str, show, *arguments) -> Part:
    shown = functools.partial(show, *arguments)
    return Part(f"report-figure-{number}", f"Figure {number}", title, run, splits, shown, store)


_scores = pixel_scores, 5, "report-scores"
_errors = errors, 10, "report-errors"
PARTS = [
    _figure(1, "scores from 40 images", *_scores, show_scores, 40),
    _figure(2, "scores from 1000 images", *_scores, show_scores, 1000),
    _figure(3, "mean error of AdaBoost(ManiFeSt)", *_errors, show_map, "ManiFeSt"),
    _figure(4, "mean error of AdaBoost(ReliefF)", *_errors, show_map, "ReliefF"),
    _figure(5, "distribution for ManiFeSt", *_errors, show_spread, "ManiFeSt"),
    _figure(6, "distribution for ReliefF", *_errors, show_spread, "ReliefF"),
    _figure(7, "distribution for random pixels", *_errors, show_spread, "random"),
    Part("report-conclusions", "Conclusions", "five claims", *_errors[:2], show_claims, _errors[2]),
    Part("report-t", "Future work", "the best t by class ratio", ratio_errors, 10, show_ratio),
]
