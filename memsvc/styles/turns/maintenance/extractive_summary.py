"""Extractive summary without a model: the most informative sentences, with day and speaker."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

import regex

from memsvc.core.analysis import is_question, terms
from memsvc.core.chunks import sentences

SENTENCE_CHARS_MIN: Final = 8
SENTENCE_CHARS_MAX: Final = 320
SENTENCES_MAX: Final = 4000
"""Sentences that are compared; of more, the latest."""
TERMS_MIN: Final = 3
SCORE_SHARE_MIN: Final = 0.35
"""Minimum share of the best sentence's score, even where more tokens are left."""
DUPLICATE_SHARE: Final = 0.6
"""Share of common words from which two sentences are duplicates."""

_NAME: Final = regex.compile(r"(?<!^)(?<![.!?]\s)\b\p{Lu}\p{L}+")
_DIGIT: Final = regex.compile(r"\p{N}")
_USER_WORD: Final = re.compile(
    r"\b(i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi)\b", re.IGNORECASE
)
_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ([^:]{1,128}): (.+)")
_WEIGHT_BY_ROLE: Final = {"user": 1.0, "assistant": 0.75}
_PREVIOUS_WEIGHT: Final = 1.15


@dataclass(frozen=True, slots=True)
class SummaryMessage:
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


def extract_summary(
    before: str, messages: Sequence[SummaryMessage], *, budget_tok: int, cost: Callable[[str], int]
) -> str:
    """Return the most informative sentences of `messages` with day and speaker, oldest first.

    The lines have at most `budget_tok` tokens together. `before` is the previous summary: its lines
    compete like messages. A sentence scores for words that others use too but not all of them do,
    for names and figures, and for the first person; questions score less, and of two near
    duplicates one is left out."""
    sentences = [*_previous_sentences(before), *_sentences(messages, start=len(before))][
        -SENTENCES_MAX:
    ]
    term_counts = Counter(term for sentence in sentences for term in sentence.terms)
    ranked = sorted(
        ((_score(sentence, term_counts, len(sentences)), sentence) for sentence in sentences),
        key=lambda pair: (-pair[0], pair[1].order),
    )
    chosen: list[_Sentence] = []
    left = budget_tok
    score_min = ranked[0][0] * SCORE_SHARE_MIN if ranked else 0.0
    for score, sentence in ranked:
        if (
            score <= 0
            or score < score_min
            or any(_is_duplicate(sentence, other) for other in chosen)
        ):
            continue
        line_cost = cost(sentence.line + "\n")
        if line_cost <= left:
            chosen.append(sentence)
            left -= line_cost
    return "\n".join(
        sentence.line for sentence in sorted(chosen, key=lambda sentence: sentence.order)
    )


def sentence_of(line: str) -> str:
    """Return the text of a summary line, without its day, speaker and the mark of a cut."""
    found = _LINE.fullmatch(line)
    return (found[3] if found else line.removeprefix("- ")).removesuffix("…").strip()


def _previous_sentences(before: str) -> list[_Sentence]:
    sentences = []
    for at, line in enumerate(before.splitlines()):
        found = _LINE.fullmatch(line)
        day, who, text = found.groups() if found else ("", "", line.removeprefix("- ").strip())
        if text:
            sentences.append(
                _Sentence(at, day, who, text, frozenset(terms(text)), _PREVIOUS_WEIGHT)
            )
    return sentences


def _sentences(messages: Sequence[SummaryMessage], *, start: int) -> list[_Sentence]:
    found = []
    for at, message in enumerate(messages):
        weight = _WEIGHT_BY_ROLE.get(message.role, 0.0)
        if not weight:
            continue
        for plain in sentences(message.text):
            if len(plain) >= SENTENCE_CHARS_MIN:
                short_text = (
                    plain
                    if len(plain) <= SENTENCE_CHARS_MAX
                    else plain[: SENTENCE_CHARS_MAX - 1] + "…"
                )
                found.append(
                    _Sentence(
                        start + at,
                        message.day,
                        message.who,
                        short_text,
                        frozenset(terms(short_text)),
                        weight,
                    )
                )
    return found


def _score(sentence: _Sentence, term_counts: Counter[str], sentences: int) -> float:
    """Return the score of a sentence: the weight of its words over the root of their number."""
    if len(sentence.terms) < TERMS_MIN:
        return 0.0
    term_score = sum(
        log(1 + term_counts[term]) * log(1 + sentences / term_counts[term])
        for term in sentence.terms
    )
    score = term_score / sqrt(len(sentence.terms)) * sentence.weight
    score *= (
        1 + 0.25 * bool(_NAME.search(sentence.text)) + 0.25 * bool(_DIGIT.search(sentence.text))
    )
    score *= 1 + 0.25 * bool(_USER_WORD.search(sentence.text))
    return score * (0.4 if is_question(sentence.text) else 1.0)


def _is_duplicate(one: _Sentence, other: _Sentence) -> bool:
    shared = len(one.terms & other.terms)
    return (
        shared >= DUPLICATE_SHARE * min(len(one.terms), len(other.terms))
        and one.terms != frozenset()
    )
