"""Errors of the protocol: translation of our errors to JSON-RPC."""

from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from memsvc.core.errors import Code, MemsvcError

NO_SUCH_RESOURCE: Final = -32002
"""Up to 2025-11-25; later versions of the protocol use INVALID_PARAMS and never this number."""


def protocol_error(error: MemsvcError) -> MCPError:
    """Return the error as one of the protocol, with its body as data.

    -32602 where the caller can correct it, -32603 where only time or an operator can.
    """
    is_internal = error.retryable or error.code is Code.INTERNAL_ERROR
    return MCPError(INTERNAL_ERROR if is_internal else INVALID_PARAMS, error.message, error.body())


def resource_error(error: MemsvcError, protocol_version: str, uri: str) -> MCPError:
    """Return the error of a resource as `protocol_error` does, with the URI if it is not found.

    Older versions of the protocol have a separate number for that.
    """
    named = protocol_error(error)
    if error.code is not Code.NOT_FOUND:
        return named
    code = NO_SUCH_RESOURCE if protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else named.code
    return MCPError(code, named.message, error.body() | {"uri": uri})


def unknown_resource(uri: str) -> MemsvcError:
    """Return the error for a URI of no resource that is visible to this caller."""
    return MemsvcError(Code.NOT_FOUND, f"Unknown resource: {uri}")
