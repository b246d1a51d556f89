"""A summary without a model: of much that was said, the sentences that tell most, with their day and who said them."""

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
"""What tells less than this share of the best sentence is not worth the tokens, even where there is room."""
ALIKE: Final = 0.6
"""Two sentences that share so much of their words say the same."""

_NAME: Final = regex.compile(r"(?<!^)(?<![.!?]\s)\b\p{Lu}\p{L}+")
_FIGURE: Final = regex.compile(r"\p{N}")
_FIRST_PERSON: Final = re.compile(r"\b(i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi)\b", re.IGNORECASE)
_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ([^:]{1,128}): (.+)")
_WEIGHT_BY_ROLE: Final = {"user": 1.0, "assistant": 0.75}
_TOLD_BEFORE: Final = 1.15


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said: the day as YYYY-MM-DD, by whom, and in which role; only `user` and `assistant` are told
    of."""

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
    """The sentences of `said` that tell most, each with its day and speaker, oldest first, in lines of at most
    `budget_tok` tokens together.

    `before` is the summary that stood there so far: its lines take part like what was said. A sentence is worth the
    words in it that the others speak of too but not all of them do, names and figures, and what people say of
    themselves; questions are worth less, and of two that say nearly the same one is left out.
    """
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
    """What was said, in a line of a summary: without its day and speaker, and without the mark where it was cut."""
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
    """How much a sentence tells: the weight of its words over the root of how many there are."""
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
