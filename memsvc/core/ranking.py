"""Ranking of index entries: BM25, embeddings, context, days, times, speakers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import sqrt
from operator import itemgetter
from typing import Final, NamedTuple

from memsvc.core.analysis import NamedDate, dates_named, is_personal, query_terms, terms
from memsvc.core.bm25 import SHORT_LENGTH, bm25_idf, longness
from memsvc.core.fusion import over_floor
from memsvc.core.when import FIRST, NEVER, When

_Context = dict[str, tuple[float, float]]
"""By term: the score that reaches an entry from its neighbours, and the weight of the path."""

DAY_ENTRIES: Final = 3
"""Number of entries of a day that make its score."""
BACKGROUND_ENTRIES: Final = 200
"""Virtual entries added to an index for the idf of the floor, so that a tiny index can answer."""


def read_question(text: str, entry_count: int, counts_by_term: Mapping[str, int], when: When = NEVER) -> "Question":
    """Return a question with the idf of its terms in an index.

    Terms without a count are new to it."""
    asked = query_terms(text)
    idf = {term: bm25_idf(counts_by_term.get(term, 0), entry_count + BACKGROUND_ENTRIES) for term in asked}
    return Question(idf, tuple(dates_named(text)), when, is_personal(text))


def rank(candidates: Sequence["Candidate"], question: "Question", weights: "Weights") -> list["Ranked"]:
    """Return all candidates with any score, best first, later first among equals.

    The parts of each add up to its score. Consecutive ids are consecutive messages; indexes are
    distinguished by ids that are far from each other. Each best entry should come with its
    neighbours, with no term scores where they matched nothing: an answer often repeats no word of
    its question."""
    near = _near(candidates, weights)
    own = {candidate.entry: sum(candidate.term_scores.values()) for candidate in candidates}
    asking = {candidate.entry for candidate in candidates if candidate.asks}
    named = _speakers_named(candidates, question)
    telling = {term: idf for term, idf in question.idf_by_term.items() if term not in named.terms}
    asked = sqrt(sum(telling.values()))
    said, found = [], []
    for candidate in candidates:
        gained, known = _borrowed(candidate.term_scores, near[candidate.entry], telling)
        said.append({"bm25": own[candidate.entry], "near": gained, "answer": 0.0})
        found.append(known)
        if candidate.entry - 1 in asking:
            said[-1]["answer"] = weights.answer * own[candidate.entry - 1] * _fade(candidate.length)
    alike = _add_meaning(candidates, said, weights)
    texts = [sum(parts.values()) for parts in said]
    days = [candidate.said_at.date() if candidate.said_at is not None else None for candidate in candidates]
    shares = _day_shares(candidates, days, texts if alike else [own[one.entry] for one in candidates])
    day_score = weights.day * max(texts, default=0.0)
    places = _places(candidates, texts) if question.when.order else {}
    ranked = []
    for candidate, parts, text, day, known in zip(candidates, said, texts, days, found, strict=True):
        parts["day"] = day_score * shares.get(day, 0.0)
        score = text + parts["day"]
        for name, factor in _factors(candidate, question, named, places, weights):
            parts[name] = score * (factor - 1)
            score *= factor
        if score > 0:
            relevance = known / asked if asked else 0.0
            ranked.append(Ranked(candidate.entry, score, parts, relevance, alike.get(candidate.entry, 0.0), day))
    ranked.sort(key=itemgetter(1, 0), reverse=True)
    return ranked


def names_someone(candidates: Sequence["Candidate"], question: "Question") -> bool:
    """Return whether the question names a speaker of the candidates."""
    return bool(_speakers_named(candidates, question).terms & question.idf_by_term.keys())


def _near(candidates: Sequence["Candidate"], weights: "Weights") -> dict[int, _Context]:
    contexts: dict[int, _Context] = {candidate.entry: {} for candidate in candidates}
    fades = {candidate.entry: _fade(candidate.length) for candidate in candidates}
    steps = [
        (sign * distance, weights.near * weights.near_decay ** (distance - 1))
        for distance in range(1, weights.near_reach + 1)
        for sign in (-1, 1)
    ]
    for giver in candidates:
        scores = giver.term_scores
        if not scores:
            continue
        entry, fade = giver.entry, fades[giver.entry]
        for step, weight in steps:
            context = contexts.get(entry + step)
            if context is None:
                continue
            faded = weight * fades[entry + step] * fade
            for term, score in scores.items():
                known = context.get(term)
                if known is None or faded * score > known[0]:
                    context[term] = (faded * score, faded)
    return contexts


def _borrowed(scores: Mapping[str, float], context: _Context, telling: Mapping[str, float]) -> tuple[float, float]:
    """Return an entry's gain from its context, and the idf of relevant terms that either has."""
    gained = known = 0.0
    for term in scores:
        if term in telling:
            known += telling[term]
    for term, (score, way) in context.items():
        own = scores.get(term)
        if own is None:
            gained += score
            if term in telling:
                known += telling[term] * way
        elif score > own:
            gained += score - own
    return gained, known


def _add_meaning(
    candidates: Sequence["Candidate"], said: Sequence[dict[str, float]], weights: "Weights"
) -> dict[int, float]:
    """Add the embedding similarity to each text's score, as a share of the best text.

    Returns by entry how far its cosine is above unrelated text. An entry gets half of its
    neighbours' similarity. Without any cosine nothing changes."""
    cosines = {candidate.entry: candidate.cosine for candidate in candidates if candidate.cosine is not None}
    above, greatest = over_floor(cosines)
    if not above:
        return {}
    best = max((sum(parts.values()) for parts in said), default=0.0) or 1.0
    scale = best * weights.meaning / (1 - weights.meaning) / greatest
    for candidate, parts in zip(candidates, said, strict=True):
        entry = candidate.entry
        beside = max(above.get(entry - 1, 0.0), above.get(entry + 1, 0.0)) * _fade(candidate.length)
        parts["meaning"] = scale * max(above.get(entry, 0.0), weights.meaning_near * beside)
    return above


def _places(candidates: Sequence["Candidate"], texts: Sequence[float]) -> dict[int, float]:
    """Return the chronological position of each good match: 0 the earliest, 1 the latest.

    Entries that match less than half as well as the best are left out."""
    least = max(texts, default=0.0) / 2
    matching = sorted(
        (candidate.said_at, candidate.entry)
        for candidate, text in zip(candidates, texts, strict=True)
        if text >= least and candidate.said_at is not None
    )
    return {entry: at / max(1, len(matching) - 1) for at, (_, entry) in enumerate(matching)}


def _factors(
    candidate: "Candidate", question: "Question", named: "_Named", places: Mapping[int, float], weights: "Weights"
) -> list[tuple[str, float]]:
    """Return the factors other than 1, in the order in which they apply."""
    factors = []
    said_at, length, when = candidate.said_at, candidate.length, question.when
    told = 0.0
    if when.spans and said_at is not None:
        told = max((span.weight for span in when.spans if span.holds(said_at)), default=0.0)
    if told:
        factors.append(("when", 1 + weights.when * told))
    if candidate.entry in places:
        place = places[candidate.entry]
        factors.append((when.order, 1 + weights.order * (1 - place if when.order == FIRST else place)))
    if question.dates and (matches := _date_matches(said_at, question.dates)):
        factors.append(("date", 1 + weights.date * matches))
    if named.speaker and candidate.speaker == named.speaker:
        factors.append(("speaker", weights.speaker))
    if length + 1 < weights.brief_length:
        factors.append(("brevity", ((length + 1) / weights.brief_length) ** weights.brevity))
    if length > SHORT_LENGTH and candidate.role == "assistant":
        factors.append(("assistant", 1 - weights.assistant_long * longness(length)))
    if candidate.weight != 1:
        factors.append(("elsewhere", candidate.weight))
    return factors


def _speakers_named(candidates: Sequence["Candidate"], question: "Question") -> "_Named":
    terms_by_speaker = {
        speaker: frozenset(terms(speaker)) for speaker in {candidate.speaker for candidate in candidates}
    }
    named = {speaker: own for speaker, own in terms_by_speaker.items() if own & question.idf_by_term.keys()}
    return _Named(next(iter(named)) if len(named) == 1 else "", frozenset().union(*named.values()))


def _day_shares(
    candidates: Sequence["Candidate"], days: Sequence[date | None], texts: Sequence[float]
) -> dict[date | None, float]:
    scores: defaultdict[date | None, list[float]] = defaultdict(list)
    for candidate, day, text in zip(candidates, days, texts, strict=True):
        if day is not None and text > 0:
            scores[day].append(text * candidate.weight)
    totals = {day: sum(sorted(values)[-DAY_ENTRIES:]) for day, values in scores.items()}
    greatest = max(totals.values(), default=0.0)
    return {day: total / greatest for day, total in totals.items()} if greatest > 0 else {}


def _date_matches(said_at: datetime | None, dates: Sequence[NamedDate]) -> int:
    """Return 0, 1 (the month) or 2 (the day)."""
    matches = 0
    for named in dates:
        if said_at is not None and said_at.month == named.month and named.year in (None, said_at.year):
            matches = max(matches, 2 if named.day == said_at.day else 1)
    return matches


def _fade(length: int) -> float:
    """Return how much a text of this length shares with its neighbours; long ones stand alone."""
    return 1.0 if length <= SHORT_LENGTH else SHORT_LENGTH / length


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the ranking features, tuned on short chats; they decrease with length."""

    near: float = 0.6
    """Share of a term's score that reaches the entry before and after one that has it."""
    near_decay: float = 0.7
    """Factor for each further step."""
    near_reach: int = 4
    answer: float = 0.3
    """Share of a question's score that is added to its answer."""
    day: float = 0.3
    """Share of the best score that all entries of the best day get."""
    date: float = 0.8
    """Gain of an entry from the month that the question names; as much again for the exact day."""
    speaker: float = 2.0
    """Factor for entries of the one speaker that the question names."""
    brevity: float = 0.2
    """Exponent of the factor (length + 1) / brief_length for entries shorter than that."""
    brief_length: int = 12
    assistant_long: float = 0.3
    """Share that a long assistant message loses against user messages."""
    meaning: float = 0.5
    """Share of the cosine in a text's score, where there are vectors."""
    meaning_near: float = 0.5
    """Share of an entry's similarity that reaches its neighbours."""
    when: float = 0.3
    """Gain of an entry from the time that the question refers to."""
    order: float = 0.1
    """Gain of the first, or the latest, of the matches where the question asks for that."""


DEFAULT_WEIGHTS: Final = Weights()


class Candidate(NamedTuple):
    """An entry as the index found it: its BM25 share by question term and its length in terms.

    `cosine` is its similarity to the question, None where unknown; `weight` its factor relative to
    other indexes."""

    entry: int
    term_scores: Mapping[str, float]
    length: int
    speaker: str = ""
    role: str = ""
    said_at: datetime | None = None
    asks: bool = False
    ref: str = ""
    cosine: float | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """A query: its terms with their idf in nats, its dates and times.

    `personal` says whether only memory can answer it."""

    idf_by_term: Mapping[str, float]
    dates: tuple[NamedDate, ...] = ()
    when: When = NEVER
    personal: bool = False


class Ranked(NamedTuple):
    """An entry with its score and the parts of it.

    Relevance is found / sqrt(asked): the idf of the question's terms that the entry or its context
    has (context weighted as for the score), over the root of that of all its terms, speakers' names
    excluded. It grows with the share that is found and with the amount of the question; a question
    of one rare term that is found has about 2. `meaning` is how far its cosine is above that of
    unrelated entries, 0 where that is not known. `day` is the date of the message, in UTC."""

    entry: int
    score: float
    parts: Mapping[str, float]
    relevance: float
    meaning: float = 0.0
    day: date | None = None


@dataclass(frozen=True, slots=True)
class _Named:
    speaker: str
    terms: frozenset[str]
