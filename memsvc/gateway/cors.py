"""CORS: headers that let a browser give responses of this server to a page of another origin."""

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.gateway.rest import CORS_HEADERS

ALLOWED_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS: Final = (
    "accept, authorization, content-type, if-match, if-none-match, if-range, last-event-id,"
    " mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, range, x-api-key, x-request-id"
)
EXPOSE_HEADERS: Final = (
    "content-disposition, content-range, etag, mcp-session-id, retry-after,"
    " www-authenticate, x-request-id"
)
PREFLIGHT_AGE_S: Final = 7200
"""Seconds that a browser may cache a preflight: Chromium's maximum."""


class Cors:
    """ASGI: answers preflights, which have no key, and adds CORS headers to every other response.

    Refusals get them too. Origins were checked before: only requests of allowed ones come here.
    """

    def __init__(self, app: ASGIApp, public_paths: frozenset[str]) -> None:
        """Exempt `public_paths`: their origins are not checked, so no page may read them."""
        self.app = app
        self._public_paths = public_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._public_paths:
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin: bytes | None = headers.get(b"origin")
        named = {"Vary": "Origin"}
        if origin is not None:
            named |= {
                "Access-Control-Allow-Origin": origin.decode("latin-1"),
                "Access-Control-Expose-Headers": EXPOSE_HEADERS,
            }
        if (
            origin is not None
            and scope["method"] == "OPTIONS"
            and b"access-control-request-method" in headers
        ):
            await _preflight(named["Access-Control-Allow-Origin"])(scope, receive, send)
            return
        scope[CORS_HEADERS] = named
        added = [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()]
        replaced = {name for name, _ in added if name != b"vary"}

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [
                    header for header in message.get("headers", ()) if header[0] not in replaced
                ]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        await self.app(scope, receive, send_allowed)


def _preflight(origin: str) -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": ALLOWED_METHODS,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
            "Vary": "Origin",
        },
    )
