"""Secrets and closed console sessions that the servers of one database share, beyond tenants."""

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


async def close_session(
    database: Database, session: bytes, expires_at: datetime, now: datetime
) -> None:
    """Store that a session is closed, until its cookies expire; delete expired rows."""
    await database.registry(
        "INSERT INTO ended_sessions (session, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        session,
        expires_at,
    )
    await database.registry("DELETE FROM ended_sessions WHERE expires_at < $1", now)


async def is_session_closed(database: Database, session: bytes) -> bool:
    """Return whether a session was closed."""
    return bool(await database.registry("SELECT 1 FROM ended_sessions WHERE session = $1", session))
