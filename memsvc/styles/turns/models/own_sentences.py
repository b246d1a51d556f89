"""The sentence of a user's own words that a model's proposal quotes."""

from typing import Final

from memsvc.core.analysis import terms
from memsvc.core.chunks import sentence_boundary_positions
from memsvc.core.facts import STATEMENT_CHARS_MAX
from memsvc.core.rules.own_words import pasted_spans

QUOTED_SHARE_MIN: Final = 0.8
"""Terms of a quotation that the sentence must have."""
OWN_SHARE_MIN: Final = 0.5
"""Terms of a quotation that the user's own part of the sentence must have: the end of it may name a
title, but a text to be translated is nobody's statement."""


def own_sentence(text: str, quotation: str) -> str:
    """Return the user's sentence that a model quotes, as it was said; "" where nothing says it.

    `text` is a message of the user's, `quotation` the model's wording. The sentence is returned,
    not the quotation, so that no negation is lost; at most STATEMENT_CHARS_MAX characters."""
    expected = set(terms(quotation))
    own_text = _own_words(text)
    best, found, start = (0.0, 0.0), "", 0
    for end in (*sentence_boundary_positions(text), len(text)):
        shares = [
            len(expected.intersection(terms(words[start:end]))) / max(1, len(expected))
            for words in (text, own_text)
        ]
        is_quoted = shares[0] >= QUOTED_SHARE_MIN and shares[1] >= OWN_SHARE_MIN
        if is_quoted and (shares[1], shares[0]) > best:
            best, found = (shares[1], shares[0]), text[start:end]
        start = end
    return " ".join(found.split())[:STATEMENT_CHARS_MAX]


def _own_words(text: str) -> str:
    """Return the text with spaces in place of what is worked on."""
    parts, start = [], 0
    for left, right in pasted_spans(text):
        parts += [text[start:left], " " * (right - left)]
        start = right
    return "".join([*parts, text[start:]])
