"""A span for every HTTP request, in the trace of its client."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.core.call_context import Tracer
from memsvc.gateway.rest import PUBLIC_PATHS, REQUEST_ID

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_TRACEPARENT: Final = b"traceparent"


class TraceRequests:
    """ASGI: makes a request part of the trace that its `traceparent` names, if any.

    The span has the route and never the path, which contains names that callers gave.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self.app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PUBLIC_PATHS:
            await self.app(scope, receive, send)
            return
        headers = [value for name, value in scope["headers"] if name == _TRACEPARENT]
        parent = headers[0].decode("latin-1") if len(headers) == 1 else ""
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        attributes = {"method": method, "request_id": scope[REQUEST_ID]}
        with self._tracer.span("request", method, attributes, parent=parent) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note(http_status=message["status"])
                    if message["status"] >= 500:
                        span.note(status="error")
                await send(message)

            try:
                await self.app(scope, receive, send_with_status)
            finally:
                if "route" in scope:
                    span.note(route=scope["route"].path)
