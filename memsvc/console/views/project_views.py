"""The overview, the projects, the settings, and the playground of tools."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import orjson
from starlette.datastructures import FormData
from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.administration_views import day_of_calls
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_project
from memsvc.core.tools import Tool

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


async def overview(page: Page) -> Response:
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


PROJECTS_MAX: Final = 100
KINDS: Final = {
    "retention": "How long it is kept",
    "quota": "How much there may be",
    "rate": "How often you may call",
}


async def settings(page: Page) -> Response:
    """Show what the key may do, its limits, and its tools."""
    memories = (
        await page.call("memories_get_settings") if page.has("memories_get_settings") else None
    )
    limits = (await page.call("tenant_limits"))["limits"] if page.has("tenant_limits") else []
    groups: dict[str, list[dict[str, Any]]] = {}
    for tool in page.calls.tools():
        groups.setdefault(group_of(tool), []).append(
            {"tool": tool, "allowed": tool.permission in page.caller.permissions}
        )
    return page.render(
        "settings.html",
        title="Settings",
        here="settings",
        caller=page.caller,
        groups=dict(sorted(groups.items())),
        hidden=sorted(page.caller.hidden_tools),
        memories=memories,
        limits={
            title: [one for one in limits if one["kind"] == kind] for kind, title in KINDS.items()
        },
        signed_in_until=page.seal.valid_until,
    )


async def go_to_project(page: Page) -> Response:
    """Redirect to the overview of another project."""
    name = check_project(page.given_text("name").strip())
    if not page.caller.can_access(name):
        raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch that project")
    return page.go("", project=name)


async def projects(page: Page) -> Response:
    """Show the projects that hold anything, as suggestions of a field."""
    names = sorted(page.caller.projects or ())
    if page.has("file_projects"):
        names = (await page.call("file_projects", project="*", limit=PROJECTS_MAX))["projects"]
    return page.render("parts/projects.html", names=names)


LONG: Final = frozenset(
    {"content", "file_text", "text", "prompt", "base_instructions", "new_text", "old_text"}
)


async def tool_form(page: Page) -> Response:
    """Show the tools of the caller with the form of one of them, or the result of a call."""
    if page.request.method == "POST":
        return await _called(page)
    name = page.given_text("tool")
    tool = next((one for one in page.calls.tools() if one.name == name), None)
    if name and tool is None:
        raise MemsvcError(Code.NOT_FOUND, "there is no such tool")
    fields = _fields(page.given.schema(tool), page.project) if tool else []
    groups: dict[str, list[Any]] = {}
    for one in sorted(page.calls.tools(), key=lambda one: one.name):
        groups.setdefault(group_of(one), []).append(one)
    return page.render(
        "playground.html",
        title="Playground",
        here="playground",
        tool=tool,
        fields=fields,
        groups=dict(sorted(groups.items())),
        given={},
    )


async def _called(page: Page) -> Response:
    form = await page.form()
    name = str(form.get("tool", ""))
    tool = next((one for one in page.calls.tools() if one.name == name), None)
    if tool is None:
        raise MemsvcError(Code.NOT_FOUND, "there is no such tool")
    fields = _fields(page.given.schema(tool), page.project)
    try:
        arguments = _arguments(form, fields)
    except MemsvcError as error:
        body, failed = error.body(), True
    else:
        outcome = await page.calls.call(name, arguments)
        body, failed = outcome.body, outcome.error is not None
    context: dict[str, Any] = {"tool": tool, "result": body, "failed": failed}
    if page.partial:
        return page.render("parts/outcome.html", **context)
    form_values = {
        field["name"]: str(form.get(f"argument-{field['name']}", "")) for field in fields
    }
    return page.render(
        "playground.html",
        title="Playground",
        here="playground",
        fields=fields,
        groups={},
        given=form_values,
        **context,
    )


def _fields(schema: Mapping[str, Any], project: str) -> list[dict[str, Any]]:
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
                "default": project if name == "project" and default != "*" else default,
            }
        )
    return fields


def _arguments(form: FormData, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arguments in a form, without empty fields; INVALID_ARGUMENT for bad values."""
    arguments: dict[str, Any] = {}
    for field in fields:
        name, text = field["name"], str(form.get(f"argument-{field['name']}", ""))
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
    "file": "Files",
    "memory": "Turn memory",
    "elfmem": "Knowledge",
    "memories": "Memories",
    "whiteboard": "Boards",
    "context": "Boards",
    "keys": "Administration",
    "calls": "Administration",
    "tenant": "Administration",
    "archive": "Administration",
}


def group_of(tool: Tool) -> str:
    """Return the title of the group of a tool, by its name."""
    if "document" in tool.name:
        return "Notebook"
    if tool.name == "memory":
        return "Files"
    return GROUPS.get(tool.name.partition("_")[0], "General")
