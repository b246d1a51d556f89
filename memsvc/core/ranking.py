"""Ranking of index entries: BM25, embeddings, context, days, times, speakers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import log1p, sqrt
from operator import attrgetter
from statistics import median
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeVar

from memsvc.core.analysis import (
    NamedDate,
    content_terms,
    other_terms,
    parse_date_names,
    query_terms,
    terms,
    uncommon_terms,
)
from memsvc.core.frozen import frozen
from memsvc.core.time_references import FIRST, NEVER, TimeReferences

SHORT_LENGTH: Final = 30
"""Terms up to which an entry, or an index's average, counts as short: a chat message, not an essay.
"""
LONG_LENGTH: Final = 120


class _Ordered(Protocol):
    """A sortable key: a number, or a tuple of place and number."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=_Ordered)

COSINE_WEIGHT: Final = 0.3
"""Weight of the cosine in a fused score; words are more reliable for passages of a kilobyte."""
FLOOR_CANDIDATES_MIN: Final = 8
"""Minimum number of cosines whose median estimates unrelated text."""
COSINE_RANGE_MIN: Final = 0.1
"""Minimum distance above the floor at which a cosine counts fully, so that noise is not amplified.
"""


def merge_scores(
    bm25: Mapping[K, float], cosine: Mapping[K, float], *, cosine_weight: float = COSINE_WEIGHT
) -> dict[K, float]:
    """Return the score of every key, between 0 and 1, best first.

    The greater key first among equals.

    A convex sum of both sides, each over its own maximum: `(1 - cosine_weight) * bm25 +
    cosine_weight * cosine`. Bruch, Gai and Ingber (An Analysis of Fusion Functions for Hybrid
    Retrieval, ACM TOIS 2023) find it better than reciprocal ranks, which lose how clear a match
    was, and hardly sensitive to its weight. They subtract from each side its minimum. That of BM25
    is 0; that of the cosine, -1, means nothing, because models give unrelated texts anything
    between 0 and 0.8. Candidates by cosine are the nearest of an index whether or not they are
    near, so their median is taken as unrelated (`cosine_floor`).

    A key that one side lacks has 0 there. Where a side is empty, the other one has all the weight,
    so that recall without an embedder keeps its order. Values that are not finite, and negative
    ones, count as 0."""
    if not 0 <= cosine_weight <= 1:
        raise ValueError(f"a ranking weight must be between 0 and 1, not {cosine_weight}")
    words = _normalize(bm25, max(map(_finite, bm25.values()), default=0.0))
    distance_by_key, distance_max = floor_distance(cosine)
    cosine_scores = _normalize(distance_by_key, distance_max)
    share = cosine_weight if words and cosine_scores else float(not words)
    scores = {
        key: (1 - share) * words.get(key, 0.0) + share * cosine_scores.get(key, 0.0)
        for key in {**bm25, **cosine}
    }
    later_first = sorted(scores, reverse=True)
    return {key: scores[key] for key in sorted(later_first, key=lambda key: -scores[key])}


def floor_distance(cosine: Mapping[K, float]) -> tuple[dict[K, float], float]:
    """Return how far each cosine is above the floor, and the distance that counts fully.

    Cosines that are not above it are left out."""
    floor = cosine_floor(cosine)
    distance_by_key = {
        key: _finite(value) - floor for key, value in cosine.items() if _finite(value) > floor
    }
    return distance_by_key, max(COSINE_RANGE_MIN, max(distance_by_key.values(), default=0.0))


def cosine_floor(cosine: Mapping[K, float]) -> float:
    """Return the cosine that counts as none: the median of the candidates, or 0 for too few."""
    if len(cosine) < FLOOR_CANDIDATES_MIN:
        return 0.0
    return max(0.0, median(_finite(value) for value in cosine.values()))


def _normalize(values: Mapping[K, float], value_max: float) -> dict[K, float]:
    """Return the positive values as shares of the greatest; nothing if there are none."""
    return (
        {key: value / value_max for key, value in values.items() if _finite(value) > 0}
        if value_max > 0
        else {}
    )


def _finite(value: float) -> float:
    return value if -1e300 < value < 1e300 else 0.0


def bm25_constants(avg_length: float) -> tuple[float, float]:
    """Return k1 and b for an average entry length in terms; b is 0.4 (short) to 1 (long)."""
    return 0.9, 0.4 + 0.6 * length_factor(avg_length)


def bm25_idf(count_with_term: int, count_all: int) -> float:
    """Return the inverse document frequency in nats, never negative.

    ln(1 + (n - df + 0.5) / (df + 0.5)), as in Lucene."""
    return log1p((count_all - count_with_term + 0.5) / (count_with_term + 0.5))


def bm25_term_score(
    idf: float, term_count: float, length: float, avg_length: float, k1: float, b: float
) -> float:
    """Return what one term adds to an entry's score.

    After Robertson and Zaragoza 2009, with the factor k1 + 1."""
    return idf * term_count * (k1 + 1) / (term_count + k1 * (1 - b + b * length / avg_length))


def bm25_scores(
    question_terms: Sequence[str], documents: Sequence[Sequence[str]], k1: float, b: float
) -> list[float]:
    """Return the scores of all documents in order, each given as its terms with repeats."""
    counts = [Counter(document) for document in documents]
    avg_length = sum(map(len, documents)) / max(1, len(documents))
    scores = [0.0] * len(documents)
    for term in dict.fromkeys(question_terms):
        idf = bm25_idf(sum(term in count for count in counts), len(documents))
        for position, count in enumerate(counts):
            if count[term]:
                scores[position] += bm25_term_score(
                    idf, count[term], len(documents[position]), avg_length, k1, b
                )
    return scores


def length_factor(length: float) -> float:
    """Return 0 for a short and 1 for a long text, its length given in terms."""
    return min(1.0, max(0.0, (length - SHORT_LENGTH) / (LONG_LENGTH - SHORT_LENGTH)))


_Context = dict[str, tuple[float, float]]
"""By term: the score that reaches an entry from its neighbours, and the weight of the path."""

DAY_ENTRIES: Final = 3
"""Number of entries of a day that make its score."""
BACKGROUND_ENTRIES: Final = 200
"""Virtual entries added to an index for the idf of the floor, so that a tiny index can answer."""


def rank(
    candidates: Sequence["Candidate"], question: "Question", weights: "RankWeights"
) -> list["Candidate"]:
    """Score the candidates; return those with any score, best first, later first among equals.

    The parts of each add up to its score. Consecutive numbers are consecutive messages; indexes are
    distinguished by numbers that are far from each other. Each best entry should come with its
    neighbours, with no term scores where they matched nothing: an answer often repeats no word of
    its question."""
    numbers = [candidate.number for candidate in candidates]
    at = {number: place for place, number in enumerate(numbers)}
    contexts = _contexts(candidates, numbers, at, weights)
    word_scores = [sum(candidate.term_scores.values()) for candidate in candidates]
    speakers_named = _speakers_named(candidates, question)
    asked = _without(question.asked_idf, speakers_named.terms) or _without(
        question.idf_by_term, speakers_named.terms
    )
    idf_norm = sqrt(sum(asked.values()))
    score_parts, matched_idf = [], []
    for candidate, number, words in zip(candidates, numbers, word_scores, strict=True):
        context = contexts.get(number, {})
        context_score, matched = _context_score(candidate.term_scores, context, asked)
        before = at.get(number - 1)
        answer = (
            weights.answer * word_scores[before] * _length_weight(candidate.length)
            if before is not None and candidates[before].is_question
            else 0.0
        )
        score_parts.append({"bm25": words, "near": context_score, "answer": answer})
        matched_idf.append(matched)
    similarity = _add_similarity(candidates, score_parts, weights, question.unrelated)
    texts = [sum(parts.values()) for parts in score_parts]
    days = [candidate.day for candidate in candidates]
    has_similarity = any(alike is not None for alike in similarity)
    shares = _day_shares(candidates, days, texts if has_similarity else word_scores)
    day_score = weights.day * max(texts, default=0.0)
    places = _places(candidates, texts) if question.when.order else {}
    ranked = []
    for candidate, parts, text, day, matched, alike in zip(
        candidates, score_parts, texts, days, matched_idf, similarity, strict=True
    ):
        parts["day"] = day_score * shares.get(day, 0.0)
        score = text + parts["day"]
        for name, factor in _score_modifiers(candidate, question, speakers_named, places, weights):
            parts[name] = score * (factor - 1)
            score *= factor
        if score > 0:
            candidate.score, candidate.parts = score, parts
            candidate.relevance = matched / idf_norm if idf_norm else 0.0
            candidate.similarity = alike
            ranked.append(candidate)
    ranked.sort(key=attrgetter("score", "number"), reverse=True)
    return ranked


def names_speaker(candidates: Sequence["Candidate"], question: "Question") -> bool:
    """Return whether the question names a speaker of the candidates."""
    return bool(_speakers_named(candidates, question).terms & question.idf_by_term.keys())


def _without(idf_by_term: Mapping[str, float], terms: Collection[str]) -> dict[str, float]:
    return {term: idf for term, idf in idf_by_term.items() if term not in terms}


def _contexts(
    candidates: Sequence["Candidate"],
    numbers: Sequence[int],
    at: Mapping[int, int],
    weights: "RankWeights",
) -> dict[int, _Context]:
    """Return what reaches candidates from their neighbours, by number."""
    contexts: dict[int, _Context] = {}
    steps = [
        (sign * distance, weights.context * weights.context_decay ** (distance - 1))
        for distance in range(1, weights.context_steps + 1)
        for sign in (-1, 1)
    ]
    for source, number in zip(candidates, numbers, strict=True):
        if not source.term_scores:
            continue
        length_weight = _length_weight(source.length)
        for step, weight in steps:
            place = at.get(number + step)
            if place is None:
                continue
            context = contexts.setdefault(number + step, {})
            path_weight = weight * _length_weight(candidates[place].length) * length_weight
            for term, score in source.term_scores.items():
                known = context.get(term)
                if known is None or path_weight * score > known[0]:
                    context[term] = (path_weight * score, path_weight)
    return contexts


def _context_score(
    scores: Mapping[str, float], context: _Context, relevant_idf: Mapping[str, float]
) -> tuple[float, float]:
    """Return an entry's gain from its context, and the idf of relevant terms that either has."""
    score_sum = matched_idf = 0.0
    for term in scores:
        if term in relevant_idf:
            matched_idf += relevant_idf[term]
    for term, (score, path_weight) in context.items():
        existing = scores.get(term)
        if existing is None:
            score_sum += score
            if term in relevant_idf:
                matched_idf += relevant_idf[term] * path_weight
        elif score > existing:
            score_sum += score - existing
    return score_sum, matched_idf


def _add_similarity(
    candidates: Sequence["Candidate"],
    score_parts: Sequence[dict[str, float]],
    weights: "RankWeights",
    unrelated: float | None,
) -> list[float | None]:
    """Add the similarity in meaning to each text's score, as a share of the best text.

    Returns how far each cosine is above that of unrelated text: of `unrelated`, or else of the
    candidates' median, if they are enough to tell. Without any cosine nothing changes."""
    # unrelated texts have a specific cosine of 0
    specific = {
        place: candidate.specific_cosine + (unrelated or 0.0)
        for place, candidate in enumerate(candidates)
        if candidate.specific_cosine is not None
    }
    distances, distance_max = floor_distance(specific)
    best = max((sum(parts.values()) for parts in score_parts), default=0.0) or 1.0
    scale = best * weights.similarity / (1 - weights.similarity) / distance_max
    for place, distance in distances.items():
        score_parts[place]["meaning"] = scale * distance
    if unrelated is not None:
        return [
            None if candidate.cosine is None else candidate.cosine - unrelated
            for candidate in candidates
        ]
    known = distances if len(specific) >= FLOOR_CANDIDATES_MIN else {}
    return [known.get(place) for place in range(len(candidates))]


def _places(candidates: Sequence["Candidate"], texts: Sequence[float]) -> dict[int, float]:
    """Return the chronological position of each good match: 0 the earliest, 1 the latest.

    Entries that match less than half as well as the best are left out."""
    score_min = max(texts, default=0.0) / 2
    matching = sorted(
        (candidate.message_at, candidate.number)
        for candidate, text in zip(candidates, texts, strict=True)
        if text >= score_min and candidate.message_at is not None
    )
    return {number: at / max(1, len(matching) - 1) for at, (_, number) in enumerate(matching)}


def _score_modifiers(
    candidate: "Candidate",
    question: "Question",
    named: "_Named",
    places: Mapping[int, float],
    weights: "RankWeights",
) -> list[tuple[str, float]]:
    """Return the factors other than 1, in the order in which they apply."""
    result = []
    message_at, length, when = candidate.message_at, candidate.length, question.when
    span_weight = 0.0
    if when.spans and message_at is not None:
        span_weight = max(
            (span.weight for span in when.spans if span.contains(message_at)), default=0.0
        )
    if span_weight:
        result.append(("when", 1 + weights.when * span_weight))
    if candidate.number in places:
        place = places[candidate.number]
        result.append(
            (when.order, 1 + weights.order * (1 - place if when.order == FIRST else place))
        )
    if question.date_values and (matches := _date_matches(message_at, question.date_values)):
        result.append(("date", 1 + weights.date * matches))
    if named.speaker and candidate.speaker == named.speaker:
        result.append(("speaker", weights.speaker))
    if length + 1 < weights.short_length:
        result.append(("brevity", ((length + 1) / weights.short_length) ** weights.short_exponent))
    if length > SHORT_LENGTH and candidate.role == "assistant":
        result.append(("assistant", 1 - weights.long_message * length_factor(length)))
    if candidate.weight != 1:
        result.append(("elsewhere", candidate.weight))
    if candidate.feedback:
        change = weights.helped if candidate.feedback > 0 else -weights.wrong
        result.append(("feedback", 1 + change))
    return result


def _speakers_named(candidates: Sequence["Candidate"], question: "Question") -> "_Named":
    terms_by_speaker = {
        speaker: frozenset(terms(speaker))
        for speaker in {candidate.speaker for candidate in candidates}
    }
    named = {
        speaker: speaker_terms
        for speaker, speaker_terms in terms_by_speaker.items()
        if speaker_terms & question.idf_by_term.keys()
    }
    return _Named(next(iter(named)) if len(named) == 1 else "", frozenset().union(*named.values()))


def _day_shares(
    candidates: Sequence["Candidate"], days: Sequence[date | None], texts: Sequence[float]
) -> dict[date | None, float]:
    scores: defaultdict[date | None, list[float]] = defaultdict(list)
    for candidate, day, text in zip(candidates, days, texts, strict=True):
        if day is not None and text > 0:
            scores[day].append(text * candidate.weight)
    score_by_day = {day: sum(sorted(values)[-DAY_ENTRIES:]) for day, values in scores.items()}
    score_max = max(score_by_day.values(), default=0.0)
    return {day: total / score_max for day, total in score_by_day.items()} if score_max > 0 else {}


def _date_matches(message_at: datetime | None, named_list: Sequence[NamedDate]) -> int:
    """Return 0, 1 (the month) or 2 (the day)."""
    matches = 0
    for named in named_list:
        if (
            message_at is not None
            and message_at.month == named.month
            and named.year in (None, message_at.year)
        ):
            matches = max(matches, 2 if named.day == message_at.day else 1)
    return matches


def _length_weight(length: int) -> float:
    """Return how much a text of this length shares with its neighbours; long ones stand alone."""
    return 1.0 if length <= SHORT_LENGTH else SHORT_LENGTH / length


@frozen
class RankWeights:
    """Weights of the ranking features, tuned on short chats; they decrease with length."""

    context: float = 0.6
    """Share of a term's score that reaches the entry before and after one that has it."""
    context_decay: float = 0.7
    """Factor for each further step."""
    context_steps: int = 4
    answer: float = 0.3
    """Share of a question's score that is added to its answer."""
    day: float = 0.3
    """Share of the best score that all entries of the best day get."""
    date: float = 0.8
    """Gain of an entry from the month that the question names; as much again for the exact day."""
    speaker: float = 2.0
    """Factor for entries of the one speaker that the question names."""
    short_exponent: float = 0.2
    """Exponent of the factor (length + 1) / brief_length for entries shorter than that."""
    short_length: int = 12
    long_message: float = 0.3
    """Share that a long assistant message loses against user messages."""
    similarity: float = 0.57
    """Share of the cosine in a text's score, where there are vectors."""
    when: float = 0.3
    """Gain of an entry from the time that the question refers to."""
    order: float = 0.1
    """Gain of the first, or the latest, of the matches where the question asks for that."""
    helped: float = 0.15
    """Gain of an entry that was said to have helped; questions about other things lose by it."""
    wrong: float = 0.3
    """Loss of an entry that was said to be wrong."""


DEFAULT_WEIGHTS: Final = RankWeights()


EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class EntryPlace(NamedTuple):
    """Entry by its index and number."""

    index_id: int
    entry: int


Kind = Literal["profile", "fact", "insight", "chunk", "turn"]


@dataclass(slots=True, eq=False)
class Candidate:
    """An entry on its way from the search to a prompt, or to the reason why it is not shown.

    The search fills what stands first: the BM25 share by question term, the length in terms;
    `cosine`, the similarity to the question, and `specific_cosine`, that to the question without
    what questions have in common, by which entries are ordered, None where unknown; `feedback`, 1
    where it helped, -1 where it was wrong; the index that keeps its order. `weight` is its factor
    relative to other indexes, and `first` the number that the first entry of its index has among
    all candidates.

    The ranking adds the score and its parts. Relevance is found / sqrt(asked): the idf of the
    question's terms that the entry or its context has (context weighted as for the score), over the
    root of that of all its terms, speakers' names excluded. It grows with the share that is found
    and with the amount of the question; a question of one rare term that is found has about 2.
    `similarity` is how far its cosine is above that of unrelated entries, None where that is not
    known.

    What is read of an item is its `text`, the `digest`, and the tokens of the whole item. `fields`
    are as the memory block shows them; of an item they are its quoted text, and what else to say of
    it. `tokens` is their estimated cost, and `text_ranges` are what is quoted of a longer text. A
    passage of a file, which is no entry, has no index."""

    entry: int
    term_scores: dict[str, float]
    length: int
    speaker: str = ""
    role: str = ""
    message_at: datetime | None = None
    is_question: bool = False
    ref: str = ""
    cosine: float | None = None
    specific_cosine: float | None = None
    weight: float = 1.0
    feedback: int = 0
    index_id: int = 0
    first: int = 0
    score: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    relevance: float = 0.0
    similarity: float | None = None
    kind: Kind = "turn"
    id: str = ""
    session: str = ""
    text: str = ""
    digest: int = 0
    item_tokens: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    text_ranges: Sequence[tuple[int, int]] | None = None
    reason: str = ""

    @classmethod
    def at(cls, place: EntryPlace, **fields: Any) -> Self:
        """Return a candidate that no search found."""
        return cls(place.entry, {}, 0, index_id=place.index_id, **fields)

    @property
    def number(self) -> int:
        """Return its number among all candidates: those of consecutive entries are consecutive."""
        return self.first + self.entry

    @property
    def place(self) -> EntryPlace:
        """Return where the candidate is stored: its index and entry."""
        return EntryPlace(self.index_id, self.entry)

    @property
    def said_at(self) -> datetime:
        """Return the time of the message, the earliest there is where it is unknown."""
        return self.message_at or EARLIEST

    @property
    def day(self) -> date | None:
        """Return the date of the message, in UTC until the item is read."""
        return self.message_at.date() if self.message_at is not None else None


@frozen
class QuestionTerms:
    """A question, analysed once: its terms, those that are no common words, and its dates.

    `others` are terms with one of another spelling that can stand in for each."""

    text: str
    every: Sequence[str]
    uncommon: Sequence[str]
    content: Sequence[str]
    others: Sequence[tuple[str, str]]
    date_values: tuple[NamedDate, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse a question."""
        every = query_terms(text)
        uncommon = uncommon_terms(text, every)
        dates = tuple(parse_date_names(text))
        content = content_terms(text, uncommon)
        return cls(text, every, uncommon, content, other_terms(text), dates)

    def in_index(
        self,
        entry_count: int,
        counts_by_term: Mapping[str, int],
        when: TimeReferences = NEVER,
        *,
        counts_unknown: bool = True,
        unrelated: float | None = None,
    ) -> "Question":
        """Return the question with the idf of its terms in an index.

        Common words count neither for nor against relevance; terms without a count, which are new
        to the index, count against it if `counts_unknown`. Another spelling counts in place of a
        word that is new to the index, else not."""
        idf = {
            term: bm25_idf(counts_by_term.get(term, 0), entry_count + BACKGROUND_ENTRIES)
            for term in self.uncommon
        }
        asked = {
            term: idf[term] if counts_unknown or counts_by_term.get(term) else 0.0
            for term in self.content
        }
        for word, other in self.others:
            replaces = word in asked and not counts_by_term.get(word) and other in counts_by_term
            asked[other] = idf.get(other, 0.0) if replaces else 0.0
            if replaces:
                asked[word] = 0.0
        return Question(idf, self.date_values, when, asked, unrelated)


@frozen
class Question:
    """A query: its terms with their idf in nats, its dates and times.

    `asked_idf` is what relevance counts: that of content words, 0 of those that cost nothing;
    `unrelated` the cosine of texts that have nothing to do with it, None where unknown."""

    idf_by_term: Mapping[str, float]
    date_values: tuple[NamedDate, ...] = ()
    when: TimeReferences = NEVER
    asked_idf: Mapping[str, float] = field(default_factory=dict)
    unrelated: float | None = None


@frozen
class _Named:
    speaker: str
    terms: frozenset[str]
