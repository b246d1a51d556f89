"""URL rules of the settings, loopback hosts, and the path of the console."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

CONSOLE_PATH: Final = "/console"


def absolute_url(value: str) -> str:
    """Return the URL without a trailing slash.

    ValueError unless it is an absolute HTTP URL without a user."""
    parts = urlsplit(value)
    if value and not (
        parts.scheme in ("http", "https")
        and parts.hostname
        and parts.port != 0  # parses it: a ValueError for an invalid port
        and parts.username is None
        and not parts.query
        and not parts.fragment
    ):
        raise ValueError(
            "must be an absolute URL such as https://api.example.com/v1, without user, query or"
            " fragment"
        )
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a server bound to this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
