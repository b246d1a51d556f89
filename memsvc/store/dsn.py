"""Database URLs: their validation, and errors of connections that cannot be made."""

import socket
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from asyncpg import exceptions as pg

from memsvc.core.errors import Code, MemsvcError

SCHEMES: Final = ("postgresql://", "postgres://")
DEFAULT_PORT: Final = 5432
PORT_MAX: Final = 65535


def checked_dsn(value: str) -> str:
    """Return the same URL; ValueError unless it is one of PostgreSQL with ports that are ports."""
    if not value.startswith(SCHEMES):
        raise ValueError(f"must begin with {SCHEMES[0]}")
    if any(not 0 < port <= PORT_MAX for _, port in _addresses(value)):
        raise ValueError(f"must name a port from 1 to {PORT_MAX}")
    return value


def connection_error(url: str, error: BaseException, setting: str) -> MemsvcError:
    """Return UNAVAILABLE for what kept the driver from connecting.

    It names address, database or role, whichever is wrong, and never the password; `setting` is
    where the URL stands.
    """
    try:
        where = ", ".join(f"{host}:{port}" for host, port in _addresses(url))
        parts = urlsplit(url)
    except ValueError:
        return _unavailable("its URL cannot be read", setting)
    if isinstance(error, socket.gaierror):
        return _unavailable(f"the name of its host cannot be resolved ({where})", setting)
    if isinstance(error, ConnectionRefusedError):
        return _unavailable(f"nothing listens at {where}", setting)
    if isinstance(error, TimeoutError):
        return _unavailable(f"no answer in time from {where}", setting)
    if isinstance(error, pg.InvalidCatalogNameError):
        return _unavailable(
            f"there is no database {unquote(parts.path.lstrip('/'))} at {where}", setting
        )
    if isinstance(error, pg.InvalidAuthorizationSpecificationError):  # a wrong password is one, too
        return _unavailable(
            f"{where} refuses the role {unquote(parts.username or '')} or its password", setting
        )
    if isinstance(error, ValueError):  # the driver's word for options that it does not take
        return _unavailable("its URL has options that the driver does not take", setting)
    return _unavailable(f"{type(error).__name__} at {where}", setting)


def _unavailable(reason: str, setting: str) -> MemsvcError:
    return MemsvcError(
        Code.UNAVAILABLE,
        f"cannot connect to the database: {reason}",
        recovery=f"check {setting}, and that it runs",
    )


def _addresses(url: str) -> list[tuple[str, int]]:
    """Return host and port of every server of a URL; ValueError for a port that is no number."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    netloc = parts.netloc.rpartition("@")[2] or ",".join(query.get("host", ["localhost"]))
    ports = ",".join(query.get("port", [str(DEFAULT_PORT)])).split(",")
    found = []
    for number, address in enumerate(netloc.split(",")):
        host, separator, port = (
            address.rpartition(":") if not address.endswith("]") else (address, "", "")
        )
        found.append(
            (host or address, int(port if separator else ports[min(number, len(ports) - 1)]))
        )
    return found
