"""API keys, usage of projects, jobs, the call log, and purges."""

from datetime import datetime
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from memsvc.console import charts
from memsvc.console.page import Page, filled, parse_int, parse_number, parse_time, words
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission


async def keys(page: Page) -> Response:
    """List the keys that the caller may see."""
    found = await page.call("keys_list")
    return page.render(
        "keys.html",
        title="Keys and usage",
        here="keys",
        keys=found["keys"],
        permissions=[one.value for one in Permission if one in page.caller.permissions],
        done=page.given_text("done"),
    )


async def usage(page: Page) -> Response:
    """Show the usage of each project: a part of the page about keys, or a page of its own."""
    counted = await page.call("tenant_usage", project="*")
    template = "parts/usage.html" if page.partial else "usage.html"
    return page.render(template, title="Usage", here="keys", usage=counted)


async def create_key(page: Page) -> Response:
    """Make a key and show it, this once: no address shows it again."""
    form = await page.form()
    made = await page.call(
        "keys_create", **_key_properties(form), label=str(form.get("label", "")) or None
    )
    return page.render("key_made.html", title="A new key", here="keys", made=made, old=None)


async def rotate_key(page: Page) -> Response:
    """Make a key in place of another, which expires when the overlap is over."""
    form = await page.form()
    hours = parse_number(str(form.get("overlap", "")), "the overlap")
    made = await page.call("keys_rotate", key_id=str(form.get("id", "")), overlap_hours=hours)
    return page.render("key_made.html", title="A new key", here="keys", made=made, old=made["old"])


async def revoke_key(page: Page) -> Response:
    """Revoke a key."""
    form = await page.form()
    done = await page.call(
        "keys_revoke", key_id=str(form.get("id", "")), even_last="even_last" in form
    )
    return page.go("keys", done=f"{done['key']['label']} opens nothing any more.")


async def key(page: Page) -> Response:
    """Show one key, to be changed, rotated or revoked."""
    name = page.given_text("id")
    key = next(
        (one for one in (await page.call("keys_list"))["keys"] if one["key_id"] == name), None
    )
    if key is None:
        raise MemsvcError(Code.NOT_FOUND, "there is no such key")
    return page.render(
        "key.html",
        title="Key",
        here="keys",
        key=key,
        permissions=[one.value for one in Permission if one in page.caller.permissions],
    )


async def update_key(page: Page) -> Response:
    """Change the label, rights and expiry of a key."""
    form = await page.form()
    properties = _key_properties(form)
    done = await page.call(
        "keys_update",
        key_id=str(form.get("id", "")),
        label=str(form.get("label", "")) or None,
        **{"hidden_tools": [], "toolsets": []} | properties,
        all_projects="projects" not in properties,
        never_expires="expires_at" not in properties,
        even_last="even_last" in form,
    )
    return page.go("keys", done=f"{done['key']['label']} was changed.")


def _key_properties(form: FormData) -> dict[str, Any]:
    """Return the properties of a key; empty fields are left out."""
    fields = {
        "permissions": [str(one) for one in form.getlist("permissions")],
        "projects": words(str(form.get("projects", ""))),
        "hidden_tools": words(str(form.get("hidden_tools", ""))),
        "toolsets": words(str(form.get("toolsets", ""))),
        "expires_at": parse_time(str(form.get("expires_at", "")), "the end"),
    }
    return {name: value for name, value in fields.items() if value}


JOBS_MAX: Final = 100
JOB_STATES: Final = {
    "": "all",
    "waiting": "waiting",
    "running": "running",
    "failed": "failed for good",
}


async def jobs(page: Page) -> Response:
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
        states=JOB_STATES,
        most=JOBS_MAX,
        done=page.given_text("done"),
    )


async def settle_job(page: Page) -> Response:
    """Retry a job, or remove it from the queue."""
    form = await page.form()
    job, action = parse_int(str(form.get("id", "")), "the job"), str(form.get("action", ""))
    done = await page.call("tenant_settle_job", id=job, action=action)
    message = "is tried again" if action == "retry" else "was taken out of the queue"
    return page.go("jobs", state=str(form.get("state", "")), done=f"{done['name']} {message}.")


PURGE_LEVELS: Final = {
    "session": "a session of this project",
    "user": "a user of this project",
    "path": "a file or directory of this project",
    "project": "this project, all of it",
    "tenant": "everything that this key's tenant has, of all projects",
}


async def purge(page: Page) -> Response:
    """Show a form, then what would be removed, then the receipt."""
    if page.request.method == "GET":
        if not page.has("tenant_purge"):
            raise MemsvcError(Code.PERMISSION_DENIED, "this key may not purge")
        return page.render(
            "purge.html",
            title="Purge",
            here="keys",
            levels=PURGE_LEVELS,
            level=page.given_text("level"),
            name=page.given_text("name"),
        )
    form = await page.form()
    level, name = str(form.get("level", "")), str(form.get("name", ""))
    args = {"project": "*" if level == "tenant" else page.project, "level": level}
    name_args = {"name": name} if level not in ("tenant", "project") else {}
    if "confirm" not in form:
        preview = await page.call("tenant_purge", **args, **name_args, dry_run=True)
        return page.render(
            "purge_confirm.html",
            title="Purge",
            here="keys",
            would=preview,
            name=name,
            levels=PURGE_LEVELS,
            problem=None,
        )
    try:
        receipt = await page.call(
            "tenant_purge", **args, **name_args, confirm=str(form.get("confirm", ""))
        )
    except MemsvcError as error:
        if error.code is not Code.INVALID_ARGUMENT:
            raise
        preview = await page.call("tenant_purge", **args, **name_args, dry_run=True)
        return page.render(
            "purge_confirm.html",
            status=error.http_status,
            title="Purge",
            here="keys",
            would=preview,
            name=name,
            levels=PURGE_LEVELS,
            problem=error.body(),
        )
    return page.render("purged.html", title="Purged", here="keys", receipt=receipt)


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


async def calls(page: Page) -> Response:
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
