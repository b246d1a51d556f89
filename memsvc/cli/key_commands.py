"""Command `memsvc key`: API keys, made, listed, rotated and revoked.

By the server of --url or MEMSVC_URL, as the key of MEMSVC_API_KEY may; else in the data folder or
the configured database, as its operator.
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from typer import Option, prompt

from memsvc.adapters.clock import SystemClock
from memsvc.cli.options import settings_of, tenant_of, with_database
from memsvc.cli.tool_client import (
    CommandTarget,
    Config,
    DataDir,
    Url,
    command_group,
    run_calls,
    server_of,
)
from memsvc.core.errors import invalid
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PERMISSIONS, ALL_PROJECTS, Permission
from memsvc.core.tools import parse_toolsets
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.variables import URL_VARIABLE

COLUMNS = ("key id", "label", "state", "permissions", "projects", "last used")


def create_key(
    label: Annotated[str, Option(help="What the call log shows for this key.")] = "key",
    tenant: Annotated[
        str | None, Option(help="Open this tenant's data; else a new tenant's.")
    ] = None,
    permission: Annotated[
        list[Permission] | None, Option(help="Repeatable; all if not given.")
    ] = None,
    project: Annotated[list[str] | None, Option(help="Confine to projects; repeatable.")] = None,
    hide_tool: Annotated[
        list[str] | None, Option(help="Hide a tool from this key; repeatable.")
    ] = None,
    toolset: Annotated[
        list[str] | None, Option(help="List these tools to its clients; repeatable.")
    ] = None,
    expires_days: Annotated[
        int | None, Option(min=1, max=36500, help="Valid for so many days.")
    ] = None,
    url: Url = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, this once, with where it was made."""
    now = SystemClock().now()
    toolsets = parse_toolsets(toolset or ())
    expires_at = None if expires_days is None else now + timedelta(days=expires_days)
    server = server_of(url, data_dir, config)
    if server:
        if tenant is not None:
            recovery = (
                "leave --tenant out, or name the data folder with --data-dir, or settings"
                " with --config"
            )
            raise invalid("a server makes keys of its caller's tenant alone", recovery=recovery)
        options = {
            "permissions": permission,
            "projects": project,
            "hidden_tools": hide_tool,
            "toolsets": sorted(toolsets),
        }
        args = {name: value for name, value in options.items() if value}
        until = expires_at and expires_at.isoformat()
        _print_new(
            _call_server(server, "keys_create", label=label, expires_at=until, **args), server
        )
        return
    settings = settings_of(config, data_dir=data_dir)
    made = with_database(
        settings,
        lambda database: keys.create_key(
            database,
            label,
            now,
            tenant=None if tenant is None else tenant_of(tenant),
            permissions=permission or ALL_PERMISSIONS,
            projects=[check_project(name) for name in project] if project else None,
            hidden_tools=hide_tool or (),
            expires_at=expires_at,
            toolsets=toolsets,
        ),
    )
    print(
        f"key     {made.text}\nkey id  {made.key.key_id}\ntenant "
        f" {made.key.tenant.hex()}\n{_made_in(settings)}"
    )


def list_keys(url: Url = None, config: Config = None, data_dir: DataDir = None) -> None:
    """List the keys, one a line, columns separated by tabs; their texts are not stored."""
    if server := server_of(url, data_dir, config):
        print(*COLUMNS, sep="\t")
        for one in _call_server(server, "keys_list")["keys"]:
            permissions = ",".join(one["permissions"])
            where = "all" if one["projects"] is None else ",".join(one["projects"])
            print(
                one["key_id"],
                one["label"],
                one["state"],
                permissions,
                where,
                one["last_used_at"] or "never",
                sep="\t",
            )
        return
    found = with_database(settings_of(config, data_dir=data_dir), keys.list_keys)
    now = SystemClock().now()
    print(*COLUMNS, "tenant", sep="\t")
    for key in found:
        state = "revoked" if key.revoked_at else "valid" if key.is_valid(now) else "expired"
        projects = "all" if key.projects is None else ",".join(sorted(key.projects))
        last_used = _format_time(key.last_used_at)
        print(
            key.key_id,
            key.label,
            state,
            ",".join(sorted(key.permissions)),
            projects,
            last_used,
            key.tenant.hex(),
            sep="\t",
        )


def revoke_key(
    key_id: UUID,
    url: Url = None,
    even_last: Annotated[
        bool,
        Option(
            help="With a server: also the last key that could manage the tenant's keys for good."
        ),
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key; running servers are notified, and notice within auth.cache_s at the latest."""
    if server := server_of(url, data_dir, config):
        result = _call_server(server, "keys_revoke", key_id=str(key_id), even_last=even_last)["key"]
        print(f"revoked {result['key_id']} ({result['label']})")
        return
    now = SystemClock().now()
    key = with_database(
        settings_of(config, data_dir=data_dir),
        lambda database: keys.revoke_key(database, key_id, now),
    )
    print(f"revoked {key.key_id} ({key.label})")


def rotate_key(
    key_id: UUID,
    overlap_hours: Annotated[
        float, Option(min=0, max=8760, help="How long the old key goes on opening.")
    ] = 24.0,
    url: Url = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key with the rights of another, which then expires; the new one does not expire."""
    if server := server_of(url, data_dir, config):
        result = _call_server(
            server, "keys_rotate", key_id=str(key_id), overlap_hours=overlap_hours
        )
        _print_new(result, server)
        print(f"the old key expires {result['old']['expires_at']}")
        return
    now = SystemClock().now()
    old_until = now + timedelta(hours=overlap_hours)
    settings = settings_of(config, data_dir=data_dir)
    made = with_database(
        settings, lambda database: keys.rotate_key(database, key_id, now, old_until=old_until)
    )
    print(f"key     {made.text}\nkey id  {made.key.key_id}\n{_made_in(settings)}")
    print(f"the old key expires {_format_time(old_until)} UTC at the latest")


def bind_key(
    key_id: UUID,
    tenant: Annotated[str, Option(help="The tenant, as 64 hexadecimal digits.")] = "",
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Bind a key to an existing tenant's data; without --tenant, ask for the key used in open mode.

    It works on the data folder or the configured database, and not by a server.
    """
    if server_of(os.environ.get(URL_VARIABLE), data_dir, config):
        recovery = "name the data folder with --data-dir, or the database with --config"
        raise invalid(
            f"a server binds no key to another tenant, and {URL_VARIABLE} names one",
            recovery=recovery,
        )
    if tenant:
        owner = tenant_of(tenant)
    else:
        owner = keys.hash_key(prompt("The key that was used in open mode", hide_input=True).strip())
    key = with_database(
        settings_of(config, data_dir=data_dir),
        lambda database: keys.set_tenant(database, key_id, owner),
    )
    print(f"{key.key_id} ({key.label}) now opens tenant {key.tenant.hex()}")


def _format_time(timestamp: datetime | None) -> str:
    return "never" if timestamp is None else timestamp.strftime("%Y-%m-%d %H:%M")


def _call_server(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool of a server answers."""

    target = CommandTarget(url, ALL_PROJECTS)
    return asyncio.run(run_calls(target, lambda call: call(tool, **arguments)))


def _print_new(made: Mapping[str, Any], server: str) -> None:
    print(f"key     {made['text']}\nkey id  {made['key']['key_id']}\nmade    at {server}")


def _made_in(settings: Settings) -> str:
    where = (
        "the configured database"
        if settings.database.url
        else f"data folder {settings.data_dir.absolute()}"
    )
    return f"made    in {where}"


commands = command_group(
    {
        "create": create_key,
        "list": list_keys,
        "revoke": revoke_key,
        "rotate": rotate_key,
        "adopt": bind_key,
    }
)
