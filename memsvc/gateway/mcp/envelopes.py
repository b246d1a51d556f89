"""Refusal of HTTP requests that no supported protocol knows, before the SDK sees them."""

from typing import Any, Final

import orjson
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from starlette.responses import Response

from memsvc.core.errors import MemsvcError, invalid

_ENVELOPE: Final = PROTOCOL_VERSION_META_KEY.encode()
"""Part of request bodies of the newer wire, where the SDK refuses versions by the body."""
_SUPPORTED: Final = tuple(SUPPORTED_PROTOCOL_VERSIONS)


def refusal(body: bytes, version: str | None) -> Response | None:
    """Return the response to a batch or an unsupported version in the header; otherwise None."""
    if body.lstrip()[:1] == b"[":
        return _refused(
            INVALID_REQUEST, invalid("batches of JSON-RPC are not taken: send one message in a request"), {}
        )
    if version is None or version in _SUPPORTED or _ENVELOPE in body:
        return None
    error = invalid(f"this version of the protocol is not supported; supported are {', '.join(_SUPPORTED)}")
    return _refused(UNSUPPORTED_PROTOCOL_VERSION, error, {"supported": _SUPPORTED, "requested": version}, body)


def _refused(code: int, error: MemsvcError, data: dict[str, Any], body: bytes = b"") -> Response:
    named = {"code": code, "message": error.message, "data": error.body() | data}
    whole = error.body() | {"jsonrpc": "2.0", "id": _id_of(body), "error": named}
    return Response(orjson.dumps(whole), error.http_status, media_type="application/json")


def _id_of(body: bytes) -> str | int | None:
    """Return the request id in a body, if there is one."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = message.get("id") if isinstance(message, dict) else None
    return named if isinstance(named, str | int) else None
