"""Text that somebody else wrote, within what a model reads."""

from typing import Final

_ESCAPES: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"))


def escaped(json: str) -> str:
    """The same JSON without the characters that markup begins and ends with, so that no text in it closes a block."""
    for plain, instead in _ESCAPES:
        json = json.replace(plain, instead)
    return json


def within_lines(text: str) -> str:
    """The text as one entry of a list of lines: whatever ends a line is followed by an indent, so that nothing in it
    looks like an entry or a heading of its own."""
    return "\n    ".join(text.splitlines())
