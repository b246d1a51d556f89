"""Detection of quoted text: in quotation marks, fences, tags or lines with ">"."""

import re
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_CLOSING_QUOTES = {
    "“": "”",
    "„": "“",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "‹": "›",
    '"': '"',
    "`": "`",
    "'": "'",
}
QUOTATION_MARKS = frozenset(_CLOSING_QUOTES) - {"`"}
_FENCES = ("```", "~~~")
_MARK = re.compile(r"```|~~~|\n|[\"`“”„«»「」『』‹›]|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?=[\s/>])[^<>\n]{0,200}>")
TAGS_OPEN_MAX = 50
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)


def quoted_spans(text: str) -> list[Span]:
    """Return the parts of a text in quotation marks, in code, between tags or behind ">", in order.

    Quotation marks apply within a line; a fence or a tag that is never closed extends to the
    end."""
    quotes = (match.span() for match in _BLOCK_QUOTE.finditer(text))
    return merged([*_quoted(text), *(_tagged(text) if "<" in text else ()), *quotes])


def masked(text: str, spans: Iterable[Span]) -> str:
    """Return a text of the same length with spaces in place of some spans."""
    parts, start = [], 0
    for left, right in spans:
        parts += [text[start:left], re.sub(r"[^\n]", " ", text[left:right])]
        start = right
    return "".join(parts) + text[start:]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that touch as one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _quoted(text: str) -> Iterator[Span]:
    closing, start = "", 0
    for mark in _MARK.finditer(text):
        kind = mark[0]
        if closing:
            if kind == closing:
                yield start, mark.end()
            if kind == closing or (kind == "\n" and closing not in _FENCES):
                closing = ""
        elif kind in _FENCES or (kind in _CLOSING_QUOTES and not _is_word_end(text, mark)):
            closing, start = _CLOSING_QUOTES.get(kind, kind), mark.start()
    if closing in _FENCES:
        yield start, len(text)


def _is_word_end(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is the apostrophe after a word, as in the dogs' house."""
    return mark[0] == "'" and text[mark.start() - 1 : mark.start()].isalnum()


def _tagged(text: str) -> Iterator[Span]:
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
