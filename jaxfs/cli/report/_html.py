"""The few pieces of HTML that a report is made of: strings in, strings out.

Whatever came from a user goes through `text` or `name`; all other arguments are HTML. The policy in
the page forbids it to load anything and to run scripts, should a mistake be made all the same.
"""

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

_STYLE = """
:root { color-scheme: light dark; --line: #8888; --soft: #8881; --strong: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --strong: #56b4e9; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; } h2 { border-bottom: 2px solid var(--strong); margin-top: 2rem; }
table { border-collapse: collapse; } caption { text-align: left; padding: .3rem 0; }
.wide { overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .75rem; text-align: left; }
th, td { vertical-align: top; overflow-wrap: anywhere; } td:not(.number) { min-width: 9rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.warning { border-left: .4rem solid #d55e00; background: var(--soft); padding: .5rem 1rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
figure { margin: 0; } figure img { background: white; max-width: 100%; width: 26rem; }
figcaption { font-weight: 600; }
pre { background: var(--soft); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
@media print { body { max-width: none; } figure, tr { break-inside: avoid; } }
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'"

#: Control characters, and halves of characters, which no encoding has.
_UNSAFE = {"Cc", "Cs"}


def text(value: object) -> str:
    """Anything from outside: markup escaped, control characters and lone surrogates made visible.

    Signs that turn the direction of writing stay, inside a `<bdi>`, which bounds their effect.
    """
    kept = (c if c in "\n\t" or unicodedata.category(c) not in _UNSAFE else "�" for c in str(value))
    return html.escape("".join(kept))


def name(value: object) -> str:
    """A name, which may be written from right to left, within a line that is not."""
    return f"<bdi>{text(value)}</bdi>"


def number(value: float | None, form: str) -> str:
    """A dash for what is not known."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def section(title: str, *parts: str) -> str:
    """A heading and its content, if there is any."""
    content = "\n".join(part for part in parts if part)
    label = title.lower().replace(" ", "-")
    heading = f'<h2 id="{label}">{title}</h2>'
    return f'<section aria-labelledby="{label}">\n{heading}\n{content}\n</section>' * bool(content)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: str) -> str:
    """`numeric` has a letter for each column: n for numbers, t for text. Cells are HTML."""
    mark = {"n": ' class="number"', "t": ""}
    marks = [mark[letter] for letter in numeric]
    head = "".join(f'<th scope="col"{m}>{h}</th>' for h, m in zip(heads, marks, strict=True))
    lines = ("".join(f"<td{m}>{c}</td>" for c, m in zip(row, marks, strict=True)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide"><table>\n<caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def facts(lines: Mapping[str, str]) -> str:
    """Lines of a name and what it is; nothing if there are none."""
    rows = "\n".join(f'<tr><th scope="row">{k}</th><td>{v}</td></tr>' for k, v in lines.items())
    return f'<div class="wide"><table>\n<tbody>\n{rows}\n</tbody>\n</table></div>' * bool(lines)


def details(summary: str, content: str) -> str:
    """What is shown on demand."""
    return f"<details>\n<summary>{summary}</summary>\n{content}\n</details>"


def document(title: str, introduction: str, content: str) -> str:
    """A whole page; `title` is text, the others HTML."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{name(title)}</h1>
{introduction}
</header>
<main>
{content}
</main>
</body>
</html>
"""
