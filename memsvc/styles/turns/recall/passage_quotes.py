"""Passages of files of other styles, searched for a prompt on request."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from memsvc.core.errors import invalid
from memsvc.core.ports import CitedPassage, PassageSearch
from memsvc.core.scope import Scope

QUOTED_SOURCES: Final = ("files", "whiteboard", "notebook")
"""Sources of passages, as before_turn names them."""
USER_SOURCE: Final = "whiteboard"
TURN_SOURCES: Final = ("turns", "facts", "insights")
SEARCH_BYTES_MAX: Final = 8_000


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage, and its source."""

    source: str
    cited: CitedPassage


async def quotes(
    passages: Mapping[str, PassageSearch],
    scope: Scope,
    user: str,
    question: str,
    sources: Collection[str],
    limit: int,
) -> Sequence[Quote]:
    """Return the best `limit` passages of each requested source, searched concurrently.

    Ordered as the best of each source, then the second of each, as scores of two sources are not
    comparable. Boards are those of the user alone. INVALID_ARGUMENT for a source that this service
    does not have, and for boards without a user. An error of one source is the error of all."""
    requested = [name for name in QUOTED_SOURCES if name in sources]
    if missing := [name for name in requested if name not in passages]:
        available = ", ".join(
            [*TURN_SOURCES, *(name for name in QUOTED_SOURCES if name in passages)]
        )
        raise invalid(
            f"sources: this service keeps no {missing[0]} to recall from; there are: {available}"
        )
    if USER_SOURCE in requested and not user:
        raise invalid(f"sources: {USER_SOURCE} needs user_id, as every board is somebody's")
    query = question.encode(errors="ignore")[-SEARCH_BYTES_MAX:].decode(errors="ignore").strip()
    if not query:
        return []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_of(passages[name], name, scope, user, query, limit))
                for name in requested
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    quotes_by_rank = zip_longest(*(task.result() for task in tasks))
    return [quote for quote in chain.from_iterable(quotes_by_rank) if quote is not None]


async def _of(
    passages: PassageSearch, source: str, scope: Scope, user: str, query: str, limit: int
) -> list[Quote]:
    return [Quote(source, cited) for cited in await passages(scope, query, limit, user=user)]
