"""The sockets that a process listens on, claimed before anything else starts."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from memsvc.core.errors import Code, MemsvcError


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
                "is taken by another process",
                "stop that process, or choose another port with --port",
            )
        case errno.EACCES:
            reason, recovery = (
                "may not be used by this user",
                "choose a port above 1023 with --port",
            )
        case _:
            reason, recovery = "is no address of this machine", "choose another address with --host"
    return MemsvcError(Code.UNAVAILABLE, f"{url_host(host)}:{port} {reason}", recovery=recovery)


def url_host(host: str) -> str:
    """Return a host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def local_host(host: str) -> str:
    """Return the address by which this machine reaches a server bound to `host`.

    Loopback for a server bound to all addresses.
    """
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is looked for, not bound
