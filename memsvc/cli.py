"""The command line: `memsvc serve` and what operators need beside it."""

import asyncio
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NoReturn
from uuid import UUID

import typer

from memsvc import app as root
from memsvc import cli_import, cli_jobs, cli_maintain, configuration, reference, serve
from memsvc.adapters.clock import SystemClock
from memsvc.adapters.postgres import EmbeddedPostgresError
from memsvc.cli_options import Config, DataDir, settings_of, tenant_of, with_database
from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PERMISSIONS, Permission
from memsvc.settings import SettingsError
from memsvc.store import keys
from memsvc.store.revisions import Revisions

commands = typer.Typer(
    help="Long-term memory for AI agents: an MCP server over PostgreSQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
key_commands = typer.Typer(help="API keys: who may call, and whose data they open.", no_args_is_help=True)
commands.add_typer(key_commands, name="key")
commands.add_typer(cli_jobs.commands, name="jobs")
commands.command("import")(cli_import.import_folder)
commands.command("maintain")(cli_maintain.maintain)
commands.command("shadow-report")(cli_import.shadow_report)


def main() -> None:
    """Run the command that was typed; a failure is told in a line or two on stderr, without a traceback."""
    try:
        commands()
    except SettingsError as error:
        _fail(error.problems, "see docs/configuration.md, or config/memsvc.yaml for every setting", status=2)
    except MemsvcError as error:
        _fail([error.message], error.recovery)
    except EmbeddedPostgresError as error:
        _fail([str(error)], None)


def _fail(messages: list[str], recovery: str | None, *, status: int = 1) -> NoReturn:
    for message in messages:
        print(f"Error: {message}", file=sys.stderr)
    if recovery is not None:
        print(f"Recovery: {recovery}", file=sys.stderr)
    sys.exit(status)


@commands.command("serve")
def serve_command(
    config: Config = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Serve MCP, on the embedded PostgreSQL unless database.url names another."""
    serve.run(settings_of(config, data_dir=data_dir, host=host, port=port), _say)


@commands.command("worker")
def worker_command(config: Config = None, data_dir: DataDir = None) -> None:
    """Run jobs, and nothing else, on the same settings as the server."""
    serve.work(settings_of(config, data_dir=data_dir), _say)


def _say(text: str) -> None:
    with suppress(BrokenPipeError):  # whoever started the server need not go on listening to it
        print(text, flush=True)


@commands.command()
def migrate(
    config: Config = None,
    data_dir: DataDir = None,
    down_to: Annotated[str | None, typer.Option(help="Go back to this older revision, or to `base`.")] = None,
) -> None:
    """Bring the database to the newest revision, or back to an older one."""
    settings = settings_of(config, data_dir=data_dir)
    with root.database_urls(settings) as urls:
        if not urls.admin:
            raise invalid(
                "only the owner of the database can migrate it", recovery="set database.admin_url to the owner's DSN"
            )
        if down_to is not None:
            from memsvc.store.migrate import downgrade  # noqa: PLC0415 - heavy, and for this command alone

            done = asyncio.run(downgrade(urls.admin, down_to))
            print("undone:", ", ".join(done) or "nothing")
        else:
            done = asyncio.run(root.bring_up_to_date(urls, settings, anyway=True))
            print("applied:", ", ".join(done) or f"nothing, {Revisions.shipped().head} is the newest")


@commands.command()
def version() -> None:
    """Print the version."""
    print(f"memsvc {root.version()}")


@commands.command(hidden=True)
def docs(checkout: Annotated[Path, typer.Argument(help="The checkout to write to.")] = Path()) -> None:
    """Write what is made from the code: config/memsvc.yaml and the pages on settings, tools and errors."""
    for path, text in (
        ("config/memsvc.yaml", configuration.yaml_file()),
        ("docs/configuration.md", configuration.page()),
        ("docs/tools.md", reference.tools_page(root.described_tools())),
        ("docs/errors.md", reference.errors_page()),
    ):
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).write_text(text, "utf-8")


@key_commands.command("create")
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


@key_commands.command("list")
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


@key_commands.command("revoke")
def revoke_key(key_id: UUID, config: Config = None, data_dir: DataDir = None) -> None:
    """Revoke a key. Servers that are running notice within auth.cache_s seconds."""
    now = SystemClock().now()
    key = with_database(settings_of(config, data_dir=data_dir), lambda database: keys.revoke_key(database, key_id, now))
    print(f"revoked {key.key_id} ({key.label})")


@key_commands.command("adopt")
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
