"""The overview, projects, settings and playground; API keys, usage, jobs, calls and purges."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from starlette.responses import Response

from memsvc.console import charts
from memsvc.console.page import FormFields, Page, filled, parse_int, parse_number, parse_time, words
from memsvc.core.errors import Code, MemsvcError, invalid, not_found, permission_denied
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS
from memsvc.core.tools import Tool

ROWS_MAX: Final = 5
EXPIRY_NOTICE: Final = timedelta(days=7)
COUNT_LABELS: Final = {
    "files": "files",
    "sessions": "sessions",
    "turns": "turns",
    "facts": "facts",
    "memories": "memories",
    "blocks": "knowledge blocks",
    "boards": "boards",
    "documents": "documents",
    "stored_bytes": "stored",
    "calls": "calls in the last 24 h",
}
"""Counts of a project's volume, and their labels."""


async def keys(page: Page) -> Response:
    """List the keys that the caller may see."""
    found = await page.call("keys_list")
    return page.render("keys.html", keys=found["keys"])


async def usage(page: Page) -> Response:
    """Show the usage of each project: a part of the page about keys, or a page of its own."""
    counted = await page.call("tenant_usage", project=ALL_PROJECTS)
    return page.render("usage.html", part="parts/usage.html", usage=counted)


async def create_key(page: Page) -> Response:
    """Make a key and show it, this once: no address shows it again."""
    form = await page.form()
    made = await page.call("keys_create", **_key_properties(form), label=form["label"] or None)
    return page.render("key_made.html", made=made, old=None)


async def rotate_key(page: Page) -> Response:
    """Make a key in place of another, which expires when the overlap is over."""
    form = await page.form()
    hours = parse_number(form["overlap"], "the overlap")
    made = await page.call("keys_rotate", key_id=form["id"], overlap_hours=hours)
    return page.render("key_made.html", made=made, old=made["old"])


async def revoke_key(page: Page) -> Response:
    """Revoke a key."""
    form = await page.form()
    done = await page.call("keys_revoke", key_id=form["id"], even_last="even_last" in form)
    return page.go("keys", done=f"The key {done['key']['label']} was revoked.")


async def key(page: Page) -> Response:
    """Show one key, to be changed, rotated or revoked."""
    name = page.given_text("id")
    key = next(
        (one for one in (await page.call("keys_list"))["keys"] if one["key_id"] == name), None
    )
    if key is None:
        raise not_found("the key does not exist")
    return page.render("key.html", key=key)


async def update_key(page: Page) -> Response:
    """Change the label, rights and expiry of a key."""
    form = await page.form()
    properties = _key_properties(form)
    done = await page.call(
        "keys_update",
        key_id=form["id"],
        label=form["label"] or None,
        **{"hidden_tools": [], "toolsets": []} | properties,
        all_projects="projects" not in properties,
        any_user="user_id" not in properties,
        never_expires="expires_at" not in properties,
        even_last="even_last" in form,
    )
    return page.go("keys", done=f"The key {done['key']['label']} was changed.")


def _key_properties(form: FormFields) -> JsonObject:
    """Return the properties of a key; empty fields are left out."""
    fields = {
        "permissions": form.texts("permissions"),
        "projects": words(form["projects"]),
        "hidden_tools": words(form["hidden_tools"]),
        "toolsets": words(form["toolsets"]),
        "user_id": form["user_id"].strip(),
        "expires_at": parse_time(form["expires_at"], "the expiry"),
    }
    return {name: value for name, value in fields.items() if value}


JOBS_MAX: Final = 100
JOB_STATES: Final = {
    "": "all",
    "waiting": "waiting",
    "running": "running",
    "failed": "failed permanently",
}


async def jobs(page: Page) -> Response:
    """List the jobs of the project, newest first, or those in one state."""
    state = page.given_text("state")
    found = await page.call("tenant_jobs", state=state or None, limit=JOBS_MAX)
    return page.render(
        "jobs.html",
        jobs=found["jobs"],
        counts=found["counts"],
        state=state,
        states=JOB_STATES,
        most=JOBS_MAX,
    )


async def settle_job(page: Page) -> Response:
    """Retry a job, or remove it from the queue."""
    form = await page.form()
    job, action = parse_int(form["id"], "the job"), form["action"]
    done = await page.call("tenant_settle_job", id=job, action=action)
    message = "will be retried" if action == "retry" else "was removed from the queue"
    return page.go("jobs", state=form["state"], done=f"{done['name']} {message}.")


PURGE_LEVELS: Final = {
    "session": "one session in this project",
    "user": "one user in this project",
    "path": "one file or directory in this project",
    "project": "this whole project",
    "tenant": "all data of this key's tenant, in all projects",
}


async def purge(page: Page) -> Response:
    """Show a form, then what would be removed, then the receipt."""
    if page.request.method == "GET":
        if not page.has("tenant_purge"):
            raise permission_denied("this key is not allowed to purge data")
        return page.render(
            "purge.html",
            levels=PURGE_LEVELS,
            level=page.given_text("level"),
            name=page.given_text("name"),
        )
    form = await page.form()
    level, name = form["level"], form["name"]
    args = {"project": ALL_PROJECTS if level == "tenant" else page.project, "level": level}
    if level not in ("tenant", "project"):
        args["name"] = name
    problem = None
    if "confirm" in form:
        try:
            receipt = await page.call("tenant_purge", **args, confirm=form["confirm"])
            return page.render("purged.html", receipt=receipt)
        except MemsvcError as error:
            if error.code is not Code.INVALID_ARGUMENT:
                raise
            problem = error
    return page.render(
        "purge_confirm.html",
        status=problem.http_status if problem else 200,
        would=await page.call("tenant_purge", **args, dry_run=True),
        name=name,
        levels=PURGE_LEVELS,
        problem=problem and problem.body(),
    )


HOURS: Final = 24
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
    project = ALL_PROJECTS if where == "all" else page.project
    found = await page.call(
        "calls_list",
        project=project,
        **filled(filters),
        **{name: parse_time(text, name) for name, text in times.items() if text},
        cursor=page.given_text("cursor"),
    )
    params = filters | times | {"in": where}
    return page.render(
        "calls.html",
        part="parts/call_rows.html",
        calls=found["calls"],
        more=page.more("calls", found, **params),
        where=where,
        asked=filters | times,
        filtered=any((filters | times).values()),
        surfaces=CALL_SOURCES,
        day=None if page.partial else await day_of_calls(page, project),
    )


async def day_of_calls(page: Page, project: str) -> JsonObject | None:
    """Return the counts and the chart of the last 24 hours; None without the permission."""
    if not page.has("calls_summary"):
        return None
    counted = await page.call("calls_summary", project=project, hours=HOURS)
    chart = charts.calls_by_hour(counted["hours"], datetime.fromisoformat(counted["since"]), HOURS)
    return counted | {"chart": chart}


async def overview(page: Page) -> Response:
    """Show the overview from at most five calls, none of which reads all that a project has."""
    health = await page.given.health()
    errors: dict[str, JsonObject] = {}
    day = await _call_or_none(page, errors, "calls_summary")
    jobs = await _call_or_none(page, errors, "tenant_jobs", state="failed", limit=ROWS_MAX)
    sessions = await _call_or_none(page, errors, "memory_list_sessions", limit=ROWS_MAX)
    failed = await _call_or_none(page, errors, "calls_list", status="error", limit=ROWS_MAX)
    knowledge = await _call_or_none(page, errors, "elfmem_status")
    return page.render(
        "overview.html",
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
    return page.render(
        "volume.html",
        part="parts/volume.html",
        held=COUNT_LABELS,
        counted=counted["total"] | {"calls": sum(counted["total"]["calls"].values())},
        counted_at=counted["counted_at"],
    )


async def _call_or_none(
    page: Page, errors: dict[str, JsonObject], tool: str, **arguments: Any
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


PROJECTS_MAX: Final = 100
KINDS: Final = {
    "retention": "Retention",
    "quota": "Storage and size limits",
    "rate": "Rate limits",
}


async def settings(page: Page) -> Response:
    """Show what the key may do, its limits, and its tools."""
    memories = (
        await page.call("memories_get_settings") if page.has("memories_get_settings") else None
    )
    limits = (await page.call("tenant_limits"))["limits"] if page.has("tenant_limits") else []
    return page.render(
        "settings.html",
        groups=_grouped(page.calls.tools()),
        hidden=sorted(page.caller.hidden_tools),
        memories=memories,
        limits={
            title: [one for one in limits if one["kind"] == kind] for kind, title in KINDS.items()
        },
    )


async def go_to_project(page: Page) -> Response:
    """Redirect to the overview of another project."""
    name = check_project(page.given_text("name").strip())
    if not page.caller.can_access(name):
        raise permission_denied("this key does not have access to that project")
    return page.go("", project=name)


async def projects(page: Page) -> Response:
    """Show the projects that hold anything, as suggestions of a field."""
    names = sorted(page.caller.projects or ())
    if page.has("file_projects"):
        names = (await page.call("file_projects", project=ALL_PROJECTS, limit=PROJECTS_MAX))[
            "projects"
        ]
    return page.render("parts/projects.html", names=names)


LONG: Final = frozenset(
    {"content", "file_text", "text", "prompt", "base_instructions", "new_text", "old_text"}
)


async def tool_form(page: Page) -> Response:
    """Show the tools of the caller with the form of one of them, or the result of a call."""
    if page.request.method == "POST":
        return await _called(page)
    name = page.given_text("tool")
    tool = page.tool(name)
    if name and tool is None:
        raise not_found("the tool does not exist")
    fields = _fields(page.given.schema(tool), page.project) if tool else []
    return page.render(
        "playground.html",
        tool=tool,
        fields=fields,
        groups=_grouped(sorted(page.calls.tools(), key=lambda one: one.name)),
        given={},
    )


def _grouped(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    """Return the tools by the titles of their groups, which are sorted."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        groups.setdefault(group_of(tool), []).append(tool)
    return dict(sorted(groups.items()))


async def _called(page: Page) -> Response:
    form = await page.form()
    name = form["tool"]
    tool = page.tool(name)
    if tool is None:
        raise not_found("the tool does not exist")
    fields = _fields(page.given.schema(tool), page.project)
    try:
        arguments = _arguments(form, fields)
    except MemsvcError as error:
        body, failed = error.body(), True
    else:
        outcome = await page.calls.call(name, arguments)
        body, failed = outcome.body, outcome.error is not None
    return page.render(
        "playground.html",
        part="parts/outcome.html",
        tool=tool,
        fields=fields,
        groups={},
        given={field["name"]: form[f"argument-{field['name']}"] for field in fields},
        result=body,
        failed=failed,
    )


def _fields(schema: Mapping[str, Any], project: str) -> list[JsonObject]:
    """Return the arguments of a tool as fields of a form."""
    required = set(schema.get("required", ()))
    fields = []
    for name, spec in schema.get("properties", {}).items():
        kinds = {spec.get("type"), *(one.get("type") for one in spec.get("anyOf", ()))} - {
            None,
            "null",
        }
        kind = kinds.pop() if len(kinds) == 1 else "json"
        default = spec.get("default")
        fields.append(
            {
                "name": name,
                "kind": kind if kind in ("string", "integer", "number", "boolean") else "json",
                "long": name in LONG,
                "choices": spec.get("enum"),
                "about": spec.get("description", ""),
                "required": name in required,
                "default": project if name == "project" and default != ALL_PROJECTS else default,
            }
        )
    return fields


def _arguments(form: FormFields, fields: list[JsonObject]) -> JsonObject:
    """Return the arguments in a form, without empty fields; INVALID_ARGUMENT for bad values."""
    arguments: JsonObject = {}
    for field in fields:
        name, text = field["name"], form[f"argument-{field['name']}"]
        if text == "" and not field["required"]:
            continue
        try:
            match field["kind"]:
                case "integer":
                    arguments[name] = int(text)
                case "number":
                    arguments[name] = float(text)
                case "boolean":
                    arguments[name] = text == "true"
                case "json":
                    arguments[name] = orjson.loads(text)
                case _:
                    arguments[name] = text.replace("\r\n", "\n")
        except ValueError:
            expected = "JSON" if field["kind"] == "json" else f"a {field['kind']}"
            raise invalid(f"{name} must be {expected}") from None
    return arguments


GROUPS: Final = {
    "files": "Files",
    "turns": "Turn memory",
    "knowledge": "Knowledge",
    "memories": "Memories",
    "whiteboard": "Boards",
    "notebook": "Notebook",
    "admin": "Administration",
}


def group_of(tool: Tool) -> str:
    """Return the title of the group of a tool; the tool `memory` keeps files."""
    return "Files" if tool.name == "memory" else GROUPS.get(tool.toolset, "General")
