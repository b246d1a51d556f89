"""What the commands share: where their settings come from, and an open database for those that need one."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from memsvc import app as root
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import TENANT_BYTES
from memsvc.gateway.metrics import Metrics
from memsvc.resources import default_config
from memsvc.settings import Settings, load
from memsvc.store.database import Database

Answer = TypeVar("Answer")

Config = Annotated[Path | None, typer.Option(envvar="MEMSVC_CONFIG", help="YAML file of settings.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded PostgreSQL and of the first API key.")]


def settings_of(config: Path | None, **given: Any) -> Settings:
    """The settings of this command: its options over the environment over the file."""
    return load(config or default_config(), os.environ, **given)


def with_database(settings: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """What `work` makes of the database, which is migrated before and closed after."""

    async def run(urls: root.DatabaseUrls) -> Answer:
        await root.bring_up_to_date(urls, settings)
        few = settings.database.model_copy(update={"pool_min": 1})
        database = await Database.open(urls.app, few, Metrics())
        try:
            return await work(database)
        finally:
            await database.close()

    with root.database_urls(settings) as urls:
        return asyncio.run(run(urls))


def tenant_of(text: str) -> bytes:
    """The tenant that somebody typed."""
    try:
        tenant = bytes.fromhex(text)
    except ValueError:
        tenant = b""
    if len(tenant) != TENANT_BYTES:
        raise MemsvcError(Code.INVALID_ARGUMENT, f"a tenant is {TENANT_BYTES * 2} hexadecimal digits")
    return tenant
