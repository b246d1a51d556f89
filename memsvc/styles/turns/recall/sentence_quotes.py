"""Quotes of a long text: the sentences that bear on a question, word for word."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from memsvc.core.analysis import words_with_terms

SENTENCE_CHARS_MAX: Final = 240
"""A longer sentence, such as code or a list on one line, is split between words."""
RUN_CHARS_MIN: Final = 200
"""A sentence is quoted with its neighbours up to this length, or half of what may be quoted."""
ROUNDS_MAX: Final = 6
JOIN_CHARS_MAX: Final = 3
"""What is left out between two quotes is longer than this."""
REPEATED: Final = 0.3
"""Weight of a word that the quote has already."""
_END: Final = re.compile(
    r"[.!?…。！？\n](?:(?<=[.!?…])[\"'”’)\]]{0,3}\s+|(?<=[。！？])[」』）】”’]?|(?<=\n)\n*)"
)
_WORD: Final = re.compile(r"\w+")
_REFERENCE: Final = re.compile(
    r"\W*(?:(?:it|its|they|them|their|this|that|these|those|he|she|his|her|so|then|er|sie|es|das|dies"
    r"|dieser?|ihn|ihr|il|elle|ils|elles|ce|cela|ça|eso|esto|él|ella|ellos)\b"
    r"|[这那它他她彼]|これ|それ|あれ)",
    re.IGNORECASE,
)

Range = tuple[int, int]


def quote_text(text: str, ranges: Sequence[Range]) -> str:
    """Return these ranges of a text, with `…` where something is left out."""
    last, parts = 0, []
    for start, stop in ranges:
        parts += ["…" if start > last else "", text[start:stop]]
        last = stop
    return "".join(parts) + ("…" if last < len(text) else "")


class QuoteFinder:
    """Chooser of what to quote of long texts for a question, whose terms have `weights`."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._seen: set[str] = set()
        self._terms: dict[str, frozenset[str]] = {}

    def _found(self, text: str, spans: Sequence[Range]) -> dict[int, set[str]]:
        """Return the question's terms in the sentences that have any, by their positions.

        Each word is looked at once for all texts."""
        words = set(_WORD.findall(text))
        self._terms |= words_with_terms(words - self._seen, self._weights.keys())
        self._seen |= words
        starts = [start for start, _ in spans]
        found: dict[int, set[str]] = {}
        for word in words & self._terms.keys():
            for start in _places(word, text):
                found.setdefault(bisect_right(starts, start) - 1, set()).update(self._terms[word])
        return found

    def ranges(self, text: str, chars_max: int) -> list[Range]:
        """Return the ranges to quote, in order, of about `chars_max` characters together.

        A text that is no longer is quoted whole. Of others first the sentences whose terms have the
        most weight beyond those already quoted, each with neighbours: what a pronoun at its
        beginning refers to, what follows, what comes before. Without any of the terms, the
        beginning."""
        if len(text) <= chars_max:
            return [(0, len(text))]
        if not self._weights:
            return [(0, chars_max)]
        spans = list(_spans(text, min(SENTENCE_CHARS_MAX, chars_max)))
        found = dict(sorted(self._found(text, spans).items()))
        chosen: set[int] = set()
        seen: set[str] = set()
        remaining, run_chars = chars_max, max(RUN_CHARS_MIN, chars_max // 2)
        for _ in range(ROUNDS_MAX):
            best, weight = -1, 0.0
            for at, shared in found.items():
                length = spans[at][1] - spans[at][0]
                if at not in chosen and length <= remaining:
                    value = sum(
                        self._weights[term] * (REPEATED if term in seen else 1) for term in shared
                    )
                    if value > weight:
                        best, weight = at, value
            if best < 0:
                break
            run = _run(text, spans, best, min(remaining, run_chars), chosen)
            chosen.update(run)
            seen.update(*(found[at] for at in run if at in found))
            remaining -= sum(spans[at][1] - spans[at][0] for at in run)
        return _joined([spans[at] for at in sorted(chosen)] or [(0, chars_max)])


def _places(word: str, text: str) -> Iterator[int]:
    """Yield where a word stands in a text; a search by a pattern would take longer."""
    start = text.find(word)
    while start >= 0:
        match = _WORD.match(text, start)
        if match and match[0] == word and not (start and _WORD.match(text[start - 1])):
            yield start
        start = text.find(word, start + 1)


def _run(text: str, spans: Sequence[Range], best: int, chars: int, chosen: Set[int]) -> list[int]:
    """Return a sentence with its neighbours, by their positions."""
    first, last = best, best

    def has_room(start: int, stop: int) -> bool:
        return (
            start >= 0
            and stop < len(spans)
            and chosen.isdisjoint((start, stop))
            and spans[stop][1] - spans[start][0] <= chars
        )

    if has_room(best - 1, best) and _REFERENCE.match(text, *spans[best]):
        first -= 1
    while has_room(first, last + 1):
        last += 1
    while has_room(first - 1, last):
        first -= 1
    return list(range(first, last + 1))


def _spans(text: str, chars_max: int) -> Iterator[Range]:
    """Yield the sentences and lines of a text, or parts of them, without white space around."""
    start = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        piece = text[start:end]
        stop = start + len(piece.rstrip())
        start += len(piece) - len(piece.lstrip())
        while stop - start > chars_max:
            at = text.rfind(" ", start + 1, start + chars_max)
            at = at if at > 0 else start + chars_max
            yield start, at
            start = at + (text[at] == " ")
        if stop > start:
            yield start, stop
        start = end


def _joined(spans: Sequence[Range]) -> list[Range]:
    """Return the spans in order, those joined between which little is left out."""
    joined = [spans[0]]
    for start, stop in spans[1:]:
        if start - joined[-1][1] <= JOIN_CHARS_MAX:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
