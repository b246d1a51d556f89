"""Backups of the embedded database, restored to a moment: what was acknowledged before it is there,
and no more."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner

from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.cli.main import commands
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.migrate import migrate
from tests.e2e.restored import Writers, judged, served
from tests.servers import in_memory

pytestmark = pytest.mark.slow


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(one) for one in arguments])


async def memsvc(*arguments: object) -> Any:
    """What a command of an operator answers."""
    done = await asyncio.to_thread(invoked, *arguments, "--json")
    if done.exception is not None:
        raise done.exception
    return orjson.loads(done.stdout)


async def refused(code: Code, *arguments: object) -> str:
    with pytest.raises(MemsvcError) as error:
        await memsvc(*arguments)
    assert error.value.code is code, error.value.message
    return error.value.message


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory, where PostgreSQL waits for no disk, and in which no server is left
    running."""
    folder = Path(tempfile.mkdtemp(prefix="memsvc-test-", dir=in_memory()))
    yield folder
    for pid_file in folder.glob("*/postgres*/postmaster.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("log_lines")  # or what is logged would stand in what commands print
async def test_the_embedded_database_is_restored_to_a_moment(
    place: Path, tokens: Any, scope: Scope
) -> None:
    data, folder = place / "data", place / "it's 100% $(safe)" / "backups"
    embedded = EmbeddedPostgres(data)
    urls = await asyncio.to_thread(embedded.start)
    await migrate(urls.admin_url, "memsvc_app")
    (data / "api-key").write_text("the first key\n")
    async with served(urls.app_url, tokens, scope) as door:
        writers = Writers(door)
        async with writers.at_work():
            await writers.get_on()
            await memsvc("db", "archive", folder, "--data-dir", data)
            await writers.get_on()
            taken = await memsvc("db", "backup", folder, "--data-dir", data)
            await writers.get_on()
            moment = datetime.now(UTC)
            await writers.get_on()
            later = await memsvc("db", "backup", folder, "--keep", 2, "--data-dir", data)
            await writers.get_on()
    await asyncio.to_thread(embedded.stop)
    listed = await memsvc("db", "backups", folder)
    assert [one["missing_segments"] for one in listed["backups"]] == [0, 0]
    assert (later["dropped_backups"], later["dropped_segments"] > 0) == (1, True)
    assert (folder.stat().st_mode | (folder / "base").stat().st_mode) & 0o077 == 0
    assert "already contains a database" in await refused(
        Code.CONFLICT, "db", "restore", folder, "--data-dir", data
    )
    shutil.rmtree(data)

    asked = ("db", "restore", folder, "--data-dir", data, "--at")
    assert "ends before" in await refused(Code.NOT_FOUND, *asked, "2900-01-01T00:00:00Z")
    assert "oldest backup" in await refused(Code.NOT_FOUND, *asked, "2020-01-01T00:00:00Z")
    assert [path.name for path in data.iterdir()] == ["postgres-start.lock"]
    done = await memsvc(*asked, moment.isoformat())
    assert done["backup"] == taken["folder"] != later["folder"]
    assert (data / "api-key").read_text() == "the first key\n"
    urls = await asyncio.to_thread(embedded.start)
    async with served(urls.app_url, tokens, scope) as door:
        await judged(door, writers, moment)
    await asyncio.to_thread(embedded.stop)
    differences = await memsvc("maintain", "--check", "--all", "--data-dir", data)
    assert (differences["differences"], len(differences["projects"])) == (0, 1)
    await goes_on_elsewhere(folder, data)


def everything_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def goes_on_elsewhere(folder: Path, data: Path) -> None:
    """What was restored leaves the log that it came from alone, and has one of its own where it is
    told to."""
    before = everything_in(folder)
    for command in ("archive", "backup"):
        message = await refused(Code.CONFLICT, "db", command, folder, "--data-dir", data)
        assert "that were taken before it was restored" in message
    assert everything_in(folder) == before
    own_log = folder.with_name("own")
    await memsvc("db", "archive", own_log, "--data-dir", data)
    assert [
        one["missing_segments"] for one in (await memsvc("db", "backups", own_log))["backups"]
    ] == [0]
    assert await memsvc("db", "archive", "--off", "--data-dir", data) == {"stopped": True}
    shutil.rmtree(own_log / "base")
    await refused(Code.NOT_FOUND, "db", "restore", own_log, "--data-dir", data.with_name("other"))


async def test_a_backup_that_is_damaged_or_of_something_else_is_refused(place: Path) -> None:
    data, folder = place / "data", place / "backups"
    await refused(Code.NOT_FOUND, "db", "backup", folder, "--data-dir", data)
    assert not folder.exists()
    (place / "diary").mkdir()
    (place / "diary" / "monday.txt").write_text("mine")
    embedded = EmbeddedPostgres(data)
    urls = await asyncio.to_thread(embedded.start)
    await refused(Code.CONFLICT, "db", "backup", place / "diary", "--data-dir", data)
    (folder / "unfinished-1" / "data").mkdir(parents=True)
    (folder / "cluster").write_text("1 1\n")
    assert "another database" in await refused(
        Code.CONFLICT, "db", "backup", folder, "--data-dir", data
    )
    (folder / "cluster").unlink()
    shutil.rmtree(folder / "unfinished-1")
    assert [path.name for path in folder.iterdir()] == [
        "lock"
    ]  # as a first backup leaves it that is killed at once
    connection = await asyncpg.connect(urls.admin_url)
    await connection.execute("CREATE TABLE kept AS SELECT 'as of the backup' AS word")
    taken = await memsvc("db", "backup", folder, "--data-dir", data)
    await connection.execute("UPDATE kept SET word = 'later'")
    await connection.close()
    await asyncio.to_thread(embedded.stop)

    asked = ("db", "restore", folder, "--data-dir", place / "other")
    assert "an archived log" in await refused(
        Code.NOT_FOUND, *asked, "--at", datetime.now(UTC).isoformat()
    )
    (
        folder / "base" / "20200101T000000.000000Z"
    ).mkdir()  # what is left of an older one keeps nobody from this one
    await memsvc(*asked)
    restored = EmbeddedPostgres(place / "other")
    connection = await asyncpg.connect((await asyncio.to_thread(restored.start)).admin_url)
    assert await connection.fetchval("SELECT word FROM kept") == "as of the backup"
    assert await connection.fetchval("SELECT current_setting('archive_mode')") == "off"
    await connection.close()
    await asyncio.to_thread(restored.stop)
    copy = Path(taken["folder"]) / "data"
    (copy / "PG_VERSION").write_text("18 \n")
    asked = ("db", "restore", folder, "--data-dir", place / "third")
    (place / "third" / "postgres-unfinished-of-a-killed-one").mkdir(parents=True)
    assert "PG_VERSION" in await refused(Code.INVALID_CONTENT, *asked)
    (copy / "backup_label").write_text("torn")
    assert "label is damaged" in await refused(Code.INVALID_CONTENT, "db", "backups", folder)
    await refused(Code.INVALID_CONTENT, *asked)
    (copy / "backup_manifest").unlink()
    assert "backup_manifest is missing" in await refused(Code.INVALID_CONTENT, *asked)
    assert [path.name for path in (place / "third").iterdir()] == ["postgres-start.lock"]
