"""MCP over standard input and output, for hosts that start servers: one client, one key."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from uuid import uuid4

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from memsvc.adapters.standard_streams import StandardStreams
from memsvc.core.errors import MemsvcError, invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.json_text import replace_half_characters
from memsvc.core.scope import Caller
from memsvc.gateway.limits import check_json
from memsvc.gateway.mcp.connection import Connection
from memsvc.gateway.mcp.request import (
    Context,
    InvalidMessageError,
    RequestSender,
    parse_message,
)
from memsvc.gateway.mcp.server import McpServer, McpServerConfig

SURFACE = "stdio"

Resolve = Callable[[], Awaitable[Caller | None]]
"""Look-up of the current caller of this process's key; None when the key is no longer valid."""


def _sender_of(context: Context) -> RequestSender:
    """Return the sender of a message: the key's caller when it came in."""
    if not isinstance(context.request, RequestSender):
        raise RuntimeError("a message arrived without its sender")
    return context.request


class StdioEndpoint:
    """Serves the client at the other end of the streams, once."""

    def __init__(
        self, config: McpServerConfig, streams: StandardStreams, resolve: Resolve, *, grace_s: float
    ) -> None:
        self._server = McpServer(config, _sender_of, sessions=True)
        self._streams = streams
        self._resolve = resolve
        self._limits = config.limits
        self._hidden_tools = config.hidden_tools
        self._connection = Connection(grace_s=grace_s)

    async def serve(self) -> None:
        """Serve until the input ends or `stop`, then answer earlier requests, within the grace."""
        outbound = _Outbound(self._streams)
        inbound = _Inbound(self._messages(outbound))
        await self._connection.serve(self._server.sdk, inbound, outbound)

    def stop(self) -> None:
        """Accept no more requests."""
        self._connection.end()

    async def _messages(self, outbound: "_Outbound") -> AsyncIterator[SessionMessage]:
        """Yield valid messages; answer all other input here."""
        async for line in self._streams.lines(self._limits.request_bytes_max):
            if line is not None and not line.strip():
                continue
            try:
                message = self._read(line)
            except InvalidMessageError as refused:
                await outbound.send(_failure(refused.error, refused.request_id, refused.code))
                continue
            try:
                sender = await self._sender()
            except MemsvcError as error:
                if isinstance(message, JSONRPCRequest):
                    code = INTERNAL_ERROR if error.http_status >= 500 else INVALID_REQUEST
                    await outbound.send(_failure(error, message.id, code))
                continue
            yield SessionMessage(message, ServerMessageMetadata(request_context=sender))

    async def _sender(self) -> RequestSender:
        caller = await self._resolve()
        if caller is None:
            raise permission_denied("this API key is revoked or expired")
        caller = replace(caller, surface_hidden_tools=self._hidden_tools)
        return RequestSender(caller, SURFACE, uuid4().hex, self._resolve)

    def _read(self, line: bytes | None) -> JSONRPCMessage:
        if line is None:
            size_max = self._limits.request_bytes_max
            raise InvalidMessageError(invalid(f"the message is larger than {size_max} bytes"))
        try:
            check_json(line, self._limits.json_depth_max, self._limits.json_values_max)
        except MemsvcError as error:
            raise InvalidMessageError(error) from None
        line = replace_half_characters(line)
        message = parse_message(line, "this line")
        try:
            return jsonrpc_message_adapter.validate_python(message, by_name=False)
        except ValidationError:  # its text contains the input
            raise InvalidMessageError(
                invalid("this line is not a JSON-RPC 2.0 message"),
                request_id=message.get("id"),
            ) from None


def _failure(error: MemsvcError, request_id: str | int | None, code: int) -> SessionMessage:
    data = ErrorData(code=code, message=error.message, data=error.body())
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=data))


@frozen
class _Inbound:
    """Messages as a stream that the SDK can read."""

    messages: AsyncIterator[SessionMessage]

    async def receive(self) -> SessionMessage:
        try:
            return await anext(self.messages)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Do nothing: the streams belong to the process."""


@frozen
class _Outbound:
    """Standard output as a stream that the SDK can write."""

    streams: StandardStreams

    async def send(self, message: SessionMessage) -> None:
        text: str = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self.streams.write(text.encode())
        except OSError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: the streams belong to the process."""
