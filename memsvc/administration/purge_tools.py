"""The tool that purges: tenant_purge."""

from datetime import datetime
from typing import Final

from pydantic import Field, field_validator

from memsvc.administration.purge import Purge, PurgeLevel, PurgeReceipt, PurgeTarget
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_identifier, check_path, check_project
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool

_ALL_PROJECTS_LEVELS: Final = (PurgeLevel.TENANT, PurgeLevel.USER)
"""Levels that may span all projects."""


class PurgeArguments(Arguments):
    project: str = Field(
        description="the project; * with level tenant, and with level user for all projects of"
        " the tenant"
    )
    level: PurgeLevel = Field(
        description="what goes: the tenant, the project, or of the project a user, session or path"
    )
    name: str = Field(
        "", description="the user, the session or the path of the file or directory that goes"
    )
    confirm: str = Field(
        "", description="the name of what goes, once more; of a tenant, what a dry run calls it"
    )
    dry_run: bool = Field(False, description="only count what would go; needs no confirm")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        return value.strip() if value.strip() == ALL_PROJECTS else check_project(value.strip())


class PurgeResult(Result):
    purge_id: str = Field(description="what this purge is known by")
    level: PurgeLevel = Field(description="as asked")
    project: str = Field(description="as asked")
    name: str = Field(description="what went: confirm has to be the same")
    dry_run: bool = Field(description="whether it was only counted")
    resumed: bool = Field(
        description="whether a purge of the same was interrupted before, which was finished now"
    )
    started_at: datetime = Field(description="when it began")
    ended_at: datetime = Field(description="when it ended")
    counts: dict[str, int] = Field(description="rows by table that went or, in a dry run, would go")
    complete: bool = Field(description="whether all of it is gone")


class PurgeTools:
    """Function of this tool."""

    def __init__(self, tenant_purge: Purge) -> None:
        self._purge = tenant_purge

    async def purge(self, scope: Scope, args: PurgeArguments) -> PurgeResult:
        target = purge_target(scope, args.level, args.name)
        name = name_of(scope, target)
        if not args.dry_run:
            check_confirmation(args.confirm, name)
        receipt = await self._purge.run(scope, target, dry_run=args.dry_run)
        return result_of(scope, target, receipt)


def purge_target(scope: Scope, level: PurgeLevel, name: str) -> PurgeTarget:
    """Return what is requested.

    INVALID_ARGUMENT where that makes no sense, PERMISSION_DENIED where it spans more than the key
    may touch.
    """
    all_projects = scope.project == ALL_PROJECTS
    if all_projects and level not in _ALL_PROJECTS_LEVELS:
        raise invalid(f"a {level} is of one project: name it")
    if level is PurgeLevel.TENANT and not all_projects:
        raise invalid("a tenant is all of its projects: project must be *")
    if all_projects and scope.allowed_projects is not None:
        raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch all projects")
    match level:
        case PurgeLevel.USER | PurgeLevel.SESSION:
            return PurgeTarget(level, check_identifier(name, "name"))
        case PurgeLevel.PATH:
            return PurgeTarget(level, check_path(name.removesuffix("/")))
        case _:
            if name and name != name_of(scope, PurgeTarget(level)):
                raise invalid(
                    f"a {level} is named by the project and the key alone: leave name out"
                )
            return PurgeTarget(level)


def name_of(scope: Scope, target: PurgeTarget) -> str:
    """Return the name of what is purged."""
    match target.level:
        case PurgeLevel.TENANT:
            return scope.tenant.hex()
        case PurgeLevel.PROJECT:
            return scope.project
        case _:
            return target.name


def check_confirmation(confirm: str, name: str) -> None:
    """Raise INVALID_ARGUMENT unless the name was repeated."""
    if confirm != name:
        raise invalid(
            "confirm must be the name of what goes",
            recovery="ask with dry_run, which tells the name",
        )


def result_of(scope: Scope, target: PurgeTarget, receipt: PurgeReceipt) -> PurgeResult:
    """Return the receipt as a result of the tool."""
    return PurgeResult(
        purge_id=str(receipt.purge),
        level=target.level,
        project=scope.project,
        name=name_of(scope, target),
        dry_run=receipt.dry_run,
        resumed=receipt.resumed,
        started_at=receipt.started_at,
        ended_at=receipt.ended_at,
        counts=receipt.counts,
        complete=not receipt.dry_run,
    )


def purge_tools(tenant_purge: Purge) -> list[Tool]:
    """Return the tool tenant_purge."""
    return [
        Tool(
            name="tenant_purge",
            title="Purge for good",
            description="Remove a tenant, a project, a user, a session or a path for good, with"
            " all that is derived from it and all that it was. Answers with a receipt: how"
            " many rows of which table went.",
            arguments=PurgeArguments,
            result=PurgeResult,
            run=PurgeTools(tenant_purge).purge,
            permission=Permission.ADMIN,
            read_only=False,
            idempotent=True,
            destructive=True,
            logged=frozenset({"project", "level"}),
            spans_projects=True,
            is_admin=True,
        )
    ]
