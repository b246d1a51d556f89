"""Console sessions that were closed before their cookies expired, which every server refuses."""

from datetime import datetime

from memsvc.store.database import Database


async def close(database: Database, session: bytes, expires_at: datetime, now: datetime) -> None:
    """Store that a session is closed, until its cookies expire; delete expired rows."""
    await database.registry(
        "INSERT INTO ended_sessions (session, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        session,
        expires_at,
    )
    await database.registry("DELETE FROM ended_sessions WHERE expires_at < $1", now)


async def is_closed(database: Database, session: bytes) -> bool:
    """Return whether a session was closed."""
    return bool(await database.registry("SELECT 1 FROM ended_sessions WHERE session = $1", session))
