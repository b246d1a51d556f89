"""The overview: health, calls, pending work, and what needs attention."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.calls import day_of_calls
from memsvc.core.errors import MemsvcError

FEW: Final = 5
SOON: Final = timedelta(days=7)
HELD: Final = {
    "files": "files",
    "sessions": "sessions",
    "turns": "turns",
    "facts": "facts",
    "memories": "memories",
    "blocks": "blocks of knowledge",
    "boards": "boards",
    "documents": "documents",
    "stored_bytes": "stored",
    "calls": "calls in 24 h",
}
"""Counts of a project's volume, and their labels."""


async def shown(page: Page) -> Response:
    """Show the overview from at most five calls, none of which reads all that a project has."""
    health = await page.given.health()
    problems: dict[str, dict[str, Any]] = {}
    day = await _asked(page, problems, "calls_summary")
    jobs = await _asked(page, problems, "tenant_jobs", state="failed", limit=FEW)
    sessions = await _asked(page, problems, "memory_list_sessions", limit=FEW)
    failed = await _asked(page, problems, "calls_list", status="error", limit=FEW)
    knowledge = await _asked(page, problems, "elfmem_status")
    return page.render(
        "overview.html",
        title="Overview",
        here="",
        health=health,
        day=day,
        jobs=jobs,
        sessions=sessions,
        failed=failed,
        knowledge=knowledge,
        problems=problems,
        held=HELD,
        expires_soon=_expires_soon(page),
    )


async def volume(page: Page) -> Response:
    """Show the volume of the project; it is counted after the page, as that may take long."""
    counted = await page.call("tenant_usage")
    template = "parts/volume.html" if page.partial else "volume.html"
    return page.render(
        template,
        title="What is held",
        here="",
        held=HELD,
        counted=counted["total"] | {"calls": sum(counted["total"]["calls"].values())},
        counted_at=counted["counted_at"],
    )


async def _asked(
    page: Page, problems: dict[str, dict[str, Any]], tool: str, **arguments: Any
) -> Mapping[str, Any] | None:
    """Return what a tool answers.

    None where the key may not call it, or where it failed, which `problems` records.
    """
    if not page.has(tool):
        return None
    try:
        if tool == "calls_summary":
            return await day_of_calls(page, page.project)
        return await page.call(tool, **arguments)
    except MemsvcError as error:
        problems[tool] = error.body()
        return None


def _expires_soon(page: Page) -> bool:
    expires_at = page.caller.expires_at
    return expires_at is not None and expires_at - page.given.clock.now() < SOON
