"""Other kinds of memory that still hold what is forgotten: files, boards, notes, and the like."""

from collections.abc import Mapping
from typing import Final

from memsvc.core.ports import PassageSearch
from memsvc.core.redaction import Redaction
from memsvc.core.scope import Scope

VALUES_MAX: Final = 5
PASSAGES_MAX: Final = 20
"""Passages of each kind that are looked through for a value."""


async def held_elsewhere(
    passages: Mapping[str, PassageSearch], scope: Scope, user: str, redaction: Redaction
) -> list[tuple[str, str]]:
    """Return the kind and the path or id of what else holds the forgotten values.

    Only what the user may see is looked through."""
    found: dict[tuple[str, str], None] = {}
    for words in (redaction.searched or list(redaction.statements))[:VALUES_MAX]:
        for kind, search in passages.items():
            for passage in await search(scope, words, PASSAGES_MAX, user=user):
                if redaction.ranges(passage.text):
                    found[kind, passage.path] = None
    return list(found)
