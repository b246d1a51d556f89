"""Ranks the best entries of a book: BM25, context, days, dates, speakers, then a relevance floor and diversity."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import log1p, sqrt
from typing import Final, NamedTuple

from memsvc.core.analysis import NamedDate, dates_named, query_terms, terms

_Context = dict[str, tuple[float, float]]
"""By term: the score that reaches an entry from those beside it, and the weight of the way there."""

SHORT_LENGTH: Final = 30
"""Terms up to which an entry, or a book's average, counts as short: a chat message, not an essay."""
LONG_LENGTH: Final = 120
DAY_ENTRIES: Final = 3
"""How many entries of a day make its score."""
BACKGROUND_ENTRIES: Final = 200
"""Entries imagined beside a book when the floor asks how telling a term is, so that a tiny book can answer."""


def bm25_constants(average_length: float) -> tuple[float, float]:
    """k1 and b for a book whose entries have this many terms on average: b rises from 0.4 (short) to 1 (long)."""
    return 0.9, 0.4 + 0.6 * _longness(average_length)


def bm25_idf(count_with_term: int, count_all: int) -> float:
    """Inverse document frequency in nats, never negative: ln(1 + (n - df + 0.5) / (df + 0.5)), as in Lucene."""
    return log1p((count_all - count_with_term + 0.5) / (count_with_term + 0.5))


def bm25_term_score(idf: float, frequency: float, length: float, average_length: float, k1: float, b: float) -> float:
    """What one term adds to an entry's score (Robertson and Zaragoza 2009, with the factor k1 + 1)."""
    return idf * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / average_length))


def bm25_scores(question_terms: Sequence[str], documents: Sequence[Sequence[str]], k1: float, b: float) -> list[float]:
    """Scores of all documents (each its terms, repeats kept), in their order: the reference that the SQL must equal."""
    counts = [Counter(document) for document in documents]
    average_length = sum(map(len, documents)) / max(1, len(documents))
    scores = [0.0] * len(documents)
    for term in dict.fromkeys(question_terms):
        idf = bm25_idf(sum(term in count for count in counts), len(documents))
        for position, count in enumerate(counts):
            if count[term]:
                scores[position] += bm25_term_score(idf, count[term], len(documents[position]), average_length, k1, b)
    return scores


def read_question(text: str, entry_count: int, counts_by_term: Mapping[str, int]) -> "Question":
    """A question with how telling each of its terms is in a book; terms absent from the counts occur nowhere."""
    asked = query_terms(text)
    idf = {term: bm25_idf(counts_by_term.get(term, 0), entry_count + BACKGROUND_ENTRIES) for term in asked}
    return Question(idf_by_term=idf, dates=tuple(dates_named(text)))


def rank(candidates: Sequence["Candidate"], question: "Question", weights: "Weights") -> list["Ranked"]:
    """All candidates with any score, best first, later first among equals; the parts of each add up to its score.

    Candidates are of one book, where consecutive ids are consecutive messages. Each best entry by BM25 should come with
    the entries beside it, with no term scores where they matched nothing: an answer often repeats no word of its
    question.
    """
    near = _near(candidates, weights)
    own = {candidate.entry: sum(candidate.term_scores.values()) for candidate in candidates}
    asking = {candidate.entry for candidate in candidates if candidate.asks}
    named = _speakers_named(candidates, question)
    telling = {term: idf for term, idf in question.idf_by_term.items() if term not in named.terms}
    asked = sqrt(sum(telling.values()))
    said = [_text_parts(candidate, own, near[candidate.entry], asking, weights) for candidate in candidates]
    texts = [sum(parts.values()) for parts in said]
    days = [candidate.said_at.date() if candidate.said_at is not None else None for candidate in candidates]
    shares = _day_shares(candidates, days, own)
    day_score = weights.day * max(texts, default=0.0)
    ranked = []
    for candidate, parts, text, day in zip(candidates, said, texts, days, strict=True):
        parts["day"] = day_score * shares.get(day, 0.0)
        score = text + parts["day"]
        for name, factor in _factors(candidate, question, named, weights):
            parts[name] = score * (factor - 1)
            score *= factor
        if score > 0:
            relevance = _found(candidate, near[candidate.entry], telling) / asked if asked else 0.0
            ranked.append(Ranked(candidate.entry, score, parts, relevance))
    return sorted(ranked, key=lambda item: (-item.score, -item.entry))


def floor(ranked: Sequence["Ranked"], weights: "Weights") -> list["Ranked"]:
    """The same list, or nothing where no entry with its context covers enough of what the question asks about."""
    relevance = max((item.relevance for item in ranked), default=0.0)
    return list(ranked) if ranked and relevance >= weights.floor else []


def _near(candidates: Sequence["Candidate"], weights: "Weights") -> dict[int, _Context]:
    contexts: dict[int, _Context] = {candidate.entry: {} for candidate in candidates}
    fades = {candidate.entry: _fade(candidate.length) for candidate in candidates}
    steps = [
        (sign * distance, weights.near * weights.near_decay ** (distance - 1))
        for distance in range(1, weights.near_reach + 1)
        for sign in (-1, 1)
    ]
    for giver in candidates:
        if not giver.term_scores:
            continue
        for step, weight in steps:
            context = contexts.get(giver.entry + step)
            if context is None:
                continue
            faded = weight * fades[giver.entry + step] * fades[giver.entry]
            for term, score in giver.term_scores.items():
                if term not in context or faded * score > context[term][0]:
                    context[term] = (faded * score, faded)
    return contexts


def _text_parts(
    candidate: "Candidate", own: Mapping[int, float], context: _Context, asking: Collection[int], weights: "Weights"
) -> dict[str, float]:
    scores = candidate.term_scores
    parts = {"bm25": own[candidate.entry], "near": 0.0, "answer": 0.0}
    for term, (score, _) in context.items():
        gained = score - scores.get(term, 0.0)
        if gained > 0:
            parts["near"] += gained
    before = candidate.entry - 1
    if before in asking:
        parts["answer"] = weights.answer * own[before] * _fade(candidate.length)
    return parts


def _factors(
    candidate: "Candidate", question: "Question", named: "_Named", weights: "Weights"
) -> list[tuple[str, float]]:
    """The factors other than 1, in the order in which they apply."""
    factors = []
    if question.dates and (matches := _date_matches(candidate.said_at, question.dates)):
        factors.append(("date", 1 + weights.date * matches))
    if named.speaker and candidate.speaker == named.speaker:
        factors.append(("speaker", weights.speaker))
    if candidate.length + 1 < weights.brief_length:
        factors.append(("brevity", ((candidate.length + 1) / weights.brief_length) ** weights.brevity))
    if candidate.length > SHORT_LENGTH and candidate.role == "assistant":
        factors.append(("assistant", 1 - weights.assistant_long * _longness(candidate.length)))
    return factors


def _found(candidate: "Candidate", context: _Context, telling: Mapping[str, float]) -> float:
    """The idf of the telling terms that an entry or its context has."""
    own = candidate.term_scores
    found = sum([telling.get(term, 0.0) for term in own])
    return found + sum([telling.get(term, 0.0) * way for term, (_, way) in context.items() if term not in own])


def _speakers_named(candidates: Sequence["Candidate"], question: "Question") -> "_Named":
    terms_by_speaker = {
        speaker: frozenset(terms(speaker)) for speaker in {candidate.speaker for candidate in candidates}
    }
    named = {speaker: own for speaker, own in terms_by_speaker.items() if own & question.idf_by_term.keys()}
    return _Named(next(iter(named)) if len(named) == 1 else "", frozenset().union(*named.values()))


def _day_shares(
    candidates: Sequence["Candidate"], days: Sequence[date | None], own: Mapping[int, float]
) -> dict[date | None, float]:
    scores: defaultdict[date | None, list[float]] = defaultdict(list)
    for candidate, day in zip(candidates, days, strict=True):
        if day is not None and candidate.term_scores:
            scores[day].append(own[candidate.entry])
    totals = {day: sum(sorted(values)[-DAY_ENTRIES:]) for day, values in scores.items()}
    greatest = max(totals.values(), default=0.0)
    return {day: total / greatest for day, total in totals.items()} if greatest > 0 else {}


def _date_matches(said_at: datetime | None, dates: Sequence[NamedDate]) -> int:
    """0, 1 (the month) or 2 (the day)."""
    matches = 0
    for named in dates:
        if said_at is not None and said_at.month == named.month and named.year in (None, said_at.year):
            matches = max(matches, 2 if named.day == said_at.day else 1)
    return matches


def _fade(length: int) -> float:
    """How much a text of this length takes from its neighbours and gives them: a long one speaks for itself."""
    return min(1.0, SHORT_LENGTH / max(1, length))


def _longness(length: float) -> float:
    return min(1.0, max(0.0, (length - SHORT_LENGTH) / (LONG_LENGTH - SHORT_LENGTH)))


class Distinct:
    """Admits texts that are not nearly the same as one that it admitted before (Jaccard similarity of their words)."""

    def __init__(self, similarity_max: float = 0.8) -> None:
        self._similarity_max = similarity_max
        self._admitted: list[frozenset[str]] = []

    def admits(self, words: Collection[str]) -> bool:
        """Whether a text of these words is new; from then on it counts as admitted."""
        own = frozenset(words)
        for other in self._admitted:
            shared = len(own & other)
            if shared > self._similarity_max * (len(own) + len(other) - shared):
                return False
        self._admitted.append(own)
        return True


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each trick counts; tuned on short chats, fading by length for long messages."""

    near: float = 0.6
    """Share of a term's score that reaches the entry before and after one that has it."""
    near_decay: float = 0.7
    """Factor for each further step."""
    near_reach: int = 4
    answer: float = 0.3
    """Share of a question's score that its answer gets on top."""
    day: float = 0.3
    """Share of the best score that all entries of the best day get."""
    date: float = 0.5
    """Gain of an entry said in the month that the question names; as much again for the very day."""
    speaker: float = 2.0
    """Factor for what the one speaker said whom the question names."""
    brevity: float = 0.3
    """Exponent of the factor (length + 1) / brief_length for entries shorter than that."""
    brief_length: int = 12
    assistant_long: float = 0.3
    """Share that a long message of an assistant loses against what a user said."""
    floor: float = 1.0
    """Least relevance (see Ranked) of the best entry; 0 lets everything through."""


DEFAULT_WEIGHTS: Final = Weights()


class Candidate(NamedTuple):
    """An entry as the index found it: term_scores holds its BM25 share by question term, length counts its terms."""

    entry: int
    term_scores: Mapping[str, float]
    length: int
    speaker: str = ""
    role: str = ""
    said_at: datetime | None = None
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: its terms with their idf in nats, and the dates that it names."""

    idf_by_term: Mapping[str, float]
    dates: tuple[NamedDate, ...] = ()


class Ranked(NamedTuple):
    """An entry with its score and where that comes from.

    Relevance is found / sqrt(asked): the idf of the question's terms that the entry or its context has (context
    weighted as for the score), over the root of that of all its terms, speakers' names apart. It grows with the share
    that is found and with how much is asked; a question of one rare term that is found has about 2.
    """

    entry: int
    score: float
    parts: Mapping[str, float]
    relevance: float


@dataclass(frozen=True, slots=True)
class _Named:
    speaker: str
    terms: frozenset[str]
