"""Writing of a merge of facts: records in tier files, entries of the index, and rows."""

from collections.abc import Sequence
from datetime import datetime

from memsvc.core.facts import Merge
from memsvc.store import facts, index, jobs
from memsvc.store.append_log import append
from memsvc.store.database import Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.turn_index import TurnIndex


async def write_merge(
    tx: Tx,
    fact_index: TurnIndex,
    merged: Merge,
    new_facts: Sequence[StatementWithExpiry],
    now: datetime,
    *,
    embeds: bool,
) -> None:
    """Write a merge whose new facts belong to one index, as a turn does.

    The caller holds the locks of the indexes that the merge touches."""
    await append(
        tx, file_layout.fact_lines(merged, new_facts, now), owner=file_layout.OWNER, now=now
    )
    first_entries = (
        await index.add(tx, {fact_index.name: facts.entries(new_facts, now)}) if new_facts else {}
    )
    await facts.apply(
        tx, fact_index.number, first_entries.get(fact_index.name, 0), merged, new_facts, now
    )
    if embeds and new_facts:
        await jobs.enqueue(tx, EMBED_JOB, str(fact_index.number), now=now)
