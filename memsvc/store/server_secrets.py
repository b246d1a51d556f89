"""Secrets that the servers of one database share; they hold no content and belong to no tenant."""

import secrets
from datetime import datetime

from memsvc.store.database import Database

SECRET_BYTES = 32


async def get_or_create(database: Database, name: str, now: datetime) -> bytes:
    """Return the secret of this name, the same for every server of the database.

    Whichever server needs it first makes it.
    """
    rows = await database.registry("SELECT secret FROM server_secrets WHERE name = $1", name)
    if not rows:
        await database.registry(
            "INSERT INTO server_secrets (name, secret, created_at) VALUES ($1, $2, $3) ON"
            " CONFLICT (name) DO NOTHING",
            name,
            secrets.token_bytes(SECRET_BYTES),
            now,
        )
        rows = await database.registry("SELECT secret FROM server_secrets WHERE name = $1", name)
    secret: bytes = rows[0]["secret"]
    return secret
