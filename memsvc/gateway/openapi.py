"""The OpenAPI document of all plain HTTP routes, generated from the models of the tools."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memsvc.core.archives import ARCHIVE_PATH
from memsvc.core.errors import Code
from memsvc.core.json_text import JsonObject
from memsvc.core.tools import Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.file_routes import OPERATIONS as FILES
from memsvc.gateway.memory_routes import EVENTS_PATH
from memsvc.gateway.memory_routes import OPERATIONS as MEMORIES
from memsvc.gateway.operations import JOB_OPERATIONS, PROJECT, TOOLS_PATH, RestOperation
from memsvc.gateway.rest import caller_of, json_response
from memsvc.gateway.schemas import Schema, input_schema, output_schema

OPENAPI_PATH: Final = "/api/openapi.json"
VERSION: Final = "3.1.0"
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_ARCHIVES: Final[Sequence[RestOperation]] = (
    RestOperation("GET", ARCHIVE_PATH, "archive_export", query=(PROJECT, "gzip", "calls")),
    RestOperation("POST", ARCHIVE_PATH, "archive_import", query=(PROJECT, "check")),
)
_TEXT_OR_BYTES: Final = ("text/plain", _BYTES)
_BYTES_RESULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "file_read": _TEXT_OR_BYTES,
    "file_read_version": _TEXT_OR_BYTES,
    "archive_export": ("application/x-tar", "application/gzip"),
}
_BYTES_INPUTS: Final = frozenset({"file_write", "archive_import"})


def routes(dispatch: Dispatch, version: str) -> list[BaseRoute]:
    """Return the route `GET /api/openapi.json`, which documents what the caller may call."""

    async def send_document(request: Request) -> Response:
        tools = dispatch.offered_to(caller_of(request.scope))
        return json_response(document(tools, version))

    return [Route(OPENAPI_PATH, send_document, methods=["GET"])]


def document(tools: Iterable[Tool], version: str) -> JsonObject:
    """Return the OpenAPI 3.1 document of these tools."""
    by_name = {tool.name: tool for tool in tools}
    paths: dict[str, JsonObject] = {TOOLS_PATH: {"get": _TOOL_LIST}}
    for tool in by_name.values():
        operation_ = RestOperation("POST", f"{TOOLS_PATH}/{tool.name}", tool.name, takes_body=True)
        _add(paths, operation_, tool, "tools")
    for tag, operations in (
        ("files", FILES),
        ("archives", _ARCHIVES),
        ("memories", MEMORIES),
        ("jobs", JOB_OPERATIONS),
    ):
        for operation in operations:
            called = by_name.get(operation.tool)
            if called is not None and operation.method != "HEAD":
                _add(paths, operation, called, tag)
    if "memories_get_settings" in by_name:
        paths[EVENTS_PATH] = {"get": _EVENTS}
    _number(paths)
    return {
        "openapi": VERSION,
        "info": {
            "title": "memsvc",
            "version": version,
            "description": (
                "Memory for agents. Paths below /api/memories may end with a slash. If a"
                " user id is search, settings, events or extraction-prompt, pass the user id"
                " as ?user_id= or percent-encode it. A failed request returns an `Error`"
                " object, whose `code` determines the HTTP status."
            ),
        },
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": {"Error": _ERROR},
            "responses": {"Error": _answer("a failure", {"$ref": "#/components/schemas/Error"})},
        },
    }


def _add(
    paths: dict[str, JsonObject],
    operation: RestOperation,
    tool: Tool,
    tag: str,
) -> None:
    schema = input_schema(tool)
    arguments: dict[str, Schema] = schema["properties"]
    required = set(schema.get("required", ()))
    named = operation.placeholders()
    outside_body = set(named.values()) | set(operation.query)
    parameters = [
        _parameter(name, "path", arguments[argument], required=True)
        for name, argument in named.items()
    ]
    parameters += [
        _parameter(
            name, "query", arguments[name] | _default(name, operation), required=name in required
        )
        for name in operation.query
        if name in arguments
    ]
    document_: JsonObject = {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "tags": [tag],
        "parameters": parameters,
        "responses": {
            "200": _bytes(tool)
            if tag in ("files", "archives") and tool.name in _BYTES_RESULTS
            else _answer("done", output_schema(tool)),
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if tag in ("files", "archives") and tool.name in _BYTES_INPUTS:
        document_["requestBody"] = {"required": True, "content": {_BYTES: {}}}
        if tag == "files":
            document_["responses"]["201"] = document_["responses"]["200"]
    elif operation.takes_body:
        body = {name: one for name, one in arguments.items() if name not in outside_body}
        document_["requestBody"] = {
            "required": bool(required & body.keys()),
            "content": {_JSON: {"schema": _object(body, sorted(required & body.keys()))}},
        }
    paths.setdefault(operation.path, {})[operation.method.lower()] = document_


def _bytes(tool: Tool) -> JsonObject:
    return {"description": "done", "content": {one: {} for one in _BYTES_RESULTS[tool.name]}}


def _default(name: str, operation: RestOperation) -> Schema:
    return {"default": operation.defaults[name]} if name in operation.defaults else {}


def _parameter(name: str, where: str, schema: Schema, *, required: bool) -> JsonObject:
    inner = {keyword: value for keyword, value in schema.items() if keyword != "description"}
    return {
        "name": name,
        "in": where,
        "required": required,
        "description": schema.get("description", ""),
        "schema": inner,
    }


def _object(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    return schema | ({"required": list(required)} if required else {})


def _answer(description: str, schema: Schema) -> JsonObject:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _number(paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Make unique the ids of operations that call the same tool."""
    seen: dict[str, int] = {}
    for methods in paths.values():
        for operation in methods.values():
            name = operation["operationId"]
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                operation["operationId"] = f"{name}_{seen[name]}"


def _plain_operation(
    name: str, summary: str, tag: str, schema: Schema, *parameters: JsonObject
) -> JsonObject:
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": list(parameters),
        "responses": {
            "200": _answer("done", schema),
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


_ERROR: Final[Schema] = {
    "type": "object",
    "required": ["code", "message", "retryable"],
    "properties": {
        "code": {
            "type": "string",
            "enum": [code.value for code in Code],
            "description": "error code",
        },
        "message": {"type": "string", "description": "message for people"},
        "retryable": {
            "type": "boolean",
            "description": "whether the same request may succeed later",
        },
        "recovery": {"type": "string", "description": "what to do next"},
        "retry_after_s": {"type": "number", "description": "seconds to wait before a retry"},
    },
}
_ANY: Final[Schema] = {"type": "object"}
_TOOL_LIST: Final = _plain_operation(
    "tools_list",
    "List tools",
    "tools",
    _object({"tools": {"type": "array", "items": _ANY}}, ["tools"]),
)
_EVENTS: Final[JsonObject] = _plain_operation(
    "memories_events",
    "Stream memories as they are extracted",
    "memories",
    _ANY,
    _parameter("project", "query", {"type": "string", "default": "default"}, required=False),
    _parameter(
        "Last-Event-ID",
        "header",
        {"type": "string", "description": "id of the last event that the client received"},
        required=False,
    ),
) | {
    "description": "Server-sent events `MemoryExtracted`: {event_type, facts, count, timestamp}.",
    "responses": {
        "200": {
            "description": "the stream",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Error"},
    },
}
