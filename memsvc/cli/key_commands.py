"""Command `memsvc key`: create, list, rotate and revoke API keys.

The command uses the server of --url or MEMSVC_URL, with the permissions of MEMSVC_API_KEY. Without
a server, it works on the data folder or the configured database, as its operator."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from typer import Option, prompt

from memsvc.adapters.clock import SystemClock
from memsvc.administration.tenant_keys import check_tools, listed_key
from memsvc.cli.options import tenant_of, with_database
from memsvc.cli.settings_option import CommandPlace, settings_option, using_place
from memsvc.cli.tool_client import CommandOutput, command_group, printed, with_options
from memsvc.core.errors import invalid
from memsvc.core.paths import check_identifier, check_project
from memsvc.core.scope import Permission
from memsvc.core.tools import parse_toolsets
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.store.keys import ApiKey, NewKey

NEW_TENANT: Final = (
    "This tenant is new and has no data. To create a key for existing data, pass --tenant with a"
    " tenant that `memsvc key list` shows."
)
COLUMNS: Final = {
    "key_id": "key id",
    "label": "label",
    "state": "state",
    "permissions": "permissions",
    "projects": "projects",
    "user_id": "user",
    "hidden_tools": "hidden tools",
    "expires_at": "expires",
    "last_used_at": "last used",
    "tenant": "tenant",
}
"""Columns of the list, by the members of its JSON."""


@using_place
@printed
def create_key(
    place: CommandPlace,
    label: Annotated[str, Option(help="A name that identifies the key in the call log.")] = "key",
    tenant: Annotated[
        str | None,
        Option(
            help="The tenant whose data the key can access; the default is a new, empty"
            " tenant. A server always uses the tenant of MEMSVC_API_KEY."
        ),
    ] = None,
    permission: Annotated[
        list[Permission] | None,
        Option(help="A permission of the key; repeatable. The default is all permissions."),
    ] = None,
    project: Annotated[
        list[str] | None, Option(help="Restrict the key to this project; repeatable.")
    ] = None,
    hide_tool: Annotated[
        list[str] | None, Option(help="Hide this tool from the key; repeatable.")
    ] = None,
    toolset: Annotated[
        list[str] | None, Option(help="A toolset to list for clients that use the key; repeatable.")
    ] = None,
    user: Annotated[
        str | None,
        Option(help="Bind the key to this user, so that its calls cannot name another user."),
    ] = None,
    expires_days: Annotated[
        int | None, Option(min=1, max=36500, help="Number of days after which the key expires.")
    ] = None,
) -> CommandOutput:
    """Create a key and print it once, together with the tenant whose data it can access."""
    now = SystemClock().now()
    properties: dict[str, Any] = {
        "permissions": permission,
        "projects": [check_project(name) for name in project or ()],
        "hidden_tools": hide_tool,
        "toolsets": sorted(parse_toolsets(toolset or ())),
        "user_id": user if user is None else check_identifier(user.strip(), "user_id"),
        "expires_at": None if expires_days is None else now + timedelta(days=expires_days),
    }
    properties = {name: value for name, value in properties.items() if value}
    if place.server:
        if tenant is not None:
            raise invalid(
                "a server creates keys only for the tenant of MEMSVC_API_KEY: omit --tenant",
                recovery="to create the key without the server, pass --data-dir or --config",
            )
        created = place.call("keys_create", label=label, **properties)
        return _new_key(place, created)
    if hide_tool:
        from memsvc.runtime import tool_names  # noqa: PLC0415 - loads the whole server

        check_tools(hide_tool, tool_names())
    owner = None if tenant is None else tenant_of(tenant)

    async def create(database: Database) -> tuple[NewKey, bool]:
        is_known = owner is not None and await keys.is_known(database, owner)
        made = await keys.create_key(database, label, now, tenant=owner, **properties)
        return made, is_known

    made, is_known = with_database(place.settings(create=True), create)
    created = {"text": made.text, "key": _row(made.key, now)}
    return _new_key(place, created, *([] if is_known else [NEW_TENANT]))


@using_place
@printed
def list_keys(place: CommandPlace) -> CommandOutput:
    """List keys, one per line, with columns separated by tabs. Key texts are not stored."""
    if place.server:
        found = place.call("keys_list")["keys"]
    else:
        now = SystemClock().now()
        stored = with_database(place.settings(), keys.list_keys)
        found = [_row(key, now) for key in stored]
    lines = ["\t".join(COLUMNS.values()), *("\t".join(_columns(one)) for one in found)]
    return CommandOutput({"keys": found}, lines)


@using_place
@printed
def revoke_key(
    place: CommandPlace,
    key_id: UUID,
    even_last: Annotated[
        bool,
        Option(
            help="Revoke the key even if no other permanent key can manage the tenant's"
            " keys. Without a server, this is not checked."
        ),
    ] = False,
) -> CommandOutput:
    """Revoke a key. Running servers reject it at once, or after auth.cache_s at the latest."""
    if place.server:
        key = place.call("keys_revoke", key_id=str(key_id), even_last=even_last)["key"]
    else:
        now = SystemClock().now()
        revoked = with_database(
            place.settings(), lambda database: keys.revoke_key(database, key_id, now)
        )
        key = _row(revoked, now)
    line = f"revoked {key['key_id']} ({key['label']})"
    return CommandOutput({"key": key}, [line])


@using_place
@printed
def rotate_key(
    place: CommandPlace,
    key_id: UUID,
    overlap_hours: Annotated[
        float, Option(min=0, max=8760, help="How long the old key remains valid, in hours.")
    ] = 24.0,
) -> CommandOutput:
    """Create a key with an old key's permissions. The old key expires after --overlap-hours."""
    if place.server:
        rotated = place.call("keys_rotate", key_id=str(key_id), overlap_hours=overlap_hours)
        return _new_key(place, rotated, f"the old key expires at {rotated['old']['expires_at']}")
    now = SystemClock().now()
    until = now + timedelta(hours=overlap_hours)
    made = with_database(
        place.settings(),
        lambda database: keys.rotate_key(database, key_id, now, old_until=until),
    )
    created = {"text": made.text, "key": _row(made.key, now)}
    line = f"the old key expires at {until:%Y-%m-%d %H:%M} UTC at the latest"
    return _new_key(place, created, line)


@partial(with_options, make=settings_option)
@printed
def bind_key(
    settings: Settings,
    key_id: UUID,
    tenant: Annotated[
        str, Option(help="The tenant to give access to, as 64 hexadecimal digits.")
    ] = "",
) -> CommandOutput:
    """Give a key access to the data of an existing tenant.

    Without --tenant, the command asks for a key that was used while auth.mode was open, and gives
    access to the data of that key's tenant. This command works on the data folder or the configured
    database, not through a server."""
    if tenant:
        owner = tenant_of(tenant)
    else:
        owner = keys.hash_key(
            prompt(
                "The key with which the data was stored while auth.mode was open", hide_input=True
            ).strip()
        )
    key = with_database(settings, lambda database: keys.set_tenant(database, key_id, owner))
    line = f"{key.key_id} ({key.label}) can now access the data of tenant {key.tenant.hex()}"
    return CommandOutput({"key": _row(key, SystemClock().now())}, [line])


def _row(key: ApiKey, now: datetime) -> dict[str, Any]:
    """Return what a server says of a key, as far as it does not depend on who asks."""
    listed = asdict(listed_key(key, now, None)) | {"key_id": str(key.key_id)}
    del listed["is_yours"]
    return listed


def _columns(key: Mapping[str, Any]) -> Iterable[str]:
    """Yield the columns of a key, "-" for one without a value."""
    for name in COLUMNS:
        value = key[name]
        if value is None:
            yield "all" if name == "projects" else "never"
        elif name.endswith("_at"):
            yield str(value)[:16].replace("T", " ")
        else:
            yield (",".join(value) if isinstance(value, list) else value) or "-"


def _new_key(place: CommandPlace, created: Mapping[str, Any], *more_lines: str) -> CommandOutput:
    """Return the output about a new key: whose data it opens, and where it was created."""
    key = created["key"]
    lines = [
        f"key     {created['text']}",
        f"key id  {key['key_id']}",
        f"tenant  {key['tenant']}, whose data the key can access",
        _made_in(place),
    ]
    return CommandOutput(created, [*lines, *more_lines])


def _made_in(place: CommandPlace) -> str:
    if place.server:
        return f"created at {place.server}"
    settings = place.settings()
    where = (
        "the configured database"
        if settings.database.url
        else f"data folder {settings.data_dir.absolute()}"
    )
    return f"created in {where}"


commands = command_group(
    {
        "create": create_key,
        "list": list_keys,
        "revoke": revoke_key,
        "rotate": rotate_key,
        "adopt": bind_key,
    }
)
