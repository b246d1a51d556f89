"""Errors of the protocol: what JSON-RPC makes of an error of ours."""

from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from memsvc.core.errors import Code, MemsvcError

NO_SUCH_RESOURCE: Final = -32002
"""Up to 2025-11-25; later versions of the protocol say INVALID_PARAMS and never use this number again."""


def protocol_error(error: MemsvcError) -> MCPError:
    """The error as one of the protocol, with our body as its data: -32602 where the caller can mend it, -32603 where
    only time or an operator can."""
    ours = error.retryable or error.code is Code.INTERNAL_ERROR
    return MCPError(INTERNAL_ERROR if ours else INVALID_PARAMS, error.message, error.body())


def resource_error(error: MemsvcError, protocol_version: str, uri: str) -> MCPError:
    """The error of a resource: as `protocol_error`, but that nothing is there names the URI and has, in older versions
    of the protocol, a number of its own."""
    named = protocol_error(error)
    if error.code is not Code.NOT_FOUND:
        return named
    code = NO_SUCH_RESOURCE if protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else named.code
    return MCPError(code, named.message, error.body() | {"uri": uri})


def unknown_resource(uri: str) -> MemsvcError:
    """The error for a URI that names nothing here, or nothing that this caller may know of."""
    return MemsvcError(Code.NOT_FOUND, f"Unknown resource: {uri}")
