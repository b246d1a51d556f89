"""The tool that purges: tenant_purge."""

from datetime import datetime
from typing import Annotated, Final

from memsvc.administration.purge import Purge, PurgeLevel, PurgeReceipt, PurgeTarget
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_identifier, check_path
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import NamedProjectArguments

_ALL_PROJECTS_LEVELS: Final = (PurgeLevel.TENANT, PurgeLevel.USER)
"""Levels that may span all projects."""


@result
class PurgeResult:
    purge_id: Annotated[str, "what this purge is known by"]
    level: Annotated[PurgeLevel, "as asked"]
    project: Annotated[str, "as asked"]
    name: Annotated[str, "what went: confirm has to be the same"]
    dry_run: Annotated[bool, "whether it was only counted"]
    resumed: Annotated[
        bool, "whether a purge of the same was interrupted before, which was finished now"
    ]
    started_at: Annotated[datetime, "when it began"]
    ended_at: Annotated[datetime, "when it ended"]
    counts: Annotated[dict[str, int], "rows by table that went or, in a dry run, would go"]
    complete: Annotated[bool, "whether all of it is gone"]


class PurgeTools:
    """The tool tenant_purge."""

    def __init__(self, tenant_purge: Purge) -> None:
        self._purge = tenant_purge

    @tool(
        "tenant_purge",
        title="Purge for good",
        needs=Permission.ADMIN,
        toolset="admin",
        base=NamedProjectArguments,
        project="the project; * with level tenant, and with level user for all projects of the"
        " tenant",
        logs=("level",),
        idempotent=True,
        destructive=True,
        spans_projects=True,
        is_admin=True,
    )
    async def purge(
        self,
        scope: Scope,
        level: Annotated[
            PurgeLevel,
            "what goes: the tenant, the project, or of the project a user, session or path",
        ],
        name: Annotated[
            str, "the user, the session or the path of the file or directory that goes"
        ] = "",
        confirm: Annotated[
            str, "the name of what goes, once more; of a tenant, what a dry run calls it"
        ] = "",
        dry_run: Annotated[bool, "only count what would go; needs no confirm"] = False,
    ) -> PurgeResult:
        """Remove a tenant, a project, a user, a session or a path for good.

        All goes that is derived from it and all that it was. Answers with a receipt: how many rows
        of which table went."""
        target = purge_target(scope, level, name)
        if not dry_run:
            check_confirmation(confirm, name_of(scope, target))
        receipt = await self._purge.run(scope, target, dry_run=dry_run)
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
        str(receipt.purge),
        target.level,
        scope.project,
        name_of(scope, target),
        receipt.dry_run,
        receipt.resumed,
        receipt.started_at,
        receipt.ended_at,
        receipt.counts,
        not receipt.dry_run,
    )
