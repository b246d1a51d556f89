"""Extractive summary without a model: the most informative sentences, with day and speaker."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

import regex

from memsvc.core.analysis import asks, terms
from memsvc.core.sentences import sentences

SENTENCE_CHARS_MIN: Final = 8
SENTENCE_CHARS_MAX: Final = 320
SENTENCES_MAX: Final = 4000
"""Sentences that are compared; of more, the latest."""
TERMS_MIN: Final = 3
WORTH_SHARE_MIN: Final = 0.35
"""Minimum share of the best sentence's score, even where more tokens are left."""
ALIKE: Final = 0.6
"""Share of common words from which two sentences are duplicates."""

_NAME: Final = regex.compile(r"(?<!^)(?<![.!?]\s)\b\p{Lu}\p{L}+")
_FIGURE: Final = regex.compile(r"\p{N}")
_FIRST_PERSON: Final = re.compile(r"\b(i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi)\b", re.IGNORECASE)
_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ([^:]{1,128}): (.+)")
_WEIGHT_BY_ROLE: Final = {"user": 1.0, "assistant": 0.75}
_TOLD_BEFORE: Final = 1.15


@dataclass(frozen=True, slots=True)
class Said:
    """A message: its day as YYYY-MM-DD, speaker and role.

    Only `user` and `assistant` are summarised."""

    day: str
    who: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    order: int
    day: str
    who: str
    text: str
    terms: frozenset[str]
    weight: float

    @property
    def line(self) -> str:
        return f"- {self.day} {self.who}: {self.text}" if self.day else f"- {self.text}"


def condensed(before: str, said: Sequence[Said], *, budget_tok: int, cost: Callable[[str], int]) -> str:
    """Return the most informative sentences of `said`, each with its day and speaker, oldest first.

    The lines have at most `budget_tok` tokens together. `before` is the previous summary: its lines
    compete like messages. A sentence scores for words that others use too but not all of them do,
    for names and figures, and for the first person; questions score less, and of two near
    duplicates one is left out."""
    sentences = [*_told(before), *_sentences(said, start=len(before))][-SENTENCES_MAX:]
    spread = Counter(term for sentence in sentences for term in sentence.terms)
    ranked = sorted(
        ((_worth(sentence, spread, len(sentences)), sentence) for sentence in sentences),
        key=lambda pair: (-pair[0], pair[1].order),
    )
    chosen: list[_Sentence] = []
    left = budget_tok
    enough = ranked[0][0] * WORTH_SHARE_MIN if ranked else 0.0
    for worth, sentence in ranked:
        if worth <= 0 or worth < enough or any(_alike(sentence, other) for other in chosen):
            continue
        price = cost(sentence.line + "\n")
        if price <= left:
            chosen.append(sentence)
            left -= price
    return "\n".join(sentence.line for sentence in sorted(chosen, key=lambda sentence: sentence.order))


def sentence_of(line: str) -> str:
    """Return the text of a summary line, without its day, speaker and the mark of a cut."""
    found = _LINE.fullmatch(line)
    return (found[3] if found else line.removeprefix("- ")).removesuffix("…").strip()


def _told(before: str) -> list[_Sentence]:
    sentences = []
    for at, line in enumerate(before.splitlines()):
        found = _LINE.fullmatch(line)
        day, who, text = found.groups() if found else ("", "", line.removeprefix("- ").strip())
        if text:
            sentences.append(_Sentence(at, day, who, text, frozenset(terms(text)), _TOLD_BEFORE))
    return sentences


def _sentences(said: Sequence[Said], *, start: int) -> list[_Sentence]:
    found = []
    for at, one in enumerate(said):
        weight = _WEIGHT_BY_ROLE.get(one.role, 0.0)
        if not weight:
            continue
        for plain in sentences(one.text):
            if len(plain) >= SENTENCE_CHARS_MIN:
                cut = plain if len(plain) <= SENTENCE_CHARS_MAX else plain[: SENTENCE_CHARS_MAX - 1] + "…"
                found.append(_Sentence(start + at, one.day, one.who, cut, frozenset(terms(cut)), weight))
    return found


def _worth(sentence: _Sentence, spread: Counter[str], sentences: int) -> float:
    """Return the score of a sentence: the weight of its words over the root of their number."""
    if len(sentence.terms) < TERMS_MIN:
        return 0.0
    told = sum(log(1 + spread[term]) * log(1 + sentences / spread[term]) for term in sentence.terms)
    worth = told / sqrt(len(sentence.terms)) * sentence.weight
    worth *= 1 + 0.25 * bool(_NAME.search(sentence.text)) + 0.25 * bool(_FIGURE.search(sentence.text))
    worth *= 1 + 0.25 * bool(_FIRST_PERSON.search(sentence.text))
    return worth * (0.4 if asks(sentence.text) else 1.0)


def _alike(one: _Sentence, other: _Sentence) -> bool:
    shared = len(one.terms & other.terms)
    return shared >= ALIKE * min(len(one.terms), len(other.terms)) and one.terms != frozenset()
