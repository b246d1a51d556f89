"""The tool that lists projects: file_projects."""

from typing import Annotated

from pydantic import Field

from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import TenantArguments
from memsvc.store import projects
from memsvc.store.database import Database

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
