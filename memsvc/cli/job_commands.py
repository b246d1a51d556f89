"""Command `memsvc jobs`: pending, running and failed jobs of all tenants, to retry or drop."""

from typing import Annotated, Any

import orjson
from typer import Argument, Option

from memsvc.adapters.clock import SystemClock
from memsvc.cli.options import tenant_of, with_database
from memsvc.cli.settings_option import using_settings
from memsvc.cli.tool_client import Json, command_group
from memsvc.settings import Settings
from memsvc.store import backlog
from memsvc.store.backlog import JobState, QueuedJob
from memsvc.store.database import Database

Numbers = Annotated[list[int], Argument(help="Jobs by their number in the list.", metavar="JOB...")]
COLUMNS = ("id", "state", "name", "project", "subject", "failures", "code", "queued_at", "tenant")


@using_settings
def list_jobs(
    settings: Settings,
    state: Annotated[JobState | None, Option(help="Only jobs in this state.")] = None,
    tenant: Annotated[str | None, Option(help="Only jobs of this tenant.")] = None,
    limit: Annotated[int, Option(min=1, max=100_000, help="So many at the most.")] = 1000,
    as_json: Json = False,
) -> None:
    """List the jobs of the queue, newest first, one a line, columns separated by tabs."""
    owner = None if tenant is None else tenant_of(tenant)
    found = with_database(
        settings,
        lambda database: backlog.list_jobs(database, owner, state=state, limit=limit),
    )
    jobs = [_row(job) for job in found]
    if as_json:
        _print_json(jobs)
        return
    print(*COLUMNS, sep="\t")
    for job in jobs:
        print(*("" if job[column] is None else job[column] for column in COLUMNS), sep="\t")


@using_settings
def retry(settings: Settings, jobs: Numbers, as_json: Json = False) -> None:
    """Retry jobs that have failed."""

    async def retry_each(database: Database) -> None:
        for job in jobs:
            await backlog.retry(database, job, SystemClock().now())
            _print_state(as_json, job, "waiting")

    with_database(settings, retry_each)


@using_settings
def drop(settings: Settings, jobs: Numbers, as_json: Json = False) -> None:
    """Remove jobs that wait or have failed from the queue; a later write queues another one."""

    async def drop_each(database: Database) -> None:
        for job in jobs:
            await backlog.drop(database, job)
            _print_state(as_json, job, "dropped")

    with_database(settings, drop_each)


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
