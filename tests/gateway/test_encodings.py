"""How answers go over the wire: compressed for whoever takes that, and the list of tools made once
for all."""

import gzip
from typing import Any

import asyncpg
import httpx2
import pytest

from memsvc.gateway.mcp import server
from tests.gateway.conftest import Gateway
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

LIST = {"jsonrpc": "2.0", "id": '"tools":[]', "method": "tools/list"}
MCP = {"Accept": "application/json, text/event-stream"}
MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST_BYTES_MAX = 20_000
ZIP, PLAIN = {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "identity"}
LONG = {"project": "p", "path": "/long.txt", "content": "some words again " * 2000}


async def raw(
    http: httpx2.AsyncClient, method: str, path: str, **sent: Any
) -> tuple[httpx2.Response, bytes]:
    """An answer and its body as it came over the wire."""
    async with http.stream(method, path, **sent) as answer:
        return answer, b"".join([piece async for piece in answer.aiter_raw()])


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, LIST), (MODERN, LIST | {"params": {"_meta": ENVELOPE}})],
    ids=["older", "newer"],
)
async def test_the_list_of_tools_is_made_once_and_goes_out_small(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    body: dict[str, Any],
) -> None:
    made = []
    monkeypatch.setattr(
        server,
        "listed",
        lambda tool, own, shows=server.listed: made.append(tool.name) or shows(tool, own),
    )
    async with served(database_urls, admin) as service:
        answers = []
        for number in range(3):
            async with service.http(f"key-{number}") as http:
                sent = [MCP | headers | coding for coding in (ZIP, PLAIN)]
                answers += [
                    await raw(http, "POST", "/mcp?tools=all", json=body, headers=each)
                    for each in sent
                ]
        assert len(made) == len(set(made)) > 20
        zipped, plain = answers[0][1], answers[1][1]
        assert len(zipped) < LIST_BYTES_MAX < len(plain)
        assert gzip.decompress(zipped) == plain
        for answer, wire in answers:
            assert (answer.status_code, int(answer.headers["content-length"])) == (200, len(wire))
            assert "Accept-Encoding" in answer.headers.get_list("vary")
        narrow = await service.key("key-1", hidden_tools=frozenset({"file_write"}))
        async with service.http(narrow) as http:
            told = (await http.post("/mcp?tools=all", json=body, headers=MCP | headers)).json()
    assert told["id"] == '"tools":[]'
    names = [tool["name"] for tool in told["result"]["tools"]]
    assert names == [name for name in dict.fromkeys(made) if name != "file_write"]


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> Any:
    async with served(database_urls, admin) as running:
        yield running


async def test_json_goes_out_compressed_to_whoever_takes_that(service: Service) -> None:
    async with service.http() as http:
        await http.post("/api/tools/file_write", json=LONG)
        asked = {"json": {"project": "p", "path": "/long.txt"}}
        answer, wire = await raw(http, "POST", "/api/tools/file_read", headers=ZIP, **asked)
        assert (answer.headers["content-encoding"], len(wire) < 1000) == ("gzip", True)
        assert LONG["content"].encode() in gzip.decompress(wire)
        for coding in ("identity", "br", "gzip;q=0", "br, gzip; q=0.0", "x-gzip, gzip;q=0"):
            answer, wire = await raw(
                http, "POST", "/api/tools/file_read", headers={"Accept-Encoding": coding}, **asked
            )
            assert "content-encoding" not in answer.headers
            assert LONG["content"].encode() in wire
            assert "Accept-Encoding" in answer.headers.get_list("vary")


async def test_what_is_short_or_no_json_or_named_by_its_bytes_goes_out_as_it_is(
    service: Service,
) -> None:
    async with service.http() as http:
        await http.post("/api/tools/file_write", json=LONG | {"path": "/long.json"})
        for path in ("/api/files/p/content/long.json", "/api/archive", "/metrics", "/healthz"):
            answer, _ = await raw(http, "GET", path, headers=ZIP)
            assert answer.status_code == 200, path
            assert "content-encoding" not in answer.headers, path


@pytest.mark.parametrize("path", ["/mcp", "/api/tools/file_write", "/api/files/p/content/f"])
async def test_a_compressed_body_is_415(gateway: Gateway, path: str) -> None:
    async with gateway.http() as http:
        sent = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = await http.post(path, content=gzip.compress(b"{}"), headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (415, "INVALID_CONTENT")
