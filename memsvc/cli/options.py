"""Options that commands share: their settings, and an open database for commands that need one."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from typer import Option, prompt

from memsvc import database_setup
from memsvc.adapters.clock import SystemClock
from memsvc.core.errors import invalid, not_found, permission_denied
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS, TENANT_BYTES, Permission, Scope
from memsvc.folder_key import list_legacy_keys, visible_key_file
from memsvc.gateway.auth import UnknownKeyError
from memsvc.gateway.metrics import Metrics
from memsvc.package_files import default_config
from memsvc.settings import Settings, load
from memsvc.store import keys, projects
from memsvc.store.database import Database
from memsvc.variables import KEY_VARIABLE, URL_VARIABLE

Answer = TypeVar("Answer")
SETTINGS_FILE: Final = "memsvc.yaml"
"""In the data folder: what `memsvc embeddings use` and its kin wrote, over the shipped defaults."""

PROJECTS_A_PAGE: Final = 100

Owner = Annotated[
    str | None,
    Option(
        "--tenant",
        help="The tenant, as 64 hexadecimal digits; the default is the tenant of the key.",
    ),
]


def settings_file(config: Path | None, data_dir: Path | None) -> Path:
    """Return the file of the user's settings: the named one, or else that of the data folder."""
    folder = data_dir or os.environ.get("MEMSVC_DATA_DIR") or Settings().data_dir
    return config or Path(folder) / SETTINGS_FILE


def settings_of(config: Path | None, **overrides: Any) -> Settings:
    """Return the settings of this command: from its options, the environment and the files."""
    file = settings_file(config, overrides.get("data_dir"))
    user_files = [file] if config is None and os.access(file, os.F_OK) else []
    return load(config or default_config(), os.environ, *user_files, **overrides)


def check_database(settings: Settings) -> Settings:
    """Return the settings. Raises NOT_FOUND if the data folder does not have a database yet."""
    if database_setup.database_exists(settings):
        return settings
    raise not_found(
        f"{settings.data_dir.absolute()} does not contain a database",
        recovery="create a database with `memsvc serve`, name a server with --url or"
        f" {URL_VARIABLE}, or name another data folder with --data-dir",
    )


def with_database(settings: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """Return the result of `work` on the database, which is migrated first and closed after."""

    async def run(urls: database_setup.DatabaseUrls) -> Answer:
        await database_setup.migrate_database(urls, settings)
        options = settings.database.model_copy(update={"pool_min": 1})
        database = await Database.open(urls.app, options, Metrics())
        try:
            return await work(database)
        finally:
            await database.close()

    with database_setup.database_urls(settings) as urls:
        return asyncio.run(run(urls))


async def owner_of(
    database: Database, settings: Settings, tenant: str | None, project: str | None
) -> bytes:
    """Return the tenant that a command works on: the named one, or else the tenant of a key.

    The key is read from the environment or a prompt, never from the command line. Raises
    PERMISSION_DENIED for a key that is not valid, may not write, or may not use the project (or all
    projects)."""
    if tenant is not None:
        return await known_tenant(database, tenant)
    text = os.environ.get(KEY_VARIABLE) or prompt(
        "The API key for this memory", hide_input=True, err=True
    )
    key_hash = keys.hash_key(text.strip())
    now = SystemClock().now()
    if not settings.database.url:  # with a server elsewhere, its start does that
        await list_legacy_keys(database, settings.auth, settings.host, now)
    key = await keys.find_key(database, key_hash)
    if key is None and settings.auth.mode == "open":
        await keys.remember_tenant(database, key_hash, now)
        return key_hash
    if key is None or not key.is_valid(now):
        recovery = f"set {KEY_VARIABLE} to a valid key; `memsvc key create` creates one"
        raise UnknownKeyError(text, visible_key_file(settings), recovery=recovery)
    outside_projects = key.projects is not None and project not in key.projects
    if Permission.WRITE not in key.permissions or outside_projects:
        raise permission_denied(
            "the key needs the write permission and access to the project; without --project,"
            " it needs access to all projects",
            recovery="use another key, or name the tenant with --tenant",
        )
    return key.tenant


async def scopes_of(database: Database, tenant: bytes, only: str | None) -> AsyncIterator[Scope]:
    """Yield the scope of this project or, for None, of each project of a tenant that has files."""
    if only is not None:
        yield Scope(tenant, check_project(only))
        return
    after = ""
    while True:
        async with database.begin_tenant(Scope(tenant, "*"), read_only=True) as tx:
            names = await projects.names(tx, like="", after=after, only=None, limit=PROJECTS_A_PAGE)
        for name in names:
            yield Scope(tenant, name)
        if not names:
            return
        after = names[-1]


async def known_tenant(database: Database, text: str) -> bytes:
    """Return the tenant that these digits stand for. Raises NOT_FOUND if it was never seen.

    A tenant without keys that has data is known too."""
    tenant = tenant_of(text)
    if await keys.is_known(database, tenant):
        return tenant
    async with database.begin_tenant(Scope(tenant, ALL_PROJECTS), read_only=True) as tx:
        if await projects.next_project(tx, "") is None:
            raise keys.unknown_tenant()
    return tenant


def tenant_of(text: str) -> bytes:
    """Return the tenant that these hexadecimal digits stand for."""
    try:
        tenant = bytes.fromhex(text)
    except ValueError:
        tenant = b""
    if len(tenant) != TENANT_BYTES:
        raise invalid(f"a tenant must be given as {TENANT_BYTES * 2} hexadecimal digits")
    return tenant
