"""A recall request: its question, and the indexes and passages searched for it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from typing import Final

from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.ports import PassageSearch
from memsvc.core.question_kinds import QuestionKind, is_greeting_phrase
from memsvc.core.ranking import Candidate, QuestionTerms
from memsvc.core.scope import Scope
from memsvc.core.timestamp import short_time
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.turn_items import TurnItem

QUOTED_SOURCES: Final = ("files", "whiteboard", "notebook")
"""Sources of passages, as before_turn names them."""
USER_SOURCE: Final = "whiteboard"
TURN_SOURCES: Final = ("turns", "facts", "insights")
SEARCH_BYTES_MAX: Final = 8_000

QUESTION_CHARS_MAX: Final = 20_000
DEFAULT_SOURCES: Final = frozenset(TURN_SOURCES)


async def passages_of(
    searches: Mapping[str, PassageSearch],
    scope: Scope,
    user: str,
    question: str,
    sources: Collection[str],
    limit: int,
) -> Sequence[Candidate]:
    """Return the best `limit` passages of each requested source, searched concurrently.

    Ordered as the best of each source, then the second of each, as scores of two sources are not
    comparable. Boards are those of the user alone. INVALID_ARGUMENT for a source that this service
    does not have, and for boards without a user. An error of one source is the error of all."""
    requested = [name for name in QUOTED_SOURCES if name in sources]
    if missing := [name for name in requested if name not in searches]:
        available = ", ".join(
            [*TURN_SOURCES, *(name for name in QUOTED_SOURCES if name in searches)]
        )
        raise invalid(
            f"sources: this service does not provide {missing[0]}; it provides {available}"
        )
    if USER_SOURCE in requested and not user:
        raise invalid(
            f"sources: {USER_SOURCE} needs user_id, because each whiteboard belongs to a user"
        )
    query = question.encode(errors="ignore")[-SEARCH_BYTES_MAX:].decode(errors="ignore").strip()
    if not query:
        return []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_of(searches[name], name, scope, user, query, limit))
                for name in requested
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    by_rank = zip_longest(*(task.result() for task in tasks))
    return [passage for passage in chain.from_iterable(by_rank) if passage is not None]


async def _of(
    search: PassageSearch, source: str, scope: Scope, user: str, query: str, limit: int
) -> list[Candidate]:
    return [
        Candidate(
            cited.start_bytes,
            {},
            0,
            ref=f"{cited.path}:{cited.start_bytes}",
            message_at=cited.updated_at,
            score=cited.score,
            parts={f"{source} search": cited.score},
            kind="chunk",
            id=f"{cited.path}:{cited.start_bytes}",
            text=cited.text,
            fields={
                "source": source,
                "path": cited.path,
                "start_bytes": cited.start_bytes,
                "end_bytes": cited.end_bytes,
                "time": short_time(cited.updated_at),
            },
        )
        for cited in await search(scope, query, limit, user=user)
    ]


@frozen
class RecallRequest:
    """A recall request.

    `embedding` and `passages` are those of the question, obtained before its transaction. `as_of`
    asks for the state at that time, `sources` selects kinds of memory. `kind` is the question's.
    `told_in` is the session in which the answer is shown: if several users speak there, nothing
    private is found. None if it is shown in no session."""

    session: str
    turn: str
    user: str
    question: QuestionTerms
    now: datetime
    told_in: str | None
    kind: QuestionKind = QuestionKind.OPEN
    embedding: QueryEmbedding | None = None
    passages: Sequence[Candidate] = ()
    with_reasons: bool = False
    as_of: datetime | None = None
    sources: frozenset[str] = DEFAULT_SOURCES

    @property
    def unrelated(self) -> float | None:
        """Return the cosine of unrelated texts, where it is known."""
        return self.embedding.unrelated if self.embedding is not None else None

    @property
    def asks(self) -> float | None:
        """Return the log-odds that the question is about memory, where they are known."""
        return self.embedding.asks if self.embedding is not None else None

    def fact_index_ids(self) -> list[int]:
        """Return the fact indexes to search."""
        return turn_index.fact_ids(self.session, self.user) if "facts" in self.sources else []

    def insight_index_ids(self) -> list[int]:
        """Return the insight indexes to search."""
        indexes = turn_index.insights(self.session, self.user)
        return [index.number for index in indexes if "insights" in self.sources]

    def item_index_ids(self) -> list[int]:
        """Return the indexes to search for items: the session's and, if given, the user's."""
        if "turns" not in self.sources:
            return []
        user_ids = [turn_index.said(self.user).number] if self.user else []
        return [turn_index.turns(self.session).number, *user_ids]


def question_of(items: Sequence[TurnItem]) -> str:
    """Return the question in the items: their texts, or "" for thanks, greetings and the like.

    Of a long text the start and the end, where people put their question."""
    text = "\n".join(filter(None, (item.text for item in items)))
    if is_greeting_phrase(text):
        return ""
    side_chars = QUESTION_CHARS_MAX // 2
    if len(text) > QUESTION_CHARS_MAX:
        return f"{text[:side_chars]}\n{text[-side_chars:]}"
    return text
