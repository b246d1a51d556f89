"""Forgetting: what was said of a fact, or in a turn, leaves every message, file and index at once.

Sentences that say it, and those in which the same value stands, in all sessions of the person, are
blanked in the files, in every version of them, and leave the index. Facts that stand in the same
sentence stay, without the value."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Self

import orjson
import zstandard

from memsvc.core.analysis import query_terms, terms
from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.ranking import bm25_idf
from memsvc.core.redaction import Redaction, changed_line, comparable, sentences
from memsvc.store import (
    facts,
    file_gc,
    files,
    guard,
    index,
    placement,
    sessions,
    style_files,
)
from memsvc.store.database import Tx
from memsvc.store.placement import Rewritten
from memsvc.store.search import IndexMatches, IndexQuery, search
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.extraction import read_changes
from memsvc.styles.turns.maintenance.compaction import remove_from_summary
from memsvc.styles.turns.maintenance.raw_archive import (
    CONTENT_BYTES_MAX,
    decompress,
    event_files,
)
from memsvc.styles.turns.turn_items import TurnItem, entry_of

CANDIDATES: Final = 400
"""Messages that are looked through for a value, and for what a query names."""
SHARE_MIN: Final = 0.5
"""Share of a query's weight that a sentence has to hold to be what it names: of the words that the
person has ever said, which have KNOWN_MIN of the weight of all."""
KNOWN_MIN: Final = 0.25
SENTENCES_MAX: Final = 5
TEXT_CHARS_MAX: Final = 1_000_000
_BLOCKS_A_SWEEP: Final = 1000
_ANY: Final = datetime.min.replace(tzinfo=UTC)


@frozen
class Place:
    """An item: its session, entry and event, and its text."""

    session: str
    entry: int
    event: str
    text: str
    role: str = "user"


@frozen
class SaidSentence:
    """A sentence of a message that says what is forgotten."""

    session: str
    turn: str
    text: str


@frozen
class Forgetting:
    """What is forgotten of a person: by redaction, in some items, and of items as a whole."""

    redaction: Redaction
    items: Sequence[Place]

    def sentences(self) -> list[SaidSentence]:
        """Return the sentences that will be removed, each with its session and turn."""
        return [
            SaidSentence(
                item.session, file_layout.turn_of(item.event), item.text[start:stop].strip()
            )
            for item in self.items
            for start, stop in self.redaction.ranges(item.text)
        ]

    @property
    def sessions(self) -> list[str]:
        """Return the sessions that are changed, in order."""
        return sorted({item.session for item in self.items})


@frozen
class FactWords:
    """Facts that lose their words: forgotten ones all, others a value; each as it was and is."""

    gone: Sequence[Fact]
    rewritten: Sequence[tuple[Fact, Fact]]

    @classmethod
    def of(cls, gone: Sequence[Fact], known: Sequence[Fact], redaction: Redaction) -> Self:
        """Return what becomes of the facts that are forgotten, and of those that stay."""
        places = {(fact.index_id, fact.entry) for fact in gone}
        rewritten = []
        for fact in known:
            statement = redaction.applied(fact.statement.statement)
            doubt = fact.doubt and replace(fact.doubt, text=redaction.applied(fact.doubt.text))
            new = replace(fact, statement=replace(fact.statement, statement=statement))
            new = replace(new, doubt=doubt if doubt and doubt.text else None)
            if (fact.index_id, fact.entry) not in places and new != fact:
                rewritten.append((fact, new))
        return cls(gone, rewritten)


def without_words(fact: Fact) -> Fact:
    """Return a fact of which nothing is left but that there was one."""
    statement = replace(fact.statement, value="", slot="", keywords="", statement="", words="")
    return replace(fact, statement=statement, doubt=None)


def redaction_of(gone: Sequence[Fact], known: Sequence[Fact], said: Iterable[str]) -> Redaction:
    """Return what is to be redacted for facts, and for sentences that a query named.

    `known` are the facts that stay."""
    records = {(fact.index_id, fact.entry) for fact in gone}
    statements = [fact.statement.statement for fact in gone]
    values = [
        value
        for fact in gone
        for value in (fact.statement.value, fact.statement.words)
        if comparable(value) != comparable(fact.statement.statement)
    ]
    return Redaction(
        list(dict.fromkeys([*filter(None, statements), *said])),
        list(dict.fromkeys(filter(None, values))),
        [
            fact.statement.statement
            for fact in known
            if (fact.index_id, fact.entry) not in records and fact.statement.statement
        ],
    )


async def find_items(
    tx: Tx, session: str, user: str, redaction: Redaction, evidence: Collection[tuple[str, str]]
) -> list[Place]:
    """Return the items of a user, or of a session without one, that say what is to be forgotten.

    Those that facts are from, by session and event, and those that hold a value or a sentence."""
    # others may speak in a session that is not in the index of the user: there only the evidence
    search_ids = [(turn_index.said(user) if user else turn_index.turns(session)).number]
    found: dict[tuple[int, int], str] = {}
    for words in [*redaction.searched, *redaction.statements]:
        query = list(dict.fromkeys(query_terms(words)))
        queries = [IndexQuery(number, CANDIDATES) for number in search_ids]
        for matches in (await search(tx, queries, query)).values() if query else ():
            found |= _places(matches, session)
    sources: dict[str, list[str]] = {}
    for source, event in evidence:
        sources.setdefault(source, []).append(event)
    for source, events in sources.items():
        number = turn_index.turns(source).number
        entries = await index.entries_of(tx, number, events)
        found |= {(number, entry): source for entry in entries.values()}
    return [place for place in await _read(tx, found) if redaction.ranges(place.text)]


def _places(matches: IndexMatches, session: str) -> dict[tuple[int, int], str]:
    sessions = {number: turn_index.session_of(name) for number, name in matches.names.items()}
    sessions[turn_index.turns(session).number] = session
    return {
        (one.index_id, one.entry): sessions[one.index_id]
        for one in matches.candidates
        if one.term_scores
    }


async def _read(tx: Tx, places: Mapping[tuple[int, int], str]) -> list[Place]:
    by_index: dict[int, list[int]] = {}
    for number, entry in places:
        by_index.setdefault(number, []).append(entry)
    found = []
    for number, entries in sorted(by_index.items()):
        texts = await index.texts(tx, number, entries, chars_max=TEXT_CHARS_MAX)
        found += [
            Place(places[number, entry], entry, text.ref, text.text, text.role)
            for entry, text in sorted(texts.items())
        ]
    return found


async def named_sentences(tx: Tx, session: str, user: str, question: str) -> list[str]:
    """Return the sentences of a person's messages that a query names best, if any does.

    They hold half of what the query asks by weight, and none holds more. Where many do alike, none
    is named."""
    query = list(dict.fromkeys(query_terms(question)))
    search_id = (turn_index.said(user) if user else turn_index.turns(session)).number
    matches = (await search(tx, [IndexQuery(search_id, CANDIDATES)], query)).get(search_id)
    if matches is None:
        return []
    counts = matches.counts_by_term
    every = {term: bm25_idf(counts.get(term, 0), matches.entries) for term in query}
    weights = {term: weight for term, weight in every.items() if term in counts}
    if sum(weights.values()) < KNOWN_MIN * sum(every.values()):
        return []
    shares: dict[str, float] = {}
    for place in await _read(tx, _places(matches, session)):
        if place.role != "user":
            continue
        for start, stop in sentences(place.text):
            sentence = place.text[start:stop].strip()
            held = set(terms(sentence)).intersection(weights)
            shares[sentence] = sum(weights[term] for term in held) / sum(weights.values())
    best = max(shares.values(), default=0.0)
    named = [text for text, share in shares.items() if share >= best * 0.999]
    return named if best >= SHARE_MIN and len(named) <= SENTENCES_MAX else []


Left = dict[str, dict[str, TurnItem]]
"""What is left of changed items, by session and event."""


async def wipe_files(tx: Tx, forgetting: Forgetting, changed: FactWords, now: datetime) -> Left:
    """Remove what is forgotten from the files of sessions and facts, and from summaries."""
    redaction, left = forgetting.redaction, Left()
    for session in forgetting.sessions:
        events = {item.event for item in forgetting.items if item.session == session}
        left[session] = await redact_lines(tx, session, events, redaction.applied, now)
        said = [one.text for one in forgetting.sentences() if one.session == session]
        await remove_from_summary(tx, session, said, redaction.searched, now=now)
    for fact in changed.gone:
        await change_lines(tx, *_fact_lines(fact, lambda line: changed_line(line, lambda _: "")))
    for fact, _ in changed.rewritten:
        await change_lines(tx, *_fact_lines(fact, redaction.line))
    return left


def _fact_lines(
    fact: Fact, change: Callable[[bytes], bytes]
) -> tuple[str, Callable[[bytes], bytes]]:
    """Return the file of a fact, and the change of the lines that are about it."""
    record = fact.statement.record
    path = file_layout.fact_file(fact.statement, fact.valid_from)
    return path, lambda line: change(line) if file_layout.is_of(line, {record}) else line


async def wipe_index(tx: Tx, left: Left, changed: FactWords, costs: Costs) -> None:
    """Rewrite or hide the entries of items and facts; a retry of their turns is accepted.

    The caller holds the sessions, and the indexes of facts, and has hidden what is gone."""
    for session, items in left.items():
        await costs.count(list(items.values()))
        await read_changes(list(items.values()))
        await _rewrite_items(tx, session, items)
        turns = {file_layout.turn_of(event) for event in items}
        await guard.accept_any_content(tx, session, sorted(turns))
    await facts.set_words(tx, [without_words(fact) for fact in changed.gone])
    await facts.set_words(tx, [new for _, new in changed.rewritten])
    pairs = [*((fact, without_words(fact)) for fact in changed.gone), *changed.rewritten]
    for old, new in pairs:
        name = await index.name_of(tx, old.index_id)
        indexed = facts.indexed_text(old.statement)
        rewritten = Rewritten(indexed, facts.text_of(new.statement), new.statement.keywords)
        await placement.rewrite(tx, old.index_id, name, {old.entry: rewritten})


async def _rewrite_items(tx: Tx, session: str, left: Mapping[str, TurnItem]) -> None:
    """Give the entries of items the words that their lines have left; hide those without any."""
    row = await sessions.find(tx, session)
    target = turn_index.searched(
        session, row.user_id if row else "", shared=row is not None and row.shared
    )
    index_id = turn_index.turns(session).number
    entries = await index.entries_of(tx, index_id, list(left))
    stored = await index.indexed_texts(tx, index_id, list(entries.values()))
    changed = {}
    for event, entry in entries.items():
        text, keywords = stored[entry]
        item = left[event]
        new = entry_of(event, item, (0, 0, 0), TEXT_CHARS_MAX, _ANY)
        changed[entry] = Rewritten(
            index.indexed_text(text, keywords),
            new.text if new.text.strip() else "",
            new.keywords if new.text.strip() else "",
            item.tokens,
        )
    await placement.rewrite(tx, index_id, target.name, changed)


async def redact_lines(
    tx: Tx,
    session: str,
    events: Collection[str],
    change: Callable[[str], str],
    now: datetime,
) -> dict[str, TurnItem]:
    """Change the texts of items in the event files of a session, in all versions of them.

    Return what is left of each, by event. What they were is noted as a hash, so that it is known
    when it is sent again."""
    left: dict[str, TurnItem] = {}
    notes = b""

    def changed(line: bytes) -> bytes:
        nonlocal notes
        if not any(f'"{event}"'.encode() in line for event in events):
            return line
        body = orjson.loads(line)
        if body["id"] not in events or "item" not in body:
            return line
        new = changed_line(line, change)
        left[body["id"]] = TurnItem(orjson.loads(new)["item"])
        notes += file_layout.redacted_line(body["id"], TurnItem(body["item"]).digest, now)
        return new

    for file in await event_files(tx, session):
        await change_lines(tx, file.path, changed, is_archive=file.is_archive)
    if notes:
        path = file_layout.raw_events(session, now)
        await style_files.append(tx, {path: notes}, owner=file_layout.OWNER, now=now)
    return left


async def change_lines(
    tx: Tx, path: str, change: Callable[[bytes], bytes], *, is_archive: bool = False
) -> None:
    """Change lines of a file, none in length, in all versions of it; an archive is packed anew."""
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return
    content = await files.read(tx, file)
    if is_archive:
        content = decompress(content, bytes_max=CONTENT_BYTES_MAX)
    changed, starts, start = bytearray(content), dict[int, bytes](), 0
    for line in content.splitlines(keepends=True):
        new = change(line)
        if new != line:
            starts[start] = changed[start : start + len(line)] = new
        start += len(line)
    if starts and not is_archive:
        await style_files.overwrite(tx, file, starts)
    elif starts:
        packed = zstandard.ZstdCompressor().compress(bytes(changed))
        now = file.updated_at
        await files.rewrite(tx, file, packed, is_text=False, now=now)
        keep = file_gc.FileRetention(cutoff=now, past_states=0, deleted_before=now)
        await file_gc.hide_old(tx, file.incarnation, keep)
        while not await file_gc.sweep(tx, file.incarnation, limit=_BLOCKS_A_SWEEP):
            pass
