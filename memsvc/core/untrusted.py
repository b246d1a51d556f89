"""Escaping of untrusted text within what a model reads."""

import json
import unicodedata
from typing import Final

import orjson
import regex

BLOCK_START: Final = "<memory_reference>\n"
"""How the text of a memory block starts."""
BLOCK_END: Final = "\n</memory_reference>"
BLOCK_FIELDS: Final = {"kind": "historical_memory", "untrusted": True}
"""The first members of the JSON in a memory block."""
BLOCK_CHARS_MAX: Final = 262_144
"""Longer blocks are not parsed: it would take the event loop too long."""
_BLOCK_HEAD: Final = BLOCK_START + orjson.dumps(BLOCK_FIELDS).decode()[:-1] + ","
_LINE_BREAK: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]")
_HIDDEN: Final = regex.compile(r"[\p{Cs}\p{Co}\p{Cn}[\p{Cf}--[\u200c\u200d]]]", regex.V1)
_ESCAPES: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"))


def escaped(text: str) -> str:
    """Return the same JSON without markup characters, so that no text in it closes a block."""
    for plain, replacement in _ESCAPES:
        text = text.replace(plain, replacement)
    return text


def is_memory_block(text: str) -> bool:
    """Return whether a text is a whole memory block; a very long one is judged by its ends."""
    if len(text) > BLOCK_CHARS_MAX:
        return text.startswith(_BLOCK_HEAD) and text.endswith("}" + BLOCK_END)
    if not (text.startswith(BLOCK_START) and text.endswith(BLOCK_END)):
        return False
    try:
        body = orjson.loads(text[len(BLOCK_START) : -len(BLOCK_END)])
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and body.get("kind") == BLOCK_FIELDS["kind"]


def owner_line(project: str, user: str) -> str:
    """Return whose memory something is, in one line that ends where the names end."""
    of_user = f", user {json.dumps(plain_line(user), ensure_ascii=False)}" if user else ""
    return escaped(f"project {project}{of_user}")


def within_lines(text: str) -> str:
    """Return the text as one entry of a list of lines: continuation lines are indented.

    Nothing in it looks like an entry or a heading of its own."""
    return "\n    ".join(text.splitlines())


def plain_line(text: str) -> str:
    """Return the text in one line, without characters that cannot be stored or seen."""
    visible = _HIDDEN.sub("", _LINE_BREAK.sub(" ", text))
    return " ".join(unicodedata.normalize("NFC", visible).split())
