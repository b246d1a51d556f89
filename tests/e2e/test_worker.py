"""`memsvc worker` and the worker inside `memsvc serve`, as processes: killed, stopped, and left
without a database."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.core.scope import Scope
from memsvc.store import backlog, jobs
from memsvc.store.database import Database, DatabaseOptions
from tests.e2e.process import CHECKOUT, Served, environment, free_port, typed
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

PATIENCE_S = 40
SCRIPT = CHECKOUT / "tests" / "e2e" / "with_jobs.py"
QUICK = {
    "MEMSVC_WORKER__LEASE_S": "1",
    "MEMSVC_WORKER__POLL_S": "0.2",
    "MEMSVC_SHUTDOWN_GRACE_S": "0.2",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    return tmp_path / "jobs"


@pytest.fixture
async def database(database_urls: DatabaseUrls) -> AsyncIterator[Database]:
    database = await Database.open(database_urls.app, DatabaseOptions(pool_min=1), RecordingMeter())
    yield database
    await database.close()


@contextmanager
def worker(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that has said that it works."""
    log = folder.parent / f"worker-{os.urandom(4).hex()}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "worker", *arguments],
            env=environment(JOBS_FOLDER=str(folder), **QUICK, **variables),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n", log.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def wait(holds: Callable[[], bool]) -> None:
    """Until another process has done something."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def write(database: Database, scope: Scope, *subjects: str) -> None:
    for subject in subjects:
        async with database.begin(scope) as tx:
            await jobs.enqueue(tx, "note", subject, now=SystemClock().now())


async def until_left(database: Database, most: int = 0) -> None:
    """Until the queue has no more than so many jobs."""
    deadline = time.monotonic() + PATIENCE_S
    while len(await backlog.list_jobs(database, limit=10)) > most:
        assert time.monotonic() < deadline
        time.sleep(0.05)  # noqa: ASYNC251 - nothing else happens in this process


async def test_a_job_of_a_worker_that_was_killed_runs_again_and_ends(
    database: Database, database_urls: DatabaseUrls, scope: Scope, folder: Path
) -> None:
    await write(database, scope, "slow", "quick")
    with worker(folder, MEMSVC_DATABASE_URL=database_urls.app) as killed:
        wait((folder / "slow.begun.1").exists)
        await until_left(database, 1)  # the quick one has ended, and the queue knows
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE_S)
    await write(database, scope, "slow")  # which waits behind the one that was killed
    (folder / "release").touch()
    with worker(folder, MEMSVC_DATABASE_URL=database_urls.app) as second:
        wait((folder / "slow.ended.2").exists)
        await until_left(database)
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE_S) == 0
    assert not (folder / "slow.ended.1").exists()
    assert not (folder / "quick.begun.2").exists()
    async with database.begin_tenant(scope) as tx:
        assert await tx.fetch("SELECT FROM job_refs WHERE tenant = $1") == []


async def test_a_worker_that_is_stopped_hands_back_what_it_cannot_end(
    database: Database, database_urls: DatabaseUrls, scope: Scope, folder: Path
) -> None:
    await write(database, scope, "slow")
    with worker(folder, MEMSVC_DATABASE_URL=database_urls.app) as stopped:
        wait((folder / "slow.begun.1").exists)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(PATIENCE_S) == 0
    [handed_back] = await backlog.list_jobs(database, limit=10)
    assert handed_back.state is backlog.JobState.WAITING


async def test_a_failed_job_is_listed_tried_again_and_dropped_on_the_command_line(
    database: Database, database_urls: DatabaseUrls, scope: Scope, folder: Path
) -> None:
    urls = {
        "MEMSVC_DATABASE_URL": database_urls.app,
        "MEMSVC_DATABASE__ADMIN_URL": database_urls.admin,
    }
    await write(database, scope, "bad")
    with worker(folder, **urls):
        wait((folder / "bad.begun.1").exists)
        while not (
            failed := json.loads(
                typed("jobs", "list", "--state", "failed", "--json", **urls).stdout
            )
        ):
            pass
        [job] = failed
        assert (job["subject"], job["code"], job["tenant"]) == (
            "bad",
            "INTERNAL_ERROR",
            scope.tenant.hex(),
        )
        assert typed("jobs", "retry", str(job["id"]), **urls).stdout == f"waiting {job['id']}\n"
        wait((folder / "bad.begun.2").exists)
    table = typed("jobs", "list", **urls).stdout.splitlines()
    assert table[0].startswith("id\tstate\tname")
    assert len(table) == 2
    await database.registry("UPDATE memsvc_queue SET status = 'failed'")
    assert (
        json.loads(typed("jobs", "drop", "--json", str(job["id"]), **urls).stdout)["state"]
        == "dropped"
    )
    gone = typed("jobs", "drop", str(job["id"]), **urls)
    recovery = "Recovery: list the jobs with `memsvc jobs list`\n"
    assert gone.returncode == 1
    assert gone.stderr == f"Error: the job does not exist\n{recovery}"


def test_on_the_embedded_server_the_worker_runs_beside_a_server_that_runs_no_jobs(
    data_folder: Path, folder: Path
) -> None:
    data_dir = data_folder
    with Served(data_dir, MEMSVC_WORKER__ENABLED="false") as served:
        assert "worker" not in served.get("/readyz").json()
        with worker(folder, "--data-dir", str(data_dir)) as beside:
            key = (data_dir / "api-key").read_text().strip()
            answer = httpx2.get(f"{served.url}/api/jobs", headers={"X-API-Key": key}, timeout=10)
            assert answer.json()["jobs"] == []
            beside.send_signal(signal.SIGTERM)
            assert beside.wait(PATIENCE_S) == 0
        assert served.get("/readyz").status_code == 200


async def test_a_worker_whose_connections_the_database_ends_goes_on(
    database: Database, database_urls: DatabaseUrls, scope: Scope, folder: Path
) -> None:
    with worker(folder, MEMSVC_DATABASE_URL=database_urls.app) as steady:
        admin = await asyncpg.connect(database_urls.superuser)
        ended = await admin.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert len(ended) >= 3
        await admin.close()
        again = await Database.open(
            database_urls.app, DatabaseOptions(pool_min=1), RecordingMeter()
        )
        await write(again, scope, "quick")
        wait((folder / "quick.ended.1").exists)
        await until_left(again)
        await again.close()
        steady.send_signal(signal.SIGTERM)
        assert steady.wait(PATIENCE_S) == 0


async def test_a_worker_can_be_probed_and_scraped_while_it_works(
    database_urls: DatabaseUrls, folder: Path
) -> None:
    port = free_port()
    given = {"MEMSVC_DATABASE__URL": database_urls.app, "MEMSVC_WORKER__PORT": str(port)}
    with worker(folder, **given, MEMSVC_METRICS__TOKEN="of-the-scraper") as process:

        def get(path: str, **headers: str) -> httpx2.Response:
            return httpx2.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=10)

        assert get("/healthz").json() == {"status": "ok"}
        wait(lambda: get("/readyz").status_code == 200)
        assert get("/readyz").json()["worker"] is True
        assert get("/metrics").status_code == 401
        assert get("/metrics", Authorization="Bearer of-somebody").status_code == 401
        wait(
            lambda: (
                "memsvc_index_bytes 0.0"
                not in get("/metrics", Authorization="Bearer of-the-scraper").text
            )
        )
        assert (
            "# TYPE memsvc_job_runs_total counter"  # a job's series begins with its first run
            in get("/metrics", Authorization="Bearer of-the-scraper").text
        )
        assert get("/mcp").status_code == 404
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
