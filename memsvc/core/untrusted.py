"""Text that somebody else wrote, within JSON that a model reads."""

from typing import Final

_ESCAPES: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"))


def escaped(json: str) -> str:
    """The same JSON without the characters that markup begins and ends with, so that no text in it closes a block."""
    for plain, instead in _ESCAPES:
        json = json.replace(plain, instead)
    return json
