"""The built documentation: internal links lead to pages and headings, and no page names a machine.

`make docs` builds it; the tests are skipped if it has not been built.
"""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[1] / "docs" / "site"
#: Paths that exist on a developer's machine only.
PRIVATE = re.compile(r"(?<![\w.])/(?:home|root|work|tmp|Users|mnt)/[\w.]+")


class Page(HTMLParser):
    """The anchors of a page, and its links: `href` and `src` of all elements."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    if not (SITE / "index.html").is_file():
        if os.environ.get("JAXFS_REQUIRE_SITE"):
            pytest.fail("JAXFS_REQUIRE_SITE is set and docs/site does not exist: make docs")
        pytest.skip("no built documentation: make docs")
    # 404.html has links from the root of a server, where it is shown.
    return {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}


def broken(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return True
    found = pages.get(target)
    return bool(parts.fragment and found and unquote(parts.fragment) not in found.anchors)


def test_internal_links_lead_somewhere(pages):
    links = [(path, link) for path, page in pages.items() for link in page.links]
    assert len(links) > 500
    wrong = {
        f"{path.relative_to(SITE)}: {link}" for path, link in links if broken(path, link, pages)
    }
    # The theme links a page to itself by anchors that a script adds.
    assert not {text for text in wrong if not re.search(r"#__", text)}


def test_broken_links_are_found(pages):
    home = SITE / "index.html"
    assert broken(home, "nowhere.html", pages)
    assert broken(home, "choosing.html#nowhere", pages)
    assert not broken(home, "choosing.html#cost-by-size", pages)


def test_no_page_names_a_machine(pages):
    for path in pages:
        assert not PRIVATE.findall(path.read_text(encoding="utf-8")), path


def test_no_code_failed_to_load(pages):
    """Code is read from the scripts in examples/."""
    for path in pages:
        assert "--8<--" not in path.read_text(encoding="utf-8"), path
