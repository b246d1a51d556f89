"""Key of a data folder: made with a new database, kept in a file, used by local processes."""

import asyncio
import os
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from memsvc.adapters.clock import SystemClock
from memsvc.core.errors import permission_denied, unavailable
from memsvc.core.scope import ALL_PERMISSIONS, Permission
from memsvc.core.urls import is_loopback
from memsvc.gateway.auth import AuthOptions
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.keys")

KEY_FILE: Final = "api-key"
LEGACY_LABEL: Final = "adopted"
WRITTEN_S_MAX: Final = 2.0
"""Seconds that another process, started at the same time, may take to write the key it made."""


async def load_key(database: Database, file: Path) -> str:
    """Return the key in the data folder, made as `memsvc serve` makes it at its first start.

    Raises PERMISSION_DENIED when keys were made otherwise, so that this process cannot know one.
    """
    await first_key(database, file, SystemClock().now())
    deadline = monotonic() + WRITTEN_S_MAX
    while not (text := _read_secret(file)) and monotonic() < deadline:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.05)
    if not text:
        raise permission_denied(
            f"no API key was given, and {file} does not contain one",
            recovery="set MEMSVC_API_KEY to an existing key, or create one with `memsvc key"
            " create`",
        )
    return text


async def first_key(database: Database, file: Path, now: datetime) -> tuple[str, str]:
    """Return the key to show and a sentence about it; make a database's first key and store it.

    The key's text is shown the first time only. A key that the file holds is never replaced.
    """
    stored = _read_secret(file)
    if stored is not None:
        _warn_if_open(file)
        found = await keys.find_key(database, keys.hash_key(stored))
        if found is not None and found.is_valid(now):
            return f"<the key in {file}>", f"The API key is in {file}."
        tenant = f" --tenant {found.tenant.hex()}" if found is not None else ""
        return (
            "<API key>",
            (
                f"This server no longer accepts the API key in {file}: create a new key with"
                f" `memsvc key create{tenant}`."
            ),
        )
    if any(
        key.is_valid(now) and key.label != LEGACY_LABEL for key in await keys.list_keys(database)
    ):
        return (
            "<API key>",
            (
                "This server already has API keys: use one of them, or create a new key with"
                " `memsvc key create`."
            ),
        )
    made = await keys.create_key(database, "first", now)
    try:
        _write_secret(file, made.text)
    except OSError as error:
        await keys.revoke_key(database, made.key.key_id, now)
        # another server, started at the same time, was first
        if isinstance(error, FileExistsError):
            return await first_key(database, file, now)
        raise unavailable(
            f"cannot write {file}: {error.strerror}",
            recovery="set data_dir to a writable folder",
        ) from error
    return (
        made.text,
        f"A new API key was created. It is stored in {file}.",
    )


def visible_key_file(settings: Settings) -> Path | None:
    """Return where users of this machine find the key of an embedded data folder.

    None with a database elsewhere.
    """
    return None if settings.database.url else settings.data_dir.absolute() / KEY_FILE


async def list_legacy_keys(
    database: Database, options: AuthOptions, host: str, now: datetime
) -> None:
    """List the keys that opened tenants while any key was a tenant, where these tenants hold data.

    Otherwise their users would be locked out of what they stored. Any key was a tenant on a `host`
    of this machine unless `auth.mode` said otherwise. Keys that are listed, even revoked ones, stay
    as they are. Where tokens are accepted, a tenant may belong to a token: no key opens its row,
    which therefore never counts among those that manage keys.
    """
    if options.mode or not is_loopback(host):
        return
    permissions = ALL_PERMISSIONS - {Permission.ADMIN} if options.oauth.issuer else ALL_PERMISSIONS
    count = 0
    for tenant in await keys.list_open_tenants(database):
        if await keys.has_data(database, tenant):
            count += await keys.list_key(database, tenant, LEGACY_LABEL, permissions, now)
    if count:
        log.warning(
            "keys that clients used while this server accepted any key were added to the list"
            " of valid keys",
            label=LEGACY_LABEL,
            keys=count,
        )


def _read_secret(file: Path) -> str | None:
    """Return the key that is kept in this file, if there is one."""
    return file.read_text("utf-8").strip() if file.exists() else None


def _warn_if_open(file: Path) -> None:
    if file.stat().st_mode & 0o077:
        log.warning(
            "other users can read the file that contains the API key: run chmod 600 on that file",
            file=str(file),
        )


def _write_secret(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)
