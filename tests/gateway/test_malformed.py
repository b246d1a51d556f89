"""Requests that nobody should send are refused, soon, and never a fault of ours: malformed bodies
and crooked paths."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import httpx2
import orjson
import pytest

from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.openapi import document
from tests.contract.catalogue import EXAMPLES, TOOLS
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
BODIES = int(os.environ.get("MEMSVC_FUZZ_BODIES", "2000"))
ANSWER_S_MAX = 20
WIRE = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NEWEST = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
METHODS: list[tuple[str, dict[str, Any]]] = [
    (
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    ),
    ("server/discover", {}),
    ("ping", {}),
    ("tools/list", {"cursor": "x"}),
    ("tools/call", {"name": "file_stat", "arguments": {"project": "default", "path": "/f"}}),
    ("tools/call", {"name": "memory_before_turn", "arguments": EXAMPLES["memory_before_turn"]}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memory://u/c"}),
    ("resources/subscribe", {"uri": "memory://u/c"}),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["memory://u/c"]}}),
    ("prompts/list", {}),
    (
        "prompts/get",
        {"name": "memory:whiteboard", "arguments": {"user_id": "u", "conversation_id": "c"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("notifications/cancelled", {"requestId": 1}),
    ("notifications/initialized", {}),
    ("rpc.discover", {}),
    ("", {}),
]
STRANGE: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        2**31,
        2**53 + 1,
        2**63,
        10**400,
        "",
        "x",
        "\x00",
        "\u202e",
        "😀",
        "é" * 4000,
        [],
        [[]],
    ),
    *(
        [None],
        {},
        {"": ""},
        {"_meta": {}},
        {"jsonrpc": "2.0"},
        ["a"] * 300,
        "../..",
        "${x}",
        "%00",
        "\ufffe",
    ),
]
NOT_JSON = [
    *(
        b"",
        b" ",
        b"{",
        b"[",
        b"nul",
        b'"',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b"{'a':1}",
        b'{"a":1,}',
        b"NaN",
    ),
    *(
        b'{"a":"\xc0\xaf"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xf8\x88\x80\x80\x80"}',
        b'{"a":"\\ud800"}',
        b"1" * 5000,
    ),
    *(
        b'{"a":1e999}',
        b'{"a":-Infinity}',
        b"[" * 20000,
        b'{"a":' * 20000,
        b"[" * 60 + b"]" * 60,
        b'{"a":1}{"a":2}',
    ),
    *(
        b'{"a":"\x01"}',
        b'{"\\u0000":1}',
        b"--x\r\n\r\n--x--",
        b"a=1&b=2",
        b"\x1f\x8b\x08",
        b"\x00" * 100,
    ),
]


def changed(value: Any, chance: random.Random) -> Any:
    """A value with one thing in it that is not as it should be."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        match chance.randrange(4):
            case 0:
                return {name: one for name, one in value.items() if name != key}
            case 1:
                return value | {
                    chance.choice(["", "x", "\u0000", "__proto__", key + " "]): chance.choice(
                        STRANGE
                    )
                }
            case _:
                return value | {key: changed(value[key], chance)}
    return chance.choice(STRANGE)


def written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return (
            repr(value).replace("'", '"').replace("None", "null").replace("True", "true").encode()
        )


def bodies(most: int) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Bodies that are no JSON, no message, or not quite one; with headers that may not fit."""
    chance = random.Random(most)
    for number in range(most):
        method, params = chance.choice(METHODS)
        message: Any = {
            "jsonrpc": "2.0",
            "id": number,
            "method": method,
            "params": params | {"_meta": META},
        }
        headers = WIRE | {"mcp-protocol-version": NEWEST, "mcp-method": method}
        if "name" in params or "uri" in params:
            headers["mcp-name"] = str(params.get("name") or params.get("uri"))
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            message = changed(message, chance)
        body = written(message)
        match chance.randrange(10):
            case 0:
                body = chance.choice(NOT_JSON)
            case 1:
                body = body[: chance.randrange(len(body) + 1)]
            case 2:
                at = chance.randrange(len(body) + 1)
                body = body[:at] + chance.randbytes(chance.randrange(1, 5)) + body[at:]
            case 3:
                body = b"[" + b",".join([body] * chance.randrange(1, 4)) + b"]"
            case 4:
                headers.pop(chance.choice(list(headers)))
            case 5:
                headers[chance.choice(list(headers))] = chance.choice(
                    ["", "x", "text/html", "2099-01-01", "*/*", "a,b"]
                )
        yield body, headers


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin, limits=LimitsOptions(listen_s_max=0.05)) as service:
        yield service


async def ask(http: httpx2.AsyncClient, method: str, path: str, **sent: Any) -> httpx2.Response:
    """The answer, which comes soon and is no fault of ours."""
    async with asyncio.timeout(ANSWER_S_MAX):
        answered = await http.request(method, path, **sent)
    assert answered.status_code < 500, (method, path, sent, answered.text)
    assert "-32603" not in answered.text, (method, path, sent, answered.text)
    assert '"code":"INTERNAL_ERROR"' not in answered.text.replace("\\", ""), (
        method,
        path,
        sent,
        answered.text,
    )
    assert "Traceback" not in answered.text
    return answered


async def test_malformed_messages_are_refused_and_nothing_hangs(service: Service) -> None:
    statuses = set()
    async with service.http() as http:
        for body, headers in bodies(BODIES):
            statuses.add(
                (await ask(http, "POST", "/mcp", content=body, headers=headers)).status_code
            )
        well = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        fit = WIRE | {"mcp-protocol-version": NEWEST, "mcp-method": "tools/list"}
        assert "file_read" in (await ask(http, "POST", "/mcp", json=well, headers=fit)).text
    assert {200, 400} <= statuses


async def test_a_body_that_is_no_plain_json_is_refused_by_every_route_that_takes_one(
    service: Service,
) -> None:
    taking = [(m.upper(), path) for path, methods in PATHS.items() for m, told in methods.items()
              if "application/json" in told.get("requestBody", {}).get("content", {})]  # fmt: skip
    assert len(taking) > len(TOOLS)
    async with service.http() as http:
        for number, (method, path) in enumerate(taking):
            for body in NOT_JSON[number % 4 :: 4]:
                answered = await ask(
                    http, method, path.replace("{", "").replace("}", ""), content=body, headers=WIRE
                )
                if body.strip() not in (b"", b"\xef\xbb\xbf{}"):
                    assert answered.status_code in (400, 404, 413, 415), (path, body, answered.text)
                assert {
                    "code",
                    "message",
                    "retryable",
                } <= answered.json().keys() or answered.status_code == 200


PATHS: dict[str, Any] = document(TOOLS.values(), "1")["paths"]
CROOKED = [
    *(
        "..",
        ".",
        "%2e%2e",
        "%2E%2E%2F",
        "..%2f..%2fetc%2fpasswd",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%c0%af",
        "%00",
        "a%00b",
    ),
    *(
        "%ff",
        "%80",
        "%ed%a0%80",
        "%f8%88%80%80%80",
        "%u002e",
        "%",
        "%2",
        "%zz",
        "%0d%0aX:1",
        "%09",
        "%7f",
        "%c2%85",
    ),
    *(
        "%e2%80%ae",
        "%f0%9f%98%80",
        "e%cc%81",
        "a;b",
        "a:b",
        "*",
        "%2a",
        "~",
        "%5c..%5c",
        "-1",
        "0",
        "9" * 40,
        "a" * 3000,
    ),
    *(
        "%25",
        "_",
        "%5f",
        "null",
        "%22%7d",
        "%3Cscript%3E",
        "'%20or%201=1--",
        "%EF%BB%BF",
        "%E2%80%A8",
        "a+b",
        "a%20b",
    ),
]


async def test_crooked_paths_lead_nowhere(service: Service) -> None:
    async with service.http() as http:
        for path, methods in PATHS.items():
            names = [part for part in path.split("/") if part.startswith("{")]
            for name in names:
                for crooked in CROOKED:
                    at = path.replace(name, crooked)
                    for other in names:
                        at = at.replace(other, "default")
                    for method in methods:
                        answered = await ask(
                            http, method.upper(), at, headers={"content-type": "application/json"}
                        )
                        assert "root:" not in answered.text
        for crooked in CROOKED[2:]:  # the client itself goes up where a path says ".."
            for above in ("", "/api", "/api/tools", "/mcp", "/healthz"):
                at = f"{above}/{crooked}"
                answered = await ask(http, "GET", at)
                assert answered.status_code in (400, 404, 405), (
                    at,
                    str(answered.url),
                    answered.text[:200],
                )
