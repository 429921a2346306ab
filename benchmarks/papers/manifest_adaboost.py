"""ManiFeSt evaluated by AdaBoost: pixels that separate 4 from 9, from few samples; the best t.

    JAXFS_DATA=… python -m benchmarks.papers.manifest_adaboost [--part map|ratio] [--repeats 10] …

These are the experiments of a report on ManiFeSt. A score sees N images of MNIST's digits 4 and 9.
AdaBoost uses the M best pixels as rules f_j ≥ 128, with both signs, for 30 rounds, and is tested on
the 1991 test images. Printed is the mean of the errors of the two digits.

- `map`: errors of ManiFeSt, ReliefF and random pixels by M and N, with ten draws of images each.
  The report does not name the training set of AdaBoost. Here AdaBoost is trained once on the N
  images that the score sees, and once on 2000 images, so that only the choice of pixels depends on
  N. ReliefF has 10 neighbours, or as many as there are.
- `ratio`: the open question of the report, how the best point t of the geodesic depends on the
  share R₁ = N₁/(N₁ + N₂) of the first class, the fours. N is fixed. AdaBoost is trained on 2000
  images, with equally many of each digit, so that the ratio affects only the choice of pixels. With
  ten draws of N = 100, from R₁ = 0.1 to 0.9, every t in 0.3 … 0.7 was within one point of t = ½,
  and the ends were 15 to 27 points worse. The best t was 0.6 or 0.7 at every ratio: it depends on
  the digits, not on the ratio. Averaged over both orders of the digits, the best t was within 0.4
  points of ½. At R₁ = 0.1 and 0.2 it was on the side of the larger class (0.7 and 0.6, by 0.4 ± 0.2
  and 0.35 ± 0.1 points).

Pictures: manifest_adaboost.png, manifest_adaboost_spread.png, manifest_adaboost_t.png.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")  # writes files; needs no screen
import matplotlib.pyplot as plt
import numpy as np
from jax import lax

import jaxfs
from benchmarks import boosting

NUM_FEATURES = (5, 10, 15, 20, 30, 50, 75, 100)
NUM_SAMPLES = (10, 20, 40, 70, 100, 200, 400, 1000)
METHODS = ("ManiFeSt", "ReliefF", "random")
TRAININGS = ("the N images", "2000 images")
NUM_TRAIN = 2000
RATIOS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
TS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
#: Colour-blind-safe colours of Okabe and Ito.
COLORS = ("#0072B2", "#D55E00", "#999999")

# ---- Scores of many draws -----------------------------------------------------------------------


@jax.jit
def manifest(x, y, rows, weights, ts):
    """Scores (b, t, 784) of draws `rows (b, n)`: a loop over draws, with all t at once."""

    def one(draw):
        rows, w = draw
        own = x[rows]
        first, second = (jnp.where(y[rows] == c, w, 0) for c in (0, 1))
        score = functools.partial(jaxfs.manifest_score, own, own, weights1=first, weights2=second)
        return jax.vmap(lambda t: score(t=t))(ts)

    return lax.map(one, (rows, weights))


@jax.jit
def relieff(x, y, rows):
    """Scores (b, 784) of draws of one size, with 10 neighbours or as many as there are."""
    k = min(10, rows.shape[1] // 2 - 1)
    return lax.map(
        lambda rows: jaxfs.relieff_score(x[rows], y[rows], num_classes=2, num_neighbors=k), rows
    )


def best(scores, k: int) -> np.ndarray:
    """Indices (…, k) of the k best pixels."""
    if np.isnan(scores).any():
        raise ValueError("scores hold NaN")
    return np.argsort(-np.asarray(scores), axis=-1, kind="stable")[..., :k]


def halves(n: int) -> tuple[int, int]:
    return n // 2, n - n // 2


# ---- The heat maps ------------------------------------------------------------------------------


def rankings(pool, draws, sizes, k: int) -> np.ndarray:
    """The best pixels (methods, repeats, sizes, k) of every method."""
    repeats, n = draws.shape
    seen = np.tile((np.arange(n) < sizes[:, None]).astype(np.float32), (repeats, 1))
    half = np.array([0.5], np.float32)
    ours = manifest(*pool, np.repeat(draws, len(sizes), axis=0), seen, half)
    theirs = np.stack([relieff(*pool, draws[:, :size]) for size in sizes], axis=1)
    lots = np.random.default_rng(1).random(theirs.shape)
    shape = (repeats, len(sizes), -1)
    return np.stack([best(np.reshape(a, shape), k) for a in (ours, theirs, lots)])


def heat_map(pool, test, sizes, counts, repeats: int) -> np.ndarray:
    """Errors (trainings, methods, repeats, sizes, counts)."""
    rng = np.random.default_rng(0)
    n, k = int(sizes.max()), int(counts.max())
    draws = np.stack([boosting.draw(rng, pool.y, halves(n)) for _ in range(repeats)])
    others = np.stack([boosting.draw(rng, pool.y, halves(NUM_TRAIN)) for _ in range(repeats)])
    start = time.perf_counter()
    orders = rankings(pool, draws, sizes, k)
    print(f"scores of {2 * draws.shape[0] * len(sizes)} draws: {time.perf_counter() - start:.0f} s")
    seen = (np.arange(n) < sizes[:, None]).astype(np.float32)
    found = []
    for rows, weights in (
        (np.repeat(draws, len(sizes), axis=0), np.tile(seen, (repeats, 1))),
        (np.repeat(others, len(sizes), axis=0), np.ones((repeats * len(sizes), NUM_TRAIN), "f4")),
    ):
        start = time.perf_counter()
        rows, weights = (np.tile(a, (len(METHODS), 1)) for a in (rows, weights))
        flat = orders.reshape(-1, k)
        answer = np.asarray(boosting.errors(*pool, weights, rows, flat, counts, *test))
        found.append(answer.reshape(*orders.shape[:-1], len(counts)))
        print(f"{answer.size} AdaBoost models: {time.perf_counter() - start:.1f} s, all included")
    return np.stack(found)


def print_map(found, sizes, counts) -> None:
    for training, errors in zip(TRAININGS, 100 * found, strict=True):
        print(f"\nTest error (%), AdaBoost trained on {training}; mean over M, ± over repeats")
        print(f"{'N':>12s}" + "".join(f"{size:>13d}" for size in sizes))
        for method, e in zip(METHODS, errors, strict=True):
            means = e.mean(axis=-1)
            cells = zip(means.mean(axis=0), means.std(axis=0), strict=True)
            print(f"{method:>12s}" + "".join(f"{m:7.1f} ± {s:3.1f}" for m, s in cells))
        print(f"{'M':>12s}" + "".join(f"{count:>13d}" for count in counts))
        for method, e in zip(METHODS, errors, strict=True):
            means = e.mean(axis=1)
            cells = zip(means.mean(axis=0), means.std(axis=0), strict=True)
            print(f"{method:>12s}" + "".join(f"{m:7.1f} ± {s:3.1f}" for m, s in cells))


def draw_map(found, sizes, counts, path: str) -> None:
    means = 100 * found.mean(axis=2)
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    for row, training in enumerate(TRAININGS):
        for column, method in enumerate(METHODS):
            axis, e = axes[row, column], means[row, column]
            limits = {"vmin": means.min(), "vmax": means.max()}
            image = axis.imshow(e, cmap="cividis", aspect="auto", **limits)
            axis.set(
                xticks=range(len(counts)), xticklabels=counts, xlabel="pixels M",
                yticks=range(len(sizes)), yticklabels=sizes, ylabel="images N",
            )  # fmt: skip
            axis.set_title(f"AdaBoost({method}), trained on {training}", fontsize=10)
            middle = 0.5 * (means.min() + means.max())
            for i, j in np.ndindex(e.shape):
                color = "black" if e[i, j] > middle else "white"
                axis.text(j, i, f"{e[i, j]:.0f}", ha="center", va="center", color=color, fontsize=8)
    figure.colorbar(image, ax=axes, label="mean test error (%)", shrink=0.7)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_spread(found, sizes, counts, path: str) -> None:
    """Draw the violins of the report: errors of all repeats by M (all N) and by N (all M)."""
    errors = 100 * found[0]
    figure, axes = plt.subplots(3, 2, figsize=(12, 10), sharey=True, layout="constrained")
    for row, (method, color) in enumerate(zip(METHODS, COLORS, strict=True)):
        sides = (("pixels M", counts, -1), ("images N", sizes, -2))
        for axis, (label, ticks, which) in zip(axes[row], sides, strict=True):
            values = np.moveaxis(errors[row], which, 0).reshape(len(ticks), -1)
            parts = axis.violinplot(list(values), showmedians=True)
            for body in parts["bodies"]:
                body.set_facecolor(color)
            for line in ("cmedians", "cbars", "cmins", "cmaxes"):
                parts[line].set_color(color)
            axis.set(xticks=range(1, len(ticks) + 1), xticklabels=ticks, xlabel=label)
            axis.set(title=f"AdaBoost({method})", ylabel="test error (%)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


# ---- The class ratio ----------------------------------------------------------------------------


def by_ratio(pool, test, total: int, counts, repeats: int):
    """Errors (ratios, repeats, t) averaged over numbers of pixels, and the top 20 of each t."""
    rng = np.random.default_rng(2)
    ts, k = np.array(TS, np.float32), int(counts.max())
    sizes = [(round(r * total), total - round(r * total)) for r in RATIOS]
    draws = np.stack([boosting.draw(rng, pool.y, s) for s in sizes for _ in range(repeats)])
    others = np.stack([boosting.draw(rng, pool.y, halves(NUM_TRAIN)) for _ in range(repeats)])
    start = time.perf_counter()
    orders = best(manifest(*pool, draws, np.ones(draws.shape, np.float32), ts), k)
    print(f"\n{orders[..., 0].size} scores by t and ratio: {time.perf_counter() - start:.0f} s")
    rows = np.repeat(np.tile(others, (len(sizes), 1)), len(ts), axis=0)
    flat = orders.reshape(-1, k)
    answer = boosting.errors(*pool, np.ones(rows.shape, "f4"), rows, flat, counts, *test)
    shape = (len(sizes), repeats, len(ts))
    return np.asarray(answer).mean(axis=-1).reshape(shape), orders.reshape(*shape, k)[..., :20]


def print_ratio(errors, tops, total: int) -> None:
    half = TS.index(0.5)
    print(f"Test error (%) by t and R₁ = N₁/{total}, N₁ fours; {errors.shape[1]} draws each")
    print_best(RATIOS, 100 * errors)
    # Swapping the classes turns (R₁, t) into (1 − R₁, 1 − t); the mean is free of the digits.
    folded = 50 * (errors + errors[::-1, :, ::-1])[: (len(RATIOS) + 1) // 2]
    print("mean over both orders of the digits: the effect of the ratio alone")
    print_best(RATIOS[: len(folded)], folded)
    print("number of the 20 best pixels in common with t = ½")
    for ratio, top in zip(RATIOS, tops, strict=True):
        shared = [[len(set(a) & set(b[half])) for a in b] for b in top.tolist()]
        print(f"{ratio:5.2f}" + "".join(f"{m:7.1f}" for m in np.mean(shared, axis=0)))


def print_best(ratios, errors) -> None:
    """Print a row for each ratio: mean errors, the best t, and its gain over t = ½."""
    print("   R₁" + "".join(f"{t:7.2f}" for t in TS) + "   best t (90%)     gain over ½")
    rng, repeats = np.random.default_rng(3), errors.shape[1]
    for ratio, e in zip(ratios, errors, strict=True):
        means = e.mean(axis=0)
        resampled = e[rng.integers(repeats, size=(1000, repeats))].mean(axis=1)
        low, high = np.quantile(np.array(TS)[resampled.argmin(axis=1)], (0.05, 0.95))
        winner = int(means.argmin())
        gain = e[:, TS.index(0.5)] - e[:, winner]
        spread = gain.std(ddof=1) / repeats**0.5 if repeats > 1 else float("nan")
        row = f"{ratio:5.2f}" + "".join(f"{m:7.2f}" for m in means)
        print(f"{row}   {TS[winner]:.1f} ({low:.2f}–{high:.2f})  {gain.mean():.2f} ± {spread:.2f}")


def draw_ratio(errors, path: str) -> None:
    means = 100 * errors.mean(axis=1)
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    image = axes[0].imshow(means, cmap="cividis", aspect="auto")
    axes[0].set(
        xticks=range(len(TS)), xticklabels=TS, xlabel="t",
        yticks=range(len(RATIOS)), yticklabels=RATIOS, ylabel="R₁", title="mean test error (%)",
    )  # fmt: skip
    axes[0].plot(means.argmin(axis=1), range(len(RATIOS)), "o", color="white", mec="black")
    figure.colorbar(image, ax=axes[0])
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.95, len(RATIOS)))
    for ratio, mean, color in zip(RATIOS, means, shades, strict=True):
        axes[1].plot(TS, mean - mean[TS.index(0.5)], marker="o", color=color, label=f"R₁ = {ratio}")
    axes[1].axhline(0, color="black", linewidth=0.5)
    axes[1].set(xlabel="t", ylabel="error minus that of t = ½ (points)")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=("map", "ratio"), help="run one part only")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--samples", type=int, nargs="+", default=NUM_SAMPLES)
    parser.add_argument(
        "--total", type=int, default=100, help="N of the part `ratio` (default: 100)"
    )
    given = parser.parse_args()
    pool, test = boosting.digits(), boosting.digits("t10k")
    if given.part != "ratio":
        sizes, counts = np.array(given.samples), np.array(NUM_FEATURES)
        found = heat_map(pool, test, sizes, counts, given.repeats)
        print_map(found, sizes, counts)
        draw_map(found, sizes, counts, "manifest_adaboost.png")
        draw_spread(found, sizes, counts, "manifest_adaboost_spread.png")
    if given.part != "map":
        counts = np.array([10, 20, 30, 50])
        errors, tops = by_ratio(pool, test, given.total, counts, given.repeats)
        print_ratio(errors, tops, given.total)
        draw_ratio(errors, "manifest_adaboost_t.png")


if __name__ == "__main__":
    main()
