"""Sessions of the console that were ended before their cookies expired, for every server of the database to refuse."""

from datetime import datetime

from memsvc.store.database import Database


async def end(database: Database, session: bytes, expires_at: datetime, now: datetime) -> None:
    """Store that a session has ended, until its cookies expire by themselves; forget those that have."""
    await database.registry(
        "INSERT INTO ended_sessions (session, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING", session, expires_at
    )
    await database.registry("DELETE FROM ended_sessions WHERE expires_at < $1", now)


async def has_ended(database: Database, session: bytes) -> bool:
    """Return whether a session was ended."""
    return bool(await database.registry("SELECT 1 FROM ended_sessions WHERE session = $1", session))
