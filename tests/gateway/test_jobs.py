"""The routes of jobs: a tenant sees and moves its own, within what its key may do, and nobody
else's."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import asyncpg
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from memsvc.administration.usage_tools import JobTools
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import tools_of
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.dispatch import Catalogue
from memsvc.gateway.rest import PUBLIC_PATHS
from memsvc.store import jobs, keys
from memsvc.store.database import Database
from memsvc.store.jobs import Claim, Ref
from tests.fakes import FakeClock
from tests.gateway.conftest import Gateway, Running

pytestmark = pytest.mark.anyio


@pytest.fixture
def running(running: Running, database: Database, clock: FakeClock) -> Running:
    """Gateways around the tools of jobs."""
    return partial(running, tools=Catalogue(tools_of(JobTools(database, clock))))


MINE = hashlib.sha256(b"key-one").digest()
THEIRS = hashlib.sha256(b"key-two").digest()


async def queue(
    database: Database, clock: FakeClock, tenant: bytes, *subjects: str, project: str = "default"
) -> None:
    for subject in subjects:
        async with database.begin(Scope(tenant, project)) as tx:
            await jobs.enqueue(tx, "tidy", subject, now=clock.now())


async def fail(database: Database, admin: asyncpg.Connection, job: int, subject: str = "a") -> None:
    """What a worker leaves behind of a job that failed for good."""
    row = await admin.fetchrow("SELECT headers::text FROM memsvc_queue WHERE id = $1", job)
    assert row is not None
    scope = Scope(MINE, "default")
    assert await jobs.claim(database, Ref(job, "tidy", scope, subject)) is Claim.RUN
    await admin.execute("UPDATE memsvc_queue SET status = 'failed' WHERE id = $1", job)
    await admin.execute(
        "INSERT INTO memsvc_queue_log (job_id, status, priority, entrypoint, traceback)"
        """ VALUES ($1, 'failed', 0, 'tidy', '{"exception_message": "INTERNAL_ERROR"}')""",
        job,
    )


def listed(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["jobs"]
    return found


async def test_the_routes_are_these_and_those_that_need_no_key_are_three(gateway: Gateway) -> None:
    assert isinstance(gateway.app, Starlette)
    routes: Sequence[Any] = gateway.app.routes
    assert all(isinstance(route, Route) for route in routes)
    assert sorted((route.path, *sorted(route.methods - {"HEAD"})) for route in routes) == [
        ("/api/jobs", "GET"),
        ("/api/jobs/{id}", "DELETE"),
        ("/api/jobs/{id}/retry", "POST"),
        ("/api/openapi.json", "GET"),
        ("/api/tools", "GET"),
        ("/api/tools/{name}", "POST"),
        ("/healthz", "GET"),
        ("/mcp", "DELETE", "GET", "POST"),
        ("/mcp/", "DELETE", "GET", "POST"),
        ("/metrics", "GET"),
        ("/readyz", "GET"),
    ]
    assert {"/healthz", "/readyz", "/metrics"} == PUBLIC_PATHS


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/1/retry"), ("DELETE", "/1")])
async def test_nobody_sees_or_moves_jobs_without_a_key(
    gateway: Gateway, method: str, path: str
) -> None:
    async with gateway.http(key=None) as http:
        answer = await http.request(method, f"/api/jobs{path}")
    assert answer.status_code == 401
    assert answer.json()["code"] == "PERMISSION_DENIED"


async def test_a_tenant_sees_its_own_jobs_by_state(
    gateway: Gateway, database: Database, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    await queue(database, clock, MINE, "a", "b")
    await queue(database, clock, THEIRS, "c")
    async with gateway.http() as http:
        newest, oldest = listed(await http.get("/api/jobs"))
        assert (newest["subject"], oldest["subject"]) == ("b", "a")
        assert {
            name: oldest[name] for name in ("name", "project", "state", "failures", "code")
        } == {
            "name": "tidy",
            "project": "default",
            "state": "waiting",
            "failures": 0,
            "code": None,
        }
        assert oldest["age_s"] >= 0
        assert listed(await http.get("/api/jobs?limit=1")) == [newest]
        await fail(database, admin, oldest["id"])
        [failed] = listed(await http.get("/api/jobs?state=failed"))
        assert (failed["id"], failed["failures"], failed["code"]) == (
            oldest["id"],
            1,
            "INTERNAL_ERROR",
        )
        assert [job["subject"] for job in listed(await http.get("/api/jobs?state=waiting"))] == [
            "b"
        ]
        assert listed(await http.get("/api/jobs?state=running")) == []


async def test_a_failed_job_is_tried_again_and_one_that_waits_is_dropped(
    gateway: Gateway, database: Database, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    await queue(database, clock, MINE, "a")
    async with gateway.http() as http:
        [job] = listed(await http.get("/api/jobs"))
        settled = {"id": job["id"], "name": "tidy", "project": "default"}
        early = await http.post(f"/api/jobs/{job['id']}/retry")
        assert (early.status_code, early.json()["code"]) == (409, "CONFLICT")
        await fail(database, admin, job["id"])
        again = await http.post(f"/api/jobs/{job['id']}/retry")
        assert (again.status_code, again.json()) == (200, settled | {"state": "waiting"})
        dropped = await http.delete(f"/api/jobs/{job['id']}")
        assert (dropped.status_code, dropped.json()) == (200, settled | {"state": None})
        assert listed(await http.get("/api/jobs")) == []


async def test_jobs_of_other_tenants_and_numbers_of_no_job_are_not_found(
    gateway: Gateway, database: Database, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    await queue(database, clock, THEIRS, "a")
    theirs = await admin.fetchval("SELECT id FROM memsvc_queue")
    async with gateway.http() as http:
        assert listed(await http.get("/api/jobs")) == []
        for job in (theirs, theirs + 1, 2**53):
            for answer in (
                await http.post(f"/api/jobs/{job}/retry"),
                await http.delete(f"/api/jobs/{job}"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        for job in (2**53 + 1, "x", "-1"):
            answer = await http.delete(f"/api/jobs/{job}")
            assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert await admin.fetchval("SELECT count(*) FROM memsvc_queue") == 1


@pytest.mark.parametrize(
    "query", ["state=odd", "limit=0", "limit=501", "limit=x", "limit=-1", "limit=1e3"]
)
async def test_what_cannot_be_asked_is_said(gateway: Gateway, query: str) -> None:
    async with gateway.http() as http:
        answer = await http.get(f"/api/jobs?{query}")
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (
        400,
        "INVALID_ARGUMENT",
        False,
    )


async def test_a_key_does_what_it_may_in_the_projects_that_it_may_touch(
    running: Running, database: Database, clock: FakeClock
) -> None:
    everything = {"tenant": MINE, "projects": ["default"]}
    reader = await keys.create_key(
        database, "reader", clock.now(), permissions=[Permission.READ], **everything
    )
    writer = await keys.create_key(
        database, "writer", clock.now(), permissions=[Permission.WRITE], **everything
    )
    keeper = await keys.create_key(
        database,
        "keeper",
        clock.now(),
        permissions=[Permission.READ, Permission.ADMIN],
        **everything,
    )
    await queue(database, clock, MINE, "a")
    await queue(database, clock, MINE, "a", project="beside")
    async with running(auth=AuthOptions(mode="listed")) as gateway:
        async with gateway.http(reader.text) as http:
            [job] = listed(await http.get("/api/jobs"))
            assert job["project"] == "default"
            for answer in (
                await http.post(f"/api/jobs/{job['id']}/retry"),
                await http.delete(f"/api/jobs/{job['id']}"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
        async with gateway.http(writer.text) as http:
            assert (await http.get("/api/jobs")).status_code == 403
        async with gateway.http(keeper.text) as http:
            assert (
                await http.delete(f"/api/jobs/{job['id'] + 1}")
            ).status_code == 404  # it is in another project
            assert (await http.delete(f"/api/jobs/{job['id']}")).status_code == 200


async def test_jobs_are_called_through_the_one_door(
    running: Running, database: Database, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    hidden = ["tenant_jobs", "tenant_settle_job"]
    blind = await keys.create_key(database, "blind", clock.now(), tenant=MINE, hidden_tools=hidden)
    seeing = await keys.create_key(database, "seeing", clock.now(), tenant=MINE)
    await queue(database, clock, MINE, "a")
    job = await admin.fetchval("SELECT id FROM memsvc_queue")
    async with running(auth=AuthOptions(mode="listed")) as gateway:
        async with gateway.http(blind.text) as http:
            for method, path in (("GET", ""), ("POST", f"/{job}/retry"), ("DELETE", f"/{job}")):
                assert (await http.request(method, f"/api/jobs{path}")).status_code == 404
        async with gateway.http(seeing.text) as http:
            assert (await http.delete(f"/api/jobs/{job}")).status_code == 200
    logged = await admin.fetch("SELECT tool, key_label, status FROM calls WHERE status = 'success'")
    assert [tuple(row) for row in logged] == [("tenant_settle_job", "seeing", "success")]
    assert await admin.fetchval("SELECT count(*) FROM calls") == 4
