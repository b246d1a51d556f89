"""Import of facts of a session folder: history as history, valid facts as proposals."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.core.facts import Evidence, Fact, State, Statement, Tier, merge, slot_of
from memsvc.core.rules import topics
from memsvc.store import derived_facts, facts, index
from memsvc.store.database import Tx
from memsvc.store.facts import Dated
from memsvc.store.journals import append
from memsvc.styles.turns import books, layout
from memsvc.styles.turns.migration.legacy_facts import OldFact

_KNOWN = {
    (topic.fact_id, topic.key): topic
    for topic in (topics.NAME, topics.PREFERENCE, topics.LIKE, topics.TODAY, topics.WEEK)
}
"""Topics here for the identities that older clients use."""

Expiry = Callable[[Tier, datetime], datetime | None]


async def import_facts(
    tx: Tx, session: str, user: str, old: Sequence[OldFact], expiry: Expiry, *, now: datetime, dry_run: bool
) -> tuple[Counter[str], int | None]:
    """Write the facts of one user (or of none) of a session that are not stored yet.

    Returns counts by kind, and the index that they were added to, if any. The caller holds the
    locks of the session and of the user's indexes. Superseded and deleted facts are imported as
    such. A valid fact is a proposal: newer evidence here wins over it, and a fact deleted here
    since stays deleted."""
    shelves = [book.number for book in books.facts(session, user)]
    book = books.facts_learnt(session, user)
    there = await derived_facts.recorded(tx, shelves, session, [fact.record for fact in old])
    counts: Counter[str] = Counter(facts_already_here=len(there))
    dated = []
    for one in old:
        ends = one.expires_at or expiry(one.tier, one.valid_from)
        if one.record in there:
            continue
        if ends is not None and ends <= now:
            counts["facts_expired"] += 1
        else:
            dated.append((one, Dated(_statement(one, session), ends)))
    claims = [each.statement for one, each in dated if one.state is State.ACTIVE]
    merged = merge(await facts.concerned(tx, shelves, claims), claims, now)
    kept = {statement.record for statement in merged.kept}
    wanted = []
    for one, each in dated:
        if one.state is State.ACTIVE and one.record not in kept:
            counts["facts_known_better"] += 1
        else:
            wanted.append((one, each))
            counts[f"facts_{one.state.value}"] += 1
    if not wanted or dry_run:
        return +counts, None
    await _write(tx, book, wanted, {by: fact for fact, by in merged.replaced}, now)
    return +counts, book.number


async def _write(
    tx: Tx,
    book: books.Book,
    wanted: Sequence[tuple[OldFact, Dated]],
    replaced: dict[str, Fact],
    now: datetime,
) -> None:
    entries = [
        replace(entry, said_at=one.valid_from)
        for (one, _), entry in zip(wanted, facts.entries([each for _, each in wanted], now), strict=True)
    ]
    first = (await index.add(tx, {book.name: entries}))[book.name]
    made = [
        Fact(
            first + at,
            each.statement,
            one.state,
            one.valid_from,
            one.valid_to,
            each.expires_at,
            one.superseded_by,
            book.number,
        )
        for at, (one, each) in enumerate(wanted)
    ]
    starts = {one.statement.record: one.valid_from for one in made}
    closed = [
        replace(fact, state=State.SUPERSEDED, valid_to=max(starts[by], fact.valid_from), superseded_by=by)
        for by, fact in replaced.items()
    ]
    await derived_facts.put_facts(tx, [*closed, *made])
    for shelf in sorted({fact.book for fact in [*closed, *made]}):
        past = [fact for fact in [*closed, *made] if fact.book == shelf and fact.state is not State.ACTIVE]
        await index.hide(tx, shelf, facts.indexed(past))
    lines: dict[str, bytes] = {}
    for fact in made:
        _put(lines, fact, layout.fact_line(fact.statement, fact.valid_from, fact.expires_at))
    for fact in [*closed, *made]:
        if fact.state is State.SUPERSEDED:
            _put(lines, fact, layout.superseded_line(fact, fact.superseded_by or "", fact.valid_to or now))
        elif fact.state is State.DELETED:
            _put(lines, fact, layout.deleted_line(fact, fact.valid_to or now))
    await append(tx, lines, owner=layout.OWNER, now=now)


def _put(lines: dict[str, bytes], fact: Fact, line: bytes) -> None:
    statement = fact.statement
    path = layout.tier_file(statement.evidence.session, statement.tier, fact.valid_from)
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
        cues=old.cues or (topic.cues if topic else ""),
        evidence=Evidence(session, old.turn, old.item, old.user, "import"),
        said_at=old.valid_from,
    )
