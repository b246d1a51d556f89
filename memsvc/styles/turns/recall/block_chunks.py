"""Chunks of the memory block: recalled facts, insights, messages and passages."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from memsvc.core.facts import Fact, ProfileClass
from memsvc.core.ranking import Ranked
from memsvc.store.index import Text
from memsvc.store.insights import Insight
from memsvc.store.recall_content import EntryPlace
from memsvc.styles.turns import budget
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.recall.passage_quotes import Quote
from memsvc.styles.turns.recall.recalled import RecalledChunk
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder, quote_text

FACT_TOKENS: Final = 20
"""Estimated tokens of a recalled fact beside its words."""
CONFIDENCE_MIN: Final = 0.6
"""The confidence of a fact is told below this."""
STATEMENT_KEY: Final = "statement"
"""Key of facts that no rule gives a topic."""


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
        "statement": statement.told,
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }
    fields |= _doubt_fields(fact)
    tokens = count(orjson.dumps(fields).decode())
    place = EntryPlace(fact.index_id, fact.entry)
    record = statement.record_id
    return RecalledChunk("profile", fields, record, 0.0, {}, tokens, id=record, place=place)


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
        "time": f"{insight.made_at:%Y-%m-%d %H:%M}",
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
        "time": f"{cited.updated_at:%Y-%m-%d %H:%M}",
        "text": text,
    }
    tokens = len(text) // 3 + budget.CHUNK_TOKENS
    return RecalledChunk(
        "chunk", fields, ref, cited.score, {f"{quote.source} search": cited.score}, tokens, id=ref
    )


def ref_of(quote: Quote) -> str:
    """Return the reference of a passage: its file and start."""
    return f"{quote.cited.path}:{quote.cited.start_bytes}"
