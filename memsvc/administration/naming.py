"""Names under which the call log and recall traces mention what is purged."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.paths import encode_segment
from memsvc.core.problems import LOGGED_CHARS_MAX, printable
from memsvc.core.scope import Scope
from memsvc.store import partings
from memsvc.store.belongings import Rows
from memsvc.store.database import Database

SESSIONS_A_PAGE: Final = 1000
_PATHS: Final = ("path", "path_prefix", "from_path", "to_path", "old_path", "new_path")
"""The logged arguments that name a path."""
_ROOT: Final = "substring(arguments ->> '{0}' FROM '^/[^/]+/[^/]+')"
"""The directory of a session or a user that a path is at or in."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of what is purged: sessions, rows of the call log, the path of files, the user.

    `sessions` are unencoded.
    """

    sessions: Sequence[str]
    calls: Rows
    path: str
    user: str = ""

    def recalls(self, until: datetime) -> list[Rows]:
        """Return the recall traces of these sessions and of this user."""
        named = {"session": tuple(self.sessions), "user_id": (self.user,) if self.user else ()}
        return [Rows("recalls", (column,), names, until) for column, names in named.items() if names]


async def names_of_user(database: Database, scope: Scope, user: str) -> Names:
    """Return the names of a user, of sessions of this user alone, their files, and boards."""
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        async with database.begin(scope, read_only=True) as tx:
            page = await partings.sessions_of(tx, user, shared=False, after=after, most=SESSIONS_A_PAGE)
        found += page
        if len(page) < SESSIONS_A_PAGE:
            boards = f"/whiteboard/{encode_segment(user)}"
            return Names(found, _calls([f"user:{_logged(user)}", f"path:{_logged(boards)}", *_of(found)]), boards, user)


def names_of_session(session: str) -> Names:
    """Return the names of a session and of its files."""
    return Names([session], _calls(_of([session])), "")


def names_of_path(path: str) -> Names:
    """Return the names of a path and of all paths below it.

    The log truncates long paths: of a truncated one, all that begin alike are purged.
    """
    end = len(path) + 1
    columns = [one for name in _PATHS for one in (f"arguments ->> '{name}'", f"left(arguments ->> '{name}', {end})")]
    names = [_logged(path)] if end > LOGGED_CHARS_MAX else [path, f"{path}/"]
    return Names([], Rows("calls", tuple(columns), tuple(names)), path)


def _calls(names: Sequence[str]) -> Rows:
    paths = [f"'path:' || {_ROOT.format(name)}" for name in _PATHS]
    called = [f"'{name}:' || normalize(btrim(arguments ->> '{name}_id'))" for name in ("session", "user")]
    return Rows("calls", (*called, *paths), tuple(names))


def _of(sessions: Sequence[str]) -> list[str]:
    names = [f"session:{_logged(session)}" for session in sessions]
    return names + [f"path:{_logged(f'/memory/{encode_segment(session)}')}" for session in sessions]


def _logged(name: str) -> str:
    """Return a name as the call log holds it."""
    return printable(name, LOGGED_CHARS_MAX)
