"""Detection of quoted text: in quotation marks, fences or tags."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

_CLOSING = {
    "“": "”",
    "„": "“",
    "«": "»",
    "「": "」",
    "『": "』",
    "‹": "›",
    '"': '"',
    "`": "`",
    "'": "'",
}
_FENCES = ("```", "~~~")
_QUOTE = re.compile(r"```|~~~|\n|[\"`“”„«»「」『』‹›]|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})[^<>\n]{0,200}>")
TAGS_OPEN_MAX = 50


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a text in quotation marks, in code or between tags, in order.

    Quotation marks apply within a line; a fence or a tag that is never closed extends to the
    end."""
    return sorted([*_quoted(text), *(_tagged(text) if "<" in text else ())])


def within(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Return whether a position lies in one of some ordered spans, of which at most two overlap."""
    at = bisect_right(spans, (position, 1 << 60))
    return any(start <= position < end for start, end in spans[max(0, at - 3) : at])


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    closing, start = "", 0
    for mark in _QUOTE.finditer(text):
        kind = mark[0]
        if closing:
            if kind == closing:
                yield start, mark.end()
            if kind == closing or (kind == "\n" and closing not in _FENCES):
                closing = ""
        elif kind in _FENCES or (kind in _CLOSING and not _is_word_end(text, mark)):
            closing, start = _CLOSING.get(kind, kind), mark.start()
    if closing in _FENCES:
        yield start, len(text)


def _is_word_end(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is the apostrophe after a word, as in the dogs' house."""
    return mark[0] == "'" and text[mark.start() - 1 : mark.start()].isalnum()


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    names: list[str] = []
    start = 0
    for tag in _TAG.finditer(text):
        name = tag["name"].casefold()
        if not tag["close"]:
            start = start if names else tag.start()
            names += [name] if len(names) < TAGS_OPEN_MAX else []
        elif name in names:
            del names[names.index(name) :]
            if not names:
                yield start, tag.end()
    if names:
        yield start, len(text)
