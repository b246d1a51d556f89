"""Diverse order: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

RELEVANCE_SHARE: Final = 0.7
"""Lambda: weight of the score against the similarity to blocks chosen before (elfmem)."""


def rerank(scores: Mapping[str, float], similarity: Callable[[str, str], float]) -> Sequence[str]:
    """Return all keys, each the best by 0.7 x score - 0.3 x similarity to those before it.

    The similarity is the greatest one to any of them. The first of equals is the one with the
    better score.
    """
    rest = sorted(scores, key=lambda key: (-scores[key], key))
    chosen: list[str] = []
    max_similarity = dict.fromkeys(rest, 0.0)
    while rest:
        if chosen:
            for key in rest:
                max_similarity[key] = max(max_similarity[key], similarity(key, chosen[-1]))
            best = max(
                rest,
                key=lambda key: (
                    RELEVANCE_SHARE * scores[key] - (1 - RELEVANCE_SHARE) * max_similarity[key]
                ),
            )
        else:
            best = rest[0]
        rest.remove(best)
        chosen.append(best)
    return chosen
