"""A recall request before a turn."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.courtesy import is_courtesy
from memsvc.core.items import Item, text_of
from memsvc.store.recalled import Place
from memsvc.store.search import Meaning
from memsvc.styles.turns import books
from memsvc.styles.turns.recall.quoting import Quote

QUESTION_CHARS_MAX: Final = 20_000
DEFAULT_SOURCES: Final = frozenset({"turns", "facts", "insights"})


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Embedding and passages of a question, obtained before its transaction."""

    meaning: Meaning | None = None
    quotes: Sequence[Quote] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A recall request.

    `known` are digests of items that the caller has, `prompt` the entries of items in the recent
    context; neither is recalled again, nor is what the turn itself has already stored. `as_of` asks
    for the state at that time, `sources` selects kinds of memory."""

    session: str
    turn: str
    user: str
    question: str
    now: datetime
    explain: bool = False
    as_of: datetime | None = None
    sources: frozenset[str] = DEFAULT_SOURCES
    looked_up: LookedUp = LookedUp()
    known: Collection[int] = frozenset()
    prompt: Collection[int] = frozenset()

    def fact_books(self) -> list[int]:
        """Return the fact indexes to search."""
        return [one.number for one in books.facts(self.session, self.user)] if "facts" in self.sources else []

    def insight_books(self) -> list[int]:
        """Return the insight indexes to search."""
        return [one.number for one in books.insights(self.session, self.user)] if "insights" in self.sources else []

    def in_context(self, place: Place) -> bool:
        """Return whether the recent context shows this item."""
        return place.entry in self.prompt and place.book == books.turns(self.session).number


def question_of(items: Sequence[Item]) -> str:
    """Return the question in the items: their texts, or "" for thanks, greetings and the like.

    Of a long text the start and the end, where people put their question."""
    text = "\n".join(filter(None, map(text_of, items)))
    if is_courtesy(text):
        return ""
    half = QUESTION_CHARS_MAX // 2
    return text if len(text) <= QUESTION_CHARS_MAX else f"{text[:half]}\n{text[-half:]}"
