"""Pages of a listing: stored and rendered files in one order, with their directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from anyio import to_thread

from memsvc.core.paths import ancestors
from memsvc.core.tools import EntryType, RenderedFile
from memsvc.store import summaries, tree
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.store.summaries import ContentDescription
from memsvc.styles.files.summary_text import rule_summary

NEVER = datetime(1, 1, 1, tzinfo=UTC)
HEAD_BYTES: Final = 2048
"""Bytes from the start of a file that its summary is made from when no model made one."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or directory in a listing or a stat."""

    path: str
    type: EntryType
    size_bytes: int
    created_at: datetime
    updated_at: datetime
    version: str | None = None
    sha256: bytes | None = None
    summary: str | None = None


def file_entry(file: File) -> FileEntry:
    return FileEntry(
        file.path,
        "FILE",
        file.size_bytes,
        file.created_at,
        file.updated_at,
        file.version,
        file.sha256,
    )


def rendered_entry(rendered: RenderedFile) -> FileEntry:
    return FileEntry(
        rendered.path, "FILE", len(rendered.content), rendered.updated_at, rendered.updated_at
    )


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page of a directory to return: levels, the path to start after, and the limit.

    `include_times` asks when anything in each directory was last written, for which all of it is
    read."""

    depth: int
    after: str
    limit: int
    include_times: bool


async def page(
    tx: Tx, directory: str, request: PageRequest, rendered: Sequence[RenderedFile]
) -> list[FileEntry]:
    """Return the first entries after `after`: stored and rendered files, and their directories."""
    depth, after, limit = request.depth, request.after, request.limit
    level = directory.count("/") + depth
    # each directory up to `after` may have later files, which add no entry that was not listed
    # before
    row_limit = limit + len(_possible_directories(after)) + 1
    rows = await tree.walk(tx, directory, depth=depth, after=after, limit=row_limit)
    found = {
        row["path"]: FileEntry(
            row["path"], "FILE", row["size_bytes"], row["created_at"], row["updated_at"]
        )
        for row in rows
    }
    found |= {file.path: rendered_entry(file) for file in rendered}
    directories = {
        path for path in found for path in _possible_directories(path) if path.count("/") <= level
    }
    inside = [path for path in directories if path.startswith(directory + "/") and path > after]
    written = await _written(tx, inside, include_times=request.include_times) if inside else {}
    for file in rendered:
        for path in ancestors(file.path):
            if path in inside:
                written[path] = (
                    max(written.get(path, NEVER), file.updated_at)
                    if request.include_times
                    else NEVER
                )
    entries = [entry for path, entry in found.items() if path.count("/") <= level and path > after]
    entries += [
        FileEntry(path, "DIRECTORY", 0, NEVER, updated_at) for path, updated_at in written.items()
    ]
    # nothing is known yet after the last file of a full page
    last = rows[-1]["path"] if len(rows) == row_limit else None
    entries = [entry for entry in entries if last is None or entry.path <= last]
    return sorted(entries, key=lambda entry: entry.path)[:limit]


async def _written(tx: Tx, paths: Sequence[str], *, include_times: bool) -> dict[str, datetime]:
    """Return which of these paths are directories of stored files, with their last write."""
    if include_times:
        return await tree.directories(tx, paths)
    return dict.fromkeys(await tree.are_directories(tx, paths), NEVER)


async def with_summaries(
    tx: Tx, entries: Sequence[FileEntry], rendered: Mapping[str, RenderedFile]
) -> list[FileEntry]:
    """Return the same entries, files with their summaries: a model's where it is current."""
    stored = [
        entry.path for entry in entries if entry.type == "FILE" and entry.path not in rendered
    ]
    found = await summaries.describe_paths(tx, stored, head_bytes=HEAD_BYTES) if stored else {}
    for path, file in rendered.items():
        found[path] = ContentDescription(len(file.content), True, None, file.content[:HEAD_BYTES])
    # for a full page this takes too long to block the event loop
    texts = await to_thread.run_sync(
        lambda: {path: _summary(source) for path, source in found.items()}
    )
    return [replace(entry, summary=texts.get(entry.path)) for entry in entries]


def _summary(source: ContentDescription) -> str:
    return source.summary or rule_summary(
        source.head, size_bytes=source.size_bytes, is_text=source.is_text
    )


def _possible_directories(path: str) -> list[str]:
    """Return the directories above a path and those that sort just before it.

    `/a` sorts before `/a.txt` and `/a/b`."""
    candidates = ancestors(path)
    for ancestor in [*ancestors(path), path]:
        start = ancestor.rfind("/") + 2
        candidates += [ancestor[:at] for at in range(start, len(ancestor)) if ancestor[at] < "/"]
    return candidates
