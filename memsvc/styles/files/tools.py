"""Everything that this style publishes: tools, jobs, MCP resources and completions."""

from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from typing import Annotated, Final, Protocol

from pydantic import Field

from memsvc.core.errors import invalid
from memsvc.core.paths import KEPT_ROOTS, is_kept
from memsvc.core.ports import Clock, Llm, Meter, Reranker
from memsvc.core.resources import Completion, Guide, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool, tools_of
from memsvc.core.tools import Published, TenantArguments, Views
from memsvc.store import files as store
from memsvc.store import projects, tree
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.file_maintenance import FileMaintenance
from memsvc.styles.files.file_maintenance import jobs as upkeep_jobs
from memsvc.styles.files.file_store import FileStore
from memsvc.styles.files.file_summaries import FileSummaries
from memsvc.styles.files.file_versions import FileHistory, Transfer
from memsvc.styles.files.file_writer import FileWriter
from memsvc.styles.files.indexing import (
    FileIndex,
)
from memsvc.styles.files.memory_directory import MemoryDirectory
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.search import FileSearch
from memsvc.styles.model_budget import ModelBudget

DIRECTORY: Final = Resource(
    template="memsvc://{project}/directories/{+path}",
    name="directory",
    title="Directory",
    description="What lies directly in a directory, as JSON: the first page of file_list.",
    mime_type="application/json",
)


class _FileArgs(Protocol):
    """Arguments that name a file."""

    @property
    def path(self) -> str: ...


def file_resource(database: Database) -> Resource:
    """Return the resource of a file at its path; lists hold the files that callers wrote."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin(scope, read_only=True) as tx:
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

    async def stamps(scope: Scope, requests: Sequence[_FileArgs]) -> Sequence[str | None]:
        """Return the files' versions; None for a file that does not exist."""
        paths = [request.path for request in requests]
        if any(map(is_kept, paths)):
            raise invalid(
                "changes of what memory keeps itself are not told",
                recovery="wait for its session or board",
            )
        async with database.begin(scope, read_only=True) as tx:
            found = await store.versions(tx, paths)
        return [found.get(path) for path in paths]

    return Resource(
        template="memsvc://{project}/files/{+path}",
        name="file",
        title="File",
        description="What a file holds now, as text, or as bytes if it is none.",
        text="content",
        encoding="content_encoding",
        mime_type=None,
        stamps=stamps,
        listing=ResourceListing("file_list", page),
    )


def guide() -> Guide:
    """Return the prompt that explains files as the memory of an agent."""
    return Guide(
        name="memsvc:memory-directory",
        title="Files as a memory",
        description="How to keep notes in files, and find them again.",
        tools=("file_list", "file_read", "file_write", "file_list_versions"),
        text=resources(__package__).joinpath("memory_directory.md").read_text("utf-8"),
        arguments={"project": "the project that the files are in"},
    )


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
        async with database.begin(scope, read_only=True) as tx:
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
    projects: Annotated[list[str], "names of projects that hold files or memory, in byte order"]
    has_more: Annotated[bool, "whether there are more behind the last one"]
    next_cursor: Annotated[str | None, "after of the next page, when there is one"] = None


class Projects:
    """The projects of a tenant that hold callers' files or files of the memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(
        "file_projects",
        title="List projects",
        needs=Permission.READ,
        toolset="files",
        base=TenantArguments,
        project="not looked at: all projects that the key may touch are listed",
        logs=("after",),
        spans_projects=True,
    )
    async def listing(
        self,
        scope: Scope,
        q: Annotated[
            str,
            Field(max_length=128),
            "characters that the name has in this order, in either case",
        ] = "",
        after: Annotated[
            str,
            Field(max_length=128, pattern=r"^[A-Za-z0-9_.-]*$"),
            "next_cursor of the page before",
        ] = "",
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "projects at the most"] = LIMIT_DEFAULT,
    ) -> ProjectList:
        """List the projects that hold files or memory, by their names, a page at a time."""
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            names = await projects.names(
                tx, like=q, after=after, only=scope.allowed_projects, limit=limit + 1
            )
        has_more = len(names) > limit
        return ProjectList(names[:limit], has_more, names[limit - 1] if has_more else None)


def published(  # noqa: PLR0913 - one argument a dependency, most by keyword
    database: Database,
    clock: Clock,
    meter: Meter,
    options: FilesOptions,
    views: Sequence[Views],
    *,
    embedding: Embedding | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    owner_versions: Mapping[str, int] | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the file tools, the jobs of index, history and summaries, and files as bytes.

    `views` are the rendered files of other styles. For files that styles own, `owner_versions`
    gives by owner how many past versions stay, however old."""
    file_summaries = None
    if llm is not None and options.summaries.enabled:
        file_summaries = FileSummaries(
            database,
            llm,
            clock,
            meter,
            options.summaries,
            budget or ModelBudget(database, clock, 0),
        )
    index = FileIndex(
        database,
        clock,
        has_embeddings=embedding is not None,
        has_summaries=file_summaries is not None,
    )
    files = FileStore(database, clock, options, views)
    writer = FileWriter(database, clock, options, index, views)
    # content that comes as bytes, or was stored before, is limited by the size of a file, not of a
    # call
    bytes_writer = FileWriter(
        database,
        clock,
        options.model_copy(update={"payload_bytes_max": options.file_bytes_max}),
        index,
        views,
    )
    search = FileSearch(database, meter, options.search, embedding=embedding, reranker=reranker)
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
            *upkeep_jobs(FileMaintenance(database, clock, options, owner_versions)),
            *([file_summaries.job] if file_summaries is not None else []),
        ],
        content=Transfer(database, options, files, bytes_writer),
        passages=search.find_passages if options.search.enabled else None,
        guides=(guide(),),
        completions=completions(database),
    )
