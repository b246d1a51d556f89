"""The web server of a process: uvicorn, with the configured limits."""

import errno
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any, Literal

import orjson
import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from memsvc.core.errors import MemsvcError, invalid, invalid_content, payload_too_large, unavailable
from memsvc.gateway.limits import LimitsOptions

KEEP_ALIVE_S = 75


def configured(
    asgi: Starlette,
    limits: LimitsOptions,
    *,
    lifespan: Literal["on", "off"],
    timeout_graceful_shutdown: int,
) -> uvicorn.Config:
    """Return the uvicorn configuration that serves this app."""
    return uvicorn.Config(
        asgi,
        http=limited_protocol(limits),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=timeout_graceful_shutdown,
    )


@contextmanager
def claimed(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Yield sockets that listen on every address of a host.

    Raises UNAVAILABLE when one is taken or is not this machine's.
    """
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise _listen_error(host, port, error) from error
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                listener = stack.enter_context(socket.socket(family, kind, protocol))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(
                    (address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:])
                )
                listener.listen()  # bound alone, the port could be bound by another process as well
            except OSError as error:
                if sockets and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    continue
                raise _listen_error(host, port, error) from error
            sockets.append(listener)
        yield sockets


def _listen_error(host: str, port: int, error: OSError) -> MemsvcError:
    match error.errno:
        case errno.EADDRINUSE:
            reason, recovery = (
                "is in use by another process",
                "stop that process, or choose another port with --port",
            )
        case errno.EACCES:
            reason, recovery = (
                "needs permissions that this user does not have",
                "choose a port above 1023 with --port",
            )
        case _:
            reason, recovery = (
                "is not an address of this machine",
                "choose another address with --host",
            )
    return unavailable(f"{url_host(host)}:{port} {reason}", recovery=recovery)


def url_host(host: str) -> str:
    """Return a host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def local_host(host: str) -> str:
    """Return the address by which this machine reaches a server bound to `host`.

    Loopback for a server bound to all addresses.
    """
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is looked for, not bound


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
                "a connection was refused because the server has reached limits.connections_max",
                connections=len(self.connections),
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
        self._reject(HTTPStatus.BAD_REQUEST, invalid("the server cannot read this request as HTTP"))

    def _too_large(self) -> None:
        limits_text = (
            f"{self.limits.head_bytes_max} bytes in total and {self.limits.headers_max} in number"
        )
        error = payload_too_large(f"the headers of a request are limited to {limits_text}")
        self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, error)

    def _on_timeout(self) -> None:
        self._head_timer = None
        message = f"the headers of the request did not arrive within {self.limits.head_s:g} s"
        self._reject(HTTPStatus.REQUEST_TIMEOUT, invalid_content(message))

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
