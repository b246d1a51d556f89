"""What an archive is: the names of its members, what its first and its last one say, and how large each may be.

In this order: `manifest.json`; for each project, `rows/files`, each part of it before the contents that its lines tell
of, then the other `rows`; in between and behind them `checksums`; and `end.json`, without which no archive is whole.
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
"""What the first and the last member may hold: a name for each project, a checksum for each part of the checksums."""
ROWS_BYTES: Final = 1024 * 1024
"""About what one member of rows holds."""
ROWS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What it may hold, as a row is never cut: also what a file that changed often may take to tell of its states."""
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
    """What every format's first member says, whatever else there is."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    format: int


class Manifest(BaseModel):
    """What an archive is of: the first member."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: int
    memsvc: str = Field(max_length=64)
    schema_revision: str = Field(max_length=32)
    archive: UUID
    made_at: datetime
    projects: list[Annotated[str, AfterValidator(_project)]]
    calls: bool


class End(BaseModel):
    """What an archive holds: the last member. `rows` by table; `checksums` are the SHA-256 of members of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    members: int
    content_bytes: int
    rows: dict[str, int]
    checksums: list[str]


def rows_name(project: str, table: str, part: int) -> str:
    """The name of a part of a table."""
    return f"{_folder(project)}/rows/{table}/{part:08d}.jsonl"


def content_name(project: str, path: str) -> str:
    """The name of what a file holds now."""
    return f"{_folder(project)}/files{path}"


def version_name(project: str, path: str, incarnation: UUID, revision: int) -> str:
    """The name of what a file held from a revision on. No path has a `~`, so that none of these is in the way of
    another one when an archive is unpacked."""
    return f"{_folder(project)}/versions{path}~{revision}~{incarnation.hex}"


def checksums_name(part: int) -> str:
    """The name of a part of the checksums, which `sha256sum --check` reads."""
    return f"checksums/{part:06d}.sha256"


def _folder(project: str) -> str:
    return f"projects/{encode_segment(project)}"  # a project may be called `..`


def manifest_of(content: bytes, revision: str) -> Manifest:
    """What a first member says. INVALID_CONTENT for none, and for an archive that is newer than this memsvc or, as
    `revision` of the schema tells, than this database."""
    newer = MemsvcError(
        Code.INVALID_CONTENT,
        "this archive was made by a newer memsvc",
        recovery="restore it with that version, or a newer one",
    )
    try:
        if _Format.model_validate_json(content).format > FORMAT:
            raise newer
        found = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise wrong(MANIFEST, "tells of no archive") from error
    known = _REVISION.match(found.schema_revision) is not None
    if known and found.schema_revision > revision:
        raise newer
    if found.format < 1 or not known or found.projects != sorted(set(found.projects)):
        raise wrong(MANIFEST, "tells of no archive")
    return found


def end_of(content: bytes) -> End:
    """What a last member says. INVALID_CONTENT."""
    try:
        return End.model_validate_json(content)
    except ValidationError as error:
        raise wrong(END, "does not say what was in the archive") from error
