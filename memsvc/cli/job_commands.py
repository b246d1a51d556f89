"""Command `memsvc jobs`: list, retry or drop waiting, running and failed jobs.

On a server, the command uses the jobs of the key's tenant, otherwise those of all tenants in the
data folder or database."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final

import orjson
from typer import Argument, Option

from memsvc.adapters.clock import SystemClock
from memsvc.cli.options import known_tenant, with_database
from memsvc.cli.settings_option import CommandPlace, using_place
from memsvc.cli.tool_client import Json, command_group
from memsvc.store import backlog
from memsvc.store.backlog import JobState, QueuedJob
from memsvc.store.database import Database

SERVER_LIMIT_MAX: Final = 500
SETTLED: Final = {"retry": "waiting", "drop": "dropped"}

Numbers = Annotated[
    list[int], Argument(help="Ids of jobs, as `memsvc jobs list` prints them.", metavar="JOB...")
]
COLUMNS = ("id", "state", "name", "project", "subject", "failures", "code", "queued_at", "tenant")


@using_place
def list_jobs(
    place: CommandPlace,
    state: Annotated[JobState | None, Option(help="List only jobs in this state.")] = None,
    tenant: Annotated[
        str | None,
        Option(help="List only jobs of this tenant; needs access to the database, but no key."),
    ] = None,
    limit: Annotated[
        int, Option(min=1, max=100_000, help="Maximum number of jobs; a server lists at most 500.")
    ] = 1000,
    as_json: Json = False,
) -> None:
    """List background jobs, newest first, one per line, with columns separated by tabs."""
    columns: Sequence[str] = COLUMNS
    if place.server and tenant is None:
        columns = COLUMNS[:-1]
        limit = min(limit, SERVER_LIMIT_MAX)
        jobs = place.call("tenant_jobs", state=state, limit=limit)["jobs"]
    else:

        async def listed(database: Database) -> list[QueuedJob]:
            owner = None if tenant is None else await known_tenant(database, tenant)
            return await backlog.list_jobs(database, owner, state=state, limit=limit)

        jobs = [_row(job) for job in with_database(place.settings(), listed)]
    if as_json:
        _print_json(jobs)
        return
    print(*columns, sep="\t")
    for job in jobs:
        print(*("" if job[column] is None else job[column] for column in columns), sep="\t")


@using_place
def retry(place: CommandPlace, jobs: Numbers, as_json: Json = False) -> None:
    """Retry jobs that have failed."""

    async def retry_now(database: Database, job: int) -> None:
        await backlog.retry(database, job, SystemClock().now())

    _settle(place, jobs, "retry", retry_now, as_json=as_json)


@using_place
def drop(place: CommandPlace, jobs: Numbers, as_json: Json = False) -> None:
    """Remove waiting or failed jobs from the queue. A later write may queue them again."""
    _settle(place, jobs, "drop", backlog.drop, as_json=as_json)


def _settle(
    place: CommandPlace,
    jobs: list[int],
    action: str,
    settle: Callable[[Database, int], Awaitable[object]],
    *,
    as_json: bool,
) -> None:
    """Settle jobs one after another, by the server or with `settle`, and print each one's state."""

    async def settle_each(database: Database) -> None:
        for job in jobs:
            await settle(database, job)
            _print_state(as_json, job, SETTLED[action])

    if not place.server:
        with_database(place.settings(), settle_each)
        return
    for job in jobs:
        place.call("tenant_settle_job", id=job, action=action)
        _print_state(as_json, job, SETTLED[action])


def _row(job: QueuedJob) -> dict[str, Any]:
    return {
        "id": job.ref.job,
        "name": job.ref.name,
        "project": job.ref.scope.project,
        "subject": job.ref.subject,
        "state": job.state,
        "failures": job.failures,
        "code": job.code,
        "queued_at": job.queued_at.isoformat(),
        "tenant": job.ref.scope.tenant.hex(),
    }


def _print_state(as_json: bool, job: int, state: str) -> None:
    if as_json:
        _print_json({"id": job, "state": state})
    else:
        print(f"{state} {job}")


def _print_json(value: Any) -> None:
    print(orjson.dumps(value).decode())


commands = command_group({"list": list_jobs, "retry": retry, "drop": drop})
