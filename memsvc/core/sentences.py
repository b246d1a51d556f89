"""Sentence boundaries, in scripts with and without spaces."""

from collections.abc import Iterator
from typing import Final

import regex

NOT_SHORT_FORM: Final = r"(?<!\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|e\.g|i\.e|z\.B|bzw|ca|approx|No|Nr)\.)"
_END: Final = regex.compile(
    rf"(?<=[.!?…][\"'”’)\]]{{0,2}}){NOT_SHORT_FORM}\s+"
    r"|(?<=[。！？｡．][」』）】”’]{0,2})(?![」』）】”’。！？｡．])"
    r"|\n+"
)


def sentence_boundary_positions(text: str) -> Iterator[int]:
    """Yield the positions after each sentence or line, before white space.

    Not the end of the text."""
    for match in _END.finditer(text):
        if match.start() < len(text):
            yield match.start()


def sentences(text: str) -> Iterator[str]:
    """Yield the non-blank sentences and lines of a text in order, with white space collapsed."""
    start = 0
    for end in (*sentence_boundary_positions(text), len(text)):
        plain = " ".join(text[start:end].split())
        if plain:
            yield plain
        start = end
