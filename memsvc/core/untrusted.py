"""Escaping of untrusted text within what a model reads."""

import unicodedata
from typing import Final

import regex

BLOCK_START: Final = "<memory_reference>\n"
"""How the text of a memory block starts."""
_LINE_BREAK: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]")
_HIDDEN: Final = regex.compile(r"[\p{Cs}\p{Co}\p{Cn}[\p{Cf}--[\u200c\u200d]]]", regex.V1)
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


def plain_line(text: str) -> str:
    """Return the text in one line, without characters that cannot be stored or seen."""
    visible = _HIDDEN.sub("", _LINE_BREAK.sub(" ", text))
    return " ".join(unicodedata.normalize("NFC", visible).split())
