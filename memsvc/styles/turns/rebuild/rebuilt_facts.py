"""Comparison of the facts of an index with the tier files of sessions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from memsvc.core.facts import Evidence, Fact, State, Statement, Tier
from memsvc.store import derived_facts, derived_index, facts, files, index, tree
from memsvc.store.database import Tx
from memsvc.store.derived import same_value
from memsvc.store.facts import Dated
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import books
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.layout import session_root

FILES_A_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """A fact according to its records; `forgotten` facts are never shown again."""

    fact: Fact
    forgotten: bool


async def users_of(tx: Tx, session: str) -> list[str]:
    """Return the users with facts in the tier files of a session."""
    users = set()
    async for record in _records(tx, f"{session_root(session)}/memory_tiers"):
        users.add(record.get("source_user_id") or "")
    return sorted(users - {""})


async def compare_facts(tx: Tx, book: Book, sessions: Iterable[str], *, mend: bool) -> Counter[str]:
    """Return how many facts of an index differ from the files of these sessions.

    The sessions are all that the index has facts of. With `mend` they are repaired: existing ones
    keep their entries, missing ones are appended."""
    told = await _told(tx, book, sessions)
    held = {_name(fact): fact for fact in await derived_facts.facts_of(tx, book.number)}
    hidden = await derived_facts.forgotten(tx, book.number)
    missing = [one for name, one in told.items() if name not in held]
    gone = [fact for name, fact in held.items() if name not in told]
    wrong = [
        Told(replace(one.fact, entry=held[name].entry), one.forgotten)
        for name, one in told.items()
        if name in held and not (_same(held[name], one.fact) and one.forgotten == (held[name].entry in hidden))
    ]
    if mend:
        await derived_facts.drop_facts(tx, book.number, [fact.entry for fact in gone])
        await derived_index.drop_rows(tx, book.number, [fact.entry for fact in gone])
        first = await _next(tx, book)
        missing = [Told(replace(one.fact, entry=first + at), one.forgotten) for at, one in enumerate(missing)]
        if missing:
            entries = _entries([one.fact for one in missing])
            await index.add(tx, {book.name: entries})
        await derived_facts.put_facts(tx, [one.fact for one in [*missing, *wrong]])
        await derived_facts.set_forgotten(
            tx, book.number, {one.fact.entry: one.forgotten for one in [*missing, *wrong]}
        )
    found = Counter(facts=len(missing) + len(gone) + len(wrong))
    found["entries"] = await _compare_entries(tx, book, mend=mend)
    return +found


async def _compare_entries(tx: Tx, book: Book, *, mend: bool) -> int:
    """Compare the entries of an index with its facts."""
    held = await derived_facts.facts_of(tx, book.number)
    wanted = {fact.entry: entry for fact, entry in zip(held, _entries(held), strict=True)}
    hidden = {fact.entry for fact in held if fact.state is not State.ACTIVE}
    return await derived_index.compare_rows(
        tx, book.number, 0, ENTRY_MAX, wanted, hidden=hidden, placeless=set(), mend=mend
    )


async def _next(tx: Tx, book: Book) -> int:
    shelf = await derived_index.shelf(tx, book.number)
    return shelf.next_entry if shelf else 0


def _entries(held: Sequence[Fact]) -> list[index.NewEntry]:
    made = facts.entries([Dated(fact.statement, fact.expires_at) for fact in held], datetime.now(UTC))
    return [replace(entry, said_at=fact.valid_from) for entry, fact in zip(made, held, strict=True)]


async def _told(tx: Tx, book: Book, sessions: Iterable[str]) -> dict[tuple[str, str], Told]:
    """Return the facts of an index by session and record, oldest first.

    Facts of the same time are in the order of tiers and lines."""
    found: dict[tuple[str, str], Told] = {}
    endings: list[dict[str, Any]] = []
    for session in sessions:
        async for record in _records(tx, f"{session_root(session)}/memory_tiers"):
            statement = _statement(record)
            evidence = statement.evidence
            if books.facts_learnt(evidence.session, evidence.user) != book:
                continue
            if record["type"] == "fact_upsert":
                fact = Fact(0, statement, State.ACTIVE, _moment(record["ts"]), None, _day(record), None, book.number)
                found.setdefault(_name(fact), Told(fact, forgotten=False))
            else:
                endings.append(record)
    for record in endings:
        name = (record["source_session_id"], record["of"])
        if name not in found:
            continue
        fact = found[name].fact
        if fact.state is State.ACTIVE:
            deleted = record["type"] == "fact_delete"
            fact = replace(
                fact,
                state=State.DELETED if deleted else State.SUPERSEDED,
                valid_to=_moment(record["ts"]),
                superseded_by=record.get("superseded_by"),
            )
        elif record["type"] == "fact_delete":  # replaced, and forgotten too
            fact = replace(fact, state=State.DELETED, valid_to=_moment(record["ts"]), superseded_by=None)
        found[name] = Told(fact, found[name].forgotten or bool(record.get("forgotten")))
    return dict(sorted(found.items(), key=lambda one: one[1].fact.valid_from))


async def _records(tx: Tx, directory: str) -> Any:
    last = ""
    while page := await tree.files_at(tx, directory, after=last, most=FILES_A_PAGE):
        last = page[-1]
        for path in page:
            file = await files.find(tx, path) if path.endswith(".jsonl") else None
            if file is not None:
                for line in (await files.read(tx, file, 0, file.size_bytes)).splitlines():
                    yield orjson.loads(line)


def _statement(record: dict[str, Any]) -> Statement:
    return Statement(
        record=record.get("of") or record["id"],
        fact_id=record["fact_id"],
        key=record["key"],
        slot=record.get("slot", ""),
        value=record["value"],
        tier=Tier(record["tier"]),
        confidence=record["confidence"],
        cues=record.get("cues", ""),
        evidence=Evidence(
            record["source_session_id"],
            record["source_turn_id"],
            record["source_item_id"],
            record["source_user_id"],
            record.get("origin", "rule"),
        ),
    )


def _name(fact: Fact) -> tuple[str, str]:
    return fact.statement.evidence.session, fact.statement.record


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _day(record: dict[str, Any]) -> datetime | None:
    return _moment(record["expires_at"]) if "expires_at" in record else None


def _same(held: Fact, told: Fact) -> bool:
    """Return whether a row equals its records.

    Records have confidences with four digits and, older ones, whole seconds."""
    one, other = held.statement, told.statement
    plain = replace(one, confidence=other.confidence, cues=other.cues or one.cues) == other or (
        not other.cues and replace(one, confidence=other.confidence, cues="") == other
    )
    return (
        plain
        and abs(one.confidence - other.confidence) < 1e-4
        and (held.state, held.superseded_by) == (told.state, told.superseded_by)
        and same_value(held.valid_from, told.valid_from)
        and same_value(held.valid_to, told.valid_to)
        and held.expires_at == told.expires_at
    )
