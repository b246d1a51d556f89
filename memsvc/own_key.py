"""The key of a data folder: made with a new database, kept in a file, and used by whoever serves from that folder."""

import asyncio
import os
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Final

from memsvc.adapters.clock import SystemClock
from memsvc.core.errors import Code, MemsvcError
from memsvc.store import keys
from memsvc.store.database import Database

KEY_FILE: Final = "api-key"
WRITTEN_S_MAX: Final = 2.0
"""How long another process, started at the same moment, may take from making the first key to writing it."""


async def own_key(database: Database, file: Path) -> str:
    """The key that the data folder holds, as `memsvc serve` makes it there at its first start. PERMISSION_DENIED when
    keys were made otherwise, so that this process cannot know one."""
    await first_key(database, file, SystemClock().now())
    deadline = monotonic() + WRITTEN_S_MAX
    while not (text := _read_secret(file)) and monotonic() < deadline:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.05)
    if not text:
        raise MemsvcError(
            Code.PERMISSION_DENIED,
            f"no API key was given, and there is none in {file}",
            recovery="set MEMSVC_API_KEY to one of the keys that were made, or make one with `memsvc key create`",
        )
    return text


async def first_key(database: Database, file: Path, now: datetime) -> tuple[str, str]:
    """What to show as the key, and a sentence about it. The first key of a database is made here and kept in the file.

    Its text is shown the first time only. A key that the file holds is never replaced.
    """
    kept = _read_secret(file)
    if kept is not None:
        found = await keys.find_key(database, keys.hash_key(kept))
        if found is not None and found.opens(now):
            return f"<the key in {file}>", f"The API key is in {file}."
        return "<API key>", f"The API key in {file} is not valid here (any more): make one with `memsvc key create`."
    if any(key.opens(now) for key in await keys.list_keys(database)):
        return "<API key>", "Keys were made before: use one of them, or make another with `memsvc key create`."
    made = await keys.create_key(database, "first", now)
    try:
        _write_secret(file, made.text)
    except OSError as error:
        await keys.revoke_key(database, made.key.key_id, now)
        if isinstance(error, FileExistsError):  # another server, started at the same moment, was first
            return await first_key(database, file, now)
        raise MemsvcError(
            Code.UNAVAILABLE, f"cannot write {file}: {error.strerror}", recovery="set data_dir to a folder to write to"
        ) from error
    return made.text, f"The API key was made just now and is shown this once; it is kept in {file}."


def _read_secret(file: Path) -> str | None:
    """The key that is kept in this file, if there is one."""
    return file.read_text("utf-8").strip() if file.exists() else None


def _write_secret(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)
