"""Taking back a forget: files, entries, facts and guards get the words that they had."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from memsvc.core.facts import Fact, FactState
from memsvc.store import derived, facts, forgets, index, style_files
from memsvc.store.database import Tx
from memsvc.store.forgets import Undo
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.forgetting import (
    change_lines,
    line_hash,
    rewrite_facts,
    rewrite_items,
    summary_files,
    words_hash,
)
from memsvc.styles.turns.maintenance.raw_archive import event_files, redacted_items
from memsvc.styles.turns.turn_items import TurnItem


@dataclass(slots=True)
class TakenBack:
    """What was brought back: facts, and turns with the number of their items."""

    facts: list[Fact] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)


async def index_names(tx: Tx, undo: Mapping[str, Undo]) -> list[str]:
    """Return the names of the indexes of the facts that a forget took, in order."""
    numbers = {row["book"] for one in undo.values() for row in one.facts}
    return sorted([await index.name_of(tx, number) for number in sorted(numbers)])


async def restore(tx: Tx, undo: Mapping[str, Undo], costs: Costs, now: datetime) -> TakenBack:
    """Bring back what a forget took. The caller holds the sessions and the indexes of the facts."""
    restored, lost = TakenBack(), set[tuple[str, str]]()
    for session, one in sorted(undo.items()):
        items = await _restore_lines(tx, session, one)
        lost |= {(session, event) for event in _changed_events(one) if event not in items}
        turns = {file_layout.turn_of(event) for event in items}
        await _mark(tx, session, items, turns.intersection(one.turns), now)
        redacted = await redacted_items(tx, await event_files(tx, session)) if items else {}
        digests = {event: redacted.get(event, item.digest) for event, item in items.items()}
        await rewrite_items(tx, session, items, costs, digests, is_shown=True)
        guards = [row for row in one.guards if row["turn"] in turns]
        await forgets.restore_guards(tx, session, guards)
        for turn in turns.intersection(one.turns):
            restored.turns[turn] = sum(file_layout.turn_of(event) == turn for event in items)
    for _, one in sorted(undo.items()):
        restored.facts += await _restore_facts(tx, one, lost, now)
    return restored


def _changed_events(undo: Undo) -> set[str]:
    """Return the items that a forget changed."""
    bodies = [orjson.loads(line) for line in undo.lines.values()]
    return {body["id"] for body in bodies if "item" in body}


async def _restore_lines(tx: Tx, session: str, undo: Undo) -> dict[str, TurnItem]:
    """Give the lines of files that are as the forget left them what they had.

    Return the items among them, and all others of the turns that were forgotten, by event."""
    items = {}

    def change(line: bytes) -> bytes:
        was = line
        while (before := undo.lines.get(line_hash(was))) is not None:
            was = before.encode()
        body: dict[str, Any] = orjson.loads(was)
        if "item" in body and (was != line or body["turn_id"] in undo.turns):
            items[body["id"]] = TurnItem.of(body["item"])
        return was

    for path in [
        *(file.path for file in await event_files(tx, session)),
        *await summary_files(tx, session),
        *undo.paths,
    ]:
        await change_lines(tx, path, change)
    return items


async def _mark(
    tx: Tx, session: str, items: Mapping[str, TurnItem], turns: set[str], now: datetime
) -> None:
    """Note in the files that items and turns are remembered again."""
    lines = [
        *(file_layout.item_line(event, "restored", now) for event in items),
        *(file_layout.restored_turn_line(turn, now) for turn in sorted(turns)),
    ]
    if lines:
        path = file_layout.raw_events(session, now)
        await style_files.append(tx, {path: b"".join(lines)}, owner=file_layout.OWNER, now=now)


async def _restore_facts(
    tx: Tx, undo: Undo, lost: Collection[tuple[str, str]], now: datetime
) -> list[Fact]:
    """Give facts that are as the forget left them what they had; return those it took as a whole.

    Where the same was stated anew, the newer one holds. Facts from items that are `lost`, each a
    session and an event, stay forgotten."""
    before = await forgets.facts_of_rows(tx, undo.facts)
    stored = await forgets.facts_of_rows(tx, await forgets.fact_rows(tx, before))
    by_place = {fact.place: fact for fact in stored}
    hashes = {
        (row["book"], row["entry"]): words
        for row, words in zip(undo.facts, undo.fact_words, strict=True)
    }
    pairs = []
    whole = []
    for fact in before:
        place = fact.place
        now_stored = by_place.get(place)
        source = (fact.statement.evidence.session, fact.statement.evidence.item)
        if source in lost or now_stored is None or words_hash(now_stored) != hashes[place]:
            continue
        if now_stored.statement.statement or now_stored.statement.value:
            words = replace(now_stored, statement=fact.statement, doubt=fact.doubt)
            pairs.append((now_stored, words))
        else:
            whole.append(await _beside_newer(tx, fact))
            pairs.append((now_stored, whole[-1]))
    await _write(tx, pairs, whole, now)
    return whole


async def _beside_newer(tx: Tx, fact: Fact) -> Fact:
    """Return a fact as it may be restored: as a past one where a newer one has its place."""
    if fact.state is not FactState.ACTIVE:
        return fact
    known = await facts.facts_of_claims(tx, [fact.index_id], [fact.statement])
    same = [
        one
        for one in known
        if one.statement.identity == fact.statement.identity and one.state is FactState.ACTIVE
    ]
    for one in same:
        end = max(one.valid_from, fact.valid_from)
        by = one.statement.record
        return replace(fact, state=FactState.SUPERSEDED, valid_to=end, superseded_by=by)
    return fact


async def _write(
    tx: Tx, pairs: Sequence[tuple[Fact, Fact]], whole: Sequence[Fact], now: datetime
) -> None:
    """Store facts with the words that they had, and their entries; `whole` ones were forgotten."""
    lines: dict[str, bytes] = {}
    for fact in whole:
        path = file_layout.fact_file(fact)
        lines[path] = lines.get(path, b"") + file_layout.restored_line(fact, now)
    if lines:
        await style_files.append(tx, lines, owner=file_layout.OWNER, now=now)
    await facts.put(tx, [new for _, new in pairs])
    for number in sorted({fact.index_id for fact in whole}):
        entries = {fact.entry: False for fact in whole if fact.index_id == number}
        await derived.set_forgotten(tx, number, entries)
    await rewrite_facts(tx, pairs, is_shown=True)
