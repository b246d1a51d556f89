"""Everything that this style publishes, with the tools about versions and bytes of files."""

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from memsvc.core.errors import Code, MemsvcError, invalid, invalid_path, not_found
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.paths import KEPT_ROOTS, ROOT, is_kept
from memsvc.core.ports import Reranker
from memsvc.core.resources import Completion, Guide, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Permission, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tool_methods import result, tool, tools_of
from memsvc.core.tools import (
    OpenFile,
    Published,
    StoredContent,
    TenantArguments,
    Version,
    Views,
    removes_nothing,
)
from memsvc.store import files as store
from memsvc.store import projects, tree, versions
from memsvc.store.database import Database
from memsvc.store.files import File
from memsvc.store.versions import FileState
from memsvc.styles.files.file_store import (
    LIST_FILES,
    NO_FILE,
    Encoding,
    FilePath,
    FileStore,
    FileWrite,
    Precondition,
    check_version,
    file_tool,
    is_text,
)
from memsvc.styles.files.file_summaries import FileSummaries
from memsvc.styles.files.file_writer import (
    DEFAULT_POLICY,
    MODES,
    FileMaintenance,
    FileWriter,
    reject_kept_path,
)
from memsvc.styles.files.indexing import (
    FileIndex,
    FileSearch,
)
from memsvc.styles.files.memory_directory import MemoryDirectory
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.services import StyleServices

VERSIONS_LIMIT = 50
VERSIONS_LIMIT_MAX = 200

DIRECTORY: Final = Resource(
    template="memsvc://{project}/directories/{+path}",
    name="directory",
    title="Directory",
    description="Listing of a directory as JSON: same as the first page of file_list.",
    mime_type="application/json",
)


@result
class PastVersion:
    id: Annotated[str, "version token, to pass to other tools as history_id"]
    size: Annotated[int, "size of the version in bytes"]
    created_at: Annotated[datetime, "time when this content was written"]


@result
class PastVersions:
    versions: Annotated[list[PastVersion], "past versions, newest first, without the current one"]
    has_more: Annotated[bool, "whether more versions follow after this page"]
    next_cursor: Annotated[str | None, "value of before_id for the next page, if there is one"] = (
        None
    )


@result
class PastContent:
    history_id: Annotated[str, "id of the version"]
    content: Annotated[str, "full content, as text or as base64"]
    content_encoding: Annotated[Encoding, "utf-8 for text, else base64"]
    size: Annotated[int, "size of the version in bytes"]
    created_at: Annotated[datetime, "time when this content was written"]


VersionId = Annotated[Version, "version token of a past version of this file"]
history_tool = partial(file_tool, logs=("path", "expected_version", "history_id", "before_id"))


@frozen
class FileHistory:
    """History of a path: of the file there now and of files deleted there but not purged.

    A file that is moved takes its history along."""

    database: Database
    writing: FileWriter

    @history_tool("file_list_versions", "List past versions", Permission.READ)
    async def list_versions(
        self,
        scope: Scope,
        path: FilePath,
        limit: Annotated[
            int, Field(ge=1, le=VERSIONS_LIMIT_MAX), "maximum number of versions"
        ] = VERSIONS_LIMIT,
        before_id: Annotated[Version | None, "next_cursor of the previous page"] = None,
    ) -> PastVersions:
        """List past versions of a file, newest first, even if it was deleted."""
        _check_path(path)
        async with self.database.begin_read(scope) as tx:
            found = await versions.history(tx, path, before=before_id, limit=limit + 1)
            if found is None:
                raise _not_found()
            if not found and before_id is None and not await versions.is_known(tx, path):
                raise not_found(NO_FILE, recovery=LIST_FILES)
        has_more = len(found) > limit
        return PastVersions(
            [PastVersion(one.version, one.size_bytes, one.created_at) for one in found[:limit]],
            has_more,
            found[limit - 1].version if has_more else None,
        )

    @history_tool("file_read_version", "Read a past version", Permission.READ)
    async def read_version(
        self, scope: Scope, path: FilePath, history_id: VersionId
    ) -> PastContent:
        """Read the full content of a past version of a file."""
        state, content = await self._read(scope, path, history_id)
        text = is_text(content)
        return PastContent(
            state.version,
            content.decode() if text else base64.b64encode(content).decode(),
            "utf-8" if text else "base64",
            state.size_bytes,
            state.created_at,
        )

    @history_tool(
        "file_restore_version",
        "Restore a past version",
        Permission.WRITE,
        destructive=True,
        removes=removes_nothing,
    )
    async def restore_version(
        self,
        scope: Scope,
        path: FilePath,
        history_id: VersionId,
        expected_version: Annotated[
            Version | None, "restore only if the file is currently at this version"
        ] = None,
        create_only: Annotated[bool, "restore only if the file does not exist"] = False,
    ) -> FileWrite:
        """Restore a file to a past version; the current content is kept as a version."""
        when = Precondition(expected_version, must_not_exist=create_only)
        _check_path(path)
        reject_kept_path(path)
        when.validate()
        _, content = await self._read(scope, path, history_id)
        return await self.writing.put(scope, path, content, mode="TRUNCATE", when=when)

    async def _read(self, scope: Scope, path: str, version: str) -> tuple[FileState, bytes]:
        _check_path(path)
        async with self.database.begin_read(scope) as tx:
            state = await versions.state(tx, path, version)
            if state is None:
                raise _not_found()
            return state, await versions.content(tx, state)


def _check_path(path: str) -> None:
    if path == ROOT:
        raise invalid_path("the path must name a file, not the root")


def _not_found() -> MemsvcError:
    return not_found(
        "the version does not exist",
        recovery="list the versions of the file with file_list_versions",
    )


CHUNK_BYTES_MAX: Final = 1024 * 1024
_FIRST_REVISION: Final = ":1"


@frozen
class Transfer:
    """File content for surfaces that carry bytes; only the size of a file limits a write.

    `args` are the arguments of file_read, file_read_version and file_write."""

    database: Database
    options: FilesOptions
    files: FileStore
    writing: FileWriter

    @property
    def bytes_max(self) -> int:
        """Return the size limit of one file."""
        return self.options.file_bytes_max

    async def open(self, scope: Scope, args: Any) -> OpenFile:
        """Return the file as it is now. NOT_FOUND, IS_DIRECTORY, VERSION_CONFLICT."""
        entry = await self.files.entry(scope, args.path)
        if not entry.exists:
            raise not_found(NO_FILE, recovery=LIST_FILES)
        if entry.type == "DIRECTORY":
            raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
        if entry.version is None:
            check_version(None, args.expected_version)
            read = await self.files.read(scope, args.path)
            content = read.content.encode()
            return OpenFile(
                path=args.path,
                tag=f"sha256-{hashlib.sha256(content).hexdigest()}",
                size_bytes=len(content),
                is_text=True,
                updated_at=entry.updated_at,
                chunks=lambda start, stop: _split_content(content, start, stop),
            )
        async with self.database.begin_read(scope) as tx:
            file = await store.find(tx, args.path)
        if file is None:
            raise not_found(NO_FILE, recovery=LIST_FILES)
        check_version(file, args.expected_version)
        return self._open_file(scope, file)

    async def open_version(self, scope: Scope, args: Any) -> OpenFile:
        """Return a past version, as bytes, not as text. INVALID_PATH for the root, NOT_FOUND."""
        _check_path(args.path)
        async with self.database.begin_read(scope) as tx:
            state = await versions.state(tx, args.path, args.history_id)
        if state is None:
            raise not_found("the version does not exist")
        at = state.created_at
        file = File(
            state.incarnation,
            args.path,
            state.revision,
            state.stream,
            state.size_bytes,
            False,
            "",
            at,
            at,
        )
        return self._open_file(scope, file)

    async def put(self, scope: Scope, args: Any, content: bytes) -> StoredContent:
        """Write content as `FileWriter.put` does, with its errors."""
        when = Precondition(args.expected_version, args.content_sha256, args.create_only)
        mode = MODES[args.mode]
        written = await self.writing.put(
            scope, args.path, content, mode=mode, offset=args.offset, when=when
        )
        # only the change that creates a file makes its first revision; an empty append is no change
        created = written.version.endswith(_FIRST_REVISION) and (mode != "APPEND" or content != b"")
        return StoredContent(written.bytes_written, written.version, created)

    def _open_file(self, scope: Scope, file: File) -> OpenFile:
        return OpenFile(
            path=file.path,
            tag=file.version,
            size_bytes=file.size_bytes,
            is_text=file.is_text,
            updated_at=file.updated_at,
            chunks=lambda start, stop: self._read_chunks(scope, file, start, stop),
        )

    async def _read_chunks(
        self, scope: Scope, file: File, start: int, stop: int
    ) -> AsyncIterator[bytes]:
        """Yield bytes of a file, each chunk from its own transaction: slow readers lock nothing."""
        for low, high in _chunk_ranges(start, stop):
            async with self.database.begin_read(scope) as tx:
                chunk = await store.read(tx, file, low, high)
            if len(chunk) != high - low:
                raise not_found("this version of the file was purged during the download")
            yield chunk


async def _split_content(content: bytes, start: int, stop: int) -> AsyncIterator[bytes]:
    for low, high in _chunk_ranges(start, stop):
        yield content[low:high]


def _chunk_ranges(start: int, stop: int) -> Sequence[tuple[int, int]]:
    return [(low, min(low + CHUNK_BYTES_MAX, stop)) for low in range(start, stop, CHUNK_BYTES_MAX)]


def file_resource(database: Database) -> Resource:
    """Return the resource of a file at its path; lists hold the files that callers wrote."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin_read(scope) as tx:
            rows = await tree.outside(tx, KEPT_ROOTS, after=after, limit=limit)
        return [
            ListedResource(
                values={"project": scope.project, "path": row["path"]},
                place=row["path"],
                title=row["path"],
                size_bytes=row["size_bytes"],
                updated_at=row["updated_at"],
            )
            for row in rows
        ]

    async def stamps(scope: Scope, requests: Sequence[Any]) -> Sequence[str | None]:
        """Return the files' versions; None for a file that does not exist."""
        paths = [request.path for request in requests]
        if any(map(is_kept, paths)):
            raise invalid(
                "you cannot subscribe to files that the server generates from memory",
                recovery="subscribe to the session or whiteboard from which the file is generated",
            )
        async with database.begin_read(scope) as tx:
            found = await store.versions(tx, paths)
        return [found.get(path) for path in paths]

    return Resource(
        template="memsvc://{project}/files/{+path}",
        name="file",
        title="File",
        description="Content of a file: text, or bytes if it is not text.",
        text="content",
        encoding="content_encoding",
        mime_type=None,
        stamps=stamps,
        listing=ResourceListing("file_list", page),
    )


GUIDE: Final = Guide(
    name="memsvc:memory-directory",
    title="Use files as memory",
    description="How to keep notes in files and find them again.",
    tools=("file_list", "file_read", "file_write", "file_list_versions"),
    text=package_text(__package__, "memory_directory.md"),
    arguments={"project": "project that contains the files"},
)
"""The prompt that explains files as the memory of an agent."""


def completions(database: Database) -> dict[str, Completion]:
    """Return the completions of projects and paths."""

    async def find_projects(
        scope: Scope, prefix: str, _: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        async with database.begin_tenant(scope, read_only=True) as tx:
            return await projects.with_prefix(tx, prefix, only=scope.allowed_projects, limit=limit)

    async def find_paths(
        scope: Scope, prefix: str, _: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        """Return paths in the form that the caller typed: within a URI without a leading slash."""
        slash = "" if prefix.startswith("/") else "/"
        async with database.begin_read(scope) as tx:
            found = await tree.with_prefix(tx, f"{slash}{prefix}", limit=limit)
        return [path.removeprefix(slash) for path in found]

    return {
        "project": Completion("file_projects", find_projects),
        "path": Completion("file_list", find_paths),
    }


LIMIT_DEFAULT = 50
LIMIT_MAX = 100


@result
class ProjectList:
    projects: Annotated[
        list[str], "names of projects that contain files or memory, in bytewise order"
    ]
    has_more: Annotated[bool, "whether more projects follow after this page"]
    next_cursor: Annotated[str | None, "value of `after` for the next page, if there is one"] = None


@frozen
class Projects:
    """The projects of a tenant that hold callers' files or files of the memory."""

    database: Database

    @tool(
        "file_projects",
        "List projects",
        Permission.READ,
        toolset="files",
        base=TenantArguments,
        project="ignored: lists every project your key allows",
        logs=("after",),
        spans_projects=True,
    )
    async def listing(
        self,
        scope: Scope,
        q: Annotated[
            str,
            Field(max_length=128),
            "characters that the project's name must contain in this order, not necessarily"
            " adjacent; case is ignored",
        ] = "",
        after: Annotated[
            str,
            Field(max_length=128, pattern=r"^[A-Za-z0-9_.-]*$"),
            "next_cursor of the previous page",
        ] = "",
        limit: Annotated[
            int, Field(ge=1, le=LIMIT_MAX), "maximum number of projects"
        ] = LIMIT_DEFAULT,
    ) -> ProjectList:
        """List the projects that contain files or memory, in pages, sorted by name."""
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            names = await projects.names(
                tx, like=q, after=after, only=scope.allowed_projects, limit=limit + 1
            )
        has_more = len(names) > limit
        return ProjectList(names[:limit], has_more, names[limit - 1] if has_more else None)


def published(
    services: StyleServices,
    options: FilesOptions,
    views: Sequence[Views],
    *,
    reranker: Reranker | None = None,
    owner_versions: Mapping[str, int] | None = None,
    policy: PolicyOptions = DEFAULT_POLICY,
) -> Published:
    """Return the file tools, the jobs of index, history and summaries, and files as bytes.

    `views` are the rendered files of other styles. For files that styles own, `owner_versions`
    gives by owner how many past versions stay, however old."""
    database, clock, meter = services.database, services.clock, services.meter
    file_summaries = None
    if services.llm is not None and options.summaries.enabled:
        file_summaries = FileSummaries(
            database, services.llm, clock, meter, options.summaries, services.budget
        )
    index = FileIndex(
        database,
        clock,
        has_summaries=file_summaries is not None,
    )
    files = FileStore(database, clock, options, views)
    writer = FileWriter(database, clock, options, index, views, policy)
    # content that comes as bytes, or was stored before, is limited by the size of a file, not of a
    # call
    bytes_writer = FileWriter(
        database,
        clock,
        options.model_copy(update={"payload_bytes_max": options.file_bytes_max}),
        index,
        views,
        policy,
    )
    search = FileSearch(
        database, meter, options.search, embedding=services.embedding, reranker=reranker
    )
    return Published(
        tools=[
            *tools_of(files, {"file_read": file_resource(database), "file_list": DIRECTORY}),
            *tools_of(writer),
            *(tools_of(search) if options.search.enabled else []),
            *tools_of(FileHistory(database, bytes_writer)),
            *tools_of(Projects(database)),
            *tools_of(MemoryDirectory(files, writer)),
        ],
        jobs=[
            *index.jobs,
            *FileMaintenance(database, clock, options, owner_versions).jobs,
            *([file_summaries.job] if file_summaries is not None else []),
        ],
        content=Transfer(database, options, files, bytes_writer),
        passages=search.find_passages if options.search.enabled else None,
        guides=(GUIDE,),
        completions=completions(database),
    )
