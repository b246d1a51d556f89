"""The tool that lists projects: file_projects."""

from pydantic import Field, field_validator

from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool
from memsvc.store import projects
from memsvc.store.database import Database

LIMIT_DEFAULT = 50
LIMIT_MAX = 100


class ProjectsArguments(Arguments):
    project: str = Field(
        ALL_PROJECTS, description="not looked at: all projects that the key may touch are listed"
    )
    q: str = Field(
        "", max_length=128, description="characters that the name has in this order, in either case"
    )
    after: str = Field(
        "",
        max_length=128,
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="next_cursor of the page before",
    )
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="projects at the most")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        if value.strip() not in ("", ALL_PROJECTS):
            check_project(value.strip())
        return ALL_PROJECTS


class ProjectsResult(Result):
    projects: list[str] = Field(
        description="names of projects that hold files or memory, in byte order"
    )
    has_more: bool = Field(description="whether there are more behind the last one")
    next_cursor: str | None = Field(None, description="after of the next page, when there is one")


class Projects:
    """The projects of a tenant that hold callers' files or files of the memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listing(self, scope: Scope, args: ProjectsArguments) -> ProjectsResult:
        """Return a page of the projects that the scope is confined to, or of all."""
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            names = await projects.names(
                tx, like=args.q, after=args.after, only=scope.allowed_projects, limit=args.limit + 1
            )
        has_more = len(names) > args.limit
        names = names[: args.limit]
        return ProjectsResult(
            projects=names, has_more=has_more, next_cursor=names[-1] if has_more else None
        )


def project_tools(projects_tool: Projects) -> list[Tool]:
    """Return the tool that lists projects."""
    return [
        Tool(
            name="file_projects",
            title="List projects",
            description="List the projects that hold files or memory, in order of their names, a"
            " page at a time.",
            arguments=ProjectsArguments,
            result=ProjectsResult,
            run=projects_tool.listing,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=frozenset({"project", "after"}),
            spans_projects=True,
        )
    ]
