"""Questions that ask for all facts of some ids, in words too common to search by."""

import re
from collections.abc import Mapping
from typing import Final

from memsvc.core.rules.extraction import LANGUAGES


def _patterns() -> dict[re.Pattern[str], frozenset[str]]:
    by_pattern: dict[str, set[str]] = {}
    for language in LANGUAGES:
        for fact_id, pattern in language.question_patterns.items():
            by_pattern.setdefault(pattern, set()).add(fact_id)
    return {
        re.compile(pattern, re.IGNORECASE): frozenset(ids) for pattern, ids in by_pattern.items()
    }


QUESTION_PATTERNS: Final[Mapping[re.Pattern[str], frozenset[str]]] = _patterns()
"""Question patterns, with the ids of the facts that they ask for."""
QUESTION_FACT_IDS: Final = frozenset().union(*QUESTION_PATTERNS.values())
"""Ids that a pattern asks for."""


def requested_fact_ids(question: str) -> frozenset[str]:
    """Return the ids of the facts that a question asks for."""
    return frozenset().union(
        *(ids for pattern, ids in QUESTION_PATTERNS.items() if pattern.search(question))
    )
