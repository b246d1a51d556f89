"""What is asked of memory before a turn."""

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
    """What models and other parts of the service say of a question before its transaction begins."""

    meaning: Meaning | None = None
    quotes: Sequence[Quote] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to memory. `known` are digests of items that the caller holds, `prompt` the entries of items that the
    recent context shows; neither is recalled a second time, nor is what the turn itself has stored already. `as_of`
    asks for what was said and believed by then, `sources` says which kinds of memory to look in."""

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
        """The books whose facts are asked for."""
        return [one.number for one in books.facts(self.session, self.user)] if "facts" in self.sources else []

    def insight_books(self) -> list[int]:
        """The books whose insights are asked for."""
        return [one.number for one in books.insights(self.session, self.user)] if "insights" in self.sources else []

    def in_context(self, place: Place) -> bool:
        """Whether the recent context shows this item."""
        return place.entry in self.prompt and place.book == books.turns(self.session).number


def question_of(items: Sequence[Item]) -> str:
    """What the items ask: their texts; of a long one its beginning and its end, where people put what they ask. Thanks,
    greetings and the like ask nothing."""
    text = "\n".join(filter(None, map(text_of, items)))
    if is_courtesy(text):
        return ""
    half = QUESTION_CHARS_MAX // 2
    return text if len(text) <= QUESTION_CHARS_MAX else f"{text[:half]}\n{text[-half:]}"
