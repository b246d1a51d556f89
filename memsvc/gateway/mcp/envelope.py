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


def reject_message(body: bytes, version: str | None) -> Response | None:
    """Return the response to a batch or an unsupported version in the header; otherwise None."""
    if body.lstrip()[:1] == b"[":
        return _error_response(
            INVALID_REQUEST,
            invalid("batches of JSON-RPC are not taken: send one message in a request"),
            {},
        )
    if version is None or version in _SUPPORTED or _ENVELOPE in body:
        return None
    error = invalid(
        f"this version of the protocol is not supported; supported are {', '.join(_SUPPORTED)}"
    )
    return _error_response(
        UNSUPPORTED_PROTOCOL_VERSION, error, {"supported": _SUPPORTED, "requested": version}, body
    )


def _error_response(
    code: int, error: MemsvcError, data: dict[str, Any], body: bytes = b""
) -> Response:
    error_object = {"code": code, "message": error.message, "data": error.body() | data}
    body_object = error.body() | {"jsonrpc": "2.0", "id": _id_of(body), "error": error_object}
    return Response(orjson.dumps(body_object), error.http_status, media_type="application/json")


def _id_of(body: bytes) -> str | int | None:
    """Return the request id in a body, if there is one."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    request_id = message.get("id") if isinstance(message, dict) else None
    return request_id if isinstance(request_id, str | int) else None
