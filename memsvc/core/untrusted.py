"""Escaping of untrusted text within what a model reads."""

from typing import Final

_ESCAPES: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"))


def escaped(json: str) -> str:
    """Return the same JSON without markup characters, so that no text in it closes a block."""
    for plain, replacement in _ESCAPES:
        json = json.replace(plain, replacement)
    return json


def within_lines(text: str) -> str:
    """Return the text as one entry of a list of lines: continuation lines are indented.

    Nothing in it looks like an entry or a heading of its own."""
    return "\n    ".join(text.splitlines())
