"""Schema revisions of this package, and how a server gets to the newest of them.

A server does not migrate by itself: alembic and SQLAlchemy would stay in its memory, 30 MB of them,
for the one time they are needed. It starts a process that does, and waits for it, unless the
database says that the same memsvc has migrated it already.
"""

import asyncio
import hashlib
import re
import sys
from importlib.metadata import version
from pathlib import Path

import orjson

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.package_files import migrations_dir
from memsvc.store.connections import CANNOT_CONNECT, connected_once
from memsvc.store.tables import OPEN_TABLES

_REVISION = re.compile(r'^revision: str = "([^"]+)"$', re.MULTILINE)
_BEFORE = re.compile(r'^down_revision: str \| None = (?:"([^"]+)"|None)$', re.MULTILINE)


@frozen
class Revisions:
    """Revisions of this package."""

    head: str
    previous: frozenset[str]

    @classmethod
    def read_package(cls) -> "Revisions":
        """Read the revisions from the package."""
        before: dict[str, str | None] = {}
        for file in sorted((migrations_dir() / "versions").glob("*.py")):
            text = file.read_text("utf-8")
            revision, down = _REVISION.search(text), _BEFORE.search(text)
            if revision is None or down is None:
                raise ValueError(f"the migration file {file.name} does not state its revision")
            before[revision[1]] = down[1]
        (head,) = before.keys() - before.values()
        return cls(head, frozenset(before) - {head})

    def is_known(self, revision: str | None) -> bool:
        """Return False for a revision that only a newer memsvc can have."""
        return revision is None or revision == self.head or revision in self.previous

    def is_current(self, revision: str | None) -> bool:
        """Return True for the newest revision, and for an unknown one of a newer memsvc."""
        return revision is not None and revision not in self.previous


def fingerprint(app_role: str | None, statement_timeout_ms: int) -> str:
    """Return a hash of all that a migration depends on.

    Revisions, policies, queue, vectors, role.
    """
    here = Path(__file__).parent
    files = [
        *sorted((migrations_dir() / "versions").glob("*.py")),
        *sorted(here.glob("schema*.py")),
        *(here / name for name in ("policies.py", "tables.py", "queue.py", "migrate.py")),
    ]
    whole = hashlib.sha256()
    for part in (*(file.read_bytes() for file in files), version("pgqueuer").encode()):
        whole.update(hashlib.sha256(part).digest())
    whole.update(f"{app_role} {statement_timeout_ms}".encode())
    return whole.hexdigest()


async def has_mark(url: str, mark: str) -> bool:
    """Return whether the last migration left this fingerprint and no table was opened since.

    It holds as far as this role can see.
    """
    try:
        async with connected_once(url) as connection:
            left: str | None = await connection.fetchval(
                "SELECT obj_description(to_regclass('alembic_version'), 'pg_class')"
            )
            opened = await connection.fetch(OPEN_TABLES)
    except CANNOT_CONNECT:
        return False  # the migration reports the error better
    return left == mark and not opened


async def migrate_in_process(
    admin_url: str, app_role: str | None, *, app_password: str | None, statement_timeout_ms: int
) -> tuple[str, ...]:
    """Migrate as `migrate.migrate`, in a process of its own; with its results and its errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "memsvc.store.migrate",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    # through a pipe, where no list of processes shows the passwords
    request = {
        "admin_url": admin_url,
        "app_role": app_role,
        "app_password": app_password,
        "statement_timeout_ms": statement_timeout_ms,
    }
    output, _ = await process.communicate(orjson.dumps(request))
    if process.returncode != 0 or not output:
        raise MemsvcError(
            Code.INTERNAL_ERROR,
            "the database could not be migrated",
            recovery="see the log lines above for the cause",
        )
    result = orjson.loads(output)
    if "code" in result:
        raise MemsvcError(
            Code(result["code"]),
            result["message"],
            recovery=result.get("recovery"),
            retry_after_s=result.get("retry_after_s"),
        )
    return tuple(result["applied"])
