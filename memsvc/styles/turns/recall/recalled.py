"""Recalled chunks of a prompt: how they are made, and what was left out and why."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, Literal

import orjson

from memsvc.core.facts import Fact, ProfileClass, Statement
from memsvc.core.frozen import frozen
from memsvc.core.ranking import Ranked
from memsvc.core.timestamp import short_time
from memsvc.store.index import Text
from memsvc.store.insights import Insight
from memsvc.store.recalls import EntryPlace
from memsvc.styles.turns import budget
from memsvc.styles.turns.file_layout import exact_timestamp, turn_of
from memsvc.styles.turns.recall.recall_request import Quote
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder, quote_text

Kind = Literal["profile", "fact", "insight", "chunk", "turn"]
IN_CONTEXT: Final = "in the recent context"
OVER_THE_BUDGET: Final = "over the token budget"

FACT_TOKENS: Final = 20
"""Estimated tokens of a recalled fact beside its words."""
LEFT_OUT_TOKENS: Final = 12
BRIEF_CHARS: Final = 90
"""Characters up to which a profile tells the clause that says a fact, and not its value alone."""
INSTRUCTION_ID: Final = "user_instruction"
CONFIDENCE_MIN: Final = 0.6
"""The confidence of a fact is told below this."""
STATEMENT_KEY: Final = "statement"
"""Key of facts that no rule gives a topic."""


@frozen
class RecalledChunk:
    """One recalled chunk of the block, with its estimated tokens and its source.

    `fields` are as the block shows them; of an item they include what the block groups by (session,
    turn, time and speaker), and `more` to say of it. `session` is set for an item of another
    session, else "". `place` is its entry, `text_ranges` what is quoted of a longer text."""

    kind: Kind
    fields: dict[str, Any]
    ref: str
    score: float
    parts: Mapping[str, float]
    tokens: int
    id: str
    session: str = ""
    place: EntryPlace | None = None
    text_ranges: Sequence[tuple[int, int]] | None = None

    @property
    def is_session_turn(self) -> bool:
        """Return whether it is an item of the session itself."""
        return self.kind == "turn" and not self.session


@frozen
class DroppedCandidate:
    """A candidate that is not shown, and why; one that was not read has no `ref`, but a place."""

    kind: Kind
    ref: str
    score: float
    reason: str
    session: str = ""
    place: EntryPlace | None = None


@frozen
class RankedRecall:
    """Recalled chunks in order of priority, which is also their order within a kind but turns.

    `confidence` explains why past items count as an answer or not."""

    chunks: Sequence[RecalledChunk]
    dropped: Sequence[DroppedCandidate]
    confidence: Mapping[str, Any] | None = None

    def refs_in_first(self, count: int, refs: Collection[str]) -> set[str]:
        """Return which of these items of the session are among the first chunks."""
        return {
            chunk.ref
            for chunk in self.chunks[:count]
            if chunk.is_session_turn and chunk.ref in refs
        }

    def without(self, refs: Collection[str]) -> "RankedRecall":
        """Return the same without these items of the session, which the recent context shows."""
        gone = [chunk for chunk in self.chunks if chunk.is_session_turn and chunk.ref in refs]
        dropped = [
            DroppedCandidate("turn", chunk.ref, chunk.score, IN_CONTEXT, place=chunk.place)
            for chunk in gone
        ]
        kept = [chunk for chunk in self.chunks if chunk not in gone]
        return replace(self, chunks=kept, dropped=[*self.dropped, *dropped])

    def ids(self, kind: Kind, count: int) -> list[str]:
        """Return the ids of this kind among the first chunks, each once.

        Facts are those that the question asks for, also where the profile tells them."""
        return list(
            dict.fromkeys(
                chunk.id
                for chunk in self.chunks[:count]
                if chunk.kind == kind
                or (kind == "fact" and chunk.kind == "profile" and chunk.parts)
            )
        )

    def details(self, count: int, *, places: bool = False) -> dict[str, Any]:
        """Return why each candidate is shown, and its position, or not, best first.

        Includes the confidence in past items and, on request, place and quoted ranges of each."""
        listed: list[dict[str, Any]] = []
        both: list[RecalledChunk | DroppedCandidate] = [*self.chunks, *self.dropped]
        for at, candidate in enumerate(both):
            shown = at < count
            one: dict[str, Any] = {
                "ref": candidate.ref,
                "kind": candidate.kind,
                "shown": shown,
                "score": candidate.score,
            }
            if isinstance(candidate, DroppedCandidate):
                one["reason"] = candidate.reason
            if candidate.session:
                one["session"] = candidate.session
            if isinstance(candidate, RecalledChunk):
                one["parts"] = {name: round(part, 4) for name, part in candidate.parts.items()}
                if isinstance(time := candidate.fields.get("time"), datetime):
                    one["time"] = exact_timestamp(time)
                one |= {"position": at + 1} if shown else {"reason": OVER_THE_BUDGET}
            if places and candidate.place:
                one["place"] = [*candidate.place]
            if places and isinstance(candidate, RecalledChunk) and candidate.text_ranges:
                one["cut"] = candidate.text_ranges
            listed.append(one)
        listed.sort(key=itemgetter("score"), reverse=True)
        return {"candidates": listed} | ({"confidence": self.confidence} if self.confidence else {})


def fact_chunk(fact: Fact, score: float, parts: Mapping[str, float]) -> RecalledChunk:
    """Return the chunk of a fact: the statement that says it, since when, and any doubt."""
    statement = fact.statement
    fields: dict[str, Any] = {"id": statement.record_id}
    said = statement.statement
    if not said or not _says(said, statement.key.replace("_", " ")):
        fields["key"] = statement.key
    if not said or statement.key != STATEMENT_KEY:
        fields["value"] = statement.value
    if said:
        fields["statement"] = said
    fields["since"] = f"{fact.valid_from:%Y-%m-%d}"
    if statement.confidence < CONFIDENCE_MIN:
        fields["confidence"] = round(statement.confidence, 2)
    fields |= _doubt_fields(fact)
    tokens = sum(len(str(value)) for value in fields.values()) // 3 + FACT_TOKENS
    place = EntryPlace(fact.index_id, fact.entry)
    name = statement.record_id
    return RecalledChunk("fact", fields, name, score, parts, tokens, id=name, place=place)


def profile_chunk(name: ProfileClass, fact: Fact, count: Callable[[str], int]) -> RecalledChunk:
    """Return the chunk of a fact in the profile, with its counted tokens and no parts of a score.

    A doubt is told with it."""
    statement = fact.statement
    fields: dict[str, Any] = {
        "id": statement.record_id,
        "class": name,
        "statement": _brief(statement),
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }
    fields |= _doubt_fields(fact)
    tokens = count(orjson.dumps(fields).decode())
    place = EntryPlace(fact.index_id, fact.entry)
    record = statement.record_id
    return RecalledChunk("profile", fields, record, 0.0, {}, tokens, id=record, place=place)


def left_out_chunk(count: int) -> RecalledChunk:
    """Return the last line of a profile that is not whole."""
    fields = {"left_out": f"{count} more: memory_profile"}
    return RecalledChunk("profile", fields, "", 0.0, {}, LEFT_OUT_TOKENS, id="")


def _brief(statement: Statement) -> str:
    """Return a fact of a profile in few words: without what else a long sentence says."""
    said, value = statement.told, statement.value
    if statement.fact_id == INSTRUCTION_ID or len(said) <= max(len(value), BRIEF_CHARS):
        return said
    return f"{statement.key.replace('_', ' ')}: {value}"


def _doubt_fields(fact: Fact) -> dict[str, Any]:
    """Return the later sentence by which a fact may no longer hold, and when it was said."""
    doubt = fact.doubt
    if doubt is None:
        return {}
    return {"questioned": {"text": doubt.text, "time": f"{doubt.said_at:%Y-%m-%d}"}}


def _says(statement: str, words: str) -> bool:
    """Return whether a statement names a topic itself, so that the topic adds nothing to it."""
    return words == STATEMENT_KEY or words in statement.casefold()


def insight_chunk(insight: Insight, score: float, parts: Mapping[str, float]) -> RecalledChunk:
    """Return the chunk of an insight with its kind."""
    fields = {
        "id": insight.insight,
        "type": insight.kind,
        "summary": insight.summary,
        "confidence": f"{insight.confidence:.2f}",
        "time": short_time(insight.made_at),
    }
    tokens = len(insight.summary) // 3 + budget.CHUNK_TOKENS
    place = EntryPlace(insight.index_id, insight.entry)
    return RecalledChunk(
        "insight", fields, insight.insight, score, parts, tokens, id=insight.insight, place=place
    )


def turn_chunk(
    session: str,
    text: Text,
    ranked: Ranked,
    quote_finder: QuoteFinder,
    *,
    place: EntryPlace,
    chars_max: int,
    is_other_session: bool,
) -> RecalledChunk:
    """Return the chunk of an item: session, turn, time, speaker, and its text or a quote of it."""
    ranges = quote_finder.ranges(text.text, chars_max)
    quoted = quote_text(text.text, ranges)
    fields = {
        "session": session,
        "turn": turn_of(text.ref),
        "time": text.message_at,
        "role": text.role,
        "speaker": text.speaker,
        "text": quoted,
    }
    tokens = text.tokens * len(quoted) // len(text.text) + budget.CHUNK_TOKENS
    return RecalledChunk(
        "turn",
        fields,
        text.ref,
        ranked.score,
        ranked.parts,
        tokens,
        id="",
        session=session if is_other_session else "",
        place=place,
        text_ranges=ranges if quoted != text.text else None,
    )


def passage_chunk(quote: Quote, quote_finder: QuoteFinder, *, chars_max: int) -> RecalledChunk:
    """Return the chunk of a passage with its source, last write and byte range."""
    cited, ref = quote.cited, ref_of(quote)
    text = quote_text(cited.text, quote_finder.ranges(cited.text, chars_max))
    fields = {
        "source": quote.source,
        "path": cited.path,
        "start_bytes": cited.start_bytes,
        "end_bytes": cited.end_bytes,
        "time": short_time(cited.updated_at),
        "text": text,
    }
    tokens = len(text) // 3 + budget.CHUNK_TOKENS
    return RecalledChunk(
        "chunk", fields, ref, cited.score, {f"{quote.source} search": cited.score}, tokens, id=ref
    )


def ref_of(quote: Quote) -> str:
    """Return the reference of a passage: its file and start."""
    return f"{quote.cited.path}:{quote.cited.start_bytes}"
