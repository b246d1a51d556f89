"""Pages of a listing: stored and rendered files in one order, with their directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from anyio import to_thread

from memsvc.core.paths import ancestors
from memsvc.core.tools import EntryType, Rendered
from memsvc.store import summaries, tree
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.store.summaries import Told
from memsvc.styles.files.summary_text import by_rules

NEVER = datetime(1, 1, 1, tzinfo=UTC)
HEAD_BYTES: Final = 2048
"""Bytes from the start of a file that its summary is made from when no model made one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory in a listing or a stat."""

    path: str
    type: EntryType
    size_bytes: int
    created_at: datetime
    updated_at: datetime
    version: str | None = None
    sha256: bytes | None = None
    summary: str | None = None


def file_entry(file: File) -> Entry:
    return Entry(file.path, "FILE", file.size_bytes, file.created_at, file.updated_at, file.version, file.sha256)


def rendered_entry(rendered: Rendered) -> Entry:
    return Entry(rendered.path, "FILE", len(rendered.content), rendered.updated_at, rendered.updated_at)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The page of a directory to return: levels, the path to start after, and the limit.

    `dated` asks when anything in each directory was last written, for which all of it is read."""

    depth: int
    after: str
    most: int
    dated: bool


async def page(tx: Tx, directory: str, wanted: Wanted, rendered: Sequence[Rendered]) -> list[Entry]:
    """Return the first entries after `after`: stored and rendered files, and their directories."""
    depth, after, most = wanted.depth, wanted.after, wanted.most
    level = directory.count("/") + depth
    # each directory up to `after` may have later files, which add no entry that was not listed
    # before
    most_rows = most + len(_possible_directories(after)) + 1
    rows = await tree.walk(tx, directory, depth=depth, after=after, most=most_rows)
    found = {
        row["path"]: Entry(row["path"], "FILE", row["size_bytes"], row["created_at"], row["updated_at"]) for row in rows
    }
    found |= {one.path: rendered_entry(one) for one in rendered}
    implied = {path for path in found for path in _possible_directories(path) if path.count("/") <= level}
    inside = [path for path in implied if path.startswith(directory + "/") and path > after]
    written = await _written(tx, inside, dated=wanted.dated) if inside else {}
    for one in rendered:
        for path in ancestors(one.path):
            if path in inside:
                written[path] = max(written.get(path, NEVER), one.updated_at) if wanted.dated else NEVER
    entries = [entry for path, entry in found.items() if path.count("/") <= level and path > after]
    entries += [Entry(path, "DIRECTORY", 0, NEVER, updated_at) for path, updated_at in written.items()]
    # nothing is known yet after the last file of a full page
    last = rows[-1]["path"] if len(rows) == most_rows else None
    entries = [entry for entry in entries if last is None or entry.path <= last]
    return sorted(entries, key=lambda entry: entry.path)[:most]


async def _written(tx: Tx, paths: Sequence[str], *, dated: bool) -> dict[str, datetime]:
    """Return which of these paths are directories of stored files, with their last write."""
    if dated:
        return await tree.directories(tx, paths)
    return dict.fromkeys(await tree.are_directories(tx, paths), NEVER)


async def told(tx: Tx, entries: Sequence[Entry], rendered: Mapping[str, Rendered]) -> list[Entry]:
    """Return the same entries, files with their summaries: a model's where it is current."""
    stored = [entry.path for entry in entries if entry.type == "FILE" and entry.path not in rendered]
    found = await summaries.told_at(tx, stored, head_bytes=HEAD_BYTES) if stored else {}
    for path, one in rendered.items():
        found[path] = Told(len(one.content), True, None, one.content[:HEAD_BYTES])
    # for a full page this takes too long to block the event loop
    made = await to_thread.run_sync(lambda: {path: _summary(of) for path, of in found.items()})
    return [replace(entry, summary=made.get(entry.path)) for entry in entries]


def _summary(of: Told) -> str:
    return of.summary or by_rules(of.head, size_bytes=of.size_bytes, is_text=of.is_text)


def _possible_directories(path: str) -> list[str]:
    """Return the directories above a path and those that sort just before it.

    `/a` sorts before `/a.txt` and `/a/b`."""
    candidates = ancestors(path)
    for above in [*ancestors(path), path]:
        start = above.rfind("/") + 2
        candidates += [above[:at] for at in range(start, len(above)) if above[at] < "/"]
    return candidates
