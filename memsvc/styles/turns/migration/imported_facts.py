"""Import of facts of a session folder: history as history, valid facts as proposals."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.core.facts import Evidence, Fact, FactState, FactTier, Statement, merge, slot_of
from memsvc.core.rules import topics
from memsvc.store import derived, facts, index
from memsvc.store.append_log import append
from memsvc.store.database import Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.migration.legacy_facts import OldFact

_KNOWN = {
    (topic.fact_id, topic.key): topic
    for topic in (topics.NAME, topics.PREFERENCE, topics.LIKE, topics.TODAY, topics.WEEK)
}
"""Topics here for the identities that older clients use."""

Expiry = Callable[[FactTier, datetime], datetime | None]


async def import_facts(
    tx: Tx,
    session: str,
    user: str,
    old_facts: Sequence[OldFact],
    expiry: Expiry,
    *,
    now: datetime,
    dry_run: bool,
) -> tuple[Counter[str], int | None]:
    """Write the facts of one user (or of none) of a session that are not stored yet.

    Returns counts by kind, and the index that they were added to, if any. The caller holds the
    locks of the session and of the user's indexes. Superseded and deleted facts are imported as
    such. A valid fact is a proposal: newer evidence here wins over it, and a fact deleted here
    since stays deleted."""
    index_ids = [target_index.number for target_index in turn_index.facts(session, user)]
    target_index = turn_index.new_facts(session, user)
    existing = await derived.existing_records(
        tx, index_ids, session, [fact.record for fact in old_facts]
    )
    counts: Counter[str] = Counter(facts_already_here=len(existing))
    candidates = []
    for old_fact in old_facts:
        expires_at = old_fact.expires_at or expiry(old_fact.tier, old_fact.valid_from)
        if old_fact.record in existing:
            continue
        if expires_at is not None and expires_at <= now:
            counts["facts_expired"] += 1
        else:
            candidates.append(
                (old_fact, StatementWithExpiry(_statement(old_fact, session), expires_at))
            )
    claims = [
        new_fact.statement
        for old_fact, new_fact in candidates
        if old_fact.state is FactState.ACTIVE
    ]
    merged = merge(await facts.facts_of_claims(tx, index_ids, claims), claims, now)
    kept = {statement.record for statement in merged.kept}
    accepted = []
    for old_fact, new_fact in candidates:
        if old_fact.state is FactState.ACTIVE and old_fact.record not in kept:
            counts["facts_known_better"] += 1
        else:
            accepted.append((old_fact, new_fact))
            counts[f"facts_{old_fact.state.value}"] += 1
    if not accepted or dry_run:
        return +counts, None
    await _write(tx, target_index, accepted, {by: fact for fact, by in merged.replaced}, now)
    return +counts, target_index.number


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
    await derived.put_facts(tx, [*closed, *new_facts])
    for index_id in sorted({fact.index_id for fact in [*closed, *new_facts]}):
        past = [
            fact
            for fact in [*closed, *new_facts]
            if fact.index_id == index_id and fact.state is not FactState.ACTIVE
        ]
        await index.hide(tx, index_id, facts.indexed(past))
    lines: dict[str, bytes] = {}
    for fact in new_facts:
        _put(lines, fact, file_layout.fact_line(fact.statement, fact.valid_from, fact.expires_at))
    for fact in [*closed, *new_facts]:
        if fact.state is FactState.SUPERSEDED:
            _put(
                lines,
                fact,
                file_layout.superseded_line(fact, fact.superseded_by or "", fact.valid_to or now),
            )
        elif fact.state is FactState.DELETED:
            _put(lines, fact, file_layout.deleted_line(fact, fact.valid_to or now))
    await append(tx, lines, owner=file_layout.OWNER, now=now)


def _put(lines: dict[str, bytes], fact: Fact, line: bytes) -> None:
    statement = fact.statement
    path = file_layout.tier_file(statement.evidence.session, statement.tier, fact.valid_from)
    lines[path] = lines.get(path, b"") + line


def _statement(old: OldFact, session: str) -> Statement:
    topic = _KNOWN.get((old.fact_id, old.key))
    return Statement(
        record=old.record,
        fact_id=old.fact_id,
        key=old.key,
        slot=old.slot or (slot_of(old.value) if topic and topic.many else ""),
        value=old.value,
        tier=old.tier,
        confidence=old.confidence,
        keywords=old.keywords or (topic.keywords if topic else ""),
        evidence=Evidence(session, old.turn, old.item, old.user, "import"),
        message_at=old.valid_from,
    )
