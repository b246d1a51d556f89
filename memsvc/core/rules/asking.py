"""Questions that ask for all facts of some ids, in words too common to search by."""

import re
from collections.abc import Mapping
from typing import Final

from memsvc.core.rules.extraction import LANGUAGES


def _patterns() -> dict[re.Pattern[str], frozenset[str]]:
    by_pattern: dict[str, set[str]] = {}
    for language in LANGUAGES:
        for fact_id, asked in language.asked.items():
            by_pattern.setdefault(asked, set()).add(fact_id)
    return {re.compile(asked, re.IGNORECASE): frozenset(ids) for asked, ids in by_pattern.items()}


ASKED: Final[Mapping[re.Pattern[str], frozenset[str]]] = _patterns()
"""Question patterns, with the ids of the facts that they ask for."""
KINDS_ASKED: Final = frozenset().union(*ASKED.values())
"""Ids that a pattern asks for."""


def asked_for(question: str) -> frozenset[str]:
    """Return the ids of the facts that a question asks for."""
    return frozenset().union(*(ids for pattern, ids in ASKED.items() if pattern.search(question)))
