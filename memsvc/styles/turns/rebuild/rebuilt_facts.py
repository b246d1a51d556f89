"""Comparison of the facts of an index with the tier files of sessions."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from memsvc.core.facts import (
    Evidence,
    Fact,
    FactState,
    FactTier,
    Statement,
)
from memsvc.core.frozen import frozen
from memsvc.core.timestamp import offset_of
from memsvc.store import derived, derived_index, facts, files, index, tree
from memsvc.store.database import Tx
from memsvc.store.derived import same_value
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.turn_index import TurnIndex


@frozen
class FileFact:
    """A fact according to its records; `forgotten` facts are never shown again."""

    fact: Fact
    forgotten: bool


async def users_of(tx: Tx, session: str) -> list[str]:
    """Return the users with facts in the tier files of a session."""
    users = set()
    async for record in records(tx, f"{session_root(session)}/memory_tiers"):
        users.add(record.get("source_user_id") or "")
    return sorted(users - {""})


async def compare_facts(
    tx: Tx, target_index: TurnIndex, sessions: Iterable[str], *, fix: bool
) -> Counter[str]:
    """Return how many facts of an index differ from the files of these sessions.

    The sessions are all that the index has facts of. With `fix` they are repaired: existing ones
    keep their entries, missing ones are appended."""
    expected = await _file_facts(tx, target_index, sessions)
    existing = {_name(fact): fact for fact in await derived.facts_of(tx, target_index.number)}
    hidden = await derived.forgotten(tx, target_index.number)
    missing = [one for name, one in expected.items() if name not in existing]
    gone = [fact for name, fact in existing.items() if name not in expected]
    wrong = [
        FileFact(replace(one.fact, entry=existing[name].entry), one.forgotten)
        for name, one in expected.items()
        if name in existing
        and not (
            _same(existing[name], one.fact) and one.forgotten == (existing[name].entry in hidden)
        )
    ]
    if fix:
        await derived.drop_facts(tx, target_index.number, [fact.entry for fact in gone])
        await derived_index.drop_rows(tx, target_index.number, [fact.entry for fact in gone])
        index_row = await derived_index.read_counters(tx, target_index.number)
        first = index_row.next_entry if index_row else 0
        missing = [
            FileFact(replace(one.fact, entry=first + at), one.forgotten)
            for at, one in enumerate(missing)
        ]
        if missing:
            entries = _entries([one.fact for one in missing])
            await index.add(tx, {target_index.name: entries})
        changed = [*missing, *wrong]
        await facts.put(tx, [one.fact for one in changed])
        await derived.set_forgotten(
            tx, target_index.number, {one.fact.entry: one.forgotten for one in changed}
        )
    found = Counter(facts=len(missing) + len(gone) + len(wrong))
    found["entries"] = await compare_entries(tx, target_index, fix=fix)
    return +found


async def compare_entries(tx: Tx, target_index: TurnIndex, *, fix: bool) -> int:
    """Return how many entries of an index differ from its facts; with `fix` they are repaired."""
    facts_stored = await derived.facts_of(tx, target_index.number)
    expected = {
        fact.entry: entry for fact, entry in zip(facts_stored, _entries(facts_stored), strict=True)
    }
    hidden = {fact.entry for fact in facts_stored if fact.state is not FactState.ACTIVE}
    return await derived_index.compare_rows(
        tx,
        target_index.number,
        0,
        ENTRY_MAX,
        derived_index.ExpectedEntries(expected, hidden),
        searched_elsewhere=False,
        fix=fix,
    )


def _entries(facts_stored: Sequence[Fact]) -> list[index.NewEntry]:
    made = facts.entries(
        [StatementWithExpiry(fact.statement, fact.expires_at) for fact in facts_stored],
        datetime.now(UTC),
    )
    return [
        replace(entry, message_at=fact.valid_from)
        for entry, fact in zip(made, facts_stored, strict=True)
    ]


async def _file_facts(
    tx: Tx, target_index: TurnIndex, sessions: Iterable[str]
) -> dict[tuple[str, str], FileFact]:
    """Return the facts of an index by session and record, oldest first.

    Facts of the same time are in the order of tiers and lines."""
    found: dict[tuple[str, str], FileFact] = {}
    changes: list[dict[str, Any]] = []
    for session in sessions:
        async for record in records(tx, f"{session_root(session)}/memory_tiers"):
            statement = _statement(record)
            evidence = statement.evidence
            if turn_index.new_facts(evidence.session, evidence.user) != target_index:
                continue
            if record["type"] == "fact_upsert":
                fact = Fact(
                    0,
                    statement,
                    FactState.ACTIVE,
                    _parse_time(record["ts"]),
                    None,
                    _parse_time(record["expires_at"]) if "expires_at" in record else None,
                    None,
                    target_index.number,
                )
                found.setdefault(_name(fact), FileFact(fact, forgotten=False))
            else:
                changes.append(record)
    for record in changes:
        name = (record["source_session_id"], record["of"])
        if name not in found:
            continue
        fact = _changed(found[name].fact, record)
        forgotten = found[name].forgotten or bool(record.get("forgotten"))
        found[name] = FileFact(fact, forgotten and record["type"] != "fact_restore")
    return dict(sorted(found.items(), key=lambda one: one[1].fact.valid_from))


def _changed(fact: Fact, record: dict[str, Any]) -> Fact:
    """Return a fact after a later record of it."""
    is_active = fact.state is FactState.ACTIVE
    match record["type"]:
        case "fact_question":
            return replace(fact, doubt=facts.doubt_of(record["doubt"])) if is_active else fact
        case "fact_reread":  # no longer written; gave older facts their statements
            return replace(fact, statement=_statement(record))
        case "fact_restore":
            end = _parse_time(record["valid_to"]) if record["valid_to"] else None
            state, by = FactState(record["state"]), record["superseded_by"]
            return replace(fact, state=state, valid_to=end, superseded_by=by)
        case "fact_delete":  # also of one that was replaced, and is forgotten too
            state, by = FactState.DELETED, record.get("superseded_by") if is_active else None
        case _ if is_active:
            state, by = FactState.SUPERSEDED, record.get("superseded_by")
        case _:
            return fact
    return replace(fact, state=state, valid_to=_parse_time(record["ts"]), superseded_by=by)


async def records(tx: Tx, directory: str) -> AsyncIterator[Any]:
    """Yield the records of the JSON lines in a directory, in the order of its files."""
    async for path in tree.all_files_at(tx, directory):
        file = await files.find(tx, path) if path.endswith(".jsonl") else None
        if file is not None:
            for line in (await files.read(tx, file)).splitlines():
                yield orjson.loads(line)


def _statement(record: dict[str, Any]) -> Statement:
    return Statement(
        record=record.get("of") or record["id"],
        fact_id=record["fact_id"],
        key=record["key"],
        slot=record.get("slot", ""),
        value=record["value"],
        tier=FactTier(record["tier"]),
        confidence=record["confidence"],
        keywords=record.get("cues", ""),
        evidence=Evidence(
            record["source_session_id"],
            record["source_turn_id"],
            record["source_item_id"],
            record["source_user_id"],
            record.get("origin", "rule"),
        ),
        statement=record.get("statement", ""),
    )


def _name(fact: Fact) -> tuple[str, str]:
    return fact.statement.evidence.session, fact.statement.record


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _same(stored: Fact, expected: Fact) -> bool:
    """Return whether a row equals its records.

    Records have confidences with four digits and, older ones, whole seconds."""
    statement, written = stored.statement, expected.statement
    return (
        replace(statement, confidence=written.confidence, keywords=written.keywords) == written
        and abs(statement.confidence - written.confidence) < 1e-4
        and (stored.state, stored.superseded_by, stored.doubt)
        == (expected.state, expected.superseded_by, expected.doubt)
        and same_value(stored.valid_from, expected.valid_from)
        and offset_of(stored.valid_from) == offset_of(expected.valid_from)
        and same_value(stored.valid_to, expected.valid_to)
        and stored.expires_at == expected.expires_at
    )
