"""What a URL in the settings may be, which hosts are this machine, and where the pages for people are."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

CONSOLE_PATH: Final = "/console"


def absolute_url(value: str) -> str:
    """The same URL without a slash at its end; ValueError unless it is absolute, of the web, and without a user."""
    parts = urlsplit(value)
    if value and not (
        parts.scheme in ("http", "https")
        and parts.hostname
        and parts.port != 0  # reads it: a ValueError when it is no port
        and parts.username is None
        and not parts.query
        and not parts.fragment
    ):
        raise ValueError("must be an absolute URL such as https://api.example.com/v1, without user, query or fragment")
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    """True when only this machine can connect to a server bound to this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
