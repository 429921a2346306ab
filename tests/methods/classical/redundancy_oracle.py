"""The selectors that penalise redundancy, as plain loops over codes, written from the papers."""

import itertools

import numpy as np


def entropy(*variables: np.ndarray) -> float:
    """The joint entropy H of several discrete variables, in nats."""
    _, counts = np.unique(np.stack(variables), axis=1, return_counts=True)
    p = counts / counts.sum()
    return float(-np.sum(p * np.log(p)))


def information(a, b) -> float:
    return entropy(a) + entropy(b) - entropy(a, b)


def conditional_information(a, b, given) -> float:
    return entropy(a, given) + entropy(b, given) - entropy(a, b, given) - entropy(given)


def uncertainty(a, b) -> float:
    """SU."""
    total = entropy(a) + entropy(b)
    return 2 * information(a, b) / total if total else 0.0


def best(values: dict[int, float]) -> int:
    """The key of the largest value; the lowest key if values tie up to rounding."""
    top = max(values.values())
    return min(k for k, v in values.items() if v >= top - 1e-12 * (1 + abs(top)))


def greedy(d: int, size: int, first, later) -> list[int]:
    """Greedy search: `first(k)` is the value of the first feature, `later(k, chosen)` of others."""
    chosen: list[int] = []
    while len(chosen) < size:
        rest = [k for k in range(d) if k not in chosen and first(k) > 1e-12]
        if not rest:
            break
        chosen.append(best({k: later(k, chosen) if chosen else first(k) for k in rest}))
    return chosen


def jmi(x, y, size: int) -> list[int]:
    def joint(k, j):
        return entropy(x[:, k], x[:, j]) + entropy(y) - entropy(x[:, k], x[:, j], y)

    return greedy(
        x.shape[1],
        size,
        lambda k: information(x[:, k], y),
        lambda k, chosen: sum(joint(k, j) for j in chosen),
    )


def cmim(x, y, size: int) -> list[int]:
    def relevance(k):
        return information(x[:, k], y)

    def least(k, chosen):
        given = (conditional_information(x[:, k], y, x[:, j]) for j in chosen)
        return min(relevance(k), *given)

    return greedy(x.shape[1], size, relevance, least)


def mrmr(relevance, redundancy, size: int, scheme: str) -> list[int]:
    """mRMR from a vector of relevances and a matrix of redundancies, with the package's floor."""

    def later(k, chosen):
        shared = np.array([redundancy[k, j] for j in chosen])
        if scheme == "difference":
            return relevance[k] - shared.mean()
        return relevance[k] / np.maximum(shared, 0.001).mean()

    return greedy(len(relevance), size, lambda k: relevance[k], later)


def merit(x, y, subset) -> float:
    """Hall's eq. 4.1."""
    k = len(subset)
    r_cf = np.mean([uncertainty(x[:, f], y) for f in subset])
    pairs = [uncertainty(x[:, f], x[:, g]) for f, g in itertools.combinations(subset, 2)]
    r_ff = np.mean(pairs) if pairs else 0.0
    return k * r_cf / np.sqrt(k + k * (k - 1) * r_ff)


def cfs(x, y, size: int) -> tuple[list[int], list[float]]:
    chosen, merits = [], [0.0]
    while len(chosen) < size:
        rest = {k: merit(x, y, [*chosen, k]) for k in range(x.shape[1]) if k not in chosen}
        if max(rest.values()) <= merits[-1] + 1e-12:
            break
        chosen.append(best(rest))
        merits.append(rest[chosen[-1]])
    return chosen, merits[1:]


def fcbf(x, y, threshold: float) -> list[int]:
    """Figure 2 of Yu and Liu: sort by SU_ic; each feature then removes those it makes redundant."""
    su = [uncertainty(column, y) for column in x.T]
    order = [i for i in np.argsort(-np.array(su), kind="stable") if su[i] >= max(threshold, 1e-12)]
    p = 0
    while p < len(order):
        keep = order[: p + 1]
        for q in order[p + 1 :]:
            if uncertainty(x[:, order[p]], x[:, q]) < su[q]:
                keep.append(q)
        order = keep
        p += 1
    return [int(i) for i in order]
