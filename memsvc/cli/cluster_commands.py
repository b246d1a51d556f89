"""Command `memsvc db distribute`: a migrated database over the nodes of a Citus cluster."""

import asyncio
from typing import Annotated

import typer

from memsvc import database_setup
from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import Config, DataDir
from memsvc.core.errors import invalid


def distribute(
    *,
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Parts of each table; else what the cluster is set to."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every statement and run none.")
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Distribute the tables of a migrated database over the nodes of its Citus cluster, by tenant.

    For the owner, on the coordinator, with servers and workers stopped. Run it again after each
    migration, and when it was interrupted: it does what is left to do.
    """
    from memsvc.store import shard_setup  # noqa: PLC0415 - heavy, for this command alone

    def tell(step: shard_setup.ShardStep) -> None:
        print(f"-- {step.description}")
        for statement in step.statements:
            print(f"{statement};", flush=True)

    settings = settings_of(config, data_dir=data_dir)
    with database_setup.database_urls(settings) as urls:
        role, _ = database_setup.role_of(urls.app)
        if not urls.admin or role is None:
            raise invalid(
                "only the owner of the database can distribute it, and for the role of the"
                " application",
                recovery="set database.admin_url to the owner's DSN, and name the application's"
                " role in database.url",
            )
        asyncio.run(
            shard_setup.shard_all_tables(
                urls.admin, role, shards=shards, dry_run=dry_run, report=tell
            )
        )
