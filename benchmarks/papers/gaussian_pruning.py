"""Figure 3 of the GC / GKL paper: how many candidates the bounds of eqs. 18 and 19 exclude.

The bound on the score of a candidate j (eq. 12) is

    log(σ_j² − ‖Σ_jS‖² λ_min) − Σ_y p_y log(σ_jy² − ‖Σ^y_jS‖² λ^y_max),

where λ are the eigenvalues of the inverse covariances of the chosen features S. Eq. 19 exchanges
λ_min and λ_max, omits p_y, and is then not an upper bound; `run` counts its failures.
"""

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks import data
from benchmarks.papers._parts import Answer, Part, Tables, state, table
from benchmarks.timing import best

#: A set of ours instead of each set of the paper. The classes of the last two are joined at random.
TASKS = {"INRIA": "madelon", "STL": "COIL20", "CIFAR": "MNIST"}
ROUNDS, RIDGE = 100, 0.01


def problem(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features that vary, and two classes."""
    x, y = data.mnist() if name == "MNIST" else data.load(name)
    generator = np.random.default_rng(0)
    keep = generator.permutation(len(y))[:5000]
    x, y = x[keep], y[keep]
    if name != "madelon":
        classes = y.max() + 1
        y = np.isin(y, generator.permutation(classes)[: classes // 2]).astype(int)
    return StandardScaler().fit_transform(x[:, x.std(axis=0) > 0]), y


class Group:
    """Conditional variances of all features given the chosen ones, and their bounds."""

    def __init__(self, x):
        self.cov = np.cov(x.T, ddof=0) + RIDGE * np.eye(x.shape[1])
        self.chosen: list[int] = []
        self.variance = np.diag(self.cov).copy()  # σ²_{j|S}
        self.rows = np.zeros((ROUNDS, len(self.cov)))  # L⁻¹ Σ_{S,·}
        self.squares = np.zeros(len(self.cov))  # ‖Σ_jS‖²
        self.inverse = 0.0, 0.0  # the smallest and the largest eigenvalue of Σ_S⁻¹

    def bound(self, end: int) -> np.ndarray:
        """log of a bound on σ²_{j|S}: upper for end 0, lower for end 1; −∞ if it is negative."""
        rest = np.diag(self.cov) - self.squares * self.inverse[end]
        return np.where(rest > 0, np.log(np.where(rest > 0, rest, 1)), -np.inf)

    def add(self, i: int) -> None:
        n = len(self.chosen)
        row = self.cov[i] - self.rows[:n, i] @ self.rows[:n]
        self.rows[n] = row / np.sqrt(self.variance[i])
        self.variance = self.variance - self.rows[n] ** 2
        self.squares = self.squares + self.cov[i] ** 2
        self.chosen.append(i)
        w = np.linalg.eigvalsh(self.cov[np.ix_(self.chosen, self.chosen)])
        self.inverse = 1 / w[-1], 1 / w[0]


def run(split: int) -> dict:
    x, y = problem(list(TASKS.values())[split])
    p = [float(np.mean(y == c)) for c in (0, 1)]
    total, *classes = groups = [Group(x), *(Group(x[y == c]) for c in (0, 1))]
    rest = np.ones(x.shape[1], bool)
    counts, printed_low, printed_lost = [], [], 0
    for _ in range(ROUNDS):
        left = np.flatnonzero(rest)
        exact = [np.log(group.variance[left]) for group in groups]
        low = [group.bound(1)[left] for group in groups]
        score = exact[0] - p[0] * exact[1] - p[1] * exact[2]
        # s* at each candidate is the best score before it; the candidates stand in their order.
        before = np.concatenate([[-np.inf], np.maximum.accumulate(score)[:-1]])
        third = exact[0] - p[0] * exact[1] - p[1] * low[2]
        second = exact[0] - p[0] * low[1] - p[1] * low[2]
        first = total.bound(0)[left] - p[0] * low[1] - p[1] * low[2]
        at = [bound <= before for bound in (first, second, third)]
        counts.append([int(at[0].sum()), int((at[1] & ~at[0]).sum())])
        counts[-1] += [int((at[2] & ~at[1]).sum()), len(left)]
        # Eq. 19 as printed, for the score that it bounds.
        plain = exact[0] - exact[1] - exact[2]
        printed = low[0] - classes[0].bound(0)[left] - classes[1].bound(0)[left]
        if total.chosen:
            printed_low.append(float(np.mean(printed < plain - 1e-9)))
            before = np.concatenate([[-np.inf], np.maximum.accumulate(plain)[:-1]])
            printed_lost += bool((printed <= before)[np.argmax(plain)])
        chosen = int(left[np.argmax(score)])
        rest[chosen] = False
        for group in groups:
            group.add(chosen)
    parts = [np.ascontiguousarray(x[y == c]) for c in (0, 1)]
    columns = [part[:, chosen].copy() for part in parts]
    covariances, updates = best(
        lambda: [column @ part for column, part in zip(columns, parts, strict=True)],
        lambda: [group.rows[:, chosen] @ group.rows for group in groups],
        repeats=20,
    )
    return {
        "shape": x.shape,
        "counts": counts,
        "printed below the score": float(np.mean(printed_low)),
        "printed loses the best": printed_lost,
        "covariances": covariances,
        "updates": updates,
    }


def show(found: list[dict]) -> Answer:
    rows = []
    for (theirs, ours), split in zip(TASKS.items(), found, strict=False):
        counts = np.array(split["counts"], float)
        share = 100 * counts[:, :3] / counts[:, 3:]
        variances = share @ np.array([3, 2, 1]) / 3
        # An update of round n costs n / ROUNDS of the one that was timed.
        update = split["updates"] * np.arange(ROUNDS) / ROUNDS
        step = update / (update + split["covariances"])
        time = (update @ variances) / np.sum(update + split["covariances"])
        rows.append(
            [
                f"{ours} (for {theirs})",
                " / ".join(f"{a:.1f}" for a in share[1:10].mean(axis=0)),
                " / ".join(f"{a:.1f}" for a in share[10:].mean(axis=0)),
                f"{variances[1:].mean():.1f}",
                f"{100 * step[-1]:.0f}",
                f"{time:.1f}",
                f"{100 * split['printed below the score']:.0f}",
                f"{split['printed loses the best']} of {ROUNDS - 1}",
            ]
        )
    header = ["data", "ub₁ / ub₂ / ub₃, rounds 2–10", "rounds 11–100", "variances saved"]
    header += ["update, share of step 100", "time saved"]
    header += ["eq. 19 below the score", "eq. 19 loses the best candidate"]

    def draw(figure):
        axes = figure.subplots(1, len(found))
        for axis, name, split in zip(np.atleast_1d(axes), TASKS.values(), found, strict=False):
            counts = np.array(split["counts"])
            for i in range(3):
                axis.plot(np.arange(1, ROUNDS + 1), counts[:, i], label=f"ub{i + 1}")
            axis.plot(np.arange(1, ROUNDS + 1), counts[:, 3], "k:", label="candidates")
            axis.set(title=name, xlabel="round")
        np.atleast_1d(axes)[0].set_ylabel("candidates")
        np.atleast_1d(axes)[-1].legend()

    text = f"""
{table(header, rows)}

All numbers but the last are per cent. Candidates for which ub₁ excludes all three conditional
variances, ub₂ the last two and ub₃ the last one, with the bound in its right form: eq. 19 exchanges
the smallest and the largest eigenvalue and omits p_y. As printed it lies below the score that it
should bound, and with it the search loses its best candidate in nearly every round.
{ROUNDS} rounds of eq. 12 on standardised features with a ridge of {RIDGE}, at most 5000 samples,
two classes (COIL20 and MNIST: half of the classes, drawn at random, against the others).

The bound needs the covariances of the last chosen feature with all candidates, one pass over the
data. The update of the conditional variances, which the bound may save, is the remaining share of
a step; both were timed with NumPy on one core, in round 100. The time saved is that of all rounds,
without the cost of the bound itself. `gc_select` updates all candidates in one vectorised pass and
has no bound.
"""
    return Answer(text, draw=draw)


def judge(tables: Tables) -> str:
    """The paper: useful on INRIA, early rounds of CIFAR, little help on STL."""
    header, *rows = tables["gaussian-figure-3"][0]
    saved = [float(row[header.index("variances saved")]) for row in rows]
    useful = [share >= 10 for share in saved]
    # The data are not the paper's, so that the part as a whole is not reproduced.
    kind = state([useful[0], not useful[1], useful[2], False])
    shares = ", ".join(f"{share}% on {row[0]}" for share, row in zip(saved, rows, strict=True))
    return (
        f"{kind}: on substitutes for the paper's sets the corrected bound saves {shares} of the "
        "variances; in the paper it helps most on INRIA, early on CIFAR, and little on STL"
    )


FIGURE_3 = Part(
    "gaussian-figure-3",
    "Figure 3",
    "candidates that the eigenvalue bound excludes",
    run,
    len(TASKS),
    show,
    differs="Substitute data: Madelon, COIL20 and MNIST for INRIA, STL and CIFAR. The bound is "
    "eq. 19 corrected, not as printed.",
    judge=judge,
)
