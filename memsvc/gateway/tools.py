"""Every tool over plain HTTP: the list, and a call of each."""

from typing import Any

import orjson
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memsvc.core.errors import invalid
from memsvc.core.tools import CallOutcome, Tool
from memsvc.core.validation_messages import position
from memsvc.gateway.auth import caller_of
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.rest import REQUEST_ID, error_response
from memsvc.gateway.schemas import input_schema

TOOLS_PATH = "/api/tools"
SURFACE = "rest"


def routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return `GET /api/tools`, the visible tools, and `POST /api/tools/{name}`, a call.

    The arguments come as JSON.
    """

    async def list_tools(request: Request) -> Response:
        tools = dispatch.tools_for(caller_of(request.scope))
        return Response(
            orjson.dumps({"tools": [_listed(tool) for tool in tools]}),
            media_type="application/json",
        )

    async def call_tool(request: Request) -> Response:
        name: str = request.path_params["name"]
        return answer(request, await call(dispatch, request, name, await json_body(request)))

    return [
        Route(TOOLS_PATH, list_tools, methods=["GET"]),
        Route(TOOLS_PATH + "/{name}", call_tool, methods=["POST"]),
    ]


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": input_schema(tool),
        "hints": {
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        },
    }


async def json_body(request: Request) -> Any:
    """Return the JSON of the body, {} for none; INVALID_ARGUMENT unless it is declared as JSON."""
    body = await request.body()
    if not body:
        return {}
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise invalid(
            "the body must be JSON", recovery="send the header Content-Type: application/json"
        )
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(f"the body is not JSON{position(error)}") from None


async def call(dispatch: Dispatch, request: Request, name: str, arguments: Any) -> CallOutcome:
    """Call a tool on behalf of the request's caller."""
    return await dispatch.call(
        caller_of(request.scope),
        name,
        arguments,
        surface=SURFACE,
        request_id=request.scope[REQUEST_ID],
    )


def answer(request: Request, outcome: CallOutcome) -> Response:
    """Return the result as it is, or the error with its status."""
    if outcome.error is not None:
        return error_response(outcome.error, request.scope)
    return Response(outcome.text, media_type="application/json")
