"""A recall request before a turn."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.greeting_phrases import is_greeting_phrase
from memsvc.core.question_kinds import CHARS_MAX, QuestionKind
from memsvc.store.recall_content import EntryPlace
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.recall.passage_quotes import Quote
from memsvc.styles.turns.turn_items import TurnItem

QUESTION_CHARS_MAX: Final = 20_000
DEFAULT_SOURCES: Final = frozenset({"turns", "facts", "insights"})


OPEN_WORK: Final[Mapping[re.Pattern[str], str]] = {
    re.compile(pattern, re.IGNORECASE): words
    for pattern, words in {
        r"\b(?:what|anything|something|things?|items?)(?:'?s| is| are)? (?:\w+ ){0,3}"
        r"(?:left|open|outstanding|pending|remain\w*)\b|\bloose ends\b|\bto-?dos?\b|\bunfinished\b"
        r"|\bstill (?:has|have|needs?|left|to) (?:to )?(?:do|happen|be done|be)\b"
        r"|\bleft to do\b": "open remaining pending",
        r"\b(?:was|ist|steht|fehlt) (?:\w+ ){0,3}(?:noch|offen)\b|\boffene punkte\b": "offen fehlt",
        r"\bqu[ée] (?:\w+ )?(?:queda|falta)\b|\bpendientes?\b": "pendiente falta queda",
        r"\breste(?:-t-il)?\b.{0,20}\bfaire\b|\bqu'il reste\b|\bà faire\b": "reste ouvert attente",
        r"还(?:剩|有)(?:什么|哪些)|待办|没做完": "剩下 待办",
        r"残って|残り(?:の|は)|やり残": "残り 未完了",
    }.items()
}
"""Questions about work that is left, and words in which it is reported."""


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
    for the state at that time, `sources` selects kinds of memory. `kind` is the question's."""

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
    kind: QuestionKind = QuestionKind.OPEN

    @property
    def takes_small_memory(self) -> bool:
        """Return whether a small memory is told also where no word of it is shared."""
        return (
            self.kind is QuestionKind.PERSONAL
            and self.as_of is None
            and len(self.question) <= CHARS_MAX
        )

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

    Of a long text the start and the end, where people put their question. What asks for work that
    is left also asks for the words in which it is reported."""
    text = "\n".join(filter(None, (item.text for item in items)))
    if is_greeting_phrase(text):
        return ""
    side_chars = QUESTION_CHARS_MAX // 2
    if len(text) > QUESTION_CHARS_MAX:
        return f"{text[:side_chars]}\n{text[-side_chars:]}"
    words = next((words for pattern, words in OPEN_WORK.items() if pattern.search(text)), "")
    return f"{text}\n{words}" if words else text
