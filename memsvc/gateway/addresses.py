"""Address that a request comes from: its peer, or the client that a trusted proxy reports."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORWARDED_BY: Final = (b"x-forwarded-for", b"forwarded")
_PROXY_HEADERS: Final = (*_FORWARDED_BY, b"x-real-ip", b"via")
_FOR = re.compile(r"(?:^|[;,])\s*for=(\"[^\"]*\"|[^;,\s]*)", re.IGNORECASE)


def client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the right-most hop of X-Forwarded-For (else Forwarded) that is no trusted proxy.

    Without a trusted peer, the peer. No trusted proxy wrote a hop that is no address: the hop
    before it counts.
    """
    found = _peer(scope)
    for hop in reversed(_hops(scope)):
        if not _is_trusted(found, trusted) or _parsed(hop) is None:
            break
        found = hop
    return found


def counted_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the address under which a client is counted; for IPv6, its /64 network."""
    host = client_address(scope, trusted)
    address = _parsed(host)
    if address is None:
        return host
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def is_local(scope: Scope) -> bool:
    """Return whether a request comes from this machine and through no proxy.

    A proxy may speak for anybody.
    """
    address = _parsed(_peer(scope))
    proxied = any(name in _PROXY_HEADERS for name, _ in scope["headers"])
    return address is not None and address.is_loopback and not proxied


def _peer(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _hops(scope: Scope) -> list[str]:
    for header in _FORWARDED_BY:
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == header]
        if lines:
            header_value = ",".join(lines)
            hops = (
                header_value.split(",")
                if header == _FORWARDED_BY[0]
                else _FOR.findall(header_value)
            )
            return [_without_port(hop.strip().strip('"')) for hop in hops]
    return []


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _is_trusted(host: str, trusted: Sequence[Network]) -> bool:
    address = _parsed(host)
    return address is not None and any(address in network for network in trusted)


def _parsed(host: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address
