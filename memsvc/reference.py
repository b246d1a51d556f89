"""Describes every tool and every error code, as pages of the documentation made from the catalogue itself."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from memsvc.core.errors import HTTP_STATUS, RETRYABLE, Code
from memsvc.core.tools import Prompt, Published, Tool
from memsvc.gateway.mcp.schemas import input_schema, output_schema

_TOOLS_HEAD: Final = """\
# Tools

<!-- Made by `memsvc docs` from the catalogue itself. -->

Every tool answers with a JSON object, as text and as structured content. A failure is a result with `isError` and
`{code, message, retryable, recovery?, retry_after_s?}`; see [errors](errors.md). An argument that is null counts as not
given; an argument that is not listed is refused. Timestamps are RFC 3339 in UTC. What can be read under a URI, and the
prompts, stand at the end.
"""
_RESOURCES_HEAD: Final = """\
# Resources

What `resources/read` answers, as a call of the tool: with its permission, limits and errors. Each `{name}` is one
segment, percent-encoded; `?project=NAME` at the end names another project than `default`. `subscriptions/listen`, and
where there are sessions `resources/subscribe`, tell when one has changed.

| URI | type | tool | meaning |
| --- | --- | --- | --- |"""
_PROMPTS_HEAD: Final = """\
# Prompts

What `prompts/get` answers: one message of the user, made from what the tool answers to the same arguments.

| prompt | arguments | tool | meaning |
| --- | --- | --- | --- |"""
_ERRORS_HEAD: Final = """\
# Errors

<!-- Made by `memsvc docs` from the codes themselves. -->

`{"code": "...", "message": "...", "retryable": false, "recovery": "..."}` on every surface: as the text of an MCP
result with `isError`, and as the body of an HTTP answer. `recovery` is there where there is something to say,
`retry_after_s` where waiting helps. A fault of the input is never retryable. An outage is never an empty answer.

| code | HTTP | retry | meaning |
| --- | --- | --- | --- |
"""
MEANINGS: Final[dict[Code, str]] = {
    Code.INVALID_ARGUMENT: "an argument is missing, unknown, of the wrong type, or out of bounds; the message names it",
    Code.INVALID_PATH: "the path or project has a form that is not allowed",
    Code.INVALID_OFFSET: "the offset, length or write mode does not fit the file, or would split a character",
    Code.INVALID_QUERY: "the query or content encoding is not one that is known",
    Code.INVALID_CONTENT: "the content is not what its encoding says, or its links make no tree of documents",
    Code.NOT_FOUND: "there is no such file, directory, document or tool; what belongs to others is not found either",
    Code.ALREADY_EXISTS: "the file is there already",
    Code.IS_DIRECTORY: "the path is a directory",
    Code.NOT_DIRECTORY: "a parent of the path is a file",
    Code.NOT_EMPTY: "the directory is not empty, and `recursive` deletes all in it; or there is a notebook already",
    Code.PERMISSION_DENIED: "no valid key (HTTP 401), or the key may not do this; or the file is kept by memory itself",
    Code.PAYLOAD_TOO_LARGE: "the request, the content or the file would be over its limit",
    Code.QUOTA_EXCEEDED: "the project's files, or what is kept of a user, would be over their quota",
    Code.RATE_LIMITED: "too many calls; wait `retry_after_s`",
    Code.RESOURCE_BUSY: "somebody else is writing the same thing just now; send the same call again",
    Code.CONFLICT: "this turn id is stored already with other content",
    Code.VERSION_CONFLICT: "the file or document is no longer at the expected version; read it again",
    Code.PRECONDITION_REQUIRED: "the call needs a precondition such as `expected_version`",
    Code.UNAVAILABLE: "the database cannot be reached just now; nothing was written that is not stored whole",
    Code.INTERNAL_ERROR: "a fault of memsvc; the request id finds it in the log",
}


def tools_page(published: Published) -> str:
    """The text of docs/tools.md."""
    tools = (line for tool in published.tools for line in _tool(tool))
    return "\n".join([_TOOLS_HEAD, *tools, *_resources(published.tools), *_prompts(published.prompts)])


def errors_page() -> str:
    """The text of docs/errors.md."""
    rows = (
        f"| `{code}` | {HTTP_STATUS[code]} | {'yes' if code in RETRYABLE else 'no'} | {MEANINGS[code]} |\n"
        for code in Code
    )
    return _ERRORS_HEAD + "".join(rows)


def _tool(tool: Tool) -> Iterator[str]:
    marks = ("read-only", tool.read_only), ("idempotent", tool.idempotent), ("destructive", tool.destructive)
    hints = ", ".join(name for name, on in marks if on) or "neither read-only nor idempotent"
    yield f"## {tool.name}\n"
    yield f"{tool.description}\n"
    yield f"Needs the {tool.permission.value} permission; {hints}.{_told(tool)}\n"
    yield from _table("argument", input_schema(tool), defaults=True)
    yield from _table("result", output_schema(tool), defaults=False)


def _told(tool: Tool) -> str:
    """How its answers are told over MCP, where they are not told as all others are."""
    text = "" if tool.told_as is None else f" The text is `{tool.told_as}` alone."
    return text + (" Over MCP an error is one of JSON-RPC, with the body as its data." if tool.protocol_errors else "")


def _resources(tools: Iterable[Tool]) -> Iterator[str]:
    yield _RESOURCES_HEAD
    for tool in tools:
        if tool.resource is not None:
            one = tool.resource
            yield f"| `{one.template}` | {one.mime_type} | `{tool.name}` | {one.description} |"
    yield ""


def _prompts(prompts: Iterable[Prompt]) -> Iterator[str]:
    yield _PROMPTS_HEAD
    for one in prompts:
        arguments = ", ".join(f"`{name}`" for name in one.arguments)
        yield f"| `{one.name}` | {arguments} | `{one.tool}` | {one.description} |"
    yield ""


def _table(title: str, schema: dict[str, Any], *, defaults: bool) -> Iterator[str]:
    required = schema.get("required", ())
    yield f"| {title} | type |{' default |' if defaults else ''} meaning |"
    yield f"| --- | --- |{' --- |' if defaults else ''} --- |"
    for name, field in schema["properties"].items():
        default = "required" if name in required else f"`{json.dumps(field.get('default', []))}`"
        yield f"| `{name}` | {_type(field)} |{f' {default} |' if defaults else ''} {field.get('description', '')} |"
    yield ""


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"]))
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}))}"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    return str(field.get("format") or field.get("type") or "any")
