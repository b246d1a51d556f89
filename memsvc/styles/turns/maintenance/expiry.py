"""Expiry: removal of lines of expired facts, and of data beyond a session's time to live."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import orjson

from memsvc.core.facts import Fact
from memsvc.store import context, digests, facts, file_move, files, index, jobs, sessions, tree
from memsvc.store.database import Tx
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import session_root, tier_file
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.maintenance.compaction import current_summary, replace_summary
from memsvc.styles.turns.recall.digests import SPAN_ITEMS

STEP: Final = 500

_DAY: Final = re.compile(r"/(\d{4})/(\d\d)/(\d\d)/[^/]+\Z")
_SUMMARY_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ")


def cutoff(now: datetime, ttl_days: int) -> datetime:
    """Return midnight UTC this many days ago: older data has expired."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=ttl_days)


async def step(tx: Tx, session: str, before: datetime, *, now: datetime) -> Counter[str]:
    """Remove some of a session's data from before this time; return counts, nothing when done.

    Facts of its own and their lines, items and their events, summaries and insights of those days.
    Facts about a user are shared with other sessions, and stay. The caller holds the locks of the
    session and of its own fact index."""
    counts: Counter[str] = Counter()
    expired_facts = await facts.remove_before(
        tx, turn_index.new_facts(session, "").number, before, limit=STEP
    )
    await forget_lines(tx, expired_facts, now)
    counts["expired_facts"] = len(expired_facts)
    index_id = turn_index.turns(session).number
    old = await context.written_before(tx, session, index_id, before, limit=STEP)
    await index.remove(tx, index_id, old)
    counts["expired_items"] = len(old)
    if not old:  # files are deleted when no entry refers to their lines any more
        await _delete_days(tx, session, before, now)
        await _shorten_summary(tx, session, before, now)
    counts = +counts
    if counts:
        await sessions.count(tx, session, counts)
    if old:  # digests of the remaining items are rebuilt
        await digests.reset_progress(tx, session, min(old), span=SPAN_ITEMS)
        await jobs.enqueue(tx, FOLLOW_UP_JOB, session, now=now)
    return counts


async def forget_lines(tx: Tx, gone: Sequence[Fact], now: datetime) -> None:
    """Remove the lines of these facts from their tier files; an empty file is deleted."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for fact in gone:
        path = tier_file(fact.statement.evidence.session, fact.statement.tier, fact.valid_from)
        by_file[path].add(fact.statement.record)
    for path, records in sorted(by_file.items()):
        file = await files.find(tx, path, for_update=True)
        if file is None:
            continue
        lines = (await files.read(tx, file, 0, file.size_bytes)).splitlines(keepends=True)
        kept = b"".join(line for line in lines if not _has_id(line, records))
        if kept:
            await files.rewrite(tx, file, kept, is_text=True, now=now)
        else:
            await tx.lock(TREE_LOCK)
            await file_move.delete(tx, path, now=now, keep_style_files=False)


async def _delete_days(tx: Tx, session: str, before: datetime, now: datetime) -> None:
    for place in ("events/raw", "events/archive", "events/compact", "insights"):
        for path in await tree.files_at(
            tx, f"{session_root(session)}/{place}", after="", limit=STEP
        ):
            found = _DAY.search(path)
            if found is not None and "-".join(found.groups()) < f"{before:%Y-%m-%d}":
                await tx.lock(TREE_LOCK)
                await file_move.delete(tx, path, recursive=False, now=now, keep_style_files=False)


async def _shorten_summary(tx: Tx, session: str, before: datetime, now: datetime) -> None:
    current = await current_summary(tx, session)
    if current is None:
        return
    lines = current.text.splitlines()
    kept = [
        line
        for line in lines
        if (day := _SUMMARY_LINE.match(line)) and day[1] >= f"{before:%Y-%m-%d}"
    ]
    if kept != lines:
        await replace_summary(tx, session, current.event, "\n".join(kept), now=now)


def _has_id(line: bytes, records: set[str]) -> bool:
    record = orjson.loads(line)
    return record["id"] in records or record.get("of") in records
