"""A recall request before a turn."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.greeting_phrases import is_greeting_phrase
from memsvc.store.recall_content import EntryPlace
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.recall.passage_quotes import Quote
from memsvc.styles.turns.turn_items import TurnItem

QUESTION_CHARS_MAX: Final = 20_000
DEFAULT_SOURCES: Final = frozenset({"turns", "facts", "insights"})


@dataclass(frozen=True, slots=True)
class QuestionLookup:
    """Embedding and passages of a question, obtained before its transaction."""

    embedding: QueryEmbedding | None = None
    quotes: Sequence[Quote] = ()


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A recall request.

    `known` are digests of items that the caller has, `prompt` the entries of items in the recent
    context; neither is recalled again, nor is what the turn itself has already stored. `as_of` asks
    for the state at that time, `sources` selects kinds of memory. What is `personal` is told a
    small memory also where no word of it is shared."""

    session: str
    turn: str
    user: str
    question: str
    now: datetime
    with_reasons: bool = False
    as_of: datetime | None = None
    sources: frozenset[str] = DEFAULT_SOURCES
    lookup: QuestionLookup = QuestionLookup()
    known: Collection[int] = frozenset()
    prompt: Collection[int] = frozenset()
    personal: bool = False

    def fact_index_ids(self) -> list[int]:
        """Return the fact indexes to search."""
        return (
            [index.number for index in turn_index.facts(self.session, self.user)]
            if "facts" in self.sources
            else []
        )

    def insight_index_ids(self) -> list[int]:
        """Return the insight indexes to search."""
        return (
            [index.number for index in turn_index.insights(self.session, self.user)]
            if "insights" in self.sources
            else []
        )

    def in_context(self, place: EntryPlace) -> bool:
        """Return whether the recent context shows this item."""
        return (
            place.entry in self.prompt and place.index_id == turn_index.turns(self.session).number
        )


def question_of(items: Sequence[TurnItem]) -> str:
    """Return the question in the items: their texts, or "" for thanks, greetings and the like.

    Of a long text the start and the end, where people put their question."""
    text = "\n".join(filter(None, (item.text for item in items)))
    if is_greeting_phrase(text):
        return ""
    side_chars = QUESTION_CHARS_MAX // 2
    return text if len(text) <= QUESTION_CHARS_MAX else f"{text[:side_chars]}\n{text[-side_chars:]}"
