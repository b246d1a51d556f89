"""Summaries of a session's directories, rewritten where the content changed."""

from collections import defaultdict
from datetime import datetime, timedelta

from memsvc.store import append_log, facts, sessions, tree
from memsvc.store.database import Tx
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import OWNER, session_root
from memsvc.styles.turns.maintenance import directory_summaries
from memsvc.styles.turns.views import rendered_names, split


async def refresh(tx: Tx, session: str, *, age_max: timedelta, now: datetime) -> int:
    """Write missing summaries, and those older than `age_max` and than their content.

    Return how many.

    The caller holds the session's lock."""
    root = session_root(session)
    statistics = await read_statistics(tx, root)
    names = (directory_summaries.ABSTRACT_NAME, directory_summaries.OVERVIEW_NAME)
    written_at = await tree.updated_at(
        tx, [f"{path}/{name}" for path in statistics for name in names]
    )
    stale = [
        (path, name)
        for path, directory_stats in statistics.items()
        for name in names
        if (at := written_at.get(f"{path}/{name}")) is None
        or (at < directory_stats.updated_at and now - at >= age_max)
    ]
    if not stale:
        return 0
    notes = await notes_on(tx, session, now)
    contents = {}
    for path, name in stale:
        if name == directory_summaries.ABSTRACT_NAME:
            text = directory_summaries.abstract(statistics[path], root, notes)
        else:
            within = [one for one in statistics.values() if one.path.startswith(path + "/")]
            text = directory_summaries.overview(statistics[path], within, now)
        contents[f"{path}/{name}"] = text.encode() + b"\n"
    missing = {path: content for path, content in contents.items() if path not in written_at}
    if missing:
        await append_log.append(tx, missing, owner=OWNER, now=now)
    if len(missing) < len(contents):
        await append_log.replace(
            tx, {path: contents[path] for path in contents.keys() - missing}, now=now
        )
    return len(stale)


async def read_statistics(tx: Tx, directory: str) -> dict[str, directory_summaries.DirectoryStats]:
    """Return statistics of each directory at or below this one, without the summaries."""
    directory_rows = [
        directory_summaries.DirectoryStats(
            row.directory, row.files, 0, row.size_bytes, row.created_at, row.updated_at, row.samples
        )
        for row in await tree.count_by_directory(
            tx,
            directory,
            sample_limit=directory_summaries.SAMPLE_PATHS_MAX,
            excluded_names=(directory_summaries.ABSTRACT_NAME, directory_summaries.OVERVIEW_NAME),
        )
    ]
    return directory_summaries.total_statistics(
        [*directory_rows, *await _rendered_statistics(tx, directory)], directory
    )


async def notes_on(tx: Tx, session: str, now: datetime) -> dict[str, str]:
    """Return notes for the abstracts by place: counters and names of facts, never values."""
    found = await sessions.find(tx, session)
    if found is None:
        return {}
    counters = found.counters
    notes = {
        "events/raw": f"The session has {counters.get('items', 0)} items of {found.turns} turns"
        " so far."
    }
    if compacted := counters.get("compacted_items"):
        notes["events/compact"] = f"{compacted} items have given way to summaries in the prompt."
    if archive_bytes := counters.get("archived_bytes"):
        notes["events/archive"] = f"{archive_bytes} bytes of raw events were packed."
    if written := counters.get("insights_written"):
        removed_count = counters.get("insights_withdrawn", 0)
        notes["insights"] = (
            f"{written} insights were written, {removed_count} of them withdrawn since."
        )
    keys: dict[str, set[str]] = defaultdict(set)
    for fact in await facts.current_facts(
        tx, [index.number for index in turn_index.facts(session, found.user_id)], now
    ):
        if fact.statement.evidence.session == session:
            keys[fact.statement.tier.value].add(fact.statement.key.replace("_", " "))
    for tier, named in keys.items():
        fact_names = ", ".join(sorted(named)[: directory_summaries.KEY_LIMIT])
        notes[f"memory_tiers/{tier}"] = f"Of tier {tier} these hold now: {fact_names}."
    return notes


async def _rendered_statistics(tx: Tx, directory: str) -> list[directory_summaries.DirectoryStats]:
    """Return statistics of a session's rendered files, which have no size yet."""
    session, _ = split(directory)
    found = await sessions.find(tx, session) if session is not None else None
    if found is None:
        return []
    return _rendered(found, directory)


def _rendered(found: StoredSession, directory: str) -> list[directory_summaries.DirectoryStats]:
    paths_by_directory: dict[str, list[str]] = defaultdict(list)
    for name in rendered_names(found):
        path = f"{session_root(found.session)}/{name}"
        if path.startswith(directory + "/"):
            paths_by_directory[path.rpartition("/")[0]].append(path)
    return [
        directory_summaries.DirectoryStats(
            place, len(paths), 0, 0, found.created_at, found.updated_at, tuple(paths)
        )
        for place, paths in paths_by_directory.items()
    ]
