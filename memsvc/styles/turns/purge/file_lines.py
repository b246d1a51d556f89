"""Removal of lines from files that stay, and from their history."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Final

import orjson

from memsvc.core.facts import Fact
from memsvc.store import file_gc, file_move, files
from memsvc.store.database import Tx
from memsvc.store.insights import Insight
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.turns.file_layout import insights_file, tier_file

LINES: Final = "lines"
"""Name under which removed lines of such files are counted."""
_BLOCKS_A_SWEEP: Final = 1000


async def forget_insight_lines(
    tx: Tx, insight: Insight, session: str, *, now: datetime
) -> Counter[str]:
    """Remove an insight that cites a session from the files of other sessions that made it."""
    source_sessions = {cited["session"] for cited in insight.evidence["turns"]} - {session}
    lines = 0
    for source_session in sorted(source_sessions):
        lines += await drop_lines(
            tx, insights_file(source_session, insight.made_at), {insight.insight}, now=now
        )
    return Counter({LINES: lines})


async def forget_fact_lines(tx: Tx, fact: Fact, *, now: datetime) -> int:
    """Remove a fact from the file of the session that it was learned in; return the line count."""
    statement = fact.statement
    return await drop_lines(
        tx,
        tier_file(statement.evidence.session, statement.tier, fact.valid_from),
        {statement.record},
        now=now,
    )


async def drop_lines(tx: Tx, path: str, ids: Collection[str], *, now: datetime) -> int:
    """Remove the lines of these records, and of their changes, from a file and its history.

    Returns how many. A file that is left empty is deleted. The caller holds the session's lock."""
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return 0
    lines = (await files.read(tx, file, 0, file.size_bytes)).splitlines(keepends=True)
    kept = [line for line in lines if not _has_id(line, ids)]
    if len(kept) == len(lines):
        return 0
    if kept:
        await files.rewrite(tx, file, b"".join(kept), is_text=True, now=now)
        keep = file_gc.FileRetention(cutoff=now, past_states=0, deleted_before=now)
        await file_gc.hide_old(tx, file.incarnation, keep)
    else:
        await tx.lock(TREE_LOCK)
        await file_move.delete(tx, path, recursive=False, now=now, keep_style_files=False)
        await file_gc.hide_all(tx, file.incarnation)
    while not await file_gc.sweep(tx, file.incarnation, limit=_BLOCKS_A_SWEEP):
        pass
    if not kept:
        await file_gc.forget(tx, file.incarnation)
    return len(lines) - len(kept)


def _has_id(line: bytes, ids: Collection[str]) -> bool:
    record = orjson.loads(line)
    return record["id"] in ids or record.get("of") in ids
