"""Comparison of the facts of an index with the tier files of sessions."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from memsvc.core.background import run_in_thread
from memsvc.core.call_context import step_done
from memsvc.core.facts import (
    Claim,
    Evidence,
    Fact,
    FactState,
    FactTier,
    Merge,
    Statement,
    lasting_statements,
    normalized_value,
    slot_of,
)
from memsvc.core.frozen import frozen
from memsvc.core.items import message_at, role_of, text_of
from memsvc.core.ports import Clock
from memsvc.core.rules.extraction import extract
from memsvc.core.scope import Scope
from memsvc.core.timestamp import offset_of
from memsvc.core.tools import Job
from memsvc.store import derived, derived_index, facts, files, index, sessions, tree
from memsvc.store.database import Database, Tx
from memsvc.store.derived import same_value
from memsvc.store.derived_index import compare_index
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.locks import index_lock
from memsvc.store.sessions import ENTRY_MAX
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.maintenance.raw_archive import (
    EventLine,
    event_files,
    forgotten_turns,
    lines_of,
)
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_index import TurnIndex

REREAD_JOB: Final = "turns.reread_facts"
INTERVAL_S: Final = 30 * 24 * 60 * 60
"""The first run finds what older versions left; later ones, what a restore brought back."""
FACTS_A_STEP: Final = 100
TEXT_CHARS_MAX: Final = 64_000
"""A turn with a longer message is not read again: its middle would be missing."""

_FIRST: Final = (-(2**63), -1)
_REMOVED_READ: Final = "removed_facts_read"
"""Counter of a session of which removed facts were read again."""
Turn = tuple[str, str]
"""A session and a turn of it."""


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
        await facts.put(tx, [one.fact for one in [*missing, *wrong]])
        await derived.set_forgotten(
            tx, target_index.number, {one.fact.entry: one.forgotten for one in [*missing, *wrong]}
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
        case "fact_reread":
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
    statement, expected_statement = stored.statement, expected.statement
    plain = replace(
        statement,
        confidence=expected_statement.confidence,
        keywords=expected_statement.keywords or statement.keywords,
    ) == expected_statement or (
        not expected_statement.keywords
        and replace(statement, confidence=expected_statement.confidence, keywords="")
        == expected_statement
    )
    return (
        plain
        and abs(statement.confidence - expected_statement.confidence) < 1e-4
        and (stored.state, stored.superseded_by, stored.doubt)
        == (expected.state, expected.superseded_by, expected.doubt)
        and same_value(stored.valid_from, expected.valid_from)
        and offset_of(stored.valid_from) == offset_of(expected.valid_from)
        and same_value(stored.valid_to, expected.valid_to)
        and stored.expires_at == expected.expires_at
    )


@frozen
class _ReadAgain:
    """Facts whose words were found, with these, and those that nothing states."""

    filled: list[tuple[Fact, Statement]]
    without_statement: list[Fact]


@frozen
class FactRereading:
    """Gives facts of older versions the clause that says them, and brings back what lasts.

    Active facts of rules without a statement are looked up in their turns by the rules of today: a
    fact keeps its record and its time, and gets its statement, and the topic and value that rules
    read in it today, such as a negation; one that its turn does not state by these rules is
    deleted, with a record, and can be restored. Facts of imports, models and persons, and those
    without a turn, stay as they are.

    Likes, dislikes and projects that an older version removed after a week are read once more from
    all turns of their user, in the order in which these were said. A run that was killed is simply
    run again."""

    database: Database
    clock: Clock
    options: TurnOptions

    @property
    def job(self) -> Job:
        """Return the job."""
        return Job(REREAD_JOB, self.run, interval_s=INTERVAL_S)

    async def run(self, scope: Scope, subject: str) -> None:
        """Job: read the facts of a project again, some of an index at a time, and removed ones."""
        del subject
        last = _FIRST
        while True:
            async with self.database.begin_read(scope) as tx:
                page = await derived.without_statement(tx, after=last, limit=FACTS_A_STEP)
            if not page:
                break
            index_id, source = page[0].index_id, page[0].statement.evidence
            target_index = turn_index.new_facts(source.session, source.user)
            before, last = last, (index_id, ENTRY_MAX)
            if target_index.number == index_id:  # else facts of another style
                entry = max(fact.entry for fact in page if fact.index_id == index_id)
                await self._read_again(scope, target_index, before, entry)
                last = (index_id, entry)
            step_done()
        while True:
            async with self.database.begin_read(scope) as tx:
                found = await sessions.next_with_removed_facts(tx, _REMOVED_READ)
            if found is None:
                return
            await self._bring_back(scope, *found)
            step_done()

    async def _bring_back(self, scope: Scope, user: str, names: Sequence[str]) -> None:
        """Restore a user's lasting facts that were removed, by reading their turns again."""
        claims: list[Claim] = []
        for session in names:
            async with self.database.begin_read(scope) as tx:
                lines = await _own_lines(tx, session, user)
            claims += await run_in_thread(
                sum(line.place[2] for line in lines), _claims_in, lines, session
            )
            step_done()
        claims.sort(key=lambda claim: claim.message_at or datetime.min.replace(tzinfo=UTC))
        stated = lasting_statements(claims)
        target_index = turn_index.new_facts(names[0], user)
        async with self.database.begin(
            scope,
            locks=[index_lock(target_index.name)],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
        ) as tx:
            others = [
                (other.fact_id, other.key, slot_of(other.value))
                for statement in stated
                for other in statement.conflicts
            ]
            known = await facts.history(
                tx, [target_index.number], [*(one.identity for one in stated), *others]
            )
            await self._store(
                tx, target_index, [one for one in stated if not _is_known(one, known)]
            )
            for session in names:
                await sessions.count(tx, session, {_REMOVED_READ: 1})

    async def _store(self, tx: Tx, target_index: TurnIndex, stated: Sequence[Statement]) -> None:
        if not stated:
            return
        now = self.clock.now()
        merge = Merge(tuple(stated), (), 0)
        new_facts = [StatementWithExpiry(one, None, one.message_at) for one in stated]
        lines = file_layout.fact_lines(merge, new_facts, now)
        await append(tx, lines, owner=file_layout.OWNER, now=now)
        first = await index.add(tx, {target_index.name: facts.entries(new_facts, now)})
        await facts.apply(tx, target_index.number, first[target_index.name], merge, new_facts, now)

    async def _read_again(
        self, scope: Scope, target_index: TurnIndex, after: tuple[int, int], last: int
    ) -> None:
        """Read the facts of an index again, beyond a place and up to an entry."""
        async with self.database.begin(
            scope,
            locks=[index_lock(target_index.name)],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
            long_running=True,
        ) as tx:
            page = [
                fact
                for fact in await derived.without_statement(tx, after=after, limit=FACTS_A_STEP)
                if fact.index_id == target_index.number and fact.entry <= last
            ]
            messages = await self._messages(tx, page)
            texts = [text for turn in messages.values() for _, text in turn]
            found = await run_in_thread(sum(map(len, texts)), _compared, page, messages)
            await self._write(tx, target_index, found, self.clock.now())

    async def _messages(self, tx: Tx, page: Sequence[Fact]) -> dict[Turn, list[tuple[str, str]]]:
        """Return the user's messages of the turns of facts: pairs of event id and text.

        Turns that are gone or were forgotten, and those with a very long message, are left out."""
        turns = {(fact.statement.evidence.session, fact.statement.evidence.turn) for fact in page}
        messages: dict[Turn, list[tuple[str, str]]] = {}
        for session in sorted({session for session, _ in turns}):
            index_id = turn_index.turns(session).number
            expected = sorted(turn for source, turn in turns if source == session)
            stored = await index.list_visible(
                tx, session, index_id, expected, limit=self.options.items_max * 3
            )
            entries = [item.entry for items in stored.values() for item in items]
            texts = await index.texts(tx, index_id, entries, chars_max=TEXT_CHARS_MAX)
            for turn, items in stored.items():
                said = [texts[item.entry] for item in items if item.entry in texts]
                if said and all(len(text.text) < TEXT_CHARS_MAX for text in said):
                    messages[session, turn] = [
                        (text.ref, text.text) for text in said if text.role == "user"
                    ]
        return messages

    async def _write(
        self, tx: Tx, target_index: TurnIndex, found: _ReadAgain, now: datetime
    ) -> None:
        if not found.filled and not found.without_statement:
            return
        filled, deleted = await _without_conflicts(tx, target_index, found)
        merge = Merge((), (), 0, deleted=tuple(deleted))
        lines = file_layout.fact_lines(merge, [], now)
        for fact in filled:
            path = file_layout.fact_file(fact)
            lines[path] += file_layout.reread_line(fact, now)
        await append(tx, lines, owner=file_layout.OWNER, now=now)
        await facts.apply(tx, target_index.number, 0, merge, [], now)
        await facts.put(tx, filled)
        await compare_entries(tx, target_index, fix=True)
        await compare_index(tx, target_index.name, fix=True)


async def _own_lines(tx: Tx, session: str, user: str) -> list[EventLine]:
    """Return what a user said in a session and was not forgotten."""
    event_file_list = await event_files(tx, session)
    forgotten = await forgotten_turns(tx, event_file_list)
    return [
        line
        for file in event_file_list
        for line in await lines_of(tx, file)
        if line.user == user and line.turn not in forgotten and role_of(line.item) == "user"
    ]


def _claims_in(lines: Sequence[EventLine], session: str) -> list[Claim]:
    """Return the claims of what a user said, each with its time."""
    return [
        replace(claim, message_at=min(message_at(line.item) or line.message_at, line.message_at))
        for line in lines
        for claim in extract(
            [(line.event, text_of(line.item))], session=session, turn=line.turn, user=line.user
        )
    ]


def _is_known(statement: Statement, known: Sequence[Fact]) -> bool:
    """Return whether a statement has a fact, in any state, or a later one contradicts it."""
    return any(
        fact.statement.identity == statement.identity
        or (fact.statement.slot == statement.slot and fact.valid_from > said_at)
        for fact in known
        if (said_at := statement.message_at) is not None
    )


def _compared(
    page: Sequence[Fact], messages: Mapping[Turn, Sequence[tuple[str, str]]]
) -> _ReadAgain:
    """Compare facts with what the rules read in their turns today."""
    read_again = _ReadAgain([], [])
    for fact in page:
        source = fact.statement.evidence
        said = messages.get((source.session, source.turn), ())
        if not any(event == source.item for event, _ in said):
            continue
        claims = extract(
            said,
            session=source.session,
            turn=source.turn,
            user=source.user,
        )
        claim = _claim_of(fact.statement, [one for one in claims if isinstance(one, Statement)])
        if claim is None:
            read_again.without_statement.append(fact)
        elif claim.statement:
            read_again.filled.append((fact, _filled(fact.statement, claim)))
    return read_again


async def _without_conflicts(
    tx: Tx, target_index: TurnIndex, found: _ReadAgain
) -> tuple[list[Fact], list[Fact]]:
    """Return the facts with their new words, and those to delete.

    Where another fact has the new value of a topic, a fact keeps its own; where it has the new
    topic, the fact is deleted."""
    known = await facts.facts_of_claims(
        tx, [target_index.number], [statement for _, statement in found.filled]
    )
    entries = {fact.statement.identity: fact.entry for fact in known}
    changed, deleted = [], list(found.without_statement)
    for fact, statement in found.filled:
        old = fact.statement
        if entries.setdefault(statement.identity, fact.entry) == fact.entry:
            changed.append(replace(fact, statement=statement))
        elif (statement.fact_id, statement.key) == (old.fact_id, old.key):
            words = replace(old, statement=statement.statement)
            changed.append(replace(fact, statement=words))
        else:
            deleted.append(fact)
    return changed, deleted


def _claim_of(old: Statement, claims: Sequence[Statement]) -> Statement | None:
    """Return the claim that states a fact: of its topic, or of any other with its value in it."""
    value = normalized_value(old.value)
    same_topic = [claim for claim in claims if (claim.fact_id, claim.key) == (old.fact_id, old.key)]
    for claim in same_topic:
        if normalized_value(claim.value) == value:
            return claim
    for claim in (*same_topic, *claims):
        if value in normalized_value(f"{claim.value}\n{claim.statement}"):
            return claim
    return None


def _filled(old: Statement, claim: Statement) -> Statement:
    """Return a fact as a claim reads it today, with its own record, tier and evidence."""
    if (claim.fact_id, claim.key) != (old.fact_id, old.key):
        slot = claim.slot
    else:
        slot = slot_of(claim.value) if old.slot and claim.value != old.value else old.slot
    return replace(
        old,
        fact_id=claim.fact_id,
        key=claim.key,
        slot=slot,
        value=claim.value,
        keywords=claim.keywords,
        statement=claim.statement,
    )
