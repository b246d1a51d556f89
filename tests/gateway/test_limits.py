"""What a request must be before anything looks inside it."""

import json
from contextlib import nullcontext
from time import process_time
from typing import Any

import pytest
from starlette.types import Message

from memsvc.core.call_context import NO_TRACER
from memsvc.core.errors import MemsvcError
from memsvc.gateway.auth import Challenge
from memsvc.gateway.limits import LimitsOptions, check_json, is_too_deep
from memsvc.gateway.middleware import GatewayMiddleware
from memsvc.gateway.rest import Draining
from tests.fakes import RecordingMeter, unlimited
from tests.gateway.conftest import Gateway, Running

pytestmark = pytest.mark.anyio


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"[]" + b"}" * (depth - 1)


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        (nested(64), False),
        (nested(65), True),
        (b"[" * 65, True),
        (b"[]" * 500, False),
        (b'["' + b"[" * 500 + b'"]', False),
        (b'["\\"' + b"[" * 500 + b'"]', False),
        (b'["\\\\",' + b"[" * 500 + b"]", True),
        (b'["\\\\\\"' + b"{" * 500 + b'"]', False),
        (b'{"a":"' + b"\\\\" * 3 + b'","b":' + nested(64) + b"}", True),
        (json.dumps({"text": '\\"[{' * 200}).encode(), False),
        (b"", False),
    ],
)
def test_depth_counts_brackets_outside_strings(body: bytes, deep: bool) -> None:
    assert is_too_deep(body, 64) is deep


@pytest.mark.parametrize(
    "body", [b"[" * 4_000_000, b"[]" * 2_000_000, b'"' * 4_000_000, b'\\"' * 2_000_000]
)
def test_the_depth_of_a_hostile_body_is_known_soon(body: bytes) -> None:
    started = process_time()
    is_too_deep(body, 64)
    assert process_time() - started < 2


@pytest.mark.parametrize(
    ("body", "many"),
    [
        (b"[" + b"[]," * 499 + b"]", False),
        (b"[" + b"[]," * 499 + b"[]]", True),
        (b'{"a":[' + b"1," * 997 + b"1]}", False),
        (b'{"a":[' + b"1," * 998 + b"1]}", True),
        (b'["' + b"[,{" * 5000 + b'"]', False),
        (b'["\\"' + b"[,{" * 5000 + b'"]', False),
        (b'["",' + b'"a,b",' * 5000 + b'""]', True),
    ],
)
def test_values_are_counted_outside_strings(body: bytes, many: bool) -> None:
    with pytest.raises(MemsvcError, match="1000 JSON values") if many else nullcontext():
        check_json(body, 64, 1000)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_only_utf_8_is_looked_into(encoding: str) -> None:
    with pytest.raises(MemsvcError, match="UTF-8"):
        check_json("[∢]".encode(encoding), 64, 1000)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "2024-11-05", "1999-01-01"])
async def test_deep_nesting_is_400_in_the_one_shape_on_either_wire(
    gateway: Gateway, version: str
) -> None:
    for depth in (65, 500, 5_000, 500_000):
        async with gateway.http() as http:
            answer = await http.post(
                "/mcp",
                content=b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
                + nested(depth)
                + b"}",
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": version,
                },
            )
        assert answer.status_code == 400
        body = answer.json()
        assert (body["code"], body["retryable"]) == ("INVALID_ARGUMENT", False)
        assert "64 levels" in body["message"]
        assert body["error"]["data"] == {
            "code": body["code"],
            "message": body["message"],
            "retryable": False,
        }


async def test_without_a_key_no_long_body_is_read(gateway: Gateway) -> None:
    async with gateway.http(key=None) as http:
        for method, path in (("OPTIONS", "/mcp"), ("POST", "/healthz")):
            assert (await http.request(method, path, content=b"x" * 4096)).status_code == 405
            assert (await http.request(method, path, content=b"x" * 4097)).status_code == 413


async def test_a_body_over_the_limit_is_413_whether_its_length_is_declared_or_not(
    running: Running,
) -> None:
    async def chunks() -> object:
        for _ in range(5):
            yield b"x" * 1000

    async with (
        running(limits=LimitsOptions(request_bytes_max=4096)) as gateway,
        gateway.http() as http,
    ):
        for content in (b"x" * 4097, chunks()):
            answer = await http.post(
                "/mcp", content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 413
            assert answer.json()["code"] == "PAYLOAD_TOO_LARGE"


async def test_a_sane_request_id_is_echoed_and_any_other_replaced(gateway: Gateway) -> None:
    async with gateway.http() as http:
        assert (await http.get("/healthz", headers={"X-Request-ID": "abc-1"})).headers[
            "x-request-id"
        ] == "abc-1"
        for odd in ("a b", "x" * 129, "<script>", ""):
            made = (await http.get("/healthz", headers={"X-Request-ID": odd})).headers[
                "x-request-id"
            ]
            assert made != odd
            assert len(made) == 32


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8080", None, 406),
        ("localhost:1", None, 406),
        ("localhost", "http://localhost", 406),
        ("127.0.0.1:8080", "http://localhost:8080", 406),
        ("[::1]:8080", "http://[::1]:8080", 406),
        ("localhost:8080", "http://localhost:3000", 403),
        ("localhost:8080", "http://localhost", 403),
        ("localhost", "http://localhost:3000", 403),
        ("[::1]:8080", None, 406),
        ("evil.example", None, 421),
        ("127.0.0.1:8080.evil.example", None, 421),
        ("127.0.0.1.evil.example:80", None, 421),
        ("127.0.0.1:8080", "http://evil.example", 403),
        ("127.0.0.1:8080", "null", 403),
    ],
)
async def test_on_loopback_only_this_machine_is_answered(
    gateway: Gateway, host: str, origin: str | None, status: int
) -> None:
    headers = {"Host": host, "Accept": "text/plain", "Content-Type": "application/json"}
    async with gateway.http() as http:
        answer = await http.post(
            "/mcp", json={}, headers=headers | ({"Origin": origin} if origin else {})
        )
        assert answer.status_code == status
        for path in ("/healthz", "/readyz"):
            assert (await http.get(path, headers={"Host": host})).status_code == 200
        assert (await http.get("/metrics", headers={"Host": host})).status_code == (
            421 if status == 421 else 200
        )


async def test_elsewhere_hosts_are_checked_once_they_are_listed_and_pages_must_be_allowed(
    running: Running,
) -> None:
    any_host = {"Host": "memsvc.example", "Accept": "text/plain"}
    page = any_host | {"Origin": "https://app.example"}
    async with running(host="0.0.0.0") as gateway, gateway.http(key=None) as http:
        assert (await http.post("/mcp", json={}, headers=any_host)).status_code == 401
        assert (await http.post("/mcp", json={}, headers=page)).status_code == 403
    limits = LimitsOptions(
        allowed_hosts=("other.example:*",), allowed_origins=("https://app.example",)
    )
    async with running(host="0.0.0.0", limits=limits) as gateway, gateway.http(key=None) as http:
        assert (await http.post("/mcp", json={}, headers=any_host)).status_code == 421
        assert (
            await http.post("/mcp", json={}, headers=page | {"Host": "other.example:443"})
        ).status_code == 401


async def test_a_client_that_goes_away_in_the_middle_of_a_body_reaches_nobody_and_is_no_error() -> (
    None
):
    messages = [
        {"type": "http.request", "body": b'{"half', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def never(*_: object) -> None:
        pytest.fail("half a body was handed on, or answered")

    middleware = GatewayMiddleware(
        never,
        draining=Draining(),
        tracer=NO_TRACER,
        limits=LimitsOptions(),
        host="127.0.0.1",
        console=None,
        authenticator=Any,
        challenge=Challenge(),
        public_paths=frozenset({"/mcp"}),
        admission=unlimited(RecordingMeter()),
        streams=lambda _: False,
    )
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    await middleware(scope, receive, never)
