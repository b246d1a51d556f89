"""Chunks of the memory block: recalled facts, insights, messages and passages."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import orjson

from memsvc.core.analysis import terms
from memsvc.core.facts import Fact
from memsvc.core.profile import ProfileClass
from memsvc.core.ranking import Ranked
from memsvc.store.index import Text
from memsvc.store.insights import Insight
from memsvc.store.recall_content import EntryPlace
from memsvc.styles.turns import budget
from memsvc.styles.turns.file_layout import timestamp, turn_of
from memsvc.styles.turns.recall.passage_quotes import Quote
from memsvc.styles.turns.recall.recalled import RecalledChunk

FACT_TOKENS: Final = 90
"""Estimated tokens of a recalled fact beside its value."""


def fact_chunk(fact: Fact, score: float, parts: Mapping[str, float]) -> RecalledChunk:
    """Return the chunk of a fact with its source."""
    statement = fact.statement
    fields: dict[str, Any] = {
        "id": statement.record_id,
        "tier": statement.tier.value,
        "key": statement.key,
        "value": statement.value,
        "confidence": f"{statement.confidence:.2f}",
        "session": statement.evidence.session,
        "turn": statement.evidence.turn,
        "time": timestamp(fact.valid_from),
    }
    tokens = len(statement.value) // 3 + FACT_TOKENS
    if fact.doubt is not None:
        fields["questioned"] = {"text": fact.doubt.text, "time": timestamp(fact.doubt.said_at)}
        tokens += len(fact.doubt.text) // 3
    place = EntryPlace(fact.index_id, fact.entry)
    name = statement.record_id
    return RecalledChunk("fact", fields, name, score, parts, tokens, id=name, place=place)


def profile_chunk(name: ProfileClass, fact: Fact, count: Callable[[str], int]) -> RecalledChunk:
    """Return the chunk of a fact in the profile, with its counted tokens and no parts of a score.

    A doubt is told with it."""
    statement = fact.statement
    fields = {
        "id": statement.record_id,
        "class": name,
        "statement": statement.told,
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }
    if fact.doubt is not None:
        fields["but"] = f"{fact.doubt.text} ({fact.doubt.said_at:%Y-%m-%d})"
    tokens = count(orjson.dumps(fields).decode())
    place = EntryPlace(fact.index_id, fact.entry)
    record = statement.record_id
    return RecalledChunk("profile", fields, record, 0.0, {}, tokens, id=record, place=place)


def insight_chunk(insight: Insight, score: float, parts: Mapping[str, float]) -> RecalledChunk:
    """Return the chunk of an insight with its kind."""
    fields = {
        "id": insight.insight,
        "type": insight.kind,
        "summary": insight.summary,
        "confidence": f"{insight.confidence:.2f}",
        "time": timestamp(insight.made_at),
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
    query_term_set: Collection[str],
    *,
    place: EntryPlace,
    chars_max: int,
    is_other_session: bool,
) -> RecalledChunk:
    """Return the chunk of an item with its speaker, time and session; a long one is shortened."""
    window = snippet_range(text.text, query_term_set, chars_max)
    fields = {
        "session": session,
        "turn": turn_of(text.ref),
        "time": timestamp(text.message_at),
        "role": text.role,
        "text": text_slice(text.text, *window),
    }
    if text.speaker:
        fields["speaker"] = text.speaker
    tokens = min(text.tokens, chars_max) + budget.CHUNK_TOKENS
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
        text_range=window if window != (0, len(text.text)) else None,
    )


def passage_chunk(
    quote: Quote, query_term_set: Collection[str], *, chars_max: int
) -> RecalledChunk:
    """Return the chunk of a passage with its source, last write and byte range."""
    cited, ref = quote.cited, ref_of(quote)
    text = snippet(cited.text, query_term_set, chars_max)
    fields = {
        "source": quote.source,
        "path": cited.path,
        "start_bytes": cited.start_bytes,
        "end_bytes": cited.end_bytes,
        "time": timestamp(cited.updated_at),
        "text": text,
    }
    tokens = len(text) // 3 + budget.CHUNK_TOKENS
    return RecalledChunk(
        "chunk", fields, ref, cited.score, {f"{quote.source} search": cited.score}, tokens, id=ref
    )


def ref_of(quote: Quote) -> str:
    """Return the reference of a passage: its file and start."""
    return f"{quote.cited.path}:{quote.cited.start_bytes}"


def snippet(text: str, query_term_set: Collection[str], chars_max: int) -> str:
    """Return the text, or the part around the first query word, with `…` where it is cut."""
    return text_slice(text, *snippet_range(text, query_term_set, chars_max))


def snippet_range(text: str, query_term_set: Collection[str], chars_max: int) -> tuple[int, int]:
    """Return the character range to show: all, or this many around the first query word."""
    if len(text) <= chars_max:
        return 0, len(text)
    match = next(
        (
            word
            for word in re.finditer(r"\w+", text)
            if not set(terms(word[0])).isdisjoint(query_term_set)
        ),
        None,
    )
    middle = match.start() if match else 0
    start = max(0, min(middle - chars_max // 3, len(text) - chars_max))
    return start, start + chars_max


def text_slice(text: str, start: int, stop: int) -> str:
    """Return these characters of a text, with `…` where it is cut."""
    return ("…" if start else "") + text[start:stop] + ("…" if stop < len(text) else "")
