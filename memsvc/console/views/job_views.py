"""The queue: pending jobs, and those that failed for good, to retry or drop."""

from typing import Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.form_fields import parse_int

JOBS_MAX: Final = 100
STATES: Final = {"": "all", "waiting": "waiting", "running": "running", "failed": "failed for good"}


async def listed(page: Page) -> Response:
    """List the jobs of the project, newest first, or those in one state."""
    state = page.given_text("state")
    found = await page.call("tenant_jobs", state=state or None, limit=JOBS_MAX)
    return page.render(
        "jobs.html",
        title="Jobs",
        here="jobs",
        jobs=found["jobs"],
        counts=found["counts"],
        state=state,
        states=STATES,
        most=JOBS_MAX,
        done=page.given_text("done"),
    )


async def settle(page: Page) -> Response:
    """Retry a job, or remove it from the queue."""
    form = await page.form()
    job, action = parse_int(str(form.get("id", "")), "the job"), str(form.get("action", ""))
    done = await page.call("tenant_settle_job", id=job, action=action)
    message = "is tried again" if action == "retry" else "was taken out of the queue"
    return page.go("jobs", state=str(form.get("state", "")), done=f"{done['name']} {message}.")
