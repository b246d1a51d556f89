"""Reader of archives, in checked steps: reaching the end proves that the archive is complete.

The order of members is fixed and each name follows from what was read before it, so no name of an
archive is ever used for anything, and no member can come twice. Two passes over one archive give
the same steps.
"""

import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final
from uuid import UUID

from memsvc.administration import archive_format
from memsvc.administration.archive_format import (
    CHECKSUMS_A_MEMBER,
    END,
    HEAD_BYTES_MAX,
    MANIFEST,
    ROWS_BYTES,
    ROWS_BYTES_MAX,
    ArchiveManifest,
    ArchiveRows,
    End,
    checksums_name,
    end_of,
    manifest_of,
    rows_name,
    stream_name,
    wrong,
)
from memsvc.core import tar
from memsvc.core.errors import Code, MemsvcError, invalid_content, payload_too_large
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_path, is_kept
from memsvc.core.tar import Member
from memsvc.store.export import CALLS, JOBS, PLAIN, Block, Column, ExportBlock, ExportStream, Table

_GZIP_PREFIX: Final = b"\x1f\x8b"


def expand(archive: BinaryIO, bytes_max: int) -> Callable[[int], bytes]:
    """Return a function that reads an archive from its beginning, compressed or not.

    It raises PAYLOAD_TOO_LARGE when the archive expands to more than this, however small it is, and
    INVALID_CONTENT when it cannot be expanded.
    """
    archive.seek(0)
    is_gzip = archive.read(len(_GZIP_PREFIX)) == _GZIP_PREFIX
    archive.seek(0)
    source: BinaryIO | gzip.GzipFile = (
        gzip.GzipFile(fileobj=archive, mode="rb") if is_gzip else archive
    )
    left_bytes = bytes_max

    def read(size_bytes: int) -> bytes:
        nonlocal left_bytes
        try:
            found = source.read(size_bytes)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise invalid_content("the archive cannot be decompressed, or is incomplete") from error
        left_bytes -= len(found)
        if left_bytes < 0:
            raise payload_too_large(
                f"the archive is larger than {bytes_max} bytes after decompression, which is"
                " the limit",
                recovery="raise archives.expanded_bytes_max, or export one project at a time",
            )
        return found

    return read


class ArchiveMembers:
    """Members of an archive in order, without those that hold checksums.

    Read a member's content before the next member.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._reader = tar.TarReader(read)
        self._name: str | None = None
        self._digests: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self.end: End | None = None
        """The last member's content, once `next` reached it."""

    def next(self) -> tar.Member | None:
        """Return the next member; None once all were read and matched the checksums."""
        if self._name is not None:
            self._close()
        member = self._member()
        if len(self._digests) == CHECKSUMS_A_MEMBER or (
            self._digests and member.name == checksums_name(self._parts + 1)
        ):
            self._check(member)
            member = self._member()
        if member.name == END:
            self._check_end(member)
            return None
        self._name, self._hash = member.name, hashlib.sha256()
        self._content_bytes += member.size_bytes
        return member

    def content(self, member: tar.Member, bytes_max: int) -> bytes:
        """Return the content of a member. PAYLOAD_TOO_LARGE if it exceeds the limit of its kind."""
        if member.size_bytes > bytes_max:
            raise payload_too_large(
                f"{member.name} in the archive is larger than {bytes_max} bytes, which is the limit"
            )
        return self.read(member.size_bytes)

    def read(self, size_bytes: int) -> bytes:
        """Return the next bytes of the member."""
        content = self._reader.read_bytes(size_bytes)
        self._hash.update(content)
        return content

    @property
    def _parts(self) -> int:
        return len(self._checksums)

    def _close(self) -> None:
        if self._reader.left_bytes:
            raise wrong(
                str(self._name), "the content of this archive member is longer than expected"
            )
        self._digests.append(f"{self._hash.hexdigest()}  {self._name}\n".encode())
        self._members += 1

    def _member(self) -> tar.Member:
        member = self._reader.member()
        if member is None:
            raise invalid_content(f"the archive is incomplete: {END} is missing at its end")
        return member

    def _check(self, member: tar.Member) -> None:
        """Check that this member holds the sums of the members so far."""
        content = b"".join(self._digests)
        if member.name != checksums_name(self._parts + 1) or member.size_bytes != len(content):
            raise wrong(
                member.name,
                "the checksums of the preceding archive members should be here, but they are"
                " missing or incomplete",
            )
        if self._reader.read_bytes(member.size_bytes) != content:
            raise wrong(member.name, "a preceding archive member does not match its checksum")
        self._checksums.append(hashlib.sha256(content).hexdigest())
        self._digests.clear()

    def _check_end(self, member: tar.Member) -> None:
        if self._digests:
            raise wrong(
                END,
                "the checksums of the preceding archive members should be before this member,"
                " but they are missing",
            )
        if member.size_bytes > HEAD_BYTES_MAX:
            raise wrong(END, "this summary at the end of the archive is too large to be valid")
        self.end = end_of(self._reader.read_bytes(member.size_bytes))
        expected = (self.end.members, self.end.content_bytes, self.end.checksums)
        if expected != (self._members, self._content_bytes, self._checksums):
            raise wrong(
                END,
                "the number of members, their total size or the checksums in this"
                " summary do not match the archive",
            )
        if self._reader.member() is not None:
            raise wrong(
                END, "this must be the last member of the archive, but other members follow it"
            )


CHUNK_BYTES: Final = 1024 * 1024
ORDER: Final = ("files", *PLAIN, CALLS, JOBS)
_PART: Final = re.compile(r"projects/([^/]{1,512})/rows/([a-z_]{1,64})/[0-9]{8}\.jsonl\Z")
_WORD: Final = "character varying(512)"
_JOBS: Final = Table(
    JOBS, (Column("name", _WORD, False, True), Column("subject", _WORD, False, True)), ()
)
_SIZE_BITS: Final = 31


@frozen
class RowsStep:
    """Rows of a table of a project.

    For files, `caller_bytes` is the size of those that callers wrote.
    """

    project: str
    rows: ArchiveRows
    caller_bytes: int = 0


@frozen
class StreamsStep:
    """Streams of files, by incarnation."""

    project: str
    streams: list[tuple[UUID, ExportStream]]


@frozen
class BlocksStep:
    """Blocks of files."""

    project: str
    blocks: list[ExportBlock]


ArchiveStep = ArchiveManifest | RowsStep | StreamsStep | BlocksStep


@frozen
class TenantArchiveReader:
    """Reader of one archive; `tables` and schema `revision` are those of this database."""

    tables: Mapping[str, Table]
    revision: str
    expanded_bytes_max: int

    def steps(self, archive: BinaryIO) -> Iterator[ArchiveStep]:
        """Yield the archive's steps in order: the manifest, then its content.

        INVALID_CONTENT where it is no archive or incomplete, PAYLOAD_TOO_LARGE where it is too
        large; both at the step where that shows.
        """
        members = ArchiveMembers(expand(archive, self.expanded_bytes_max))
        first = _first(members)
        manifest = manifest_of(members.content(first, HEAD_BYTES_MAX), self.revision)
        yield manifest
        row_counts: Counter[str] = Counter()
        projects: set[str] = set()
        current, part = (0, -1), 0  # project and table, and how many parts of it were read
        while (member := members.next()) is not None:
            project, table = _project_and_table(member)
            if (
                project not in manifest.projects
                or table not in ORDER
                or (table == CALLS and not manifest.calls)
            ):
                raise wrong(member.name, "this archive member is not listed in the manifest")
            position = (manifest.projects.index(project), ORDER.index(table))
            part = part + 1 if position == current else 1
            if position < current or member.name != rows_name(project, table, part):
                raise wrong(
                    member.name,
                    "this archive member is out of order: another member was expected here",
                )
            current = position
            projects.add(project)
            content = members.content(member, ROWS_BYTES_MAX)
            # parsed they would take many times as much
            if len(content) > ROWS_BYTES and content.count(b"\n") > 1:
                raise wrong(
                    member.name,
                    "this archive member is larger than 1 MiB, so it may contain only one"
                    " row, but it contains several",
                )
            objects = archive_format.lines(content, member.name)
            row_counts[table] += len(objects)
            if table == "files":
                for step in self._files(project, objects, member, members):
                    row_counts["blocks"] += len(step.blocks) if isinstance(step, BlocksStep) else 0
                    yield step
            else:
                definition = _JOBS if table == JOBS else self.tables[table]
                yield RowsStep(project, archive_format.rows(definition, objects, member.name))
        assert members.end is not None
        if +row_counts != +Counter(members.end.rows):
            raise wrong(
                END,
                "the number of rows in the archive differs from the number stated in this summary",
            )
        if projects != {*manifest.projects}:
            raise wrong(MANIFEST, "the manifest names a project that has no data in the archive")

    def _files(
        self, project: str, objects: list[dict[str, Any]], member: Member, members: ArchiveMembers
    ) -> Iterator[RowsStep | StreamsStep | BlocksStep]:
        """Yield files, their streams, and the contents of these, from the members that follow."""
        streams = [_streams(one.pop("streams", None), member) for one in objects]
        rows = archive_format.rows(self.tables["files"], objects, member.name)
        files = [
            (dict(zip(rows.columns, row, strict=True)), file_streams)
            for row, file_streams in zip(rows.rows, streams, strict=True)
        ]
        for row, file_streams in files:
            _check_file(row, file_streams, member)
        caller_bytes = sum(
            row["size_bytes"] for row, _ in files if not row["owner"] and row["deleted_at"] is None
        )
        yield RowsStep(project, rows, caller_bytes)
        all_streams = [(row, stream) for row, file_streams in files for stream in file_streams]
        yield StreamsStep(project, [(row["incarnation"], stream) for row, stream in all_streams])
        kept_blocks: list[ExportBlock] = []
        kept_bytes = 0
        for row, stream in all_streams:
            expected = Member(stream_name(project, row, stream), stream.size_bytes)
            if members.next() != expected:
                raise wrong(
                    expected.name,
                    "this archive member is missing, in the wrong place, or of the wrong size",
                )
            start = 0
            for block in stream.blocks:
                content = members.read(block.size_bytes)
                kept_blocks.append(
                    ExportBlock(stream.stream, start, block.revision, block.created_at, content)
                )
                start += block.size_bytes
                kept_bytes += block.size_bytes
                if kept_bytes >= CHUNK_BYTES:
                    yield BlocksStep(project, kept_blocks)
                    kept_blocks, kept_bytes = [], 0
        if kept_blocks:
            yield BlocksStep(project, kept_blocks)


def _first(members: ArchiveMembers) -> Member:
    """Return the manifest's member. INVALID_CONTENT if the file is no archive at all."""
    try:
        first = members.next()
    except MemsvcError as error:
        if error.code is not Code.INVALID_CONTENT:
            raise
        first = None
    if first is None or first.name != MANIFEST:
        raise invalid_content(
            "this is not a memsvc archive: it does not begin with a manifest",
            recovery="send an archive written by `memsvc export` or GET /api/archive",
        )
    return first


def _project_and_table(member: Member) -> tuple[str, str]:
    found = _PART.match(member.name)
    if found is None:
        raise wrong("the archive", "one of its members has a name that memsvc does not use")
    # only a project named by dots alone is encoded in names
    return found[1].replace("%2E", "."), found[2]


def _streams(value: Any, member: Member) -> list[ExportStream]:
    if type(value) is not list:
        raise wrong(
            member.name, "in one of its rows, the field `streams` is missing or is not a list"
        )
    try:
        return [_stream(one) for one in value]
    except (TypeError, KeyError, ValueError, archive_format.InvalidValueError) as error:
        raise wrong(
            member.name,
            "in one of its rows, the field `streams` does not describe a file's content correctly",
        ) from error


def _stream(value: Any) -> ExportStream:
    if type(value) is not dict or value.keys() != {
        "stream",
        "first_revision",
        "created_at",
        "blocks",
    }:
        raise archive_format.InvalidValueError
    created_at = value["created_at"]
    return ExportStream(
        archive_format.integer(value["stream"], 63),
        archive_format.integer(value["first_revision"], 63),
        None if created_at is None else archive_format.timestamp(created_at),
        [_block(one) for one in value["blocks"]],
    )


def _block(value: Any) -> Block:
    size_bytes, revision, created_at = value
    if not 0 < archive_format.integer(size_bytes, _SIZE_BITS) <= ROWS_BYTES_MAX:
        raise archive_format.InvalidValueError
    return Block(
        size_bytes, archive_format.integer(revision, 63), archive_format.timestamp(created_at)
    )


def _check_file(row: Mapping[str, Any], streams: Sequence[ExportStream], member: Member) -> None:
    """Check that a file is at an allowed path and has the size of its content.

    Quotas are counted from that size.
    """
    path, owner = row["path"], row["owner"]
    try:
        is_allowed = check_path(path) == path != "" and is_kept(path) == bool(owner)
    except MemsvcError:
        is_allowed = False
    if not is_allowed:
        raise wrong(member.name, "one of its rows has a file path that is not allowed")
    current = [one for one in streams if one.stream == row["stream"]]
    same_size = all(one.size_bytes == row["size_bytes"] for one in current)
    if any(one.first_revision < 1 for one in streams) or not same_size:
        raise wrong(
            member.name,
            "in one of its rows, the file size differs from the size of the file's content",
        )
    if row["deleted_at"] is None and len(current) != 1:
        raise wrong(member.name, "one of its rows is a file whose content is not in the archive")
