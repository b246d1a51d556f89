"""The call log: filtered and a page at a time, with a chart of the last day."""

from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from memsvc.console import charts
from memsvc.console.page import Page
from memsvc.console.views.form_fields import filled, parse_time

HOURS: Final = 24
ALL_PROJECTS: Final = "*"
FILTERS: Final = ("tool", "status", "code", "surface", "key_label", "session_id")
CALL_SOURCES: Final = (
    "mcp",
    "stdio",
    "sse",
    "rest",
    "console",
    "pipe",
    "subscription",
    "completion",
)


async def listed(page: Page) -> Response:
    """List calls, the latest first."""
    filters = {name: page.given_text(name) for name in FILTERS}
    times = {name: page.given_text(name) for name in ("since", "until")}
    where = page.given_text("in")
    found = await page.call(
        "calls_list",
        project=ALL_PROJECTS if where == "all" else page.project,
        **filled(filters),
        **{name: parse_time(text, name) for name, text in times.items() if text},
        cursor=page.given_text("cursor"),
    )
    params = filters | times | {"in": where}
    context = {
        "calls": found["calls"],
        "more": page.url("calls", **params, cursor=found["next_cursor"])
        if found["next_cursor"]
        else None,
        "where": where,
    }
    if page.partial:
        return page.render("parts/call_rows.html", **context)
    return page.render(
        "calls.html",
        title="Call log",
        here="calls",
        asked=filters | times,
        filtered=any((filters | times).values()),
        surfaces=CALL_SOURCES,
        day=await day_of_calls(page, ALL_PROJECTS if where == "all" else page.project),
        **context,
    )


async def day_of_calls(page: Page, project: str) -> dict[str, Any] | None:
    """Return the counts and the chart of the last 24 hours; None without the permission."""
    if not page.has("calls_summary"):
        return None
    counted = await page.call("calls_summary", project=project, hours=HOURS)
    chart = charts.calls_by_hour(counted["hours"], datetime.fromisoformat(counted["since"]), HOURS)
    return counted | {"chart": chart}
