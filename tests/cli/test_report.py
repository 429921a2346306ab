"""The report is one file that any browser can open, with any names in it."""

import base64
import functools
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from jaxfs import Stability, plot
from jaxfs.cli import _answer, _effects, _report
from jaxfs.cli._answer import Answer
from jaxfs.cli._effects import Effects
from jaxfs.cli._request import Request
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import AutoSelector, ComparedMethod, FilterSelector, ManiFeSt, Method
from tests.cli.browser import browser

HOSTILE = [
    "<script>document.title='owned'</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</td></table><!--",
    "&amp; 😀 漢字",
    "\u202eמשקל",
    "javascript:alert(1)",
]
VOID = {"meta", "img", "input"}


class Page(HTMLParser):
    """The tags and texts of a page; checks that every tag that opens also closes."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def said(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]


NAME = "".join(HOSTILE)


def render(content, **changes):
    return _report.template().render(content | changes)


@pytest.fixture(scope="module")
def report():
    """Names that look like markup, in every place for a user's text."""
    d = len(HOSTILE)
    scores, ranks = np.arange(d, 0, -1.0), jnp.arange(1.0, d + 1)
    whole = jnp.asarray(0.9), jnp.asarray(0.01), jnp.asarray([0.8, 1.0])
    stable = Stability(ranks / d, ranks, jnp.zeros(d), *whole, jnp.zeros((2, 3), jnp.int32))
    gaps = np.arange(1234 * d).reshape(1234, d) < 7
    method = Method(NAME, ManiFeSt, True, "classes", NAME)
    bars = functools.partial(plot.score_bars, scores, HOSTILE)
    pixels = functools.partial(plot.pixel_map, scores, (2, 3), label=None)
    rows = [ComparedMethod(NAME, 3, 0.9, 0.01, 0.5, 1.0), ComparedMethod("all", d, 0.8, 0.01)]
    table = Table([*HOSTILE], np.ones((1234, d)), target_name=NAME, notes=(NAME,), gaps=gaps)
    return {
        "source": NAME,
        "answer": Answer(
            table, Request(NAME, seed=3), method, {NAME: NAME, "ridge": 0.01}, np.arange(5), scores,
            1.0, ("take care",),
            {NAME: 1000, "b": 234}, stable,
        ),
        "summary": ["First of all.", NAME],
        "effects": Effects(NAME, scores, [f"higher in {NAME}"] * d, NAME, scores / d, scores / d),
        "auto": SimpleNamespace(measure_=NAME, comparison_=rows, n_features_=3),
        "overlap": {NAME: {NAME: 1.0, "b": 0.25}, "b": {NAME: 0.25, "b": 1.0}},
        "show_scores": True,
        "heat": [_report.picture(pixels, NAME, NAME)],
        "panels": [_report.picture(bars, "", NAME)],
        "curves": [_report.picture(bars, NAME, NAME)],
        "command": NAME,
        "versions": _report.versions() | {NAME: NAME},
    }  # fmt: skip


def test_page_is_well_formed_and_loads_nothing(report):
    source = render(report)
    page = Page(source)
    allowed = {"charset", "http-equiv", "content", "name", "lang", "id", "aria-labelledby", "class"}
    allowed |= {"scope", "alt", "src", "data-value", "style", "type", "for", "autocomplete", "href"}
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        assert set(attributes) <= allowed
    assert len(page.all("script")) == 1
    assert {a["href"] for a in page.all("a")} == {"#notes"}
    assert all(re.fullmatch(r"--share: [01]\.\d+", a.get("style", "--share: 0.0"))
               for _, a in page.tags)  # fmt: skip
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert not re.search(r"https?://|url\(|@import", source)
    # Every name is there, unchanged.
    assert [t for t in page.said("bdi") if t in HOSTILE][:5] == HOSTILE[:5]
    assert page.said("title") == [f"{NAME} on {NAME}"]
    assert page.all("img")[0]["alt"] == NAME


def test_page_has_every_part_in_order(report):
    page = Page(render(report))
    headings = ["Features", "Values in the samples", "Comparison of methods", "Notes", "Data"]
    assert page.said("h2") == [*headings, "Method", "How to reproduce"]
    assert len(page.all("h1")) == 1
    assert [a["aria-labelledby"] for a in page.all("section")] == [a["id"] for a in page.all("h2")]
    said = page.said("td")
    first = said[: said.index("2")]  # the name is in an element of its own
    assert first == ["1", "6", "1", "1", "17%", "1.0 ± 0.0", "6.00"]
    assert {"1,234", "float64", "7", "0.900 ± 0.010"} <= set(said)
    assert "take care" in page.said("p")
    titles = ["rank", "feature", "score", "p", "q", "selected", "mean rank", "direction", NAME]
    assert page.said("button") == titles
    texts = [text for _, text in page.texts]
    assert texts.index("First of all.") < texts.index("Features") < texts.index("take care")
    assert "2 notes" in page.said("a")


def test_empty_parts_are_left_out(report):
    table = Table(["a", "b"], np.ones((3, 2)))
    scores = np.array([1.0, np.nan])
    request, method = Request(NAME), report["answer"].method
    answer = Answer(table, request, method, {}, np.array([1, 0]), scores, 1.0, (), {})
    none = {"effects": None, "auto": None, "overlap": None, "curves": [], "panels": []}
    page = Page(render(report, answer=answer, **none))
    headings = ["Features", "Values in the samples", "Data", "Method", "How to reproduce"]
    assert page.said("h2") == headings
    at = page.said("bdi").index("b")
    assert page.said("bdi")[at : at + 2] == ["b", "a"]  # in the order of the selection
    assert page.said("td")[:4] == ["1", "—", "2", "1"]
    assert page.said("button") == ["rank", "feature", "score"]
    assert "target" not in page.said("th")
    page = Page(render(report, show_scores=False))
    assert "score" not in page.said("button")


def test_letters_that_no_page_may_hold_are_replaced(report):
    source = render(report, command="a\x00b\x1bc\ud800<d\n")
    assert "<bdi>a�b�c�&lt;d\n</bdi>" in source
    assert source.encode("utf-8")


def test_equal_runs_write_equal_bytes_and_large_drawings_are_pixels(report, monkeypatch):
    assert render(report) == render(report)

    def drawn():
        return _report.picture(functools.partial(plot.score_bars, [1.0, 2.0]), "t", "a")

    first = drawn()
    assert first == drawn()
    assert first.url.startswith("data:image/svg+xml;base64,")
    monkeypatch.setattr(_report, "LARGEST_SVG", 0)
    kind, _, content = drawn().url.partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content).startswith(b"\x89PNG")


# ---- The content --------------------------------------------------------------------------------


def answered(target, method="anova", k=3, d=14, weak=0):
    """A table whose feature 2 rises with the target, and the answer of a method.

    The last `weak` features also rise with it, but less.
    """
    rng = np.random.default_rng(0)
    n = len(target)
    codes = np.unique(target, return_inverse=True)[1]
    values = rng.normal(size=(n, d))
    values[:, 2] += 3 * codes / codes.max()
    values[:, d - weak :] += (codes / codes.max())[:, None]
    table = Table([f"gene{j}" for j in range(d)], values, target, "kind")
    return table, _answer.choose(table, Request(method, k))


def test_effects_against_their_definitions():
    two = np.array(list("uv"), dtype=object)[np.arange(30) % 2]
    table, answer = answered(two)
    found = _effects.effects(answer)
    u, v = table.values[two == "u"][:, answer.order], table.values[two == "v"][:, answer.order]
    pooled = np.sqrt((14 * u.var(axis=0, ddof=1) + 14 * v.var(axis=0, ddof=1)) / 28)
    np.testing.assert_allclose(found.sizes, np.abs(v.mean(0) - u.mean(0)) / pooled)
    assert (found.measure, found.directions[0]) == ("Cohen's d", "higher in v")
    every = [stats.f_oneway(c[two == "u"], c[two == "v"]).pvalue for c in table.values.T]
    np.testing.assert_allclose(found.p_values, np.array(every)[answer.order])
    adjusted = stats.false_discovery_control(every)[answer.order]
    np.testing.assert_allclose(found.q_values, adjusted)

    three = np.array(list("uvw"), dtype=object)[np.arange(30) % 3]
    table, answer = answered(three)
    found = _effects.effects(answer)
    column = table.values[:, answer.order[0]]
    means = {c: column[three == c].mean() for c in "uvw"}
    between = sum(10 * (m - column.mean()) ** 2 for m in means.values())
    assert found.sizes[0] == pytest.approx(between / ((column - column.mean()) ** 2).sum())
    assert (found.measure, found.directions[0]) == ("η²", "highest in w")

    numbers = -(np.arange(30.0) ** 1.1)
    table, answer = answered(numbers, "pearson")
    found = _effects.effects(answer)
    r = [stats.pearsonr(table.values[:, j], numbers).statistic for j in answer.order]
    np.testing.assert_allclose(found.sizes, r)
    assert (found.measure, found.directions[0]) == ("correlation", "rises with kind")
    table, answer = answered(numbers, "variance")
    assert _effects.effects(answer) is None


def test_the_summary_comes_first_and_selectors_draw_no_ladder(tmp_path):
    two = np.array(list("uv"), dtype=object)[np.arange(30) % 2]
    table, answer = answered(two, "mrmr")
    assert _report.scores_only_rank(answer)
    path = tmp_path / "r.html"
    _report.write_report(path, answer, "t.csv", "jaxfs select")
    page = Page(path.read_text(encoding="utf-8"))
    assert "mrmr selected 3 of 14 features of 30 samples for the target kind." in page.said("bdi")
    assert any(text.startswith("The first feature is gene2, higher in v (Cohen's d ")
               for text in page.said("bdi"))  # fmt: skip
    assert "score" not in page.said("button")
    alts = [image["alt"] for image in page.all("img")]
    names = [table.names[j] for j in answer.order]
    panels = [f"Values of {name} by class" for name in names]
    assert alts == ["Heat map of the first 3 features in all samples", *panels]
    drawn = _report._draw_scores  # --plot draws effect sizes instead of the ladder
    ax = plot._figures.matplotlib("figure").Figure(layout="constrained")
    drawn(answer, ax)
    assert ax.axes[0].get_xlabel() == "effect size (Cohen's d) (3 of 14)"


@pytest.fixture(scope="module")
def automatic(tmp_path_factory):
    """The report of the method auto, with two fast methods."""
    two = np.array(list("uv"), dtype=object)[np.arange(40) % 2]
    methods = [("anova", FilterSelector()), ("gini", FilterSelector(criterion="gini"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoSelector, "_members", lambda self, kind, d: methods)
        table, answer = answered(two, "auto", "auto", d=20, weak=8)
    path = tmp_path_factory.mktemp("report") / "auto.html"
    _report.write_report(path, answer, "t.csv", "jaxfs select")
    return path, table, answer


def test_the_report_of_auto_compares_methods(automatic):
    path, _, answer = automatic
    page = Page(path.read_text(encoding="utf-8"))
    best = answer.fitted.best_
    assert f"Best of 2 methods: {answer.fitted.verdict_}" in page.said("bdi")
    alts = [image["alt"] for image in page.all("img")]
    assert [alt.split()[0] for alt in alts[-2:]] == ["Accuracy", "Stability"]
    assert {"all features", "random features", "anova", "gini"} <= set(page.said("bdi"))
    overlap = _report._overlap(answer.fitted)
    assert overlap["anova"]["anova"] == overlap["gini"]["gini"] == 1
    k, rankings = answer.fitted.n_features_, answer.fitted.rankings_
    pairs = zip(rankings["anova"], rankings["gini"], strict=True)
    common = [len(set(a[:k]) & set(g[:k])) / k for a, g in pairs]
    assert overlap["anova"]["gini"] == pytest.approx(np.mean(common))
    often = np.mean([2 in ranked[:k] for ranked in rankings[best]])
    assert answer.stability.frequencies[2] == often == 1
    assert answer.in_folds
    assert k > 2


# ---- In a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize(
    ("width", "dark", "medium"),
    [(400, False, ""), (1100, False, ""), (400, True, ""), (720, False, "print")],
)
@pytest.mark.parametrize("hostile", [False, True])
def test_pages_fit_every_width_without_complaint(
    report, automatic, chromium, tmp_path, width, dark, medium, hostile
):
    path = automatic[0]
    if hostile:
        path = tmp_path / "hostile.html"
        path.write_text(render(report), encoding="utf-8")
    chromium.open(path, width, dark=dark, medium=medium)
    assert chromium.messages == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run("document.querySelectorAll('section').length") == 6 + hostile
    assert chromium.run("document.title") != "owned"
    broken = "[...document.images].filter(image => !image.naturalWidth).length"
    assert chromium.run(broken) == 0
    colour = chromium.run("getComputedStyle(document.querySelector('img')).filter")
    assert (colour != "none") == dark


def test_a_click_sorts_and_a_word_filters(automatic, chromium):
    path, table, answer = automatic
    rows = "[...document.querySelectorAll('.sortable tbody tr')].filter(row => !row.hidden)"
    shown = f"{rows}.map(row => row.cells[1].textContent)"
    names = [table.names[j] for j in answer.order]
    chromium.open(path)
    assert chromium.run(shown) == names
    headings = "[...document.querySelectorAll('.sortable th')].map(th => th.textContent)"
    column = 1 + chromium.run(headings).index("q")
    q = dict(zip(names, _effects.effects(answer).q_values, strict=True))
    for sign in (1, -1):
        chromium.click(f".sortable th:nth-child({column}) button")
        assert [sign * q[name] for name in chromium.run(shown)] == sorted(
            sign * value for value in q.values()
        )
    sort = f"document.querySelector('.sortable th:nth-child({column})').getAttribute('aria-sort')"
    assert chromium.run(sort) == "descending"
    chromium.click(".sortable th:nth-child(1) button")
    assert chromium.run(shown) == names
    chromium.click("#filter")
    chromium.type(names[0].upper())
    assert chromium.run(shown) == [name for name in names if names[0] in name]
    assert chromium.messages == []


def test_a_browser_shows_the_pictures(report, chromium, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(report), encoding="utf-8")
    chromium.open(path)
    chromium.picture(tmp_path / "page.png")
    # The brightest pixel of the map covers a sixth of its picture, so the picture was drawn.
    drawn = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).astype(int)
    yellow = np.abs(drawn - [254, 232, 56]).max(axis=-1) < 12
    assert np.count_nonzero(yellow) > 5000


def test_a_browser_would_complain_of_scripts_and_of_the_network(report, chromium, tmp_path):
    path = tmp_path / "page.html"
    harm = "<script>console.log('ran')</script><img src='https://example.invalid/x.png' alt=''>"
    page = render(report, heat=[], panels=[], curves=[])
    path.write_text(page.replace("<main>", f"<main>{harm}"), encoding="utf-8")
    chromium.open(path)
    assert len(chromium.messages) == 2
    assert all("Content Security Policy" in line for line in chromium.messages)
