"""Requests that no tool sees, as they are no messages, are refused in the form of all errors."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import orjson
import pytest

from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
NEWEST = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
LISTENS = NEWEST | {"Mcp-Method": "subscriptions/listen"}
INPUT = "the-input-of-the-caller"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
WRITE = {
    "name": "file_write",
    "arguments": {"project": "default", "path": "/f", "content": INPUT},
}
INVALID: dict[str, tuple[bytes, int, str, str | int | None]] = {
    "empty": (b"", -32700, "the body is empty", None),
    "blank": (b" \n", -32700, "the body is empty", None),
    "cut off": (b'{"a":', -32700, "not valid JSON: the error is at line 1 column 6", None),
    "words": (INPUT.encode(), -32700, "not valid JSON: the error is at line 1 column", None),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","a":NaN}', -32700, "not valid JSON", None),
    "number": (b"5", -32600, "must be a JSON-RPC message, which is an object", None),
    "string": (f'"{INPUT}"'.encode(), -32600, "must be a JSON-RPC message", None),
    "null": (b"null", -32600, "must be a JSON-RPC message", None),
    "batch": (b"[]", -32600, "send one message", None),
    "without version": (
        orjson.dumps({"id": "a", "method": "ping", "x": INPUT}), -32600, 'jsonrpc must be "2.0"', "a",
    ),
    "other version": (orjson.dumps(PING | {"jsonrpc": INPUT}), -32600, 'jsonrpc must be "2.0"', 1),
    "only a version": (b'{"jsonrpc":"2.0"}', -32600, "neither a request with a method", None),
    "method is a number": (orjson.dumps(PING | {"method": 5}), -32600, "method must be", 1),
    "method is null": (orjson.dumps(PING | {"method": None}), -32600, "method must be", 1),
    "params are a list": (orjson.dumps(PING | {"params": [INPUT]}), -32602, "params must be", 1),
    "result is a string": (
        orjson.dumps({"jsonrpc": "2.0", "id": 3, "result": INPUT}), -32600, "nor a valid response", 3,
    ),
}  # fmt: skip


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as running:
        yield running


def check_form(answer: Any, code: int, message: str, request_id: str | int | None) -> None:
    body = answer.json()
    error = body["error"]
    assert (error["code"], body["id"], body["jsonrpc"]) == (code, request_id, "2.0")
    assert (body["code"], body["retryable"]) == ("INVALID_ARGUMENT", False)
    assert error["message"] == body["message"] == error["data"]["message"]
    assert message in body["message"]
    for told in (INPUT, "pydantic", "validation error"):
        assert told not in answer.text


@pytest.mark.parametrize("version", [{}, NEWEST, LISTENS], ids=["older", "newest", "listens"])
@pytest.mark.parametrize("name", INVALID)
async def test_body_that_is_no_message_is_refused_and_not_repeated(
    service: Service, name: str, version: dict[str, str]
) -> None:
    content, code, message, request_id = INVALID[name]
    async with service.http() as http:
        answer = await http.post("/mcp", content=content, headers=JSON | version)
    assert answer.status_code == 400
    check_form(answer, code, message, request_id)


@pytest.mark.parametrize("request_id", [None, True, False, 1.5, 1.0, [], {}, [1], 10**30])
async def test_request_whose_id_is_no_string_or_integer_is_refused_and_not_run(
    service: Service, request_id: Any
) -> None:
    body = {"jsonrpc": "2.0", "id": "THE_ID", "method": "tools/call", "params": WRITE}
    content = orjson.dumps(body).replace(b'"THE_ID"', _written(request_id))
    async with service.http() as http:
        answer = await http.post("/mcp", content=content, headers=JSON)
        assert answer.status_code == 400
        check_form(answer, -32600, "id must be a string or an integer", None)
        read = {"project": "default", "path": "/f"}
        assert (await http.post("/api/tools/file_read", json=read)).status_code == 404


def _written(value: Any) -> bytes:
    return str(value).encode() if type(value) is int else orjson.dumps(value)


@pytest.mark.parametrize("request_id", ["1", "", 0, -1, 2**53])
async def test_request_with_a_string_or_an_integer_as_id_is_answered_with_it(
    service: Service, request_id: Any
) -> None:
    async with service.http() as http:
        answer = await http.post("/mcp", json=PING | {"id": request_id}, headers=JSON)
    assert (answer.status_code, answer.json()["id"]) == (200, request_id)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "x", "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
    ],
)
async def test_notification_and_response_are_taken_without_an_answer(
    service: Service, message: dict[str, Any]
) -> None:
    async with service.http() as http:
        answer = await http.post("/mcp", json=message, headers=JSON)
    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize("declared", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_body_that_is_not_declared_as_json_is_refused_with_the_header_to_send(
    service: Service, declared: str | None
) -> None:
    headers = {"Accept": JSON["Accept"]} | ({"Content-Type": declared} if declared else {})
    async with service.http() as http:
        answer = await http.post("/mcp", content=orjson.dumps(PING), headers=headers)
    assert answer.status_code == 400
    check_form(answer, -32600, "the request body must be JSON", 1)
    assert "Content-Type: application/json" in answer.json()["recovery"]


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/*;q=0.5"])
async def test_any_client_that_takes_json_is_answered(service: Service, accept: str | None) -> None:
    async with service.http() as http:
        http.headers.pop("accept", None)
        headers = {"Content-Type": "application/json"} | ({"Accept": accept} if accept else {})
        answer = await http.post("/mcp", json=PING, headers=headers)
    assert (answer.status_code, answer.json()["result"]) == (200, {})


async def test_client_that_takes_no_json_is_told_which_header_to_send(service: Service) -> None:
    headers = JSON | {"Accept": "text/event-stream"}
    async with service.http() as http:
        answer = await http.post("/mcp", json=PING, headers=headers)
    assert answer.status_code == 406
    check_form(answer, -32600, "the Accept header", 1)
    assert "Accept: application/json, text/event-stream" in answer.json()["recovery"]


HALVES = {
    "low half missing": (r"a \ud83d b", "a \ufffd b"),
    "high half missing": (r"a \ude00 b", "a \ufffd b"),
    "at the end": (r"cut \uD83D", "cut \ufffd"),
    "two high halves": (r"\ud83d\ud83d\ude00", "\ufffd😀"),
    "whole character": (r"\ud83d\ude00", "😀"),
    "escaped backslash": (r"C:\\ud83d", "C:\\ud83d"),
    "plain letters": (r"ud83d", "ud83d"),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("surface", ["rest", "mcp"])
async def test_half_a_character_is_stored_as_the_replacement_character(
    service: Service, surface: str, name: str
) -> None:
    written, read = HALVES[name]
    arguments = f'{{"project":"default","path":"/f","content":"{written}"}}'
    call = f'{{"name":"file_write","arguments":{arguments}}}'
    message = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{call}}}'
    body = arguments if surface == "rest" else message
    path = "/api/tools/file_write" if surface == "rest" else "/mcp"
    async with service.http() as http:
        answer = await http.post(path, content=body.encode(), headers=JSON)
        assert answer.status_code == 200, answer.text
        found = await http.post("/api/tools/file_read", json={"project": "default", "path": "/f"})
    assert found.json()["content"] == read
