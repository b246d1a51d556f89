"""Memories over plain HTTP, at the paths that clients of such memories know, with their events."""

from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.event_routes import EventsEndpoint
from memsvc.gateway.operations import RestOperation, segments_of
from memsvc.gateway.tools import answer, call

MEMORIES_PATH: Final = "/api/memories"
EVENTS_PATH: Final = f"{MEMORIES_PATH}/events"
LIST_LIMIT: Final = 10_000
"""Limit of a list without a limit, as these clients expect all of them."""

_ONE: Final = MEMORIES_PATH + "/{user_id}/{memory_id}"
_PROMPT: Final = MEMORIES_PATH + "/extraction-prompt"
_SETTINGS: Final = MEMORIES_PATH + "/settings"
OPERATIONS: Final[Sequence[RestOperation]] = (
    RestOperation(method="POST", path=MEMORIES_PATH, tool="memories_add", takes_body=True),
    RestOperation(
        method="GET",
        path=MEMORIES_PATH,
        tool="memories_list",
        query=("user_id", "limit"),
        defaults={"limit": LIST_LIMIT},
    ),
    RestOperation(
        method="DELETE", path=MEMORIES_PATH, tool="memories_delete_all", query=("user_id",)
    ),
    RestOperation(
        method="POST", path=MEMORIES_PATH + "/search", tool="memories_search", takes_body=True
    ),
    RestOperation(method="GET", path=_SETTINGS, tool="memories_get_settings"),
    RestOperation(method="PUT", path=_SETTINGS, tool="memories_put_settings", takes_body=True),
    RestOperation(method="GET", path=_PROMPT, tool="memories_get_prompt"),
    RestOperation(method="PUT", path=_PROMPT, tool="memories_put_prompt", takes_body=True),
    RestOperation(method="DELETE", path=_PROMPT, tool="memories_reset_prompt"),
    RestOperation(
        method="GET",
        path=MEMORIES_PATH + "/{id}",
        tool="memories_list",
        query=("limit",),
        named={"id": "user_id"},
        defaults={"limit": LIST_LIMIT},
    ),
    RestOperation(
        method="DELETE",
        path=MEMORIES_PATH + "/{id}",
        tool="memories_delete",
        query=("user_id",),
        named={"id": "memory_id"},
    ),
    RestOperation(method="GET", path=_ONE, tool="memories_get"),
    RestOperation(method="PUT", path=_ONE, tool="memories_update", takes_body=True),
    RestOperation(method="DELETE", path=_ONE, tool="memories_delete"),
    RestOperation(method="GET", path=_ONE + "/history", tool="memories_history"),
)


class MemoryRoutes(BaseRoute):
    """All routes below /api/memories, with and without a slash at the end.

    They are matched on the raw path: the decoded one that other routes match has lost the borders
    of segments.
    """

    path = MEMORIES_PATH

    def __init__(self, dispatch: Dispatch, events: EventsEndpoint | None) -> None:
        self._dispatch = dispatch
        self._events = events

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match every request at or below /api/memories."""
        matched = scope["type"] == "http" and segments_of(scope)[:2] == MEMORIES_PATH.split("/")[1:]
        return (Match.FULL, {"endpoint": self}) if matched else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        404 and 405 are HTTPException, every other refusal is MemsvcError.
        """
        segments, method = segments_of(scope), scope["method"]
        if self._events is not None and method == "GET" and segments == EVENTS_PATH.split("/")[1:]:
            await self._events.handle(scope, receive, send)
            return
        allowed: dict[str, None] = {}
        for operation in OPERATIONS:
            found = operation.matched(segments)
            if found is None:
                continue
            if operation.method == method:
                request = Request(scope, receive)
                arguments = await operation.arguments(request, found)
                response = answer(
                    request, await call(self._dispatch, request, operation.tool, arguments)
                )
                await response(scope, receive, send)
                return
            allowed[operation.method] = None
        if not allowed:
            raise HTTPException(404)
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


def routes(dispatch: Dispatch, events: EventsEndpoint | None) -> list[BaseRoute]:
    """Return the routes below /api/memories; none without their tools."""
    has_tools = dispatch.catalogue.get(OPERATIONS[0].tool) is not None
    return [MemoryRoutes(dispatch, events)] if has_tools else []
