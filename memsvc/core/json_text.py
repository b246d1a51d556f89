"""JSON: the type of its objects, and its text as other programs write it."""

import re
from typing import Any, Final

JsonObject = dict[str, Any]
"""A JSON object: its members by name."""

_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""An escape of JSON; the group is half a character whose other half does not follow."""


def replace_half_characters(body: bytes) -> bytes:
    """Return JSON with U+FFFD for each escape of half a character, which parsers refuse.

    Programs that cut a string in the middle of an emoji write such escapes."""
    if _HALF.search(body) is None:
        return body
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)
