"""Every tool over plain HTTP."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from memsvc.core.scope import Permission
from memsvc.gateway.rest import PUBLIC_PATHS
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
WRITE = {"project": "p", "path": "/f", "content": "hello"}


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


async def test_the_tools_that_a_caller_may_see_are_listed(service: Service) -> None:
    async with service.http() as http:
        tools = {tool["name"]: tool for tool in (await http.get("/api/tools")).json()["tools"]}
    assert {"file_write", "memory_before_turn"} <= tools.keys()
    write = tools["file_write"]
    assert set(write) == {"name", "title", "description", "input_schema", "hints"}
    assert write["hints"] == {"read_only": False, "destructive": False, "idempotent": False}
    assert "content" in write["input_schema"]["required"]
    async with service.http(await service.key(hidden_tools=["file_write"])) as http:
        assert {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]} == set(
            tools
        ) - {"file_write"}


async def test_a_tool_is_called_with_json_and_logged_as_rest(service: Service) -> None:
    async with service.http() as http:
        written = await http.post("/api/tools/file_write", json=WRITE)
        assert (written.status_code, written.json()["bytes_written"]) == (200, 5)
        read = await http.post("/api/tools/file_read", json={"project": "p", "path": "/f"})
        assert read.json()["content"] == "hello"
        assert read.headers["content-type"] == "application/json"
        assert (await http.post("/api/tools/file_projects")).json()["projects"] == ["p"]
    [call] = await service.calls("file_write")
    assert (call["surface"], call["tool"], call["project"], call["status"]) == (
        "rest",
        "file_write",
        "p",
        "success",
    )
    assert call["arguments"] == {
        "project": "p",
        "path": "/f",
        "content": {"redacted": True, "bytes": 5},
    }


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("nothing", {}, 404, "NOT_FOUND"),
        ("file_read", {"project": "p", "path": "/nothing"}, 404, "NOT_FOUND"),
        ("file_read", {"project": "p", "path": "/a/../b"}, 400, "INVALID_PATH"),
        ("file_read", {}, 400, "INVALID_ARGUMENT"),
        ("file_read", [], 400, "INVALID_ARGUMENT"),
        ("file_write", WRITE | {"create_only": True, "path": "/there"}, 409, "ALREADY_EXISTS"),
        ("file_write", WRITE | {"expected_version": "0" * 32 + ":1"}, 412, "VERSION_CONFLICT"),
        ("file_write", WRITE | {"content": "x" * 2_000_001}, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_an_error_has_its_status_and_the_one_shape(
    service: Service, name: str, body: object, status: int, code: str
) -> None:
    async with service.http() as http:
        await http.post("/api/tools/file_write", json=WRITE | {"path": "/there"})
        answer = await http.post(f"/api/tools/{name}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["retryable"] is False
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b'{"project":"p"}', "text/plain"),
        (b'{"project":"p"}', None),
        (b"{", "application/json"),
        (b"\xff", "application/json"),
        (b'{"a":NaN}', "application/json"),
        (b'{"a":"\\ud800"}', "application/json"),
        (b"[" * 100, "application/json"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "application/vnd.x+json"),
    ],
)
async def test_a_body_that_is_not_json_is_400(
    service: Service, content: bytes, media_type: str | None
) -> None:
    async with service.http() as http:
        headers = {"Content-Type": media_type} if media_type else {}
        answer = await http.post("/api/tools/file_projects", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.slow
async def test_a_locked_file_is_409_with_retry_after(
    service: Service, admin: asyncpg.Connection
) -> None:
    async with service.http() as http:
        await http.post("/api/tools/file_write", json=WRITE)
        async with admin.transaction():
            tenant = await admin.fetchval("SELECT tenant FROM files")
            await admin.execute("SELECT path FROM files WHERE tenant = $1 FOR UPDATE", tenant)
            answer = await http.post("/api/tools/file_write", json=WRITE)
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (
        409,
        "RESOURCE_BUSY",
        True,
    )
    assert answer.headers["retry-after"] == "1"


async def test_a_key_gets_no_further_over_http_than_over_mcp(service: Service) -> None:
    readers = await service.key(permissions=[Permission.READ])
    confined = await service.key(projects=["q"])
    blind = await service.key(hidden_tools=["file_write"])
    for key, status in ((readers, 403), (confined, 403), (blind, 404)):
        async with service.http(key) as http:
            assert (await http.post("/api/tools/file_write", json=WRITE)).status_code == status
    async with service.http("key-two") as http:
        await http.post("/api/tools/file_write", json=WRITE)
    async with service.http() as http:
        assert (await http.post("/api/tools/file_projects")).json()["projects"] == []


async def test_only_the_public_routes_are_there_without_a_key(service: Service) -> None:
    paths = {route.path for route in service.app.routes}
    assert paths == {
        "/",
        "/favicon.ico",
        "/mcp",
        "/mcp/",
        "/sse",
        "/sse/",
        "/messages",
        "/messages/",
        "/api/memories",
        "/api/openapi.json",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/jobs",
        "/api/jobs/{id}",
        "/api/jobs/{id}/retry",
        "/api/tools",
        "/api/tools/{name}",
        "/api/files",
        "/api/archive",
    }
    assert {"/healthz", "/readyz", "/metrics"} == PUBLIC_PATHS
    public = PUBLIC_PATHS | {"/", "/favicon.ico"}  # which hold nothing of anybody
    async with service.http(key=None) as http:
        for path in paths | {"/api/files/p/content/f", "/api/files/p/list"}:
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
                status = (await http.request(method, path.replace(":int", ""))).status_code
                assert (status == 401) is (path not in public), (method, path, status)
            if path not in public:
                told = await http.options(path.replace("{job:int}", "1"))
                assert (told.status_code, told.json()["code"]) == (405, "INVALID_ARGUMENT"), path
                assert all(
                    method in told.json()["message"] for method in told.headers["allow"].split(", ")
                )


async def test_browsers_that_look_for_an_icon_are_not_refused(service: Service) -> None:
    for key in (None, "wrong", "key-one"):
        async with service.http(key) as http:
            answer = await http.get("/favicon.ico")
            assert (answer.status_code, answer.content) == (204, b"")
            assert (await http.post("/favicon.ico", content=b"{}")).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
        "/.well-known/mcp/server-card.json",
        "/register",
        "/authorize",
        "/token",
    ],
)
async def test_where_nothing_is_served_discovery_hears_so_without_a_key(
    service: Service, path: str
) -> None:
    for key in (None, "wrong"):
        async with service.http(key) as http:
            for method in ("GET", "POST"):
                answer = await http.request(method, path, content=b"{}")
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
                assert "API key" in answer.json()["error_description"]
