"""Quotes of a long text: the sentences that bear on a question, word for word."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from memsvc.core.analysis import distinct_words, prefixes_of, words_with_terms
from memsvc.core.chunks import sentence_ends
from memsvc.core.secrets import has_secret_value, replace_secrets
from memsvc.core.text_cache import TextCache

SENTENCE_CHARS_MAX: Final = 240
"""A longer sentence, such as code or a list on one line, is split between words."""
RUN_CHARS_MIN: Final = 200
"""A sentence is quoted with its neighbours up to this length, or half of what may be quoted."""
ROUNDS_MAX: Final = 6
JOIN_CHARS_MAX: Final = 3
"""What is left out between two quotes is longer than this."""
REPEATED: Final = 0.3
"""Weight of a word that the quote has already."""
CACHED_TEXTS_MAX: Final = 4096
"""Texts of which it is known where their sentences stand."""
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")
_REFERENCE: Final = re.compile(
    r"\W*(?:(?:it|its|they|them|their|this|that|these|those|he|she|his|her|so|then|er|sie|es|das|dies"
    r"|dieser?|ihn|ihr|il|elle|ils|elles|ce|cela|ça|eso|esto|él|ella|ellos)\b"
    r"|[这那它他她彼]|これ|それ|あれ)",
    re.IGNORECASE,
)

Range = tuple[int, int]

_sentences: Final = TextCache[Sequence[Sequence[int]]](CACHED_TEXTS_MAX)


def quote_text(text: str, ranges: Sequence[Range]) -> str:
    """Return these ranges of a text, with `…` where something is left out."""
    last, parts = 0, []
    for start, stop in ranges:
        parts += ["…" if start > last else "", text[start:stop]]
        last = stop
    return "".join(parts) + ("…" if last < len(text) else "")


def before_secret(text: str, ranges: Sequence[Range]) -> list[Range]:
    """Return the quote up to the first sentence that contains a secret.

    Nothing if the sentence only names a secret, as another sentence may contain it."""
    kept: list[Range] = []
    for start, stop in ranges:
        for left, right in zip(*_spans(text[start:stop]), strict=True):
            sentence = text[start + left : start + right]
            if has_secret_value(sentence):
                is_told = _DIGIT.search(sentence) or replace_secrets(sentence) != sentence
                return _joined(kept) if kept and is_told else []
            kept.append((start + left, start + right))
    return []


class QuoteFinder:
    """Chooser of what to quote of long texts for a question, whose terms have `weights`."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._prefixes: frozenset[str] | None = None
        self._seen: set[str] = set()
        self._terms: dict[str, frozenset[str]] = {}

    def _found(self, text: str, starts: Sequence[int]) -> dict[int, set[str]]:
        """Return the question's terms in the sentences that have any, by their positions.

        Each word is looked at once for all texts."""
        if self._prefixes is None:
            self._prefixes = prefixes_of(self._weights)
        words = distinct_words(text)
        new = words - self._seen
        self._seen |= new
        self._terms |= words_with_terms(new, self._weights.keys(), self._prefixes)
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
        starts, stops = _spans_of(text, chars_max)
        weights, found = self._weights, dict(sorted(self._found(text, starts).items()))
        values_max = {at: sum([weights[term] for term in shared]) for at, shared in found.items()}
        chosen: set[int] = set()
        seen: set[str] = set()
        remaining, run_chars = chars_max, max(RUN_CHARS_MIN, chars_max // 2)
        for _ in range(ROUNDS_MAX):
            best, weight = -1, 0.0
            for at, value_max in values_max.items():
                if (
                    value_max > weight
                    and at not in chosen
                    and stops[at] - starts[at] <= remaining
                    and (value := _value(found[at], weights, seen)) > weight
                ):
                    best, weight = at, value
            if best < 0:
                break
            run = _run(text, starts, stops, best, min(remaining, run_chars), chosen)
            chosen.update(run)
            seen.update(*(found[at] for at in run if at in found))
            remaining -= sum(stops[at] - starts[at] for at in run)
        return _joined([(starts[at], stops[at]) for at in sorted(chosen)] or [(0, chars_max)])


def _value(shared: Set[str], weights: Mapping[str, float], seen: Set[str]) -> float:
    """Return the weight of terms, less of those already quoted."""
    return sum([weights[term] * (REPEATED if term in seen else 1) for term in shared])


def _places(word: str, text: str) -> Iterator[int]:
    """Yield where a word stands in a text; a search by a pattern would take longer."""
    start = text.find(word)
    while start >= 0:
        match = _WORD.match(text, start)
        if match and match[0] == word and not (start and _WORD.match(text[start - 1])):
            yield start
        start = text.find(word, start + 1)


def _run(
    text: str,
    starts: Sequence[int],
    stops: Sequence[int],
    best: int,
    chars: int,
    chosen: Set[int],
) -> range:
    """Return a sentence with its neighbours, by their positions."""
    first = last = best
    if (
        best
        and best - 1 not in chosen
        and stops[best] - starts[best - 1] <= chars
        and _REFERENCE.match(text, starts[best], stops[best])
    ):
        first -= 1
    count, end = len(starts), starts[first] + chars
    while last + 1 < count and last + 1 not in chosen and stops[last + 1] <= end:
        last += 1
    begin = stops[last] - chars
    while first and first - 1 not in chosen and starts[first - 1] >= begin:
        first -= 1
    return range(first, last + 1)


def _spans_of(text: str, chars_max: int) -> Sequence[Sequence[int]]:
    """Return where the sentences of a text start and stop, cached by the hash of the text."""
    if chars_max < SENTENCE_CHARS_MAX:
        return _spans(text, chars_max)
    return _sentences.get(text, _spans)


def _spans(text: str, chars_max: int = SENTENCE_CHARS_MAX) -> tuple[Sequence[int], Sequence[int]]:
    """Return where the sentences and lines of a text, or parts of them, start and stop.

    White space around them is left out."""
    starts, stops = array("l"), array("l")
    last = 0
    for end in (*sentence_ends(text), len(text)):
        part = text[last:end].lstrip()
        if part:
            start = end - len(part)
            stop = start + len(part.rstrip())
            while stop - start > chars_max:
                at = text.rfind(" ", start + 1, start + chars_max)
                at = at if at > 0 else start + chars_max
                starts.append(start)
                stops.append(at)
                start = at + (text[at] == " ")
            starts.append(start)
            stops.append(stop)
        last = end
    return starts, stops


def _joined(spans: Sequence[Range]) -> list[Range]:
    """Return the spans in order, those joined between which little is left out."""
    joined = [spans[0]]
    for start, stop in spans[1:]:
        if start - joined[-1][1] <= JOIN_CHARS_MAX:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
