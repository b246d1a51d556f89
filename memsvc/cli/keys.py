"""`memsvc key`: API keys, made, listed, rotated and revoked."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from memsvc.adapters.clock import SystemClock
from memsvc.cli.calls import Config, DataDir
from memsvc.cli.options import settings_of, tenant_of, with_database
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PERMISSIONS, Permission
from memsvc.store import keys

commands = typer.Typer(help="API keys: who may call, and whose data they open.", no_args_is_help=True)


@commands.command("create")
def create_key(
    label: Annotated[str, typer.Option(help="What the call log shows for this key.")] = "key",
    tenant: Annotated[str | None, typer.Option(help="Open this tenant's data; else a new tenant's.")] = None,
    permission: Annotated[list[Permission] | None, typer.Option(help="Repeatable; all if not given.")] = None,
    project: Annotated[list[str] | None, typer.Option(help="Confine to projects; repeatable.")] = None,
    hide_tool: Annotated[list[str] | None, typer.Option(help="Hide a tool from this key; repeatable.")] = None,
    expires_days: Annotated[int | None, typer.Option(min=1, max=36500, help="Valid for so many days.")] = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, this once."""
    now = SystemClock().now()
    made = with_database(
        settings_of(config, data_dir=data_dir),
        lambda database: keys.create_key(
            database,
            label,
            now,
            tenant=None if tenant is None else tenant_of(tenant),
            permissions=permission or ALL_PERMISSIONS,
            projects=[check_project(name) for name in project] if project else None,
            hidden_tools=hide_tool or (),
            expires_at=None if expires_days is None else now + timedelta(days=expires_days),
        ),
    )
    print(f"key     {made.text}\nkey id  {made.key.key_id}\ntenant  {made.key.tenant.hex()}")


@commands.command("list")
def list_keys(config: Config = None, data_dir: DataDir = None) -> None:
    """List the keys, one a line, columns separated by tabs. Their texts are stored nowhere."""
    found = with_database(settings_of(config, data_dir=data_dir), keys.list_keys)
    now = SystemClock().now()
    print("key id", "label", "state", "permissions", "projects", "last used", "tenant", sep="\t")
    for key in found:
        state = "revoked" if key.revoked_at else "valid" if key.opens(now) else "expired"
        projects = "all" if key.projects is None else ",".join(sorted(key.projects))
        last_used = _moment(key.last_used_at)
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


@commands.command("revoke")
def revoke_key(key_id: UUID, config: Config = None, data_dir: DataDir = None) -> None:
    """Revoke a key. Servers that are running notice within auth.cache_s seconds."""
    now = SystemClock().now()
    key = with_database(settings_of(config, data_dir=data_dir), lambda database: keys.revoke_key(database, key_id, now))
    print(f"revoked {key.key_id} ({key.label})")


@commands.command("rotate")
def rotate_key(
    key_id: UUID,
    overlap_hours: Annotated[float, typer.Option(min=0, max=8760, help="How long the old key goes on opening.")] = 24.0,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key that opens and may what another does, and let that one expire. The new one does not expire."""
    now = SystemClock().now()
    old_until = now + timedelta(hours=overlap_hours)
    made = with_database(
        settings_of(config, data_dir=data_dir),
        lambda database: keys.rotate_key(database, key_id, now, old_until=old_until),
    )
    print(f"key     {made.text}\nkey id  {made.key.key_id}\nthe old key expires {_moment(old_until)} UTC at the latest")


@commands.command("adopt")
def adopt_key(
    key_id: UUID,
    tenant: Annotated[str, typer.Option(help="The tenant, as 64 hexadecimal digits.")] = "",
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Bind a key to an existing tenant's data. Without --tenant, asks for the key whose tenant it was in open mode."""
    if tenant:
        owner = tenant_of(tenant)
    else:
        owner = keys.hash_key(typer.prompt("The key that was used in open mode", hide_input=True).strip())
    key = with_database(settings_of(config, data_dir=data_dir), lambda database: keys.adopt(database, key_id, owner))
    print(f"{key.key_id} ({key.label}) now opens tenant {key.tenant.hex()}")


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else moment.strftime("%Y-%m-%d %H:%M")
