"""What the pictures show: lengths, order, names and numbers of what is drawn."""

import subprocess
import sys
import textwrap

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import jaxfs
from jaxfs import plot
from jaxfs.plot import _figures
from tests.helpers import rng

HOSTILE = ["cost_$US$ a_b", "_hidden", r"\$\frac{", "漢字", "משקל\u202e", "a\nb\x00c", "x" * 80, ""]


def texts(items) -> list[str]:
    return [item.get_text() for item in items]


def draw(ax) -> None:
    """As saving would: warnings, such as of missing letters, are errors here."""
    ax.figure.canvas.draw()


def stability() -> jaxfs.Stability:
    numbers = [jnp.asarray(a) for a in ([0.0, 1.0, 1.0], [2.9, 1.1, 2.0], [0.4, 0.4, 0.0])]
    whole = [jnp.asarray(a) for a in (0.9, 0.01, [0.8, 1.0])]
    return jaxfs.Stability(*numbers, *whole, jnp.asarray([[1, 2], [1, 2]]))


def operators(d: int = 6) -> jaxfs.ManifestOperators:
    """Diagonal, so that the eigenvectors are known: e5, e4 … of M and e0, e1 … of −D."""
    mean = jnp.diag(jnp.arange(1.0, d + 1))
    difference = jnp.diag(-jnp.arange(d, 0.0, -1))
    return jaxfs.ManifestOperators(mean, mean, mean, difference)


# ---- Scores and ranks ---------------------------------------------------------------------------


def test_score_bars_fall_and_ties_go_to_the_lowest():
    ax = plot.score_bars([0.2, 0.5, -0.1, 0.5], ["a", "b", "c", "d"], num_shown=3, selected=[3])
    assert texts(ax.get_yticklabels()) == ["b", "d", "a"]
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.5, 0.2]
    colours = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches]
    assert colours == [_figures.GREY, _figures.COLOURS[0], _figures.GREY]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first line is at the top
    assert ax.get_xlabel() == "score (3 of 4)"


def test_score_bars_in_the_order_of_a_selector():
    ax = plot.score_bars([3.0, 1.0, 2.0], order=jnp.asarray([1, 0, -1]))
    assert texts(ax.get_yticklabels()) == ["feature 1", "feature 0"]
    assert [bar.get_width() for bar in ax.patches] == [1, 3]


def test_rank_intervals():
    ax = plot.rank_intervals(stability(), ["a", "b", "c"])
    assert texts(ax.get_yticklabels()) == ["b", "c", "a"]
    assert texts(ax.texts) == ["100%", "100%", "0%"]
    (container,) = ax.containers
    points, _, (bars,) = container
    np.testing.assert_allclose(points.get_xdata(), [1.1, 2.0, 2.9])
    ends = [segment[:, 0] for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[1, 1.5], [2, 2], [2.5, 3]])  # no rank below 1 or above d
    assert ax.lines[-1].get_xdata()[0] == 2.5  # between the two chosen and the rest


# ---- Pixels and eigenvectors --------------------------------------------------------------------


def test_pixel_map_marks_the_largest():
    ax = plot.pixel_map(np.arange(6.0), (2, 3), num_marked=2)
    image = ax.images[0]
    assert image.get_array().shape == (2, 3)
    assert image.get_clim() == (0, 5)
    assert {t.get_text(): t.get_position() for t in ax.texts} == {"1": (2, 1), "2": (1, 1)}
    assert len(ax.figure.axes) == 2  # with a colour bar
    signed = plot.pixel_map([-3.0, 1.0], (1, 2), signed=True, label=None)
    assert signed.images[0].get_clim() == (-3, 3)
    assert len(signed.figure.axes) == 1
    large = plot.pixel_map(np.arange(400.0), (20, 20), num_marked=3)
    assert len(large.patches) == 3  # no room for numbers
    assert large.patches[0].get_xy() == (18.5, 18.5)


def test_eigenvectors_as_images_and_as_bars():
    axes = plot.eigenvectors(operators(), shape=(2, 3))
    assert axes.shape == (2, 2)
    np.testing.assert_allclose(axes[0, 0].images[0].get_array().ravel(), np.eye(6)[5])
    np.testing.assert_allclose(axes[1, 1].images[0].get_array().ravel(), np.eye(6)[1])
    titles = [ax.get_title() for ax in axes.flat]
    assert titles == ["λ(M) = 6", "λ(M) = 5", "λ(D) = -6", "λ(D) = -5"]
    _, given = plt.subplots(2, 1, squeeze=False)
    options = {"num_vectors": 1, "names": list("abcdef"), "num_shown": 2}
    drawn = plot.eigenvectors(operators(), **options, ax=given)
    assert drawn[0, 0] is given[0, 0]
    assert texts(given[0, 0].get_yticklabels())[0] == "f"
    assert [bar.get_width() for bar in given[1, 0].patches] == [1, 0]


# ---- Graphs, curves, heat maps ------------------------------------------------------------------


def test_knn_graph_draws_an_edge_for_each_neighbour():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    graph = jaxfs.KNNGraph(
        jnp.asarray([[1, 2], [0, -1], [0, 1]]), jnp.asarray([[0.75, 0.25], [1.0, 0.0], [1.0, 0.0]])
    )
    ax = plot.knn_graph(graph, x, labels=["_a", "b$", "_a"], names=["u_1", "v"])
    edges, *points = ax.collections
    drawn = [segment.tolist() for segment in edges.get_segments()]
    assert drawn[:2] == [[[0, 0], [1, 0]], [[0, 0], [0, 2]]]
    assert len(drawn) == 4  # neither −1 nor a neighbour of no weight
    np.testing.assert_allclose(edges.get_alpha(), 0.6 * np.array([0.75, 0.25, 1, 1]))
    assert [len(p.get_offsets()) for p in points] == [2, 1]
    assert texts(ax.get_legend().get_texts()) == ["_a", "b$"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u_1", "v")
    draw(ax)


def test_knn_graph_of_a_dirichlet_result_takes_the_chosen_features():
    n, d = 5, 4
    x = rng().normal(size=(n, d))
    graph = jaxfs.KNNGraph(jnp.arange(n)[:, None] - 1, jnp.ones((n, 1)))
    rest = [None] * 5
    result = jaxfs.DirichletResult(None, jnp.asarray([3, 1, -1]), graph, jnp.ones(d), *rest)
    ax = plot.knn_graph(result, x)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 3", "feature 1")
    np.testing.assert_allclose(ax.collections[1].get_offsets(), x[:, [3, 1]])
    # By principal components, distances in the plane are at most those in space.
    points = np.asarray(plot.knn_graph(graph, x).collections[1].get_offsets())
    u, s, _ = np.linalg.svd(x - x.mean(axis=0))
    np.testing.assert_allclose(np.abs(points), np.abs(u[:, :2] * s[:2]))


def test_accuracy_curve_has_mean_and_band():
    runs = np.array([[0.5, 0.7], [0.7, 0.9]])
    ax = plot.accuracy_curve([1, 50], {"_A": runs, "B": [0.4, 0.5]}, baseline=0.95)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.6, 0.8])
    (band,) = ax.collections  # one run has no band
    heights = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(
        [heights.min(), heights.max()], 0.7 + np.array([-1, 1]) * (0.1 + 0.02**0.5)
    )
    assert texts(ax.get_legend().get_texts()) == ["_A", "B", "all features"]
    assert ax.get_xscale() == "log"
    assert plot.accuracy_curve([1, 2], runs).get_legend() is None


def test_heat_map_writes_small_tables_and_bars_large_ones():
    ax = plot.heat_map([[1.0, np.nan], [0.25, -1.0]], ["a", "b"], ["c_$", "d"], signed=True)
    assert texts(ax.texts) == ["1", "0.25", "-1"]
    assert texts(ax.get_xticklabels()) == ["c_$", "d"]
    assert ax.images[0].get_clim() == (-1, 1)
    names = [f"n{i}" for i in range(50)]
    large = plot.heat_map(np.eye(50), names, names, label="kernel")
    assert not large.texts
    assert len(large.get_yticklabels()) <= 20
    assert len(large.get_xticklabels()) <= 10
    draw(ax)


# ---- What all keep to ---------------------------------------------------------------------------


def test_names_are_literal_short_and_distinct():
    twins = [f"a long name of gene {i} that ends alike" for i in range(2)]
    names = [*HOSTILE, *twins]
    ax = plot.score_bars(np.arange(len(names), 0, -1.0), names)
    draw(ax)
    labels = texts(ax.get_yticklabels())
    assert labels[:3] == HOSTILE[:3]
    assert labels[3] == "□ #3"  # not in the font
    assert labels[5] == "a bc"
    assert labels[7] == "feature 7"  # had no name
    assert all(len(label) <= 22 for label in labels)
    assert len(set(labels)) == len(names)
    assert labels[-1].endswith(" #9")
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.score_bars([1.0, np.nan]), "scores must be finite, .* got 1 of 2"),
        (lambda: plot.score_bars([1e305]), "at most 1e.300 in magnitude, got 1 of 1"),
        (lambda: plot.score_bars([]), "scores must be a nonempty array of 1 dimension"),
        (lambda: plot.score_bars(["a"]), "scores must be an array of real numbers"),
        (lambda: plot.score_bars([1.0, 2.0], ["a"]), "names must be 2, one per feature, got 1"),
        (lambda: plot.score_bars([1.0], selected=[1]), "selected must be in 0 … 0"),
        (lambda: plot.score_bars([1.0, 2.0], order=[0, 0]), "order must be distinct"),
        (lambda: plot.score_bars([1.0], ax=3), "ax must be Matplotlib Axes or a Figure, got int"),
        (lambda: plot.score_bars([1.0], ax=plt.subplots()[0]), "a Figure without any"),
        (lambda: plot.pixel_map([1.0, 2.0], (2, 2)), r"shape must be \(rows, columns\) of prod"),
        (lambda: plot.eigenvectors(operators(), ax=[1, 2]), r"ax must be an array of Axes, \(2"),
        (lambda: plot.rank_intervals([1, 2]), "stability must be a jaxfs.Stability, got list"),
        (lambda: plot.knn_graph(None, [[1.0]]), "graph must be a KNNGraph or DirichletResult"),
        (lambda: plot.accuracy_curve([2, 1], [0.1, 0.2]), "counts must be positive and ascending"),
        (lambda: plot.accuracy_curve([1, 2], {"m": [0.1]}), "accuracies of m must be"),
        (lambda: plot.heat_map([[np.inf]]), "values must be finite or NaN"),
    ],
)  # fmt: skip
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_draws_where_told_and_leaves_settings_alone():
    before = dict(matplotlib.rcParams)
    _, given = plt.subplots()
    assert plot.score_bars([1.0], ax=given) is given
    open_figures = plt.get_fignums()
    figure = Figure(layout="constrained")
    assert plot.score_bars(np.ones(30), ax=figure).figure is figure
    assert figure.get_size_inches()[0] == _figures.WIDTH
    assert plt.get_fignums() == open_figures  # a figure of one's own is not pyplot's
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_imported_on_demand_and_named_when_absent():
    program = """
        import sys
        import jaxfs
        assert "jaxfs.plot" not in sys.modules
        from jaxfs import plot
        from jaxfs.cli import _report
        assert "matplotlib" not in sys.modules
        sys.modules["matplotlib"] = None
        try:
            plot.score_bars([1.0])
        except ModuleNotFoundError as error:
            assert "pip install 'jaxfs[plot]'" in str(error), error
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=100)


def test_by_class_draws_every_sample_and_the_quartiles():
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=60), np.array(["u$", "v", "w_"])[np.arange(60) % 3]
    ax = plot.by_class(values, labels, label="$gene$_1")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["u$", "v", "w_"]
    assert ax.get_title() == "$gene$_1"
    points = np.concatenate([part.get_offsets()[:, 1] for part in ax.collections])
    assert sorted(points) == sorted(values)
    medians = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
    for c in ("u$", "v", "w_"):
        assert np.median(values[labels == c]) in medians
    with pytest.raises(ValueError, match="labels must be of at most 20 classes, got 60"):
        plot.by_class(values, np.arange(60))
    with pytest.raises(ValueError, match=r"labels must be of shape \(60,\)"):
        plot.by_class(values, labels[1:])
