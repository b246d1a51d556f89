"""The script that backs up a PostgreSQL which memsvc does not run."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memsvc.adapters.postgres_setup import ServerUser, open_to, server_user_of, set_owner
from memsvc.core.scope import Scope
from tests.e2e.restored import Writers, judged, served
from tests.servers import TestServer, in_memory

pytestmark = pytest.mark.slow


def installed() -> list[str]:
    """PostgreSQLs of this machine, the newest last."""
    found = Path("/usr/lib/postgresql").glob("[0-9]*/bin/pg_verifybackup")
    return sorted((str(one.parent) for one in found), key=lambda path: int(Path(path).parent.name))


PROGRAMS = (
    [os.environ["MEMSVC_TEST_POSTGRES"]] if "MEMSVC_TEST_POSTGRES" in os.environ else installed()
)
SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "backup" / "postgres.sh"


class Stranger:
    """A server that memsvc does not run."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.programs = Path(PROGRAMS[-1])
        self._account: ServerUser | None = server_user_of(place / "none")
        set_owner(place, self._account)
        if self._account:
            open_to(self._account, place, self.programs)
        self.superuser = f"postgresql://postgres@/postgres?host={place}&port=5432"

    def start(self, data: Path) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{self.place}' -c hot_standby=off"
        )
        self.run("pg_ctl", "start", "-w", "-D", data, "-l", self.place / "log", "-o", options)
        while self.open("pg_isready", "-q").wait():
            pass

    def stop(self, data: Path) -> None:
        self.run("pg_ctl", "stop", "-w", "-m", "fast", "-D", data)

    def script(self, *arguments: object) -> str:
        return self.run(SCRIPT, *arguments)

    def run(self, *command: object) -> str:
        with self.open(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            told, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
        return str(told)

    def open(self, *command: object, **streams: Any) -> subprocess.Popen[str]:
        account = self._account
        path = f"{self.programs}:{os.environ['PATH']}"
        return subprocess.Popen(
            [str(one) for one in command],
            env={"PATH": path, "PGHOST": str(self.place), "PGPORT": "5432", "PGUSER": "postgres"},
            user=account.user_id if account else None,
            group=account.group_id if account else None,
            extra_groups=[] if account else None,
            cwd=self.place,
            text=True,
            **streams,
        )

    @contextmanager
    def archiving(self, folder: Path) -> Iterator[None]:
        process = self.open(SCRIPT, "archive", folder, stderr=subprocess.PIPE)
        try:
            assert any("starting log streaming" in line for line in process.stderr)
            yield
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory, where PostgreSQL waits for no disk."""
    folder = Path(tempfile.mkdtemp(prefix="memsvc-test-", dir=in_memory()))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(
    not PROGRAMS, reason="no PostgreSQL is installed, and MEMSVC_TEST_POSTGRES names none"
)
async def test_the_database_of_somebody_else_is_restored_to_a_moment_by_the_script(
    place: Path, tokens: Any, scope: Scope
) -> None:
    stranger = Stranger(place)
    data, folder, again = (stranger.place / name for name in ("data", "backups", "again"))
    await asyncio.to_thread(
        stranger.run, stranger.programs / "initdb", "-U", "postgres", "-A", "trust", "-D", data
    )
    with pytest.raises(AssertionError, match="did not report the system identifier"):
        stranger.script("backup", folder)
    assert not folder.exists()
    await asyncio.to_thread(stranger.start, data)
    server = TestServer(stranger.superuser)
    await server.prepare(relax=False)
    server.leave()
    url = server.urls(server.template).app
    try:
        with stranger.archiving(folder):
            async with served(url, tokens, scope) as door:
                writers = Writers(door)
                async with writers.at_work():
                    await writers.get_on()
                    taken = await asyncio.to_thread(stranger.script, "backup", folder)
                    await writers.get_on()
                    moment = datetime.now(UTC)
                    await writers.get_on()
            await asyncio.to_thread(
                stranger.stop, data
            )  # which waits until all of the log has been received
    finally:
        if (data / "postmaster.pid").exists():
            stranger.stop(data)
    with pytest.raises(AssertionError, match="not empty"):
        stranger.script("restore", folder, data)
    shutil.rmtree(data)
    at = f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
    assert Path(taken.strip()).name in stranger.script("restore", folder, again, at)
    await asyncio.to_thread(stranger.start, again)
    try:
        async with served(url, tokens, scope) as door:
            await judged(door, writers, moment)
        with pytest.raises(
            AssertionError, match="of another database, or of this one before a restore"
        ):
            stranger.script("backup", folder)
        elsewhere = folder.with_name("elsewhere")
        assert stranger.script("backup", elsewhere) != (
            kept := stranger.script("backup", elsewhere, 1)
        )
        assert stranger.script("list", elsewhere) == f"{Path(kept.strip()).name}\n"
    finally:
        stranger.stop(again)
    third = stranger.place / "third"
    stranger.script("restore", elsewhere, f"{third}/")
    stranger.start(third)  # though the copy remembers the moment that its server was restored to
    stranger.stop(third)
