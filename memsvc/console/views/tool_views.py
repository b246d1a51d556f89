"""The playground: every tool, with a form made from its schema, called for real."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.datastructures import FormData
from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.tool_groups import group_of
from memsvc.core.errors import Code, MemsvcError, invalid

HIDDEN: Final = frozenset({"plugin"})
LONG: Final = frozenset(
    {"content", "file_text", "text", "prompt", "base_instructions", "new_text", "old_text"}
)


async def show(page: Page) -> Response:
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
        if name in HIDDEN:
            continue
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
