"""Limits of requests: their options, and the checks of a JSON body before it is parsed."""

from array import array
from itertools import accumulate
from typing import Final

from pydantic import Field
from starlette.responses import Response
from starlette.types import Scope

from memsvc.core.errors import (
    Code,
    MemsvcError,
    invalid,
)
from memsvc.core.options import Count, Options, Positive
from memsvc.gateway.admission import SlotOptions
from memsvc.gateway.rate_limits import RateOptions, StoredOptions
from memsvc.gateway.rest import error_response

_STEP_BYTES = bytes.maketrans(b"[{]},", b"\x01\x01\xff\xff\x00")
_IGNORED = bytes(byte for byte in range(256) if byte not in b'[]{},"')


class SseOptions(Options):
    """The deprecated transport at /sse."""

    enabled: bool = Field(
        True,
        description="whether /sse is enabled; with several replicas, all requests of a client must"
        " reach the same replica (sticky routing)",
    )
    sessions_max: Count = Field(
        256,
        description="maximum number of clients that one process serves at once; further clients are"
        " refused",
    )
    sessions_per_caller_max: Count = Field(
        32,
        description="maximum number of clients per key at once; further clients are refused",
    )
    calls_per_caller_max: Count = Field(
        64,
        description="maximum number of requests per key that wait for an answer; further requests"
        " are refused",
    )
    idle_s: Positive = Field(
        3600.0, description="time without any message after which a client is disconnected"
    )


def check_json(body: bytes, depth_max: int, values_max: int) -> None:
    """Check a JSON body before it is parsed.

    Raises INVALID_ARGUMENT for a body that is not UTF-8, nests too deep or has too many values.
    Lists and objects count twice. It does not check that the body is JSON. The check is linear in
    the body, without recursion. UTF-16 and UTF-32, which Python's parser would read, are refused,
    because they would hide brackets from the check."""
    if b"\0" in body or body[:1] in (b"\xfe", b"\xff"):
        raise invalid("the request body must be UTF-8")
    signs = body.translate(None, _IGNORED)
    opened = signs.count(b"[") + signs.count(b"{")
    if opened <= depth_max and opened + signs.count(b",") < values_max:
        return
    signs = _signs(body)
    many = signs.count(b'"') > 4 * values_max  # a value and its name are two strings
    steps = _steps(signs[:values_max] if many else signs)
    if _depth(steps[:values_max]) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")
    if many or steps.count(1) + steps.count(0) >= values_max:
        raise invalid(f"the request body has more than {values_max} JSON values")
    if _depth(steps) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")


def is_too_deep(body: bytes, depth_max: int) -> bool:
    """Return whether JSON is nested deeper than this."""
    opened = body.count(b"[") + body.count(b"{")
    return opened > depth_max and _depth(_steps(_signs(body))) > depth_max


def _signs(body: bytes) -> bytes:
    """Return the brackets, commas and quotation marks of JSON, without those that are escaped."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    return unescaped.translate(None, _IGNORED)


def _steps(signs: bytes) -> bytes:
    """Return the brackets that open and close levels, and the commas, as steps."""
    return b"".join(signs.split(b'"')[::2]).translate(_STEP_BYTES)


def _depth(steps: bytes) -> int:
    return max(accumulate(array("b", steps)), default=0)


LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
TIMEOUT_STATUS: Final = 408


class LimitsOptions(Options):
    """Limits of requests.

    Hosts and origins must match exactly, except that `:*` at the end matches any port."""

    request_bytes_max: int = Field(
        4 * 1024 * 1024,
        ge=1024,
        description="maximum size of a request body, in bytes; larger requests are refused with"
        " HTTP 413",
    )
    body_s: Positive = Field(
        30.0, description="time limit for receiving a request body, except for uploads"
    )
    upload_s: Positive = Field(120.0, description="time limit for receiving an upload")
    head_bytes_max: int = Field(
        32 * 1024,
        ge=1024,
        description="maximum total size of the request line and headers, including the URL, in"
        " bytes; larger requests are refused with HTTP 431",
    )
    headers_max: int = Field(
        100,
        ge=10,
        description="maximum number of headers in a request; requests with more are refused with"
        " HTTP 431",
    )
    head_s: Positive = Field(
        15.0, description="time limit for receiving the request line and headers"
    )
    connections_max: Count = Field(
        2000,
        description="maximum number of client connections; further connections are closed",
    )
    json_depth_max: int = Field(
        64,
        ge=8,
        le=128,
        description="maximum nesting depth of a JSON body; deeper bodies are refused with HTTP 400",
    )
    json_values_max: int = Field(
        100_000,
        ge=1000,
        description="maximum number of values in a JSON body; bodies with more are refused with"
        " HTTP 400",
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="accepted Host headers; empty: this machine's names if the server listens on"
        " loopback only, otherwise any host",
    )
    allowed_origins: tuple[str, ...] = Field(
        (),
        description="web origins that may call the server; empty: the server's own origin if it"
        " listens on loopback only, otherwise none",
    )
    listeners_max: Count = Field(
        1000,
        description="maximum number of clients that may subscribe to changes in one process;"
        " further clients are refused",
    )
    tenant_listeners_max: Count = Field(
        100,
        description="maximum number of clients per tenant that may subscribe to changes in one"
        " process; also the maximum number of MCP sessions with subscriptions per tenant;"
        " subscriptions beyond either limit are refused",
    )
    listener_uris_max: int = Field(
        100,
        ge=1,
        le=10000,
        description="maximum number of resources to which one client can subscribe; requests for"
        " more are refused",
    )
    listen_s_max: Positive = Field(
        3600.0,
        description="maximum duration of a stream of change notifications; the client must then"
        " subscribe again; an MCP session without a request for twice this time ends",
    )
    confirm_s_max: float = Field(
        55.0,
        ge=0,
        description="seconds for which a destructive call waits for the user's consent before it"
        " fails; 0: users are not asked",
    )
    model_calls_a_day: int = Field(
        20_000,
        ge=0,
        le=2**31 - 1,
        description="maximum number of model calls per day and tenant; further work is done by"
        " built-in rules or waits until the next day; 0: unlimited",
    )
    stored: StoredOptions = Field(StoredOptions(), description="storage limits per tenant")
    rates: RateOptions = Field(RateOptions(), description="rate limits per key and per tenant")
    slots: SlotOptions = Field(
        SlotOptions(), description="limits of the calls that run at once in one process"
    )


class BodyTimeoutError(MemsvcError):
    """A request body did not arrive in time; the server does not wait for the rest."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            Code.INVALID_CONTENT, f"the request body did not arrive within {seconds:g} s"
        )

    def response(self, scope: Scope) -> Response:
        """Return the error response, which also closes the connection."""
        return error_response(self, scope, status=TIMEOUT_STATUS, headers={"Connection": "close"})
