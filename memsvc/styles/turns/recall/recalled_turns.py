"""Past items that a prompt shows, and why others are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final, Self

from memsvc.core import relevance
from memsvc.core.greeting_phrases import is_filler, is_greeting_phrase
from memsvc.core.question_kinds import QuestionKind, is_technical
from memsvc.core.ranking import Ranked
from memsvc.store.index import Text
from memsvc.store.recall_content import EntryPlace
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.block_chunks import turn_chunk
from memsvc.styles.turns.recall.candidate_pool import CandidatePool
from memsvc.styles.turns.recall.recall_request import RecallRequest
from memsvc.styles.turns.recall.recalled import (
    IN_CONTEXT,
    OVER_THE_BUDGET,
    DroppedCandidate,
    RecalledChunk,
)
from memsvc.styles.turns.recall.recalled_facts import FactRequest
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder
from memsvc.styles.turns.recall.small_memory import PART

GREETING_CHARS_MAX: Final = 60
"""A longer answer is taken to have content."""
NOT_LOADED_LIMIT: Final = 20
UNDER_THE_FLOOR: Final = "nothing is relevant enough"
QUOTED_SHARE: Final = 1.3
"""Estimated tokens of items, by the limit of a block, behind which no more are selected."""
LONG_QUOTES: Final = 5
"""Items that are quoted at length; of others half of that."""
ANSWER: Final = "answer to what is shown"
"""Name of the score of an answer that no word of the question found."""
TECHNICAL_MIN: Final = 2
TECHNICAL_PART: Final = 4
"""Of work at least one in so many texts names a file or an identifier."""
OVER_THE_LIMIT: Final = "over recall_turns_limit"


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """Ranked matches of a question, best first: items with their confidence, facts, insights.

    `changes` are the messages of change among the candidates, the latest first."""

    pool: CandidatePool
    items: Sequence[Ranked]
    confidence: relevance.Confidence
    facts: FactRequest
    insights: Sequence[tuple[EntryPlace, Ranked]]
    changes: Sequence[EntryPlace]

    @property
    def silent(self) -> bool:
        """Return whether no item is relevant enough to be shown."""
        return self.confidence.total < relevance.FLOOR

    @property
    def is_relevant_to_work(self) -> bool:
        """Return whether items would be relevant enough to a question about work."""
        return self._about_work().confidence.total >= relevance.FLOOR

    def for_texts(self, texts: Sequence[str]) -> Self:
        """Return the same, or that of a question about work where its best texts are of such.

        There what a function does is no general knowledge."""
        if not (self.silent and self.is_relevant_to_work):
            return self
        technical = sum(map(is_technical, texts))
        is_work = technical >= max(TECHNICAL_MIN, len(texts) / TECHNICAL_PART)
        return self._about_work() if is_work else self

    def _about_work(self) -> Self:
        return replace(self, confidence=self.confidence._replace(kind=QuestionKind.OPEN))


class TurnSelection:
    """Selection of items for one prompt: each once, up to `recall_turns_limit`."""

    def __init__(
        self,
        options: TurnOptions,
        request: RecallRequest,
        ranked: RankedMatches,
        quote_finder: QuoteFinder,
    ) -> None:
        self._limit = options.recall_turns_limit
        self._chars_max = options.snippet_chars_max
        self._request = request
        self._ranked = ranked
        self._quote_finder = quote_finder
        self._remaining = QUOTED_SHARE * options.recall_tok_max
        self._distinct = relevance.Distinct()
        self._count = 0

    def chunks(
        self,
        selected: Sequence[tuple[EntryPlace, Ranked]],
        items: Mapping[EntryPlace, Text],
        dropped: list[DroppedCandidate],
    ) -> list[RecalledChunk]:
        """Return the items to show, in this order.

        The others are added to `dropped` with reasons."""
        request, pool = self._request, self._ranked.pool
        result: list[RecalledChunk] = []
        for place, entry in selected:
            if place not in items:
                continue
            text, session = items[place], pool.sessions[place.index_id]
            is_other_session = session != request.session
            reason = (
                UNDER_THE_FLOOR
                if self._ranked.silent and PART not in entry.parts
                else self.why_not(text, is_other_session=is_other_session)
            )
            if reason is None and self._count >= self._limit:
                reason = OVER_THE_LIMIT
            if reason is None and self._remaining <= 0:
                reason = OVER_THE_BUDGET
            if reason is None and not self._distinct.add_if_new(text.text.casefold().split()):
                reason = "nearly the same as one that comes before"
            if reason is None:
                self._count += 1
                result.append(self.chunk(place, text, entry))
            else:
                dropped.append(
                    DroppedCandidate(
                        "turn",
                        text.ref,
                        entry.score,
                        reason,
                        session if is_other_session else "",
                        place,
                    )
                )
        return result

    def answers(
        self,
        shown: Sequence[RecalledChunk],
        items: Mapping[EntryPlace, Text],
        as_of: datetime | None,
    ) -> list[RecalledChunk]:
        """Return the answers to the first of the user's messages shown, as far as they were read.

        What was decided and done often stands there alone, in other words than the question."""
        places = {chunk.place for chunk in shown}
        found = []
        for chunk in shown:
            if chunk.place is None or chunk.fields["role"] != "user":
                continue
            place = chunk.place._replace(entry=chunk.place.entry + 1)
            text = items.get(place)
            if text is None or place in places or text.role != "assistant":
                continue
            is_same_turn = turn_of(text.ref) == chunk.fields["turn"]
            if is_same_turn and (as_of is None or text.message_at <= as_of):
                found.append((place, Ranked(place.entry, chunk.score, {ANSWER: chunk.score}, 0.0)))
        self._limit += len(found)
        return self.chunks(found, items, [])

    def chunk(self, place: EntryPlace, text: Text, entry: Ranked) -> RecalledChunk:
        """Return the chunk of an item; behind the first few a shorter one."""
        session, chars_max = self._ranked.pool.sessions[place.index_id], self._chars_max
        chunk = turn_chunk(
            session,
            text,
            entry,
            self._quote_finder,
            place=place,
            chars_max=chars_max if self._count <= LONG_QUOTES else chars_max // 2,
            is_other_session=session != self._request.session,
        )
        self._remaining -= chunk.tokens
        return chunk

    def why_not(self, text: Text, *, is_other_session: bool) -> str | None:
        """Return why an item is not shown, None where it may be."""
        request = self._request
        if not is_other_session and turn_of(text.ref) == request.turn:
            return "stored by this very turn"
        if not text.text.strip():
            return "no text"
        is_short = len(text.text) <= GREETING_CHARS_MAX
        is_empty = is_greeting_phrase if text.role == "assistant" else is_filler
        if is_short and is_empty(text.text):
            return "a message without content"
        if not is_other_session and text.entry in request.prompt:
            return IN_CONTEXT
        if text.digest in request.known:
            return "in the caller's input"
        return None


def not_loaded(
    ranked: RankedMatches, selected: Sequence[Ranked], request: RecallRequest
) -> list[DroppedCandidate]:
    """Return the best items that were not even read, by their places, with reasons."""
    pool, read = ranked.pool, {entry.entry for entry in selected}
    other = UNDER_THE_FLOOR if ranked.silent else OVER_THE_LIMIT
    dropped: list[DroppedCandidate] = []
    for entry in islice(
        (entry for entry in ranked.items if entry.entry not in read), NOT_LOADED_LIMIT
    ):
        place = pool.place(entry.entry)
        session = pool.sessions[place.index_id]
        reason = IN_CONTEXT if request.in_context(place) else other
        dropped.append(
            DroppedCandidate(
                "turn",
                "",
                entry.score,
                reason,
                session if session != request.session else "",
                place,
            )
        )
    return dropped
