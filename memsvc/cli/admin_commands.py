"""Commands `memsvc purge` and `memsvc tenants`, for operators."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Annotated

from pydantic import ValidationError
from typer import Argument, Option

from memsvc.adapters.clock import SystemClock
from memsvc.administration.purge import Purge
from memsvc.administration.usage_tools import UsageTools
from memsvc.cli.options import known_tenant, with_database
from memsvc.cli.settings_option import CommandPlace, settings_option, using_place
from memsvc.cli.tool_client import CommandOutput, columns, printed, with_options
from memsvc.cli.tool_commands import COUNTS
from memsvc.core.errors import invalid
from memsvc.core.json_text import JsonObject
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tool_methods import arguments_of, run_tool, tools_of
from memsvc.core.validation_messages import validation_message
from memsvc.runtime import owners, settle_s
from memsvc.settings import Settings
from memsvc.store import keys as registry
from memsvc.store.database import Database


@using_place
@printed
def purge(
    place: CommandPlace,
    level: Annotated[str, Argument(help="What to delete: tenant, project, user, session or path.")],
    name: Annotated[str, Argument(help="The name of the user, session or path to delete.")] = "",
    project: Annotated[
        str, Option(help="The project to delete from; * deletes a user's data in all projects.")
    ] = "",
    confirm: Annotated[
        str,
        Option(help="Confirm the deletion by repeating the name that --dry-run prints."),
    ] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Only count what would be deleted.")] = False,
    tenant: Annotated[
        str | None,
        Option(
            help="Delete data of this tenant (64 hexadecimal digits); needs access to the"
            " database, but no key."
        ),
    ] = None,
    keys: Annotated[
        bool,
        Option(
            "--keys",
            help="Also delete the tenant's API keys; needs LEVEL tenant and the option --tenant.",
        ),
    ] = False,
) -> CommandOutput:
    """Delete a tenant, project, user, session or path for good and print a receipt.

    Everything derived from it is deleted too: past versions, index entries, facts and waiting jobs.

    Without --tenant, the command uses the key in MEMSVC_API_KEY, which needs the admin permission,
    on a server or in the data folder. With --tenant, it works directly on the database. If the
    command is interrupted, run it again to finish the deletion."""
    project = project or (ALL_PROJECTS if level == "tenant" else "")
    if not project:
        raise invalid(
            "every LEVEL except tenant needs --project; for LEVEL user, --project '*' means all"
            " projects"
        )
    if keys and (tenant is None or level != "tenant"):
        raise invalid(
            "--keys needs LEVEL tenant and the option --tenant: without --tenant, the command"
            " uses a key, and a key cannot delete itself"
        )
    args = {"level": level, "name": name, "confirm": confirm, "dry_run": dry_run}
    if tenant is not None:
        body = run_purge(tenant, project, args, place.settings(), keys=keys)
    else:
        body = place.call("tenant_purge", project=project, **args)
    return CommandOutput(body, _receipt(body))


def _receipt(body: JsonObject) -> Iterator[str]:
    yield f"{body['level']} {body['name']} in project {body['project']}"
    yield from (f"{table}\t{count}" for table, count in body["counts"].items())
    for project, sessions in body["kept_sessions"].items():
        yield (
            f"not deleted: what this user said in sessions of several users in project {project}:"
            f" {', '.join(sessions)}"
        )
    if body["dry_run"] and body["found"]:
        yield f"nothing was deleted; to delete this data, add --confirm '{body['name']}'"
    if not body["dry_run"]:
        note = "; this run resumed an interrupted purge" if body["resumed"] else ""
        yield (
            f"complete: purge {body['purge_id']}, from {body['started_at']} to"
            f" {body['ended_at']}{note}"
        )
    if not body["found"]:
        yield f"nothing was found of this {body['level']}; check the name and the project"


def run_purge(
    tenant: str,
    project: str,
    args: JsonObject,
    settings: Settings,
    *,
    keys: bool,
) -> JsonObject:
    """Return the result of tenant_purge, without a key.

    With `keys`, the keys of the tenant are deleted last, and counted."""
    try:
        model = arguments_of(Purge.purge)
        arguments = model.model_validate({"project": project} | args)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid(f"{'.'.join(map(str, first['loc']))} {validation_message(first)}") from error

    async def work(database: Database) -> JsonObject:
        owner, clock = await known_tenant(database, tenant), SystemClock()
        purge = Purge(database, clock, owners(database, clock), settle_s=settle_s(settings))
        [tool] = tools_of(purge)
        body = await run_tool(tool, Scope(owner, arguments.project), args)
        if keys:
            forget = registry.count_keys if args.get("dry_run") else registry.forget_tenant
            body["counts"] |= await forget(database, owner)
        return body

    return with_database(settings, work)


@partial(with_options, make=settings_option)
@printed
def tenants(settings: Settings) -> CommandOutput:
    """List all tenants with their keys, what they store and their calls of the last 24 hours.

    This command works on the data folder or the configured database, not through a server."""

    async def count(database: Database) -> list[JsonObject]:
        labels: dict[bytes, list[str]] = defaultdict(list)
        for key in await registry.list_keys(database):
            labels[key.tenant].append(key.label)
        owners = sorted({*labels, *await registry.list_open_tenants(database)})
        [tool] = tools_of(UsageTools(database, SystemClock(), 0, settings.limits.stored.quota))
        found = [
            (await run_tool(tool, Scope(owner, ALL_PROJECTS), {}))["total"] for owner in owners
        ]
        return [
            {"tenant": owner.hex(), "keys": labels[owner]} | total
            for owner, total in zip(owners, found, strict=True)
        ]

    rows = with_database(settings, count)
    names = ("tenant", "keys", *COUNTS, "calls")
    texts = [
        row | {"keys": ",".join(row["keys"]), "calls": sum(row["calls"].values())} for row in rows
    ]
    return CommandOutput({"tenants": rows}, ["\t".join(names), *columns(texts, *names)])
