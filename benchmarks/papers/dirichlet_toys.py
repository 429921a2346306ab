"""Dirichlet energy, section 4.2 and Figure 3: two useful features among eighteen noise features.

Blobs, moons and circles of 200 samples, standardised, with shuffled columns and new data for every
split.
"""

import jax
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs, make_circles, make_moons

import jaxfs
from benchmarks import clustering, selection
from benchmarks.papers._parts import Answer, rounded, table
from benchmarks.papers.dirichlet_graph_sections import edges, number

NUM_SAMPLES, NUM_NOISE = 200, 18
TOYS = {
    "blobs": lambda seed: make_blobs(
        NUM_SAMPLES, centers=[[-2, -2], [2, 2]], cluster_std=1, random_state=seed
    )[0],
    "moons": lambda seed: make_moons(NUM_SAMPLES, noise=0.1, random_state=seed)[0],
    "circles": lambda seed: make_circles(NUM_SAMPLES, noise=0.1, factor=0.5, random_state=seed)[0],
}


def toy(name: str, seed: int) -> tuple[np.ndarray, set[int]]:
    """Samples, and the indices of the useful columns."""
    generator = np.random.default_rng(seed)
    useful = TOYS[name](seed)
    x = np.concatenate([useful, generator.normal(size=(NUM_SAMPLES, NUM_NOISE))], axis=1)
    order = generator.permutation(x.shape[1])
    x = clustering.standardized(x)[:, order]
    return x.astype(np.float32), set(np.flatnonzero(order < 2).tolist())


#: Steps of the network: 300, where the paper has 1000.
NETWORK = {"temperature": (1.0, 0.2), "num_steps": 300}
METHODS = {
    "default": {},
    "network": NETWORK | {"objective": "network"},
    "network without UFS": NETWORK | {"objective": jaxfs.Network(unique=False)},
}


def run(seed: int) -> dict:
    """Whether each method finds both features, and whether it chooses one feature twice."""
    out: dict = {}
    for name in TOYS:
        x, useful = toy(name, 1000 + seed)
        chosen = {"Laplacian score": selection.top(jaxfs.laplacian_score(x), 2)}
        for method, options in METHODS.items():
            found = jaxfs.fit_dirichlet_selector(jax.random.key(seed), x, 2, **options)
            chosen[method] = np.asarray(found.indices)
        out[name] = {
            method: {
                "found": set(c.tolist()) == useful,
                "twice": len(set(c.tolist())) < 2,
                "one useful": bool(set(c.tolist()) & useful),
            }
            for method, c in chosen.items()
        }
        if seed == 0:
            columns = x[:, sorted(useful)]
            learned = jaxfs.KNNGraphLearner(5)(columns)
            every = np.asarray(jaxfs.graphs.nearest_neighbors(x, 5).indices)
            out[name] |= {
                "points": rounded(columns, 3),
                "heat": every.tolist(),
                "learned": np.asarray(learned.indices)[:, :5].tolist(),
            }
    return out


def show_figure_3(found: list[dict]) -> Answer:
    n = len(found)

    def count(toy, method, field):
        return sum(one[toy][method][field] for one in found)

    methods = [*METHODS, "Laplacian score"]
    rows = [[m, *(f"{count(t, m, 'found')} of {n}" for t in TOYS)] for m in methods]
    ablated = "network without UFS"
    twice = [f"{count(t, ablated, 'twice')} of {n}" for t in TOYS]
    text = f"""
Two useful features among eighteen noise features, {number(n, "draw")}; the paper shows one
draw of each.
"network" is the paper's network, with four restarts and 300 steps. Draws in which both useful
features are found, panels (c) and (d):

{table(["Method", *TOYS], rows)}

Panels (e) and (f): without the unique feature selector (UFS), the network chooses the same feature
twice:

{table(["Method", *TOYS], [[ablated, *twice]])}
"""
    default = all(count(t, "default", "found") == n for t in TOYS)
    network = sum(count(t, "network", "found") for t in TOYS)
    repeats = sum(count(t, ablated, "twice") for t in TOYS)
    every = n * len(TOYS)
    if network == every and repeats == every:
        verdict = "reproduced"
    else:
        verdict = f"reproduced in part: the network finds both features in {network} of {every} "
        verdict += f"draws, and without UFS chooses one twice in {repeats}"
        verdict += "; the default of jaxfs finds both in all" if default else ""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 3)
        for column, toy in zip(panels.T, TOYS, strict=True):
            for axes, graph in zip(column, ("heat", "learned"), strict=True):
                points = np.array(found[0][toy]["points"])
                edges(axes, points, found[0][toy][graph])
                axes.scatter(*points.T, s=3, zorder=2)
                axes.set(xticks=[], yticks=[])
            column[0].set_title(toy)
        panels[0, 0].set_ylabel("5-NN, all features")
        panels[1, 0].set_ylabel("5-NN, useful ones")

    return Answer(text, verdict, draw)
