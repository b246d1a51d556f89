"""Summaries of a session's directories, rewritten where the content changed."""

from collections import defaultdict
from datetime import datetime, timedelta

from memsvc.store import facts, journals, sessions, tree
from memsvc.store.database import Tx
from memsvc.store.sessions import Session
from memsvc.styles.turns import books
from memsvc.styles.turns.layout import OWNER, session_root
from memsvc.styles.turns.upkeep import summaries
from memsvc.styles.turns.views import rendered_names, split


async def refresh(tx: Tx, session: str, *, fresh: timedelta, now: datetime) -> int:
    """Write missing summaries, and those older than `fresh` and than their content.

    Return how many.

    The caller holds the session's lock."""
    root = session_root(session)
    shelves = await read_shelves(tx, root)
    names = (summaries.ABSTRACT_NAME, summaries.OVERVIEW_NAME)
    written_at = await tree.updated_at(tx, [f"{path}/{name}" for path in shelves for name in names])
    stale = [
        (path, name)
        for path, shelf in shelves.items()
        for name in names
        if (at := written_at.get(f"{path}/{name}")) is None or (at < shelf.updated_at and now - at >= fresh)
    ]
    if not stale:
        return 0
    notes = await notes_on(tx, session, now)
    contents = {}
    for path, name in stale:
        if name == summaries.ABSTRACT_NAME:
            text = summaries.abstract(shelves[path], root, notes)
        else:
            within = [one for one in shelves.values() if one.path.startswith(path + "/")]
            text = summaries.overview(shelves[path], within, now)
        contents[f"{path}/{name}"] = text.encode() + b"\n"
    missing = {path: content for path, content in contents.items() if path not in written_at}
    if missing:
        await journals.append(tx, missing, owner=OWNER, now=now)
    if len(missing) < len(contents):
        await journals.replace(tx, {path: contents[path] for path in contents.keys() - missing}, now=now)
    return len(stale)


async def read_shelves(tx: Tx, directory: str) -> dict[str, summaries.Shelf]:
    """Return statistics of each directory at or below this one, without the summaries."""
    census = [
        summaries.Shelf(held.directory, held.files, 0, held.size_bytes, held.created_at, held.updated_at, held.samples)
        for held in await tree.census(
            tx,
            directory,
            samples=summaries.SAMPLE_PATHS_MAX,
            leave_out=(summaries.ABSTRACT_NAME, summaries.OVERVIEW_NAME),
        )
    ]
    return summaries.shelves([*census, *await _rendered_shelves(tx, directory)], directory)


async def notes_on(tx: Tx, session: str, now: datetime) -> dict[str, str]:
    """Return notes for the abstracts by place: counters and names of facts, never values."""
    found = await sessions.find(tx, session)
    if found is None:
        return {}
    counters = found.counters
    notes = {"events/raw": f"The session has {counters.get('items', 0)} items of {found.turns} turns so far."}
    if compacted := counters.get("compacted_items"):
        notes["events/compact"] = f"{compacted} items have given way to summaries in the prompt."
    if packed := counters.get("archived_bytes"):
        notes["events/archive"] = f"{packed} bytes of raw events were packed."
    if written := counters.get("insights_written"):
        withdrawn = counters.get("insights_withdrawn", 0)
        notes["insights"] = f"{written} insights were written, {withdrawn} of them withdrawn since."
    keys: dict[str, set[str]] = defaultdict(set)
    for fact in await facts.holding(tx, [book.number for book in books.facts(session, found.user_id)], now):
        if fact.statement.evidence.session == session:
            keys[fact.statement.tier.value].add(fact.statement.key.replace("_", " "))
    for tier, named in keys.items():
        told = ", ".join(sorted(named)[: summaries.KEYS_TOLD_MAX])
        notes[f"memory_tiers/{tier}"] = f"Of tier {tier} these hold now: {told}."
    return notes


async def _rendered_shelves(tx: Tx, directory: str) -> list[summaries.Shelf]:
    """Return statistics of a session's rendered files, which have no size yet."""
    session, _ = split(directory)
    found = await sessions.find(tx, session) if session is not None else None
    if found is None:
        return []
    return _rendered(found, directory)


def _rendered(found: Session, directory: str) -> list[summaries.Shelf]:
    samples: dict[str, list[str]] = defaultdict(list)
    for name in rendered_names(found):
        path = f"{session_root(found.session)}/{name}"
        if path.startswith(directory + "/"):
            samples[path.rpartition("/")[0]].append(path)
    return [
        summaries.Shelf(place, len(paths), 0, 0, found.created_at, found.updated_at, tuple(paths))
        for place, paths in samples.items()
    ]
