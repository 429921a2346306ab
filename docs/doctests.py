"""Fence the doctests in docstrings: Markdown would read `>>>` as a nested quotation."""

import re

import griffe

#: A doctest session, from its first prompt to the blank line after its output.
_SESSION = re.compile(r"^>>> .*?(?=\n[ \t]*\n(?!>>>)|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _SESSION.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
