"""Describes every tool and every error code, as pages of the documentation made from the catalogue itself."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from memsvc.core.errors import HTTP_STATUS, RETRYABLE, Code
from memsvc.core.resources import Guide, Prompt
from memsvc.core.tools import Published, Tool
from memsvc.gateway.metrics import described
from memsvc.gateway.schemas import input_schema, output_schema

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
segment, percent-encoded, and `{+name}` all that follow; where the project is no segment, `?project=NAME` at the end
names another than `default`. `resources/list` lists files, sessions, boards and documents that are there, a page at a
time, and `completion/complete` completes the names. Of files, sessions and whiteboards `subscriptions/listen`, and
where there are sessions of clients `resources/subscribe`, tell when one has changed.

| URI | type | tool | meaning |
| --- | --- | --- | --- |"""
_PROMPTS_HEAD: Final = """\
# Prompts

What `prompts/get` answers: one message of the user, made from what the tool answers to the same arguments, or saying
how the tools are used.

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
    Code.RESOURCE_BUSY: "somebody else is writing the same thing, or there is no room just now (then 503); "
    "send the same call again",
    Code.CONFLICT: "this turn id is stored already with other content",
    Code.VERSION_CONFLICT: "the file or document is no longer at the expected version; read it again",
    Code.PRECONDITION_REQUIRED: "the call needs a precondition such as `expected_version`",
    Code.UNAVAILABLE: "the database cannot be reached just now; nothing was written that is not stored whole",
    Code.INTERNAL_ERROR: "a fault of memsvc; the request id finds it in the log",
}


_METRICS_HEAD: Final = """\
# Metrics

<!-- Made by `memsvc docs` from the metrics themselves. -->

What `/metrics` tells in the Prometheus text format, of one process. Every series is there from the start, so that a
rate over it is right from the first event on. Labels have the values that are listed and no others: no name that a
caller gave is among them. `tool` is every tool of [tools](tools.md), and `unknown` for a call that named none; `job` is
every job of the worker; `code` is one of [errors](errors.md), empty unless `status` is `error`. A histogram `x` has
`x_bucket` with `le`, `x_sum` and `x_count`. Gauges of jobs and of the index are there for all tenants and replicas, but
only in a process that runs jobs: take the greatest of them, not the sum.

| metric | type | labels | unit | meaning |
| --- | --- | --- | --- | --- |
"""
_BUCKETS_HEAD: Final = """
## Buckets

The upper bounds of the histograms' buckets; above the last there is `+Inf`.

| histograms | bounds |
| --- | --- |
"""


def tools_page(published: Published) -> str:
    """The text of docs/tools.md."""
    tools = (line for tool in published.tools for line in _tool(tool))
    return "\n".join(
        [_TOOLS_HEAD, *tools, *_resources(published.tools), *_prompts(published.prompts, published.guides)]
    )


def errors_page() -> str:
    """The text of docs/errors.md."""
    rows = (
        f"| `{code}` | {HTTP_STATUS[code]} | {'yes' if code in RETRYABLE else 'no'} | {MEANINGS[code]} |\n"
        for code in Code
    )
    return _ERRORS_HEAD + "".join(rows)


def metrics_page() -> str:
    """The text of docs/metrics.md."""
    rows, bounds = "", dict[tuple[float, ...], list[str]]()
    for one in described():
        labels = "; ".join(_label(name, values) for name, values in one.labels.items())
        rows += f"| `{one.name}` | {one.kind} | {labels} | {one.unit} | {one.help} |\n"
        if one.buckets:
            bounds.setdefault(one.buckets, []).append(f"`{one.name}`")
    buckets = (f"| {', '.join(names)} | {', '.join(map(str, most))} |\n" for most, names in bounds.items())
    return _METRICS_HEAD + rows + _BUCKETS_HEAD + "".join(buckets)


def _label(name: str, values: tuple[str, ...]) -> str:
    return f"`{name}`" if not values or name == "code" else f"`{name}`: {', '.join(values)}"


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
            kind = one.mime_type or "as it is"
            yield f"| `{one.template}` | {kind} | `{tool.name}` | {one.description} |"
    yield ""


def _prompts(prompts: Iterable[Prompt], guides: Iterable[Guide]) -> Iterator[str]:
    yield _PROMPTS_HEAD
    for one in prompts:
        arguments = ", ".join(f"`{name}`" for name in one.arguments)
        yield f"| `{one.name}` | {arguments} | `{one.tool}` | {one.description} |"
    for guide in guides:
        arguments = ", ".join(f"`{name}`" for name in guide.arguments)
        tools = ", ".join(f"`{name}`" for name in guide.tools)
        yield f"| `{guide.name}` | {arguments} | {tools} | {guide.description} |"
    yield ""


def _table(title: str, schema: dict[str, Any], *, defaults: bool) -> Iterator[str]:
    required = schema.get("required", ())
    yield f"| {title} | type |{' default |' if defaults else ''} meaning |"
    yield f"| --- | --- |{' --- |' if defaults else ''} --- |"
    for name, field in schema["properties"].items():
        empty: object = {} if field.get("type") == "object" else []
        default = "required" if name in required else f"`{json.dumps(field.get('default', empty))}`"
        yield f"| `{name}` | {_type(field)} |{f' {default} |' if defaults else ''} {field.get('description', '')} |"
    yield ""


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"]))
    if field.get("type") == "array":
        items = field.get("items")
        return f"array of {_type(items) if isinstance(items, dict) else 'any'}"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    return str(field.get("format") or field.get("type") or "any")
