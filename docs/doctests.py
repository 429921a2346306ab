"""Fence the doctests of docstrings, which Markdown would take for quotations of quotations."""

import re

import griffe

#: From a prompt to the blank line that ends its output.
_SESSION = re.compile(r"^>>> .*?(?=\n[ \t]*\n(?!>>>)|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _SESSION.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
