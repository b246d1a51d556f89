"""Chunks of the memory block: recalled facts, insights, messages and passages."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from memsvc.core.analysis import terms
from memsvc.core.facts import Fact
from memsvc.core.ranking import Ranked
from memsvc.store.index import Text
from memsvc.store.insights import Insight
from memsvc.store.recalled import Place
from memsvc.styles.turns import budget
from memsvc.styles.turns.layout import timestamp, turn_of
from memsvc.styles.turns.recall.quoting import Quote
from memsvc.styles.turns.recall.recalled import Piece

FACT_TOKENS: Final = 90
"""Estimated tokens of a recalled fact beside its value."""


def fact_piece(fact: Fact, score: float, parts: Mapping[str, float]) -> Piece:
    """Return the chunk of a fact with its source."""
    statement = fact.statement
    shown = {
        "id": statement.fact_id,
        "tier": statement.tier.value,
        "key": statement.key,
        "value": statement.value,
        "confidence": f"{statement.confidence:.2f}",
        "session": statement.evidence.session,
        "turn": statement.evidence.turn,
        "time": timestamp(fact.valid_from),
    }
    tokens = len(statement.value) // 3 + FACT_TOKENS
    place = Place(fact.book, fact.entry)
    return Piece("fact", shown, statement.record, score, parts, tokens, id=statement.fact_id, place=place)


def insight_piece(insight: Insight, score: float, parts: Mapping[str, float]) -> Piece:
    """Return the chunk of an insight with its kind."""
    shown = {
        "id": insight.insight,
        "type": insight.kind,
        "summary": insight.summary,
        "confidence": f"{insight.confidence:.2f}",
        "time": timestamp(insight.made_at),
    }
    tokens = len(insight.summary) // 3 + budget.PIECE_TOKENS
    place = Place(insight.book, insight.entry)
    return Piece("insight", shown, insight.insight, score, parts, tokens, id=insight.insight, place=place)


def turn_piece(
    session: str, text: Text, ranked: Ranked, asked: Collection[str], *, place: Place, chars_max: int, elsewhere: bool
) -> Piece:
    """Return the chunk of an item with its speaker, time and session; a long one is shortened."""
    window = asked_about(text.text, asked, chars_max)
    shown = {
        "session": session,
        "turn": turn_of(text.ref),
        "time": timestamp(text.said_at),
        "role": text.role,
        "text": cut_out(text.text, *window),
    }
    if text.speaker:
        shown["speaker"] = text.speaker
    tokens = min(text.tokens, chars_max) + budget.PIECE_TOKENS
    return Piece(
        "turn",
        shown,
        text.ref,
        ranked.score,
        ranked.parts,
        tokens,
        id="",
        session=session if elsewhere else "",
        place=place,
        cut=window if window != (0, len(text.text)) else None,
    )


def chunk_piece(quote: Quote, asked: Collection[str], *, chars_max: int) -> Piece:
    """Return the chunk of a passage with its source, last write and byte range."""
    cited, ref = quote.cited, ref_of(quote)
    text = snippet(cited.text, asked, chars_max)
    shown = {
        "source": quote.source,
        "path": cited.path,
        "start_bytes": cited.start_bytes,
        "end_bytes": cited.end_bytes,
        "time": timestamp(cited.updated_at),
        "text": text,
    }
    tokens = len(text) // 3 + budget.PIECE_TOKENS
    return Piece("chunk", shown, ref, cited.score, {f"{quote.source} search": cited.score}, tokens, id=ref)


def ref_of(quote: Quote) -> str:
    """Return the reference of a passage: its file and start."""
    return f"{quote.cited.path}:{quote.cited.start_bytes}"


def snippet(text: str, asked: Collection[str], chars_max: int) -> str:
    """Return the text, or the part around the first query word, with `…` where it is cut."""
    return cut_out(text, *asked_about(text, asked, chars_max))


def asked_about(text: str, asked: Collection[str], chars_max: int) -> tuple[int, int]:
    """Return the character range to show: all, or this many around the first query word."""
    if len(text) <= chars_max:
        return 0, len(text)
    match = next((word for word in re.finditer(r"\w+", text) if not set(terms(word[0])).isdisjoint(asked)), None)
    middle = match.start() if match else 0
    start = max(0, min(middle - chars_max // 3, len(text) - chars_max))
    return start, start + chars_max


def cut_out(text: str, start: int, stop: int) -> str:
    """Return these characters of a text, with `…` where it is cut."""
    return ("…" if start else "") + text[start:stop] + ("…" if stop < len(text) else "")
