"""The parts of a results page: figures and tables of a paper, computed split by split.

A module `benchmarks.papers.NAME` has `TITLE`, `INTRO` (Markdown) and `PARTS`, in the order of the
paper. `compute` stores the numbers of each split in `benchmarks/papers/numbers`, so that an
interrupted run resumes and texts can be written again without computing. `write` turns the numbers
into `docs/pages/results/NAME.md`. Every section of the page ends with a hash of its text, and a
test compares the two: a table edited by hand fails.

The rule for a verdict: a number is reproduced if it lies within two standard errors of the paper's
(`agrees`), a claim such as a ranking or "A beats B" only if it holds here. A part is "reproduced"
if all its numbers and claims are, "reproduced in part" if some are, and otherwise "not reproduced".
What the verdict rests on, and why it is not better, stands after it.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages" / "results"
#: STORE/PART.jsonl has one line per split, [split, numbers]. Delete a file to compute it again.
STORE = Path(__file__).parent / "numbers"
#: The stored numbers have this number of significant digits.
DIGITS = 6
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
#: The first words of the paragraph on what is not as in the paper.
DIFFERS = "**Differs from the paper:**"

#: The tables of each section as printed: a table is a list of rows of cells, the header first.
Table = list[list[str]]
Tables = dict[str, list[Table]]


@dataclass(frozen=True)
class Answer:
    """What a page says about a part: Markdown, a verdict and a picture.

    The verdict is empty if the part has `judge`.
    """

    text: str
    verdict: str = ""
    draw: Callable[[Figure], None] | None = None


@dataclass(frozen=True)
class Part:
    """A figure or table that jaxfs computes.

    `run` maps the number of a split to numbers that JSON can hold, and depends on nothing else.
    `show` maps the numbers of all splits to the section of the page. Parts with the same `run` can
    share their numbers: `store` names the file of the numbers, by default `name`.

    `differs` (Markdown) says what was reduced or is not as in the paper. `judge` maps the printed
    tables of all sections to the verdict, instead of `show`. Both apply at each `write`, even to a
    section whose numbers are not stored.
    """

    name: str
    label: str
    title: str
    run: Callable[[int], dict]
    splits: int
    show: Callable[[list[dict]], Answer]
    store: str = ""
    differs: str = ""
    judge: Callable[[Tables], str] | None = None

    @property
    def path(self) -> Path:
        return STORE / f"{self.store or self.name}.jsonl"


@dataclass(frozen=True)
class Absent:
    """A figure or table that is not computed; the verdict says why."""

    label: str
    title: str
    verdict: str


def compute(part: Part, limit: int | None = None) -> None:
    """Run the splits below `limit` that are not in the store."""
    numbers = _load(part)
    for split in range(part.splits if limit is None else min(limit, part.splits)):
        if split in numbers:
            continue
        start = time.perf_counter()
        numbers[split] = short(part.run(split))
        save(part, numbers)
        passed = time.perf_counter() - start
        print(f"{part.name}, split {split + 1} of {part.splits}: {passed:.0f} s", file=sys.stderr)
    jax.clear_caches()  # compiled programs use memory maps, whose number is limited


def _load(part: Part) -> dict[int, dict]:
    """The stored numbers by split."""
    if not part.path.exists():
        return {}
    return dict(map(json.loads, part.path.read_text(encoding="utf-8").splitlines()))


def save(part: Part, numbers: dict[int, dict]) -> None:
    options = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    lines = [json.dumps([split, numbers[split]], **options) + "\n" for split in sorted(numbers)]
    part.path.parent.mkdir(parents=True, exist_ok=True)
    part.path.with_suffix(".new").write_text("".join(lines), encoding="utf-8")
    part.path.with_suffix(".new").replace(part.path)


def stored(part: Part) -> list[dict]:
    """The stored numbers of the splits, in order."""
    numbers = _load(part)
    return [numbers[split] for split in range(part.splits) if split in numbers]


def short(value):
    """The same value with rounded floating-point numbers."""
    if isinstance(value, dict):
        return {key: short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [short(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


# ---- The page -----------------------------------------------------------------------------------


def write(paper: str, module: ModuleType) -> None:
    """Write the page of a paper and its pictures.

    A part keeps its present tables and picture until the numbers of all its splits are stored.
    """
    page = PAGES / f"{paper}.md"
    old = sections(page.read_text(encoding="utf-8")) if page.exists() else {}
    commit = _commit()
    kept = set()
    for part in module.PARTS:
        if not isinstance(part, Part):
            continue
        if len(numbers := stored(part)) < part.splits:
            print(f"{part.name}: {len(numbers)} of {part.splits} splits", file=sys.stderr)
            kept.add(part.name)
        elif draw := part.show(numbers).draw:
            _draw(part, draw)
    sealed = []
    for name, text in render(paper, module, old).items():
        # The commit is the one that printed the numbers.
        same = name in old and (old[name][0] == text or name in kept)
        printed = old[name][1] if same else commit
        sealed.append(f"{text}\n\n<!-- {name} sha256:{digest(text)} commit:{printed} -->\n")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(sealed), encoding="utf-8")


def render(paper: str, module: ModuleType, old: dict[str, tuple[str, str, str]]) -> dict[str, str]:
    """The text of every section, the summary of all verdicts first.

    `old` are the present sections, for parts without stored numbers.
    """
    bodies, verdicts = {}, {}
    for part in module.PARTS:
        name = section_name(paper, part)
        if isinstance(part, Absent):
            bodies[name], verdicts[name] = "", part.verdict
        elif len(numbers := stored(part)) == part.splits:
            answer = part.show(numbers)
            bodies[name] = answer.text.strip() + (_link(part) if answer.draw else "")
            verdicts[name] = answer.verdict
        elif name in old:
            bodies[name], verdicts[name] = _taken_apart(old[name][0])
    printed = {name: tables(body) for name, body in bodies.items()}
    texts, rows = {}, []
    for part in module.PARTS:
        name = section_name(paper, part)
        if name not in bodies:
            continue
        if isinstance(part, Part) and part.judge:
            verdicts[name] = part.judge(printed)
        texts[name] = _section(part, bodies[name], verdicts[name])
        rows.append(f"| {part.label} | {part.title} | {_without_reason(verdicts[name])} |")
    summary = ["| | | Verdict |", "|---|---|---|", *rows]
    head = "\n".join([f"# {module.TITLE}", "", filled(module.INTRO.strip()), "", *summary])
    return {paper: head, **texts}


def section_name(paper: str, part: Part | Absent) -> str:
    return part.name if isinstance(part, Part) else f"{paper}-{_slug(part.label)}"


def sections(page: str) -> dict[str, tuple[str, str, str]]:
    """The text, commit and hash of every section of a page."""
    found, start = {}, 0
    for seal in SEAL.finditer(page):
        found[seal["name"]] = page[start : seal.start()].strip(), seal["commit"], seal["hash"]
        start = seal.end()
    return found


def tables(text: str) -> list[Table]:
    """The cells of every Markdown table, without the line below its header."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, re.M):
        header, _, *rows = block.splitlines()
        found.append([[cell.strip() for cell in row[1:-1].split("|")] for row in (header, *rows)])
    return found


def numbers_in(cell: str) -> list[float]:
    """The numbers that a cell of a table holds."""
    found = re.findall(r"(?<![\w.])[+-]?\d+(?:\.\d+)?", cell.replace("−", "-"))
    return [float(number) for number in found]


def agrees(gap: float, error: float, rounding: float = 0.0) -> bool:
    """Whether a number is reproduced: its difference is at most two standard errors.

    `error` is that of the difference, or ours if the paper gives none. `rounding` is half a unit of
    the paper's last digit.
    """
    # Printed decimals, such as 0.3 and 0.1 + 0.2, are equal up to rounding.
    return bool(abs(gap) <= 2 * error + rounding + 1e-9)


def state(marks: Iterable[bool]) -> str:
    """The first words of a verdict, from the numbers and claims that are reproduced."""
    marks = list(marks)
    part = "reproduced in part" if any(marks) else "not reproduced"
    return "reproduced" if all(marks) else part


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
        block if re.match(r"[|!#`<>]|[*+-] |\d+\.| {4}", block) else _wrap(block)
        for block in blocks
    )


def _wrap(paragraph: str) -> str:
    return textwrap.fill(paragraph, 110, break_long_words=False, break_on_hyphens=False)


def _section(part: Part | Absent, body: str, verdict: str) -> str:
    if not verdict.startswith(VERDICTS):
        raise ValueError(f"the verdict of {part.label} is none of {VERDICTS}, got {verdict!r}")
    differs = part.differs.strip() if isinstance(part, Part) else ""
    paragraphs = [body, f"{DIFFERS} {differs}" if differs else ""]
    text = "".join(f"{filled(paragraph)}\n\n" for paragraph in paragraphs if paragraph)
    return _minus(f"## {part.label}: {part.title}\n\n{text}**Verdict:** {verdict}")


def _taken_apart(section: str) -> tuple[str, str]:
    """The body and the verdict of a section."""
    body = section.split("\n", 1)[1]
    end = re.search(rf"^(?:{re.escape(DIFFERS)}|\*\*Verdict:\*\*)", body, re.M)
    return body[: end.start() if end else None].strip(), VERDICT.findall(section)[-1]


def _minus(text: str) -> str:
    """Replace the hyphen before a number by a minus sign, and -0.0 by 0.0, except in `code`."""
    sign = r"`[^`]*`|(?<![\w)\]-])-(?=\.?\d)(0\.0+(?!\d))?"
    return re.sub(sign, lambda f: f[0] if f[0][0] == "`" else f[1] or "−", text)


def _without_reason(verdict: str) -> str:
    return next(known for known in VERDICTS if verdict.startswith(known))


def _link(part: Part) -> str:
    return f"\n\n![{part.label}: {part.title}](images/{part.name}.png)"


def _draw(part: Part, draw: Callable[[Figure], None]) -> None:
    """Draw the picture of a part as a PNG of at most 128 colours."""
    figure, buffer = Figure(figsize=(7, 3), layout="constrained"), io.BytesIO()
    draw(figure)
    figure.savefig(buffer, dpi=90)
    path = PAGES / "images" / f"{part.name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


def _slug(label: str) -> str:
    return label.lower().replace(" ", "-")


def _commit() -> str:
    command = ["git", "rev-parse", "--short=10", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"
