"""Answer threshold, order of results, and near-duplicates."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from math import exp, fsum, log, sqrt
from operator import attrgetter
from typing import Final, NamedTuple

from memsvc.core.question_kinds import QuestionKind
from memsvc.core.ranking import Candidate

FLOOR: Final = 2.2
"""Minimum `Confidence.total` of an answer."""
ENTRIES_JUDGED: Final = 50
"""Best entries of a ranking of which each is judged by itself."""
OUTLIER_EXPONENT: Final = 1 / 6
MEMORY_QUESTION_FACTOR: Final = 2.0
OPEN_QUESTION_FACTOR: Final = 1.2
"""Factors of questions about the user's own matters, and of those that are neither about these nor
of general knowledge, where nothing but their words tells."""
ASKED_FACTOR: Final = 3.0
OWN_WORDS: Final = 3.1
"""Log-odds that words of the user's own matters add to those that a question is about memory."""
ASKS_MAX: Final = 4.0
SIMILARITY_RATE: Final = 6.0
SIMILARITY_FLOOR: Final = 0.05
"""Similarity that speaks neither for an answer nor against it."""
RELEVANCE_MIN: Final = 0.5
"""Minimum relevance where there are vectors: an answer may share no word."""
TOP: Final = 10
"""Entries at the top that are not part of the bulk."""
BULK_MIN: Final = 10
OUTLIER_DEFAULT: Final = 10.0
"""Prominence assumed where too few entries were found."""
OUTLIER_MIN: Final = 0.5
TOP_RESULT_COUNT: Final = 10
"""Ranked entries that come first, by their scores alone."""
OTHER_DAYS: Final = 3
"""Maximum number of entries of further days that come next."""
OTHER_DAYS_SHARE: Final = 0.4
"""Minimum share of the best score for such an entry."""


class Confidence(NamedTuple):
    """Evidence that the best of a ranking is an answer; every number is free of scale.

    - `relevance`: how much of the question one entry with its context covers (see Candidate), the
    maximum.
    - `prominence`: how many standard deviations the best score is above the mean of the bulk, which
    is all but the best ten. A question that memory answers has one or a few entries where its words
    meet; the words of any other are spread over many entries with one word each.
    - `similarity`: how far the best cosine is above that of unrelated entries, None without
    vectors.
    - `kind`: what the question is about; one that names a speaker is personal.
    - `asks`: log-odds that it is about what the user told before, None where unknown."""

    relevance: float
    prominence: float
    similarity: float | None
    kind: QuestionKind
    asks: float | None = None

    @property
    def total(self) -> float:
        """Return the log-odds of a logistic fit, with the relevance's weight as one.

        relevance x prominence ** (1/6) x a factor of what is asked; with vectors, more where the
        best is alike and less where it is not."""
        relevance, score = self.relevance, 0.0
        if self.similarity is not None:
            score = SIMILARITY_RATE * (self.similarity - SIMILARITY_FLOOR)
            if self.asks is not None or score > 0:
                relevance = max(relevance, RELEVANCE_MIN)
        if relevance <= 0:
            return 0.0
        score += OUTLIER_EXPONENT * log(max(OUTLIER_MIN, self.prominence))
        return relevance * self._asked * exp(score)

    def sessions(self, ranked: Sequence[Candidate]) -> frozenset[str]:
        """Return the sessions of those of the best entries that may be shown.

        These are answers by their own evidence, and what is ranked above the first answer."""
        best = ranked[:ENTRIES_JUDGED]
        evidence = ((one.relevance, one.similarity) for one in best)
        answers = [
            self._replace(relevance=relevance, similarity=similarity).total >= FLOOR
            for relevance, similarity in evidence
        ]
        first = answers.index(True) if True in answers else 0
        return frozenset(one.session for at, one in enumerate(best) if answers[at] or at < first)

    def passes_floor(self, one: Candidate) -> bool:
        """Return whether an entry passes the floor as the answer to an open question."""
        alone = self._replace(
            relevance=one.relevance, similarity=one.similarity, kind=QuestionKind.OPEN, asks=None
        )
        return alone.total >= FLOOR

    @property
    def _asked(self) -> float:
        """Return the factor of what the question is about."""
        is_own = self.kind is QuestionKind.PERSONAL
        if self.asks is not None:
            asks = self.asks + (OWN_WORDS if is_own else 0.0)
            return ASKED_FACTOR * exp(min(ASKS_MAX, max(-ASKS_MAX, asks)))
        if is_own:
            return MEMORY_QUESTION_FACTOR
        return OPEN_QUESTION_FACTOR if self.kind is QuestionKind.OPEN else 1.0


def confidence(
    ranked: Sequence[Candidate], kind: QuestionKind, asks: float | None = None
) -> Confidence:
    """Return the confidence in the best of a ranking, best first."""
    relevance = max(map(attrgetter("relevance"), ranked), default=0.0)
    similarity = max(
        (entry.similarity for entry in ranked if entry.similarity is not None), default=None
    )
    bulk = [entry.score for entry in ranked[TOP:]]
    outlier = OUTLIER_DEFAULT
    if len(bulk) >= BULK_MIN:
        bulk_score = fsum(bulk) / len(bulk)
        std = sqrt(fsum([(score - bulk_score) ** 2 for score in bulk]) / len(bulk))
        outlier = (ranked[0].score - bulk_score) / std if std > 0 else OUTLIER_DEFAULT
    return Confidence(relevance, outlier, similarity, kind, asks)


def order_by_days(ranked: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield a ranking in display order: the best, the best of some other days, then the rest.

    Answers that combine several days are seldom among the best of one."""
    rest = iter(ranked)
    best = list(islice(rest, TOP_RESULT_COUNT))
    yield from best
    days = {entry.day for entry in best}
    passed = []
    day_count = 0
    for entry in rest:
        if entry.day in days:
            passed.append(entry)
        elif entry.score < OTHER_DAYS_SHARE * best[0].score:
            passed.append(entry)
            break
        else:
            days.add(entry.day)
            yield entry
            day_count += 1
            if day_count == OTHER_DAYS:
                break
    yield from passed
    yield from rest


class Distinct:
    """Filter of near-duplicate texts (Jaccard similarity of their words)."""

    def __init__(self, similarity_max: float = 0.8) -> None:
        self._similarity_max = similarity_max
        self._admitted: list[frozenset[str]] = []

    def add_if_new(self, words: Collection[str]) -> bool:
        """Return whether a text of these words is new; then it is remembered."""
        word_set = frozenset(words)
        size = len(word_set)
        # texts that are so similar share one of so many words, whichever, and have similar sizes
        some = [*islice(word_set, int((1 - self._similarity_max) * size) + 1)]
        size_min, size_max = self._similarity_max * size, size / self._similarity_max
        for other in self._admitted:
            if size_min < len(other) < size_max and not other.isdisjoint(some):
                shared = len(word_set & other)
                if shared > self._similarity_max * (size + len(other) - shared):
                    return False
        self._admitted.append(word_set)
        return True
