"""BM25 scores of word matches: the reference that the searches in SQL must equal."""

from collections import Counter
from collections.abc import Sequence
from math import log1p
from typing import Final

SHORT_LENGTH: Final = 30
"""Terms up to which an entry, or an index's average, counts as short: a chat message, not an essay.
"""
LONG_LENGTH: Final = 120


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
