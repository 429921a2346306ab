"""The parts of a results page: figures and tables of a paper, computed split by split.

A module `benchmarks.papers.NAME` has `TITLE`, `INTRO` (Markdown) and `PARTS`, in the order of the
paper. `compute` stores the numbers of each split as JSON, so that an interrupted run resumes.
`write` turns them into `docs/pages/results/NAME.md`. Every section of the page ends with a hash of
its text, and a test compares the two: a table edited by hand fails.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages" / "results"
#: One JSON file per split: STORE/PART/SPLIT.json. Delete a folder to compute its part again.
STORE = ROOT / "results"
VERDICTS = (
    "reproduced in part",
    "reproduced",
    "not reproduced",
    "data not available",
    "illustration, nothing to reproduce",
)
#: The last line of a section.
SEAL = re.compile(r"^<!-- (?P<name>\S+) sha256:(?P<hash>\w+) commit:(?P<commit>\w+) -->$", re.M)
VERDICT = re.compile(r"^\*\*Verdict:\*\* (.+)$", re.M)


@dataclass(frozen=True)
class Answer:
    """What a page says about a part: Markdown, a verdict and a picture."""

    text: str
    verdict: str
    draw: Callable[[Figure], None] | None = None


@dataclass(frozen=True)
class Part:
    """A figure or table that jaxfs computes.

    `run` maps the number of a split to numbers that JSON can hold, and depends on nothing else.
    `show` maps the numbers of all splits to the section of the page. Parts with the same `run` can
    share their numbers: `store` names the folder of the numbers, by default `name`.
    """

    name: str
    label: str
    title: str
    run: Callable[[int], dict]
    splits: int
    show: Callable[[list[dict]], Answer]
    store: str = ""

    def path(self, split: int) -> Path:
        return STORE / (self.store or self.name) / f"{split}.json"


@dataclass(frozen=True)
class Absent:
    """A figure or table that is not computed; the verdict says why."""

    label: str
    title: str
    verdict: str


def compute(part: Part, limit: int | None = None) -> None:
    """Run the splits below `limit` that are not in the store."""
    for split in range(part.splits if limit is None else min(limit, part.splits)):
        path = part.path(split)
        if path.exists():
            continue
        start = time.perf_counter()
        text = json.dumps(part.run(split), allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        path.with_suffix(".new").replace(path)
        passed = time.perf_counter() - start
        print(f"{part.name}, split {split + 1} of {part.splits}: {passed:.0f} s", file=sys.stderr)
    jax.clear_caches()  # compiled programs use memory maps, whose number is limited


def stored(part: Part) -> list[dict]:
    paths = map(part.path, range(part.splits))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def write(paper: str, module: ModuleType) -> None:
    """Write the page of a paper.

    A part keeps its present section until the numbers of all its splits are stored.
    """
    page = PAGES / f"{paper}.md"
    old = sections(page.read_text(encoding="utf-8")) if page.exists() else {}
    commit = _commit()
    texts = {}
    for part in module.PARTS:
        name = section_name(paper, part)
        if isinstance(part, Absent):
            texts[name] = _section(part, "", part.verdict)
        elif len(numbers := stored(part)) == part.splits:
            answer = part.show(numbers)
            picture = "" if answer.draw is None else _picture(part, answer.draw)
            texts[name] = _section(part, answer.text.strip() + picture, answer.verdict)
        else:
            print(f"{name}: {len(numbers)} of {part.splits} splits", file=sys.stderr)
            if name in old:
                texts[name] = old[name][0]
    rows = [
        f"| {text.splitlines()[0][3:].replace(': ', ' | ', 1)} | {_verdict(text)} |"
        for text in texts.values()
    ]
    summary = ["| | | Verdict |", "|---|---|---|", *rows]
    head = "\n".join([f"# {module.TITLE}", "", filled(module.INTRO.strip()), "", *summary])
    sealed = []
    for name, text in {paper: head, **texts}.items():
        # A section that did not change keeps the commit that printed it.
        printed = old[name][1] if name in old and old[name][0] == text else commit
        sealed.append(f"{text}\n\n<!-- {name} sha256:{digest(text)} commit:{printed} -->\n")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(sealed), encoding="utf-8")


def section_name(paper: str, part: Part | Absent) -> str:
    return part.name if isinstance(part, Part) else f"{paper}-{_slug(part.label)}"


def sections(page: str) -> dict[str, tuple[str, str, str]]:
    """The text, commit and hash of every section of a page."""
    found, start = {}, 0
    for seal in SEAL.finditer(page):
        found[seal["name"]] = page[start : seal.start()].strip(), seal["commit"], seal["hash"]
        start = seal.end()
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]


def rounded(values, digits: int = 4) -> list:
    """Nested lists of numbers, short in JSON."""
    return np.round(np.asarray(values, np.float64), digits).tolist()


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def ticks(axis, values: Sequence[float]) -> None:
    """Write these values, and no others, on a logarithmic axis."""
    axis.set_xticks(values, [str(value) for value in values])
    axis.minorticks_off()


def filled(text: str) -> str:
    """Wrap paragraphs; tables, lists, pictures, code and headings stay as they are."""
    blocks = re.split(r"\n{2,}", text)
    return "\n\n".join(
        block if re.match(r"[|!#`<>*+-]|\d+\.| {4}", block) else _wrap(block) for block in blocks
    )


def _wrap(paragraph: str) -> str:
    return textwrap.fill(paragraph, 110, break_long_words=False, break_on_hyphens=False)


def _section(part: Part | Absent, text: str, verdict: str) -> str:
    if not verdict.startswith(VERDICTS):
        raise ValueError(f"the verdict of {part.label} is none of {VERDICTS}, got {verdict!r}")
    body = f"{filled(text)}\n\n" if text else ""
    return _minus(f"## {part.label}: {part.title}\n\n{body}**Verdict:** {verdict}")


def _minus(text: str) -> str:
    """Replace the hyphen before a number by a minus sign, and -0.0 by 0.0, except in `code`."""
    sign = r"`[^`]*`|(?<![\w)\]-])-(?=\.?\d)(0\.0+(?!\d))?"
    return re.sub(sign, lambda f: f[0] if f[0][0] == "`" else f[1] or "−", text)


def _verdict(section: str) -> str:
    """The verdict without its reason."""
    full = VERDICT.findall(section)[-1]
    return next(known for known in VERDICTS if full.startswith(known))


def _picture(part: Part, draw: Callable[[Figure], None]) -> str:
    """Draw into a PNG of at most 128 colours, and return the link to it."""
    figure, buffer = Figure(figsize=(7, 3), layout="constrained"), io.BytesIO()
    draw(figure)
    figure.savefig(buffer, dpi=90)
    path = PAGES / "images" / f"{part.name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)
    return f"\n\n![{part.label}: {part.title}](images/{path.name})"


def _slug(label: str) -> str:
    return label.lower().replace(" ", "-")


def _commit() -> str:
    command = ["git", "rev-parse", "--short=10", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"
