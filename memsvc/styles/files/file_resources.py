"""MCP resources of files and directories, and completions of paths and projects."""

from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from typing import Final, Protocol

from memsvc.core.errors import invalid
from memsvc.core.paths import KEPT_ROOTS, is_kept
from memsvc.core.resources import Completion, Guide, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.store import files as store
from memsvc.store import projects, tree
from memsvc.store.database import Database

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
