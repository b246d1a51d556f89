"""The facts of a session folder, replayed from their records to their final state.

Records have times to the second only. Within one, replacements are read from the records that state
them and from the order of the turns, never from their ids: a replaced fact stays replaced, a
deleted one stays deleted."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from memsvc.core.facts import (
    Evidence,
    Fact,
    FactState,
    FactTier,
    Statement,
    merge,
    normalized_value,
    slot_of,
)
from memsvc.core.json_text import JsonObject
from memsvc.core.rules import topics
from memsvc.store import derived, facts, index
from memsvc.store.database import Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.migration.legacy import (
    InvalidRecord,
    LegacyKind,
    LegacyRecord,
    LegacyRecords,
    record_timestamp,
    turn_name,
    user_name,
)

CONFIDENCE = 0.78
"""Confidence of a fact that has none between 0 and 1."""
_STATE_BY_NAME = {
    "superseded": FactState.SUPERSEDED,
    "contradicted": FactState.SUPERSEDED,
    "deleted": FactState.DELETED,
    "expired": FactState.DELETED,
}

_KNOWN = {
    (topic.fact_id, topic.key): topic
    for topic in (topics.NAME, topics.PREFERENCE, topics.LIKE, topics.TODAY, topics.WEEK)
}
"""Topics here for the identities that older clients use."""

Expiry = Callable[[Statement, datetime], datetime | None]


@dataclass(slots=True)
class OldFact:
    """One fact and its final state; `expires_at` is None for facts kept for good or without one."""

    statement: Statement
    valid_from: datetime
    expires_at: datetime | None
    state: FactState = FactState.ACTIVE
    valid_to: datetime | None = None
    superseded_by: str | None = None
    has_record: bool = False  # whether a record states its end, or only a later fact implies it

    def end(
        self, state: FactState, at: datetime, by: str | None = None, *, has_record: bool
    ) -> None:
        """Mark the fact as no longer valid."""
        self.state, self.valid_to, self.superseded_by, self.has_record = state, at, by, has_record


@dataclass(slots=True)
class _FactHistory:
    """History of one identity: its facts in order, the valid one, and early endings.

    An early ending is recorded before its fact."""

    facts: dict[str, OldFact] = field(default_factory=dict)
    current: OldFact | None = None
    early: list[tuple[datetime, str, str]] = field(default_factory=list)


def facts_of(
    reading: LegacyRecords, session: str, order: Mapping[str, int], now: datetime
) -> list[OldFact]:
    """Return every fact of the records, oldest first; `order` numbers the turns in their order."""
    history_by_identity: dict[tuple[str, str, str], _FactHistory] = {}
    for at, body in _in_order(reading, order, now):
        identity = (
            _text(body, "fact_id") or _text(body, "key"),
            _text(body, "key"),
            _text(body, "slot"),
        )
        history = history_by_identity.setdefault(identity, _FactHistory())
        match body.get("type"):
            case "fact_delete":
                if history.current is not None:
                    history.current.end(
                        FactState.DELETED,
                        record_timestamp(body.get("deleted_at"), now) or at,
                        has_record=True,
                    )
                    history.current = None
            case "fact_supersede":
                _replace_fact(history, body, at)
            case _:
                _begin(history, _fact(body, session, at), body, at)
    found = [fact for history in history_by_identity.values() for fact in history.facts.values()]
    return sorted(found, key=lambda fact: fact.valid_from)


def _in_order(
    reading: LegacyRecords, order: Mapping[str, int], now: datetime
) -> Iterator[tuple[datetime, JsonObject]]:
    """Yield the records in the order in which they were written.

    By time, then by turn, then as the longest log has them."""
    records = reading.of(LegacyKind.FACT)
    complete_log = [
        record for record in records if record.file.count("/") == 0
    ]  # all records in one file, in order
    logged = {_record_key(record.body) for record in complete_log}
    others = [
        record
        for record in records
        if record.file.count("/") and _record_key(record.body) not in logged
    ]
    candidates = [*_indexed(reading, records), *complete_log, *others]
    records_by_time = []
    seen = set()
    for record in candidates:
        at = record_timestamp(record.body.get("ts"), now)
        if at is None or not _text(record.body, "key") or not _text(record.body, "id"):
            reading.broken.append(
                InvalidRecord(record.file, record.line, "a fact lacks its id, key or time")
            )
            continue
        mark = _record_key(record.body)
        if mark not in seen:
            seen.add(mark)
            records_by_time.append(
                (
                    at,
                    order.get(turn_name(_text(record.body, "source_turn_id")), len(order)),
                    record.body,
                )
            )
    records_by_time.sort(key=lambda one: one[:2])
    for at, _, body in records_by_time:
        yield at, body


def _indexed(reading: LegacyRecords, records: list[LegacyRecord]) -> list[LegacyRecord]:
    """Return the facts of the index of active facts that have no record."""
    known = {_text(record.body, "id") for record in records}
    return [
        LegacyRecord(LegacyKind.FACT, body | {"type": "fact_upsert"}, record.file, record.line)
        for record in reading.of(LegacyKind.INDEX)
        for body in record.body["facts"].values()
        if isinstance(body, dict) and _text(body, "id") not in known
    ]


def _replace_fact(history: _FactHistory, body: JsonObject, at: datetime) -> None:
    by, value = _text(body, "superseded_by"), normalized_value(_text(body, "value"))
    old = history.facts.get(_text(body, "of")) or next(
        (
            fact
            for fact in reversed(history.facts.values())
            if fact.statement.record != by
            and not fact.has_record
            and normalized_value(fact.statement.value) == value
        ),
        None,
    )
    if old is None:
        history.early.append((at, by, value))
        return
    old.end(FactState.SUPERSEDED, at, by, has_record=True)
    new = history.facts.get(by)
    if history.current is old:
        history.current = None
    if (
        new is not None and not new.has_record and new.state is not FactState.ACTIVE
    ):  # only sorted before the fact it replaced
        new.state, new.valid_to, new.superseded_by = FactState.ACTIVE, None, None
        history.current = new


def _begin(history: _FactHistory, fact: OldFact, body: JsonObject, at: datetime) -> None:
    record = fact.statement.record
    if record in history.facts:
        return
    history.facts[record] = fact
    state = _STATE_BY_NAME.get(_text(body, "state"))
    key = (at, normalized_value(fact.statement.value))
    ending = next(
        (one for one in history.early if (one[0], one[2]) == key and one[1] != record), None
    )
    if ending is not None:
        history.early.remove(ending)
        fact.end(FactState.SUPERSEDED, at, ending[1], has_record=True)
    elif state is not None:
        fact.end(state, at, _text(body, "superseded_by") or None, has_record=True)
    else:
        if history.current is not None:
            history.current.end(FactState.SUPERSEDED, at, record, has_record=False)
        history.current = fact


def _fact(body: JsonObject, session: str, at: datetime) -> OldFact:
    tier, turn = _text(body, "tier"), _text(body, "source_turn_id")
    confidence: Any = body.get("confidence")
    key, value = _text(body, "key"), _text(body, "value")
    fact_id = _text(body, "fact_id") or key
    topic = _KNOWN.get((fact_id, key))
    is_share = isinstance(confidence, int | float) and 0 < confidence <= 1
    statement = Statement(
        record=_text(body, "id"),
        fact_id=fact_id,
        key=key,
        slot=_text(body, "slot") or (slot_of(value) if topic and topic.many else ""),
        value=value,
        tier=FactTier(tier) if tier in list(FactTier) else FactTier.L2,
        confidence=float(confidence) if is_share else CONFIDENCE,
        keywords=_text(body, "cues") or (topic.keywords if topic else ""),
        evidence=Evidence(
            session,
            turn_name(turn) if turn else "",
            _text(body, "source_item_id"),
            user_name(body, "source_user_id"),
            "import",
        ),
        message_at=at,
    )
    expires_at = record_timestamp(body.get("expires_at"), datetime.max.replace(tzinfo=UTC))
    return OldFact(statement, at, expires_at)


def _text(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    return value.replace("\x00", "") if isinstance(value, str) else ""


def _record_key(body: Mapping[str, Any]) -> tuple[str, str]:
    return _text(body, "id"), _text(body, "type")


async def import_facts(
    tx: Tx,
    session: str,
    user: str,
    old_facts: Sequence[OldFact],
    expiry: Expiry,
    *,
    now: datetime,
    dry_run: bool,
) -> Counter[str]:
    """Write the facts of one user (or of none) of a session that are not stored yet.

    Returns counts by kind. The caller holds the locks of the session and of the user's indexes.
    Superseded and deleted facts are imported as
    such. A valid fact is a proposal: newer evidence here wins over it, and a fact deleted here
    since stays deleted."""
    index_ids = turn_index.fact_ids(session, user)
    target_index = turn_index.new_facts(session, user)
    existing = await derived.existing_records(
        tx, index_ids, session, [fact.statement.record for fact in old_facts]
    )
    counts: Counter[str] = Counter(facts_already_here=len(existing))
    candidates = []
    for old_fact in old_facts:
        expires_at = old_fact.expires_at or expiry(old_fact.statement, old_fact.valid_from)
        if old_fact.statement.record in existing:
            continue
        if expires_at is not None and expires_at <= now:
            counts["facts_expired"] += 1
        else:
            candidates.append((old_fact, StatementWithExpiry(old_fact.statement, expires_at)))
    claims = [old.statement for old, _ in candidates if old.state is FactState.ACTIVE]
    merged = merge(await facts.facts_of_claims(tx, index_ids, claims), claims, now)
    kept = {statement.record for statement in merged.kept}
    accepted = []
    for old_fact, new_fact in candidates:
        if old_fact.state is FactState.ACTIVE and old_fact.statement.record not in kept:
            counts["facts_known_better"] += 1
        else:
            accepted.append((old_fact, new_fact))
            counts[f"facts_{old_fact.state.value}"] += 1
    if not accepted or dry_run:
        return +counts
    await _write(tx, target_index, accepted, {by: fact for fact, by in merged.replaced}, now)
    return +counts


async def _write(
    tx: Tx,
    target_index: turn_index.TurnIndex,
    accepted: Sequence[tuple[OldFact, StatementWithExpiry]],
    replaced: dict[str, Fact],
    now: datetime,
) -> None:
    entries = [
        replace(entry, message_at=old_fact.valid_from)
        for (old_fact, _), entry in zip(
            accepted, facts.entries([new_fact for _, new_fact in accepted], now), strict=True
        )
    ]
    first = (await index.add(tx, {target_index.name: entries}))[target_index.name]
    new_facts = [
        Fact(
            first + at,
            new_fact.statement,
            old_fact.state,
            old_fact.valid_from,
            old_fact.valid_to,
            new_fact.expires_at,
            old_fact.superseded_by,
            target_index.number,
        )
        for at, (old_fact, new_fact) in enumerate(accepted)
    ]
    valid_from_by_record = {
        old_fact.statement.record: old_fact.valid_from for old_fact in new_facts
    }
    closed = [
        replace(
            fact,
            state=FactState.SUPERSEDED,
            valid_to=max(valid_from_by_record[by], fact.valid_from),
            superseded_by=by,
        )
        for by, fact in replaced.items()
    ]
    changed = [*closed, *new_facts]
    await facts.put(tx, changed)
    for index_id in sorted({fact.index_id for fact in changed}):
        past = [
            fact
            for fact in changed
            if fact.index_id == index_id and fact.state is not FactState.ACTIVE
        ]
        await index.hide(tx, index_id, facts.indexed(past))
    lines = defaultdict[str, bytes](bytes)
    for fact in new_facts:
        path = file_layout.fact_file(fact)
        lines[path] += file_layout.fact_line(fact.statement, fact.valid_from, fact.expires_at)
    for fact in changed:
        path = file_layout.fact_file(fact)
        end, by = fact.valid_to or now, fact.superseded_by or ""
        if fact.state is FactState.SUPERSEDED:
            lines[path] += file_layout.superseded_line(fact, by, end)
        elif fact.state is FactState.DELETED:
            lines[path] += file_layout.deleted_line(fact, end)
    await append(tx, lines, owner=file_layout.OWNER, now=now)
