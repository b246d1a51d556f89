"""Format of an archive: the names of its members, its manifest and end, and their sizes.

In this order: `manifest.json`; for each project, `rows/files`, each part of it before the contents
that its lines name, then the other `rows`; between and after them `checksums`; and `end.json`,
without which no archive is complete.
"""

import re
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from memsvc.administration.archive_rows import wrong
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_project, encode_segment

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
END: Final = "end.json"
HEAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of the first and last member: a name for each project, a checksum for each part of the
checksums."""
ROWS_BYTES: Final = 1024 * 1024
"""Approximate size of one member of rows."""
ROWS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of a member of rows: a row is never split, so also of the states of a file that changed
often."""
CHECKSUMS_A_MEMBER: Final = 1000
MEDIA_TYPES: Final = {False: "application/x-tar", True: "application/gzip"}
SUFFIXES: Final = {False: ".tar", True: ".tar.gz"}

_REVISION: Final = re.compile(r"[0-9]{4}\Z", re.ASCII)


def _project(name: str) -> str:
    try:
        return check_project(name)
    except MemsvcError as error:
        raise ValueError("no project") from error


class _Format(BaseModel):
    """Field that the first member has in every version of the format."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    format: int


class ArchiveManifest(BaseModel):
    """First member: what the archive is of."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: int
    memsvc: str = Field(max_length=64)
    schema_revision: str = Field(max_length=32)
    archive: UUID
    made_at: datetime
    projects: list[Annotated[str, AfterValidator(_project)]]
    calls: bool


class End(BaseModel):
    """Last member: what the archive holds.

    `rows` by table; `checksums` are the SHA-256 of the members of that name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    members: int
    content_bytes: int
    rows: dict[str, int]
    checksums: list[str]


def rows_name(project: str, table: str, part: int) -> str:
    """Return the name of a part of a table."""
    return f"{_folder(project)}/rows/{table}/{part:08d}.jsonl"


def content_name(project: str, path: str) -> str:
    """Return the name of a file's current content."""
    return f"{_folder(project)}/files{path}"


def version_name(project: str, path: str, file_id: UUID, revision: int) -> str:
    """Return the name of a file's content from a revision on.

    No path has a `~`, so none of these names clashes with another when an archive is unpacked.
    """
    return f"{_folder(project)}/versions{path}~{revision}~{file_id.hex}"


def checksums_name(part: int) -> str:
    """Return the name of a part of the checksums, as `sha256sum --check` reads it."""
    return f"checksums/{part:06d}.sha256"


def _folder(project: str) -> str:
    return f"projects/{encode_segment(project)}"  # a project may be called `..`


def manifest_of(content: bytes, revision: str) -> ArchiveManifest:
    """Return the manifest that a first member holds.

    INVALID_CONTENT if it holds none, and for an archive newer than this memsvc or than this
    database, whose schema `revision` is given.
    """
    too_new = MemsvcError(
        Code.INVALID_CONTENT,
        "this archive was made by a newer memsvc",
        recovery="restore it with that version, or a newer one",
    )
    try:
        if _Format.model_validate_json(content).format > FORMAT:
            raise too_new
        found = ArchiveManifest.model_validate_json(content)
    except ValidationError as error:
        raise wrong(MANIFEST, "tells of no archive") from error
    known = _REVISION.match(found.schema_revision) is not None
    if known and found.schema_revision > revision:
        raise too_new
    if found.format < 1 or not known or found.projects != sorted(set(found.projects)):
        raise wrong(MANIFEST, "tells of no archive")
    return found


def end_of(content: bytes) -> End:
    """Return the end that a last member holds. INVALID_CONTENT."""
    try:
        return End.model_validate_json(content)
    except ValidationError as error:
        raise wrong(END, "does not say what was in the archive") from error
