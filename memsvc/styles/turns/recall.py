"""Recall: the facts and past items that bear on a question, ranked, without what the prompt holds already."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core import ranking
from memsvc.core.analysis import query_terms, terms
from memsvc.core.facts import Fact, Tier, latest_by_identity
from memsvc.core.items import Item, text_of
from memsvc.core.ports import Meter
from memsvc.core.ranking import Ranked
from memsvc.store import facts, index, search
from memsvc.store.database import Tx
from memsvc.store.index import Text
from memsvc.store.search import Found, Shelf
from memsvc.styles.turns import books, budget
from memsvc.styles.turns.extraction import RULES
from memsvc.styles.turns.layout import timestamp, turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recalled import Dropped, Piece, Recalled

BEST_ENTRIES: Final = 80
NEIGHBOURS: Final = 1
REACHING_ENTRIES: Final = 40
SPARE_ENTRIES: Final = 12
"""Entries read beyond recall_turns_limit, for those that turn out to be known or said twice."""
FACT_TOKENS: Final = 90
"""What a recalled fact costs beside its value, about."""
QUESTION_CHARS_MAX: Final = 20_000
UNDER_THE_FLOOR: Final = "nothing is relevant enough"
TEXT_CHARS_READ: Final = 25_000
FACT_WEIGHTS: Final = ranking.Weights(
    near=0.0, near_reach=0, answer=0.0, day=0.0, date=0.0, speaker=1.0, brevity=0.0, floor=0.8
)
"""Facts stand for themselves: no neighbours, no days, no speakers."""

_ABOUT_THE_USER = re.compile(r"\b(about me|who am i|know me|remember me|my profile)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to memory. `known` are digests of items that the caller holds, `prompt` the entries of items that the
    recent context shows; neither is recalled a second time, nor is what the turn itself has stored already."""

    session: str
    turn: str
    user: str
    question: str
    known: Collection[int]
    prompt: Collection[int]
    now: datetime
    explain: bool


class Recall:
    """Reads what bears on a question from the books of a session and its user."""

    def __init__(self, meter: Meter, options: TurnOptions) -> None:
        self._meter = meter
        self._options = options

    async def gather(self, tx: Tx, ask: Ask) -> Recalled:
        """What memory holds on a question, beyond what the prompt shows anyway."""
        asked = query_terms(ask.question)
        book = books.turns(ask.session)
        fact_books = [one.number for one in books.facts(ask.session, ask.user)]
        shelves = [Shelf(book.number, BEST_ENTRIES, NEIGHBOURS, REACHING_ENTRIES)]
        shelves += [Shelf(number, self._options.recall_facts_limit, 0, 0) for number in fact_books]
        found = await search.search(tx, shelves, asked) if asked else {}
        self._meter.add("memsvc_recall_candidates", sum(len(one.candidates) for one in found.values()))
        held = await self._facts(tx, fact_books, found, ask)
        said, dropped = (
            await self._turns(tx, book.number, found[book.number], ask) if book.number in found else ([], [])
        )
        return Recalled([*_within(held, self._options.recall_tok_max // 2, dropped), *said], dropped)

    async def _facts(self, tx: Tx, shelves: Sequence[int], found: Mapping[int, Found], ask: Ask) -> list[Piece]:
        ranked: list[tuple[int, Ranked]] = []
        for book in shelves:
            if book in found:
                shelf = found[book]
                asked = ranking.read_question(ask.question, shelf.entries, shelf.counts_by_term)
                best = ranking.rank(shelf.candidates, asked, FACT_WEIGHTS)
                ranked += [(book, one) for one in best if one.relevance >= FACT_WEIGHTS.floor]
        ranked.sort(key=lambda pair: -pair[1].score)
        holding: dict[tuple[int, int], Fact] = {}
        if ranked:
            holding = await facts.by_entries(tx, [(book, one.entry) for book, one in ranked], shelves, ask.now)
        pieces = [
            _fact_piece(holding[book, one.entry], one.score, one.parts)
            for book, one in ranked
            if (book, one.entry) in holding
        ]
        about_the_user = _ABOUT_THE_USER.search(ask.question) is not None
        asked_for = {
            rule.fact_id for rule in RULES if rule.asked and re.search(rule.asked, ask.question, re.IGNORECASE)
        }
        if about_the_user or asked_for:
            shown = {fact.statement.identity for fact in holding.values()}
            held = await self._held(tx, shelves, ask.now)
            pieces += [
                _fact_piece(fact, fact.statement.confidence, {"asked for": fact.statement.confidence})
                for fact in held
                if fact.statement.identity not in shown
                and (fact.statement.fact_id in asked_for or (about_the_user and fact.statement.tier is Tier.L0))
            ]
        return pieces[: self._options.recall_facts_limit]

    async def _held(self, tx: Tx, shelves: Sequence[int], now: datetime) -> list[Fact]:
        """Every fact that holds, newest first: what a question draws on that names nothing but the user."""
        held = latest_by_identity(await facts.holding(tx, shelves, now))
        return sorted(held.values(), key=lambda fact: fact.valid_from, reverse=True)

    async def _turns(self, tx: Tx, book: int, found: Found, ask: Ask) -> tuple[list[Piece], list[Dropped]]:
        asked = ranking.read_question(ask.question, found.entries, found.counts_by_term)
        ranked = ranking.rank(found.candidates, asked, ranking.DEFAULT_WEIGHTS)
        silent = not ranking.floor(ranked, ranking.DEFAULT_WEIGHTS)
        if silent and not ask.explain:
            return [], []
        # whoever wants reasons is told about all that was ranked; a prompt needs a few more than it shows
        wanted = [one for one in ranked if ask.explain or one.entry not in ask.prompt]
        wanted = wanted if ask.explain else wanted[: self._options.recall_turns_limit + SPARE_ENTRIES]
        texts = await index.texts(tx, book, [one.entry for one in wanted], chars_max=TEXT_CHARS_READ)
        distinct = ranking.Distinct()
        pieces: list[Piece] = []
        dropped: list[Dropped] = []
        for one in wanted:
            text = texts[one.entry]
            reason = UNDER_THE_FLOOR if silent else self._why_not(text, ask, len(pieces))
            if reason is None and not distinct.admits(text.text.casefold().split()):
                reason = "nearly the same as a better one"
            if reason is None:
                pieces.append(self._turn_piece(ask.session, text, one, asked.idf_by_term))
            else:
                dropped.append(Dropped("turn", text.ref, one.score, reason))
        return pieces, dropped

    def _why_not(self, text: Text, ask: Ask, shown: int) -> str | None:
        if turn_of(text.ref) == ask.turn:
            return "stored by this very turn"
        if not text.text.strip():
            return "no text"
        if text.entry in ask.prompt:
            return "in the recent context"
        if text.digest in ask.known:
            return "in the caller's input"
        return "over recall_turns_limit" if shown >= self._options.recall_turns_limit else None

    def _turn_piece(self, session: str, text: Text, ranked: Ranked, asked: Collection[str]) -> Piece:
        shown = {
            "session": session,
            "turn": turn_of(text.ref),
            "time": timestamp(text.said_at),
            "role": text.role,
            "text": snippet(text.text, asked, self._options.snippet_chars_max),
        }
        if text.speaker:
            shown["speaker"] = text.speaker
        tokens = min(text.tokens, self._options.snippet_chars_max) + budget.PIECE_TOKENS
        return Piece(shown, None, text.ref, ranked.score, ranked.parts, tokens)


def question_of(items: Sequence[Item]) -> str:
    """What the items ask: their texts; of a long one its beginning and its end, where people put what they ask."""
    text = "\n".join(filter(None, map(text_of, items)))
    half = QUESTION_CHARS_MAX // 2
    return text if len(text) <= QUESTION_CHARS_MAX else f"{text[:half]}\n{text[-half:]}"


def _fact_piece(fact: Fact, score: float, parts: Mapping[str, float]) -> Piece:
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
    return Piece(shown, statement.fact_id, statement.record, score, parts, tokens)


def _within(pieces: Sequence[Piece], room: int, dropped: list[Dropped]) -> list[Piece]:
    """The first pieces that fit into so many tokens; the others are added to what is dropped."""
    kept: list[Piece] = []
    for piece in pieces:
        room -= piece.tokens
        if room < 0:
            dropped.append(Dropped("fact", piece.ref, piece.score, "over half of recall_tok_max"))
        else:
            kept.append(piece)
    return kept


def snippet(text: str, asked: Collection[str], chars_max: int) -> str:
    """The text, or the part of it around the first word that was asked for, with `…` where it was cut."""
    if len(text) <= chars_max:
        return text
    match = next((word for word in re.finditer(r"\w+", text) if not set(terms(word[0])).isdisjoint(asked)), None)
    middle = match.start() if match else 0
    start = max(0, min(middle - chars_max // 3, len(text) - chars_max))
    cut = text[start : start + chars_max]
    return ("…" if start else "") + cut + ("…" if start + chars_max < len(text) else "")
