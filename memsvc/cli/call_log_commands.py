"""Command `memsvc calls`: the call log of a tenant, over a server or the data folder."""

from typing import Annotated, Any

import typer

from memsvc.cli.tool_client import (
    CommandOutput,
    CommandTarget,
    Config,
    DataDir,
    Json,
    RemoteTools,
    Url,
    as_command,
    columns,
    target_of,
)
from memsvc.core.scope import ALL_PROJECTS

COLUMNS = (
    "called_at",
    "status",
    "code",
    "duration_ms",
    "surface",
    "tool",
    "project",
    "key_label",
    "request_id",
)
PAGE_MAX = 500


def all_projects_target(
    *,
    project: Annotated[
        str, typer.Option(help="Only calls of this project; * for all.")
    ] = ALL_PROJECTS,
    as_json: Json = False,
    url: Url = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> CommandTarget:
    """Return the target as `placed` does, over all projects where none is named."""
    return target_of(project=project, as_json=as_json, url=url, config=config, data_dir=data_dir)


async def _listed(
    call: RemoteTools,
    *,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only calls that ended so: success, error, cancelled.")
    ] = None,
    code: Annotated[str | None, typer.Option(help="Only calls that failed with this code.")] = None,
    surface: Annotated[
        str | None, typer.Option(help="Only calls that came this way: mcp, rest, pipe.")
    ] = None,
    key_label: Annotated[str | None, typer.Option(help="Only calls of keys of this label.")] = None,
    session: Annotated[str | None, typer.Option(help="Only calls that named this session.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only calls from 2026-01-05T12:00:00Z on, or so.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only calls before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="So many at the most.")] = 50,
) -> CommandOutput:
    """List the calls that were made, newest first, one a line, columns separated by tabs."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < limit:
        page = await call(
            "calls_list",
            tool=tool,
            status=status,
            code=code,
            surface=surface,
            key_label=key_label,
            session_id=session,
            since=since,
            until=until,
            limit=min(limit - len(found), PAGE_MAX),
            cursor=cursor,
        )
        found += page["calls"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return CommandOutput({"calls": found}, ("\t".join(COLUMNS), *columns(found, *COLUMNS)))


calls = as_command(_listed, all_projects_target)
