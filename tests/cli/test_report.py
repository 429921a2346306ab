"""The report is one file that any browser can open, with any names in it."""

import base64
import functools
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from jaxfs import Stability, plot
from jaxfs.cli import _report
from jaxfs.cli._answer import Answer
from jaxfs.cli._request import Request
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import ManiFeSt, Method

HOSTILE = [
    "<script>document.title='owned'</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</td></table><!--",
    "&amp; 😀 漢字",
    "\u202eמשקל",
    "javascript:alert(1)",
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VOID = {"meta", "img"}


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
    return {
        "source": NAME,
        "table": Table([*HOSTILE], np.ones((1234, d)), target_name=NAME, notes=(NAME,), gaps=gaps),
        "answer": Answer(
            method, {NAME: NAME, "ridge": 0.01}, np.arange(5), scores, 1.0, ("take care",),
            {NAME: 1000, "b": 234}, stable,
        ),
        "request": Request(NAME, seed=3),
        "pictures": [_report.picture(draw, NAME, NAME) for draw in (bars, pixels)],
        "command": NAME,
        "versions": _report.versions() | {NAME: NAME},
    }  # fmt: skip


def test_page_is_well_formed_and_loads_nothing(report):
    source = render(report)
    page = Page(source)
    allowed = {"charset", "http-equiv", "content", "name", "lang", "id", "aria-labelledby", "class"}
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "a"}
        assert set(attributes) <= allowed | {"scope", "alt", "src"}
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert not re.search(r"https?://|url\(|@import", source)
    # Every name is there, unchanged.
    assert [t for t in page.said("bdi") if t in HOSTILE][:5] == HOSTILE[:5]
    assert page.said("title") == [f"{NAME} on {NAME}"]
    assert page.all("img")[0]["alt"] == NAME


def test_page_has_every_part_in_order(report):
    page = Page(render(report))
    headings = ["Warnings", "Features", "Pictures", "Data", "Method", "How to reproduce"]
    assert page.said("h2") == headings
    assert len(page.all("h1")) == 1
    assert [a["aria-labelledby"] for a in page.all("section")] == [a["id"] for a in page.all("h2")]
    said = page.said("td")
    first = said[: said.index("2")]  # the name is in an element of its own
    assert first == ["1", "6", "17%", "1.0 ± 0.0"]
    assert {"1,234", "float64", "7"} <= set(said)
    assert "take care" in page.said("p")


def test_empty_parts_are_left_out(report):
    table = Table(["a", "b"], np.ones((3, 2)))
    scores = np.array([1.0, np.nan])
    answer = Answer(report["answer"].method, {}, np.array([1, 0]), scores, 1.0, (), {})
    page = Page(render(report, table=table, answer=answer))
    assert page.said("h2") == ["Features", "Pictures", "Data", "Method", "How to reproduce"]
    assert page.said("bdi")[2:4] == ["b", "a"]  # in the order of the selection
    assert page.said("td")[:4] == ["1", "–", "2", "1"]
    assert not {"mean rank", "target"} & set(page.said("th"))


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


# ---- In a browser -------------------------------------------------------------------------------


def browse(page: Path, folder: Path) -> tuple[str, list[str]]:
    """Return the page as Chromium parsed it, and its console messages; write `page.png`."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        if os.environ.get("JAXFS_REQUIRE_BROWSER"):
            pytest.fail(f"JAXFS_REQUIRE_BROWSER is set and none of {BROWSERS} is on the PATH")
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
            f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0",
            "--window-size=800,3000", f"--screenshot={folder / 'page.png'}", "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, re.findall(r":CONSOLE:?\d*[\])].*", done.stderr)


def test_a_browser_shows_the_report_without_complaint(report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(report), encoding="utf-8")
    tree, console = browse(path, tmp_path)
    assert console == []
    page = Page(tree)
    assert len(page.all("section")) == 6
    assert len(page.said("title")) == 1
    # The brightest pixel of the map covers a sixth of its picture, so the picture was drawn.
    shown = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).astype(int)
    yellow = np.abs(shown - [254, 232, 56]).max(axis=-1) < 12
    assert np.count_nonzero(yellow) > 5000


def test_a_browser_would_complain_of_scripts_and_of_the_network(report, tmp_path):
    path = tmp_path / "page.html"
    harm = "<script>console.log('ran')</script><img src='https://example.invalid/x.png' alt=''>"
    page = render(report, pictures=[])
    path.write_text(page.replace("<main>", f"<main>{harm}"), encoding="utf-8")
    _, console = browse(path, tmp_path)
    assert len(console) == 2
    assert all("Content Security Policy" in line for line in console)
