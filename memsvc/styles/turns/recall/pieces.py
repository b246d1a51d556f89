"""What the memory block shows of a recalled fact, insight, turn or passage."""

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
"""What a recalled fact costs beside its value, about."""


def fact_piece(fact: Fact, score: float, parts: Mapping[str, float]) -> Piece:
    """A fact with where it was learnt."""
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
    """An insight with what kind it is of."""
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
    """An item with who said it when, and in which session; of a long one what is asked about."""
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
    """A passage of a file, with its source, when the file was last written, and the bytes that it was cut from."""
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
    """What a passage is called among what was recalled: its file, and where it begins there."""
    return f"{quote.cited.path}:{quote.cited.start_bytes}"


def snippet(text: str, asked: Collection[str], chars_max: int) -> str:
    """The text, or the part of it around the first word that was asked for, with `…` where it was cut."""
    return cut_out(text, *asked_about(text, asked, chars_max))


def asked_about(text: str, asked: Collection[str], chars_max: int) -> tuple[int, int]:
    """From which character to which a text is shown: all of it, or so many around the first word that was asked for."""
    if len(text) <= chars_max:
        return 0, len(text)
    match = next((word for word in re.finditer(r"\w+", text) if not set(terms(word[0])).isdisjoint(asked)), None)
    middle = match.start() if match else 0
    start = max(0, min(middle - chars_max // 3, len(text) - chars_max))
    return start, start + chars_max


def cut_out(text: str, start: int, stop: int) -> str:
    """These characters of a text, with `…` where it was cut."""
    return ("…" if start else "") + text[start:stop] + ("…" if stop < len(text) else "")
