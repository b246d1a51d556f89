"""Commands `memsvc serve`, `memsvc worker` and `memsvc migrate`."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated

from typer import Option

from memsvc import database_setup, serve, serve_worker
from memsvc.cli.options import settings_of
from memsvc.cli.settings_option import new_settings_option
from memsvc.cli.tool_client import CommandOutput, Config, DataDir, printed, with_options
from memsvc.core.errors import invalid
from memsvc.settings import Settings
from memsvc.store.revisions import Revisions


def serve_command(
    config: Config = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, Option(help="Port to listen on.")] = None,
) -> None:
    """Serve MCP, using the embedded PostgreSQL or the database that database.url names."""
    serve.run(settings_of(config, data_dir=data_dir, host=host, port=port), _print_line)


@partial(with_options, make=new_settings_option)
def worker_command(settings: Settings) -> None:
    """Run background jobs only, with the same settings as the server."""
    serve_worker.run(settings, _print_line)


def _print_line(text: str) -> None:
    with suppress(BrokenPipeError):  # the parent process need not read on
        print(text, flush=True)


@partial(with_options, make=new_settings_option)
@printed
def migrate(
    settings: Settings,
    down_to: Annotated[
        str | None,
        Option(
            help="Migrate back to this older revision, or to `base`, the state before the first"
            " revision."
        ),
    ] = None,
    even_with_loss: Annotated[
        bool,
        Option(
            "--even-with-loss",
            help="Migrate back even if this deletes tables or columns that contain data.",
        ),
    ] = False,
) -> CommandOutput:
    """Migrate the database to the newest revision, or back to an older one.

    A migration back is refused if it would lose data; the error lists the tables and columns."""
    with database_setup.database_urls(settings) as urls:
        if not urls.admin:
            raise invalid(
                "only the owner of the database can migrate it",
                recovery="set database.admin_url to the owner's DSN",
            )
        if down_to is not None:
            from memsvc.store.migrate import downgrade  # noqa: PLC0415 - heavy, and for this command alone

            done = asyncio.run(downgrade(urls.admin, down_to, even_with_loss=even_with_loss))
            return CommandOutput(
                {"undone": done}, [f"revisions undone: {', '.join(done) or 'none'}"]
            )
        done = asyncio.run(database_setup.migrate_database(urls, settings, force=True))
        none = f"nothing; {Revisions.read_package().head} is already the newest revision"
        return CommandOutput({"applied": done}, [f"applied: {', '.join(done) or none}"])
