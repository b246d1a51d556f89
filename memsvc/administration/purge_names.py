"""Names under which the call log and recall traces mention what is purged."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.paths import encode_segment
from memsvc.core.scope import Scope
from memsvc.core.validation_messages import LOGGED_CHARS_MAX, safe_text
from memsvc.store import purge_steps
from memsvc.store.database import Database
from memsvc.store.ownership import TableRows

SESSIONS_PER_PAGE: Final = 1000
_PATHS: Final = ("path", "path_prefix", "from_path", "to_path", "old_path", "new_path")
"""The logged arguments that name a path."""
_ROOT: Final = "substring(arguments ->> '{0}' FROM '^/[^/]+/[^/]+')"
"""The directory of a session or a user that a path is at or in."""


@dataclass(frozen=True, slots=True)
class PurgeNames:
    """Names of what is purged: sessions, rows of the call log, the path of files, the user.

    `sessions` are unencoded.
    """

    sessions: Sequence[str]
    calls: TableRows
    path: str
    user: str = ""

    def recalls(self, until: datetime) -> list[TableRows]:
        """Return the recall traces of these sessions and of this user."""
        named = {"session": tuple(self.sessions), "user_id": (self.user,) if self.user else ()}
        return [
            TableRows("recalls", (column,), names, until)
            for column, names in named.items()
            if names
        ]


async def names_of_user(database: Database, scope: Scope, user: str) -> PurgeNames:
    """Return the names of a user, of sessions of this user alone, their files, and boards."""
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        async with database.begin(scope, read_only=True) as tx:
            page = await purge_steps.sessions_of(
                tx, user, shared=False, after=after, limit=SESSIONS_PER_PAGE
            )
        found += page
        if len(page) < SESSIONS_PER_PAGE:
            boards = f"/whiteboard/{encode_segment(user)}"
            return PurgeNames(
                found,
                _calls(
                    [
                        f"user:{_as_logged(user)}",
                        f"path:{_as_logged(boards)}",
                        *_session_names(found),
                    ]
                ),
                boards,
                user,
            )


def names_of_session(session: str) -> PurgeNames:
    """Return the names of a session and of its files."""
    return PurgeNames([session], _calls(_session_names([session])), "")


def names_of_path(path: str) -> PurgeNames:
    """Return the names of a path and of all paths below it.

    The log truncates long paths: of a truncated one, all that begin alike are purged.
    """
    end = len(path) + 1
    columns = [
        one
        for name in _PATHS
        for one in (f"arguments ->> '{name}'", f"left(arguments ->> '{name}', {end})")
    ]
    names = [_as_logged(path)] if end > LOGGED_CHARS_MAX else [path, f"{path}/"]
    return PurgeNames([], TableRows("calls", tuple(columns), tuple(names)), path)


def _calls(names: Sequence[str]) -> TableRows:
    paths = [f"'path:' || {_ROOT.format(name)}" for name in _PATHS]
    called = [
        f"'{name}:' || normalize(btrim(arguments ->> '{name}_id'))" for name in ("session", "user")
    ]
    return TableRows("calls", (*called, *paths), tuple(names))


def _session_names(sessions: Sequence[str]) -> list[str]:
    names = [f"session:{_as_logged(session)}" for session in sessions]
    return names + [
        f"path:{_as_logged(f'/memory/{encode_segment(session)}')}" for session in sessions
    ]


def _as_logged(name: str) -> str:
    """Return a name as the call log holds it."""
    return safe_text(name, LOGGED_CHARS_MAX)
