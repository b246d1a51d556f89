"""Command `memsvc docs`: the YAML file and the pages that are made from the code."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer import Argument

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import HTTP_STATUS, RETRYABLE, Code
from memsvc.core.resources import Guide, Prompt
from memsvc.core.tools import TOOLSETS, Tool
from memsvc.gateway.metrics import describe_metrics
from memsvc.gateway.schemas import input_schema, output_schema
from memsvc.runtime import all_published
from memsvc.settings import PREFIX, SHORT_NAMES, Settings, keys, section_of


def docs(
    checkout: Annotated[Path, Argument(help="The checkout to write to.")] = Path(),
) -> None:
    """Write config/memsvc.yaml and the pages on settings, tools, errors and metrics."""
    for path, text in (
        ("config/memsvc.yaml", yaml_file()),
        ("docs/configuration.md", configuration_page()),
        ("docs/tools.md", tools_page()),
        ("docs/errors.md", errors_page()),
        ("docs/metrics.md", metrics_page()),
    ):
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).write_text(text, "utf-8")


SHARED_BY_MIN: Final = 3
"""Number of tools that share an argument or a result member before it is described once."""

_TOOLS_HEAD: Final = """\
# Tools

<!-- Made by `memsvc docs` from the catalogue itself. -->

For whoever calls the tools: each with its arguments and result, then the resources and prompts.

A tool answers with a JSON object, as text and as structured content; a failure has `isError` and an
[error](errors.md). Arguments that are null count as not given, unknown ones are refused. An argument has a default, is
required, or is optional. Timestamps are RFC 3339, in UTC but where a caller gave another offset.

`/mcp` and `memsvc stdio` list `agent`, `/sse` `whiteboard`, unless told otherwise: `/mcp?tools=agent,files`, the header
`X-Memsvc-Tools: all`, `memsvc stdio --tools all`, the key's `toolsets`, `settings.mcp.toolset`. Every tool can be called
by name, found by `find_tool` and run in `mcp_pipe`, listed or not; those marked administrative, which the console, the
command line and `POST /api/tools/NAME` call, only where `settings.mcp.tools.admin.over_mcp` is on.
The headers `X-Memsvc-Project` and `X-Memsvc-User` are the `project` and `user_id` of calls that name none, then what the
key is bound to. A call that names a user and no `session_id` is in that user's own session, `default@USER`.
Tokens (o200k_base) are of names, descriptions and schemas of arguments.

| toolset | tools | tokens | which |
| --- | --- | --- | --- |
{toolsets}
What several tools share is described here once; below a tool, a name without a description is one of these.
"""
_RESOURCES_HEAD: Final = """\
# Resources

What `resources/read` answers, as a call of the tool: with its permission, limits and errors. `{name}` is one
percent-encoded segment, `{+name}` all that follow. Where the project is no segment, `?project=NAME` names another than
`default`. `resources/list` lists what exists, a page at a time; `completion/complete` completes names. Changes of
files, sessions and boards are announced by `subscriptions/listen` and, with sessions, `resources/subscribe`.

| URI | type | tool | meaning |
| --- | --- | --- | --- |"""
_PROMPTS_HEAD: Final = """\
# Prompts

What `prompts/get` answers: one user message, made from the tool's answer or explaining the tools.

| prompt | arguments | tool | meaning |
| --- | --- | --- | --- |"""
_ERRORS_HEAD: Final = """\
# Errors

<!-- Made by `memsvc docs` from the codes themselves. -->

For whoever handles errors. Every surface answers
`{"code": "...", "message": "...", "retryable": false, "recovery": "..."}`, with `recovery` and `retry_after_s` where
they help. A fault of the input is never retryable; an outage is never an empty answer.

| code | HTTP | retry | meaning |
| --- | --- | --- | --- |
"""
DESCRIPTIONS: Final[dict[Code, str]] = {
    Code.INVALID_ARGUMENT: "an argument is missing, unknown, of the wrong type, or out of bounds;"
    " the message names it",
    Code.INVALID_PATH: "the path or project has a form that is not allowed",
    Code.INVALID_OFFSET: "the offset, length or write mode does not fit the file, or would split"
    " a character",
    Code.INVALID_QUERY: "the query or content encoding is not one that is known",
    Code.INVALID_CONTENT: "the content is not what its encoding says, or its links make no tree"
    " of documents",
    Code.NOT_FOUND: "there is no such file, directory, document or tool; what belongs to others"
    " is not found either",
    Code.ALREADY_EXISTS: "the file is there already",
    Code.IS_DIRECTORY: "the path is a directory",
    Code.NOT_DIRECTORY: "a parent of the path is a file",
    Code.NOT_EMPTY: "the directory is not empty, and `recursive` deletes all in it; or there is a"
    " notebook already",
    Code.PERMISSION_DENIED: "no valid key (HTTP 401), or the key may not do this; or the file is"
    " kept by memory itself",
    Code.PAYLOAD_TOO_LARGE: "the request, the content or the file would be over its limit",
    Code.QUOTA_EXCEEDED: "the project's files, or what is kept of a user, would be over their"
    " quota",
    Code.RATE_LIMITED: "too many calls; wait `retry_after_s`",
    Code.RESOURCE_BUSY: "somebody else is writing the same thing, or there is no room just now"
    " (then 503); send the same call again",
    Code.SECRET_REFUSED: "this holds a secret, which `policy.secrets` refuses to store",
    Code.CONFLICT: "this turn id is stored already with other content",
    Code.VERSION_CONFLICT: "the file or document is no longer at the expected version; read it"
    " again",
    Code.PRECONDITION_REQUIRED: "the call needs a precondition such as `expected_version`",
    Code.NOT_ACCEPTED: "the client's user was asked first and did not agree, or not in time",
    Code.UNAVAILABLE: "the database or the model cannot be reached just now; nothing was written that"
    " is not stored whole; `retryable` is false where the model's endpoint refuses its key or the"
    " request, and where the call may have been done and would be done twice",
    Code.INTERNAL_ERROR: "a fault of memsvc; the request id finds it in the log",
}


_METRICS_HEAD: Final = """\
# Metrics

<!-- Made by `memsvc docs` from the metrics themselves. -->

For operators: what `/metrics` of one process exposes, in the Prometheus text format. A series with the
label `tool` or `job` exists from its first use, all others from the start. Labels take the values listed and no others;
`tool` is a tool or `unknown`, `job` a job of the worker, `code` an [error](errors.md), empty unless `status` is
`error`. Processes that run jobs report gauges of jobs and of the index for all tenants and replicas: take the greatest,
not the sum.

| metric | type | labels | unit | meaning |
| --- | --- | --- | --- | --- |
"""
_BUCKETS_HEAD: Final = """
## Buckets

Upper bounds of the histograms' buckets; `+Inf` follows.

| histograms | bounds |
| --- | --- |
"""


def tools_page() -> str:
    """Return the text of docs/tools.md."""
    published = all_published()
    arguments = _shared(arguments_of(tool) for tool in published.tools)
    results = _shared(results_of(tool) for tool in published.tools)
    lines = [
        _TOOLS_HEAD.replace("{toolsets}", "".join(_toolsets(published.tools))),
        "Arguments:\n",
        *arguments.values(),
        "\nMembers of results:\n",
        *results.values(),
        "",
    ]
    for tool in published.tools:
        lines += _tool(tool, arguments, results)
    return "\n".join(
        [*lines, *_resources(published.tools), *_prompts(published.prompts, published.guides)]
    )


def _toolsets(tools: Iterable[Tool]) -> Iterator[str]:
    """Yield a row for each set as it is by default: how many tools, their tokens, their names.

    Those that settings turn on are named beside it."""
    counter = O200kCounter()
    listed = {tool.name for tool in all_published(optional=False).tools}
    for toolset in TOOLSETS:
        is_admin = toolset == "admin"
        of_set = [tool for tool in tools if tool.is_in({toolset}) and tool.is_admin <= is_admin]
        members = [tool for tool in of_set if tool.name in listed]
        tokens = sum(counter.count(listed_text(tool)) for tool in members)
        names = ", ".join(f"`{tool.name}`" for tool in members) if toolset != "all" else ""
        if optional := ", ".join(f"`{tool.name}`" for tool in of_set if tool.name not in listed):
            names += f"{names and '; '}where settings turn them on, {optional}"
        if members:
            yield f"| `{toolset}` | {len(members)} | {tokens:,} | {names} |\n"


def listed_text(tool: Tool) -> str:
    """Return what a model gets to read of a tool that is listed, as compact JSON."""
    listed = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": input_schema(tool),
    }
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def arguments_of(tool: Tool) -> dict[str, str]:
    """Return a line for each argument of a tool."""
    schema = input_schema(tool)
    required = schema.get("required", ())
    return {
        name: _argument(name, field, name in required)
        for name, field in schema["properties"].items()
    }


def results_of(tool: Tool) -> dict[str, str]:
    """Return a line for each member of a tool's result."""
    fields = output_schema(tool)["properties"].items()
    return {
        name: f"- `{name}` ({_type(field)}): {field.get('description', '')}"
        for name, field in fields
    }


def errors_page() -> str:
    """Return the text of docs/errors.md."""
    rows = (
        f"| `{code}` | {HTTP_STATUS[code]} | {'yes' if code in RETRYABLE else 'no'} |"
        f" {DESCRIPTIONS[code]} |\n"
        for code in Code
    )
    return _ERRORS_HEAD + "".join(rows)


def metrics_page() -> str:
    """Return the text of docs/metrics.md."""
    rows, bounds = "", dict[tuple[float, ...], list[str]]()
    for metric in describe_metrics():
        labels = "; ".join(_label(name, values) for name, values in metric.labels.items())
        rows += f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {metric.help} |\n"
        if metric.buckets:
            bounds.setdefault(metric.buckets, []).append(f"`{metric.name}`")
    buckets = (
        f"| {', '.join(names)} | {', '.join(map(str, upper))} |\n"
        for upper, names in bounds.items()
    )
    return _METRICS_HEAD + rows + _BUCKETS_HEAD + "".join(buckets)


def _label(name: str, values: tuple[str, ...]) -> str:
    return f"`{name}`" if not values or name == "code" else f"`{name}`: {', '.join(values)}"


def _shared(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return, by name, the lines that several tools share; the commoner of two for one name."""
    counted = Counter(row for table in tables for row in table.items())
    lines = dict[str, str]()
    for (name, line), tools in counted.most_common():
        if tools >= SHARED_BY_MIN:
            lines.setdefault(name, line)
    return lines


def _tool(tool: Tool, arguments: Mapping[str, str], results: Mapping[str, str]) -> Iterator[str]:
    flags = (
        ("read-only", tool.read_only),
        ("idempotent", tool.idempotent),
        ("destructive", tool.destructive),
    )
    hints = [name for name, on in flags if on]
    yield f"## {tool.name}\n"
    yield f"{tool.description}\n"
    yield (
        f"Needs `{tool.permission.value}`;{' administrative,' if tool.is_admin else ''}"
        f" {', '.join(hints) or 'neither read-only nor idempotent'}.{_answer_note(tool)}\n"
    )
    yield from _members("Arguments", arguments_of(tool), arguments)
    yield from _members("Result", results_of(tool), results)


def _members(title: str, lines: Mapping[str, str], shared: Mapping[str, str]) -> Iterator[str]:
    named = ", ".join(f"`{name}`" for name, line in lines.items() if shared.get(name) == line)
    yield f"{title}: {named}" if named else f"{title}:" if lines else f"{title}: none"
    yield from (line for name, line in lines.items() if shared.get(name) != line)
    yield ""


def _answer_note(tool: Tool) -> str:
    """Return a note on how a tool answers over MCP, where it differs from all others."""
    text = "" if tool.text_member is None else f" The text is `{tool.text_member}` alone."
    return text + (
        " Over MCP an error is one of JSON-RPC, with the body as its data."
        if tool.protocol_errors
        else ""
    )


def _resources(tools: Iterable[Tool]) -> Iterator[str]:
    yield _RESOURCES_HEAD
    for tool in tools:
        if tool.resource is not None:
            resource = tool.resource
            kind = resource.mime_type or "as it is"
            yield f"| `{resource.template}` | {kind} | `{tool.name}` | {resource.description} |"
    yield ""


def _prompts(prompts: Iterable[Prompt], guides: Iterable[Guide]) -> Iterator[str]:
    yield _PROMPTS_HEAD
    for prompt in prompts:
        arguments = ", ".join(f"`{name}`" for name in prompt.arguments)
        yield f"| `{prompt.name}` | {arguments} | `{prompt.tool}` | {prompt.description} |"
    for guide in guides:
        arguments = ", ".join(f"`{name}`" for name in guide.arguments)
        tools = ", ".join(f"`{name}`" for name in guide.tools)
        yield f"| `{guide.name}` | {arguments} | {tools} | {guide.description} |"
    yield ""


def _argument(name: str, field: dict[str, Any], required: bool) -> str:
    """Return an argument's line."""
    default = field.get("default", {"object": {}, "array": []}.get(field.get("type", "")))
    mark = "required" if required else "optional" if default is None else f"`{json.dumps(default)}`"
    return f"- `{name}` ({_type(field)}, {mark}): {field.get('description', '')}"


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"]))
    if field.get("type") == "array":
        items = field.get("items")
        return f"array of {_type(items) if isinstance(items, dict) else 'any'}"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    return str(field.get("format") or field.get("type") or "any")


_YAML_HEAD: Final = """\
# Every setting of memsvc at its default. Keep what you change and delete the rest; an empty value means the default.
# Made by `memsvc docs` from the settings themselves; docs/configuration.md says more.
"""
_SHORT: Final = ", ".join(
    f"`{short}` is short for `{whole}`" for short, whole in SHORT_NAMES.items()
)
_PAGE_HEAD: Final = f"""\
# Configuration

<!-- Made by `memsvc docs` from the settings themselves. -->

For operators: every setting with its default and what it may be. memsvc needs none of them. A setting is taken from
the first of these that has it:

1. the command line: `--host`, `--port`, `--data-dir`;
2. the environment: `{PREFIX}` and the setting's path in capitals, joined by two underscores: `{PREFIX}AUTH__MODE` for
   `auth.mode`. A list is JSON, or words between commas.
   {_SHORT};
3. the YAML file: `--config FILE` or `{PREFIX}CONFIG`, else `memsvc.yaml` of the data folder, which `memsvc embeddings use`
   writes, and the shipped `config/memsvc.yaml`, which holds the defaults;
4. the default.

An unknown name or a value that is not allowed stops the start with exit code 2 and a line for each problem. No message
and no log line shows a value.
"""
_OPERATORS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_KINDS: Final[dict[Any, str]] = {int: "integer", float: "number", Path: "path"}


def yaml_file() -> str:
    """Return the text of config/memsvc.yaml: every key with its default, and a comment."""
    return "\n".join((_YAML_HEAD, *_yaml_lines(Settings, ""))) + "\n"


def _yaml_lines(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section = section_of(field)
        yield f"{indent}# {field.description or ''}".rstrip()
        if section is None:
            yield f"{indent}{name}: {_yaml_value(field.default)}"
        else:
            yield f"{indent}{name}:"
            yield from _yaml_lines(section, f"{indent}  ")


def _yaml_value(default: Any) -> str:
    if isinstance(default, Path):
        return f"./{default}"
    plain = list(default) if isinstance(default, tuple) else default
    return (
        yaml.safe_dump(plain, default_flow_style=True, width=1000)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


def configuration_page() -> str:
    """Return the text of docs/configuration.md."""
    lines = [_PAGE_HEAD]
    section = None
    for path, field in keys():
        parent, _, _ = path.rpartition(".")
        if parent != section:
            section = parent
            lines += ["", f"## {f'`{parent}`' if parent else 'The server'}", ""]
        kind = allowed(field)
        lines.append(
            f"- `{path}` (`{_yaml_value(field.default)}`{kind and ': '}{kind}):"
            f" {field.description or ''}"
        )
    return "\n".join(lines) + "\n"


def allowed(field: FieldInfo) -> str:
    """Return what a setting may be: choices, or type and bounds unless the default shows them."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "list"
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    limits = (
        f"{sign} {getattr(bound, name)}"
        for name, sign in _OPERATORS.items()
        for bound in field.metadata
        if getattr(bound, name, None) is not None
    )
    return " ".join((_KINDS.get(kind, ""), ", ".join(limits))).strip()
