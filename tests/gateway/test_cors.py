"""Web pages: those of an allowed origin may call from a browser and read what they are answered,
refusals too."""

from typing import Any

import asyncpg
import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.oauth import OAuthOptions
from memsvc.gateway.rate_limits import RateOptions
from memsvc.gateway.server_card import PATHS, ServerCardOptions
from tests.gateway.conftest import Gateway, Running
from tests.gateway.issuer import issuing
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

PAGE = "https://app.example"
FOREIGN = {"Origin": "https://evil.example"}
ALLOWED = LimitsOptions(allowed_origins=(PAGE, "http://localhost:*"))
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}
REQUEST_HEADERS = {
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "x-request-id",
}
MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {}},
}
PATHS_FOR_PAGES = (
    "/mcp",
    "/mcp/",
    "/sse",
    "/messages/",
    "/api/tools",
    "/api/tools/echo",
    "/api/files/p/content/f",
)
DISCOVERY = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    *PATHS,
)


def cors_of(answer: Any) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("access-control-")
    }


@pytest.mark.parametrize("path", PATHS_FOR_PAGES)
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:6274"])
async def test_the_preflight_of_an_allowed_page_is_answered_without_a_key(
    running: Running, path: str, origin: str
) -> None:
    async with running(host="0.0.0.0", limits=ALLOWED) as gateway, gateway.http(key=None) as http:
        answer = await http.options(path, headers=PREFLIGHT | {"Origin": origin})
    assert (answer.status_code, answer.content) == (204, b"")
    told = cors_of(answer)
    assert told["access-control-allow-origin"] == origin
    assert {"GET", "POST", "PUT", "DELETE"} <= set(told["access-control-allow-methods"].split(", "))
    assert set(told["access-control-allow-headers"].split(", ")) >= REQUEST_HEADERS
    assert int(told["access-control-max-age"]) > 0
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in told


async def test_an_allowed_page_reads_the_answer_and_its_headers(running: Running) -> None:
    async with running(limits=ALLOWED) as gateway, gateway.http() as http:
        answer = await http.post("/mcp", json=CALL, headers={"Origin": PAGE} | MCP)
    assert answer.status_code == 200
    told = cors_of(answer)
    assert told["access-control-allow-origin"] == PAGE
    exposed = set(told["access-control-expose-headers"].split(", "))
    assert {"mcp-session-id", "www-authenticate", "retry-after", "x-request-id"} <= exposed
    assert "Origin" in answer.headers["vary"]


async def test_a_foreign_page_gets_neither_an_answer_nor_leave_to_read_one(
    running: Running,
) -> None:
    async with running(limits=ALLOWED) as gateway, gateway.http() as http:
        for path in PATHS_FOR_PAGES:
            preflight = await http.options(path, headers=PREFLIGHT | FOREIGN)
            call = await http.post(path, json=CALL, headers=FOREIGN | MCP)
            assert (preflight.status_code, call.status_code) == (403, 403)
            assert cors_of(preflight) == cors_of(call) == {}
        for path in ("/healthz", "/metrics"):
            assert cors_of(await http.get(path, headers=FOREIGN)) == {}


async def test_without_an_origin_nothing_is_said_but_that_answers_differ_by_it(
    gateway: Gateway,
) -> None:
    async with gateway.http() as http:
        answer = await http.post("/mcp", json=CALL, headers=MCP)
    assert (answer.status_code, answer.headers["vary"], cors_of(answer)) == (200, "Origin", {})


async def test_refusals_can_be_read_by_an_allowed_page(running: Running) -> None:
    page = {"Origin": PAGE} | MCP
    few = ALLOWED.model_copy(
        update={"rates": RateOptions(key_requests_s=0.1, burst_s=10), "request_bytes_max": 2048}
    )
    async with (
        running(auth=AuthOptions(mode="listed"), limits=ALLOWED) as gateway,
        gateway.http(key="wrong") as http,
    ):
        unknown = await http.post("/mcp", json=CALL, headers=page)
    async with running(limits=few) as gateway, gateway.http() as http:
        missing = await http.get("/api/none", headers=page)
        many = await http.post("/mcp", json=CALL, headers=page)
    # servers of one database share the counts of a tenant
    async with running(limits=few) as gateway, gateway.http(key="key-two") as http:
        large = await http.post("/mcp", content=b"x" * 3000, headers=page)
    refusals = [unknown, missing, many, large]
    assert [answer.status_code for answer in refusals] == [401, 404, 429, 413]
    assert {answer.headers["access-control-allow-origin"] for answer in refusals} == {PAGE}


async def test_a_fault_of_the_server_can_be_read_by_an_allowed_page(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(limits=ALLOWED) as gateway, gateway.http() as http:
        monkeypatch.setattr("starlette.routing.Router.__call__", _fails)
        answer = await http.get("/api/jobs", headers={"Origin": PAGE})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, PAGE)
    assert answer.headers["vary"] == "Origin"


async def _fails(*_: Any) -> None:
    raise RuntimeError("a fault")


async def test_documents_of_discovery_follow_the_same_list(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    card = ServerCardOptions(mcp_url="https://memory.example/mcp", name="com.example/memory")
    async with issuing() as issuer:
        auth = AuthOptions(mode="listed", oauth=OAuthOptions(**issuer.options))
        options: dict[str, Any] = {"auth": auth, "server_card": card, "limits": ALLOWED}
        async with served(database_urls, admin, **options) as service, service.http(None) as http:
            for path in DISCOVERY:
                for method, sent in (("OPTIONS", PREFLIGHT), ("GET", {})):
                    allowed = await http.request(method, path, headers=sent | {"Origin": PAGE})
                    assert allowed.status_code in (200, 204)
                    assert allowed.headers.get_list("access-control-allow-origin") == [PAGE]
                    foreign = await http.request(method, path, headers=sent | FOREIGN)
                    assert (foreign.status_code, cors_of(foreign)) == (403, {})
