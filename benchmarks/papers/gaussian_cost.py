"""Table 3 of the GC / GKL paper: CPU time to select 100 features, for data of its shapes."""

import functools
import time

import jax
import numpy as np

from benchmarks.papers._parts import Answer, Part, Tables, numbers_in, state, table
from benchmarks.papers.gaussian_methods import METHODS
from benchmarks.speed.gaussian import SIZES, K, problem

SETS = dict(zip(("CIFAR", "STL", "INRIA"), SIZES, strict=True))
#: CPU-seconds as printed: CIFAR, STL, INRIA.
PAPER = {
    "FCBF": (621, 68, 247),
    "MRMR": (56, 20, 32),
    "SBMLR": (1449, 1002, 88),
    "Spectral": (1379, 367, 1072),
    "GBFS": (95, 41, 233),
    "CFS": (4262, 409, 2516),
    "CMTF": (394, 208, 459),
    "RelieFF": (1652, 2089, 2413),
    "GC.MI": (20, 5, 43),
    "GKL.E": (486, 887, 135),
}
#: Spectral and RelieFF are quadratic in the samples; 50 000 are too many here.
CASES = [
    (shape, method)
    for shape in ("STL", "INRIA", "CIFAR")
    for method in PAPER
    if method in METHODS and not (shape == "CIFAR" and method in ("Spectral", "RelieFF"))
]


@functools.lru_cache(maxsize=1)
def table_of(shape: str) -> tuple[jax.Array, np.ndarray]:
    x, y = problem(*SETS[shape])
    return x, np.asarray(y)


def run(split: int) -> dict:
    shape, method = CASES[split]
    x, y = table_of(shape)
    seconds = []
    for _ in range(2):
        start = time.process_time()
        METHODS[method](x, y, K)
        seconds.append(time.process_time() - start)
    return {"shape": shape, "method": method, "first": seconds[0], "second": seconds[1]}


def show(found: list[dict]) -> Answer:
    ours = {(split["shape"], split["method"]): split for split in found}
    rows = []
    for method, theirs in PAPER.items():
        row = [method]
        for shape, seconds in zip(SETS, theirs, strict=True):
            gc = PAPER["GC.MI"][list(SETS).index(shape)]
            row += [f"{seconds} ({seconds / gc:.1f})", "–"]
            if (shape, method) in ours and (shape, "GC.MI") in ours:
                second, unit = (ours[shape, m]["second"] for m in (method, "GC.MI"))
                row[-1] = f"{second:.1f} ({second / unit:.1f})"
        rows.append(row)
    ratios = {
        key: split["second"] / ours[key[0], "GC.MI"]["second"]
        for key, split in ours.items()
        if key[1] != "GC.MI"
    }
    header = [""]
    for shape, (n, d, c) in SETS.items():
        header += [f"paper, {shape}", f"jaxfs, {n} × {d}, {c} classes"]
    compilation = max(split["first"] - split["second"] for split in found)
    above = sum(ratio > 1 for ratio in ratios.values())
    text = f"""
{table(header, rows)}

CPU-seconds to select 100 features; in parentheses, relative to GC.MI. The paper's data are not
available: the numbers here are for random float32 data of the same shapes, second call, without
compilation, which takes up to {compilation:.0f} s. The machines and languages differ, so that the
ratios say more than the seconds. jaxfs has no SBMLR, GBFS and CMTF; Spectral is `spec_score`, the
method of Zhao and Liu, and not that of Wolf and Shashua. Spectral and RelieFF are quadratic in the
samples and were not run with 50 000. GC.MI is faster in {above} of {len(ratios)} comparisons, by a
factor of {min(ratios.values()):.1f} to {max(ratios.values()):.0f}.
"""
    return Answer(text)


def judge(tables: Tables) -> str:
    """The paper: GC.MI is two orders of magnitude faster than practically all other methods."""
    _, *rows = tables["gaussian-table-3"][0]
    cells = [cell for row in rows if row[0] != "GC.MI" for cell in row[2::2] if cell != "–"]
    ratios = np.array([numbers_in(cell)[1] for cell in cells])
    faster, far = int(np.sum(ratios > 1)), int(np.sum(ratios >= 100))
    # The data are not the paper's, so that the part as a whole is not reproduced.
    kind = state([faster > len(ratios) / 2, far > len(ratios) / 2, False])
    return (
        f"{kind}: on random data of the paper's shapes GC.MI is faster in {faster} of "
        f"{len(ratios)} comparisons, by a factor of at most {ratios.max():.0f}; it is a hundred "
        f"times faster in {far}, in the paper than practically all other methods"
    )


TABLE_3 = Part(
    "gaussian-table-3",
    "Table 3",
    "CPU time to select 100 features",
    run,
    len(CASES),
    show,
    differs="Substitute data: random numbers of the paper's shapes. All methods are those of "
    "jaxfs, where the paper has programs in C++, Java and MATLAB.",
    judge=judge,
)
