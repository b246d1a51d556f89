"""URL rules of the settings, loopback hosts, the console's path, and text in HTTP headers."""

import ipaddress
import re
from base64 import b64decode, b64encode
from typing import Final
from urllib.parse import urlsplit

CONSOLE_PATH: Final = "/console"
_PLAIN_HEADER: Final = re.compile(r"(?!\s)(?!=\?base64\?)[\x20-\x7e]*(?<!\s)")
_ENCODED_HEADER: Final = re.compile(r"=\?base64\?(.*)\?=")


def encode_header(value: str) -> str:
    """Return a text as a header can carry it, encoded as MCP asks."""
    if _PLAIN_HEADER.fullmatch(value):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode()}?="


def decode_header(value: bytes) -> str:
    """Return the text of a header, which may be encoded.

    ValueError for one that is neither ASCII nor encoded UTF-8."""
    text = value.decode("ascii")
    encoded = _ENCODED_HEADER.fullmatch(text)
    return b64decode(encoded[1], validate=True).decode("utf-8") if encoded else text


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
            "must be an absolute URL such as https://api.example.com/v1, without a user"
            " name, query or fragment"
        )
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a server bound to this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
