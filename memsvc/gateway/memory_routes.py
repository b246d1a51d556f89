"""Memories over plain HTTP, at the paths that existing clients use, and their events."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import anyio
import orjson
import structlog
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope as DataScope
from memsvc.core.tools import ProjectEvent, ProjectEventSource
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.subscriptions import (
    HEARTBEAT,
    Subscriptions,
    Watch,
    event_stream,
    last_event,
    sent_in_time,
)
from memsvc.gateway.operations import PROJECT, OperationRoutes, RestOperation
from memsvc.gateway.rest import REQUEST_ID, caller_of
from memsvc.store.changes import change_key

log = structlog.get_logger("memsvc.happenings")

SURFACE: Final = "subscription"
WRITE_S_MAX: Final = 20.0
"""Seconds that a client may take to read before its stream is ended."""
RETRY_MS: Final = 3000


@frozen
class EventsEndpoint:
    """Streams events to a caller as long as the key is valid for the same caller.

    The caller must be allowed to call a tool. The number of streams per process and tenant is
    limited, and so is the duration of a stream, after which the client reconnects."""

    dispatch: Dispatch
    event_source: ProjectEventSource
    subscriptions: Subscriptions
    authenticator: Authenticator
    limits: LimitsOptions

    async def stream(self, _: Request, arguments: dict[str, Any]) -> ASGIApp:
        """Return the response to a request with these arguments."""
        return partial(self._handle, arguments)

    async def _handle(
        self, args: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Stream until the client goes, this process stops or the stream's time is over.

        `Last-Event-ID` is the last event that a client saw: later ones still known come first.
        Without it, only new ones. The errors are those of the tool, RATE_LIMITED and UNAVAILABLE.
        """
        last_id = last_event(Request(scope, receive))
        caller = caller_of(scope)

        async def permitted(data_scope: DataScope, _: Any) -> DataScope:
            return data_scope

        data_scope = await self.dispatch.perform(
            caller,
            self.event_source.tool,
            args,
            permitted,
            surface=SURFACE,
            request_id=scope[REQUEST_ID],
        )
        with (
            self.subscriptions.opened(caller.tenant) as watch,
            self.authenticator.watch_validity(scope, watch.close),
            sent_in_time(send, WRITE_S_MAX) as send_in_time,
        ):
            watch.add(self.event_source.uri, change_key(data_scope, self.event_source.uri))
            event_id = await self.event_source.latest(data_scope) if last_id is None else last_id
            parts = self._stream(scope, data_scope, watch, event_id)
            await event_stream(parts)(scope, receive, send_in_time)

    async def _stream(
        self, scope: Scope, data_scope: DataScope, watch: Watch, event_id: int
    ) -> AsyncIterator[bytes]:
        deadline = anyio.current_time() + self.limits.listen_s_max
        yield f"retry: {RETRY_MS}\n: the stream is open\n\n".encode()
        while True:
            try:
                while events := await self.event_source.since(data_scope, event_id):
                    for event in events:
                        yield _event(event)
                    event_id = events[-1].number
                changed = await watch.next_change(deadline)
                if changed is None or await self.authenticator.caller(scope) != caller_of(scope):
                    return
            except MemsvcError as error:  # the client reconnects with its last event
                log.warning("a stream was ended by an error", code=error.code.value)
                return
            if changed == HEARTBEAT:
                yield b":\n\n"


def _event(event: ProjectEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        event.number,
        event.kind.encode(),
        orjson.dumps(event.data),
    )


MEMORIES_PATH: Final = "/api/memories"
EVENTS_PATH: Final = f"{MEMORIES_PATH}/events"
EVENTS: Final = "events"
"""In place of a tool: what streams events."""
LIST_LIMIT: Final = 10_000
"""Limit of a list without a limit, as these clients expect all of them."""

_OWNERS: Final = ("agent_id", "run_id")
_ONE: Final = MEMORIES_PATH + "/{user_id}/{memory_id}"
_PROMPT: Final = MEMORIES_PATH + "/extraction-prompt"
_SETTINGS: Final = MEMORIES_PATH + "/settings"
_operation: Final = partial(RestOperation, query=(PROJECT,))
OPERATIONS: Final[Sequence[RestOperation]] = (
    _operation("POST", MEMORIES_PATH, "memories_add", takes_body=True),
    _operation(
        "GET",
        MEMORIES_PATH,
        "memories_list",
        query=("user_id", "limit", *_OWNERS, PROJECT),
        defaults={"limit": LIST_LIMIT},
    ),
    _operation("DELETE", MEMORIES_PATH, "memories_delete_all", query=("user_id", PROJECT)),
    _operation("POST", MEMORIES_PATH + "/search", "memories_search", takes_body=True),
    _operation("GET", _SETTINGS, "memories_get_settings"),
    _operation("PUT", _SETTINGS, "memories_put_settings", takes_body=True),
    _operation("GET", _PROMPT, "memories_get_prompt"),
    _operation("PUT", _PROMPT, "memories_put_prompt", takes_body=True),
    _operation("DELETE", _PROMPT, "memories_reset_prompt"),
    _operation(
        "GET",
        MEMORIES_PATH + "/{id}",
        "memories_list",
        query=("limit", *_OWNERS, PROJECT),
        named={"id": "user_id"},
        defaults={"limit": LIST_LIMIT},
    ),
    _operation(
        "PUT",
        MEMORIES_PATH + "/{id}",
        "memories_update",
        query=("user_id", PROJECT),
        takes_body=True,
        named={"id": "memory_id"},
    ),
    _operation(
        "GET",
        MEMORIES_PATH + "/{id}/history",
        "memories_history",
        query=("user_id", PROJECT),
        named={"id": "memory_id"},
    ),
    _operation(
        "DELETE",
        MEMORIES_PATH + "/{id}",
        "memories_delete",
        query=("user_id", PROJECT),
        named={"id": "memory_id"},
    ),
    _operation("GET", _ONE, "memories_get"),
    _operation("PUT", _ONE, "memories_update", takes_body=True),
    _operation("DELETE", _ONE, "memories_delete"),
    _operation("GET", _ONE + "/history", "memories_history"),
)


def routes(dispatch: Dispatch, events: EventsEndpoint | None) -> list[BaseRoute]:
    """Return the routes below /api/memories; none without their tools."""
    if dispatch.catalogue.get(OPERATIONS[0].tool) is None:
        return []
    if events is None:
        return [OperationRoutes(dispatch, MEMORIES_PATH, OPERATIONS, {})]
    stream = _operation("GET", EVENTS_PATH, EVENTS)
    handlers = {EVENTS: events.stream}
    return [OperationRoutes(dispatch, MEMORIES_PATH, (stream, *OPERATIONS), handlers)]
