"""The overview: health, calls, pending work, and what needs attention."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.call_views import day_of_calls
from memsvc.core.errors import MemsvcError

ROWS_MAX: Final = 5
EXPIRY_NOTICE: Final = timedelta(days=7)
COUNT_LABELS: Final = {
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


async def show(page: Page) -> Response:
    """Show the overview from at most five calls, none of which reads all that a project has."""
    health = await page.given.health()
    errors: dict[str, dict[str, Any]] = {}
    day = await _call_or_none(page, errors, "calls_summary")
    jobs = await _call_or_none(page, errors, "tenant_jobs", state="failed", limit=ROWS_MAX)
    sessions = await _call_or_none(page, errors, "memory_list_sessions", limit=ROWS_MAX)
    failed = await _call_or_none(page, errors, "calls_list", status="error", limit=ROWS_MAX)
    knowledge = await _call_or_none(page, errors, "elfmem_status")
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
        problems=errors,
        held=COUNT_LABELS,
        expires_soon=_expires_within_notice(page),
    )


async def show_usage(page: Page) -> Response:
    """Show the volume of the project; it is counted after the page, as that may take long."""
    counted = await page.call("tenant_usage")
    template = "parts/volume.html" if page.partial else "volume.html"
    return page.render(
        template,
        title="What is held",
        here="",
        held=COUNT_LABELS,
        counted=counted["total"] | {"calls": sum(counted["total"]["calls"].values())},
        counted_at=counted["counted_at"],
    )


async def _call_or_none(
    page: Page, errors: dict[str, dict[str, Any]], tool: str, **arguments: Any
) -> Mapping[str, Any] | None:
    """Return what a tool answers.

    None where the key may not call it, or where it failed, which `errors` records.
    """
    if not page.has(tool):
        return None
    try:
        if tool == "calls_summary":
            return await day_of_calls(page, page.project)
        return await page.call(tool, **arguments)
    except MemsvcError as error:
        errors[tool] = error.body()
        return None


def _expires_within_notice(page: Page) -> bool:
    expires_at = page.caller.expires_at
    return expires_at is not None and expires_at - page.given.clock.now() < EXPIRY_NOTICE
