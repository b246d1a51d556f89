"""Limits of client connections before requests are read: number, time and size of heads."""

from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any

import orjson
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.gateway.limits import LimitsOptions

log = structlog.get_logger("memsvc.connections")


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with limits.

    The head of a request, its first line and headers, has a limited size and time, and connections
    a limited number. A refused one gets an error as JSON and is closed.
    """

    limits = LimitsOptions()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: Any = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._in_head = True
        self._head_bytes = 0
        self._head_timer: TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Accept a connection; abort one beyond the limit."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            log.warning(
                "a connection beyond the limit was refused", connections=len(self.connections)
            )
            self._refused = True
            transport.abort()
            return
        self._head_timer = self.loop.call_later(self.limits.head_s, self._on_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data.

        A head is measured as it arrives: the parser reports a header only when it is complete.
        """
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(self.limits.head_s, self._on_timeout)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.limits.head_bytes_max:
            self._too_large()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        size_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size_bytes > self.limits.head_bytes_max or len(self.headers) > self.limits.headers_max:
            self._too_large()
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        if not self._refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read as HTTP."""
        del msg
        self._reject(HTTPStatus.BAD_REQUEST, invalid("this request cannot be understood"))

    def _too_large(self) -> None:
        limits_text = f"{self.limits.head_bytes_max} bytes and {self.limits.headers_max} headers"
        error = MemsvcError(
            Code.PAYLOAD_TOO_LARGE, f"the head of a request may have {limits_text} at the most"
        )
        self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, error)

    def _on_timeout(self) -> None:
        self._head_timer = None
        message = f"the head of the request did not come within {self.limits.head_s:g} s"
        self._reject(HTTPStatus.REQUEST_TIMEOUT, MemsvcError(Code.INVALID_CONTENT, message))

    def _reject(self, status: HTTPStatus, error: MemsvcError) -> None:
        """Close the connection; say why, unless that would end up within another response."""
        if self._refused:
            return
        self._refused = True
        if self._head_bytes and not self._in_response:
            body = orjson.dumps(error.body())
            lines = (
                f"HTTP/1.1 {status.value} {status.phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            )
            self.transport.write("\r\n".join((*lines, "", "")).encode() + body)
        self.transport.close()

    @property
    def _in_response(self) -> bool:
        """Return whether a response is being sent, into which nothing may be written."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def limited_protocol(limits: LimitsOptions) -> type[LimitedProtocol]:
    """Return the protocol class with these limits, as uvicorn takes it."""
    return type("Bounded", (LimitedProtocol,), {"limits": limits})
