"""The service as a resource server: what clients are told, and what a token opens, on every
surface."""

import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.oauth import OAuthOptions, tenant_of
from tests.gateway.issuer import RESOURCE, Issuer, issuing
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
METADATA = "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp"
USUAL = f'scope="memsvc:read memsvc:write", resource_metadata="{METADATA}"'
WRITTEN = {"project": "default", "path": "/a", "content": "x"}


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as made:
        yield made


@pytest.fixture
async def service(
    issuer: Issuer, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> AsyncIterator[Service]:
    oauth = OAuthOptions(**issuer.options, projects_claim="projects")
    async with served(
        database_urls, admin, auth=AuthOptions(mode="listed", cache_s=0, oauth=oauth)
    ) as service:
        yield service


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call as MCP has it."""
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


async def mcp(http: httpx2.AsyncClient, name: str, arguments: dict[str, Any]) -> httpx2.Response:
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    return await http.post("/mcp", json=called(name, arguments), headers=headers)


async def test_clients_learn_without_a_token_whose_tokens_are_taken(
    service: Service, issuer: Issuer
) -> None:
    async with service.http(None) as http:
        for path in (
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource",
        ):
            answer = await http.get(path)
            assert answer.status_code == 200
            told = answer.json()
            assert [url.rstrip("/") for url in told["authorization_servers"]] == [issuer.url]
            assert told["resource"] == RESOURCE
            assert told["scopes_supported"] == ["memsvc:read", "memsvc:write", "memsvc:admin"]
            assert told["bearer_methods_supported"] == ["header"]
        assert (await http.post("/.well-known/oauth-protected-resource")).status_code in (401, 405)
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/register",
        ):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
            assert "metadata" in answer.json()["message"]


async def test_whoever_is_not_let_in_is_told_where_to_ask(service: Service, issuer: Issuer) -> None:
    async with service.http(None) as http:
        for path in ("/mcp", "/api/tools", "/sse"):
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (
                401,
                f"Bearer {USUAL}",
            ), path
        for bad in (issuer.token(aud="other"), issuer.token("new"), "msk_wrong"):
            answer = await http.get("/api/tools", headers={"Authorization": f"Bearer {bad}"})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == f'Bearer error="invalid_token", {USUAL}'
            assert bad not in answer.text


async def test_a_token_opens_the_tenant_of_its_subject_on_every_surface(
    service: Service, issuer: Issuer, admin: asyncpg.Connection
) -> None:
    async with (
        service.http(issuer.token(projects="*")) as alice,
        service.http(issuer.token(sub="bob", projects="*")) as bob,
    ):
        assert (await mcp(alice, "file_write", WRITTEN)).json()["result"]["isError"] is False
        assert (
            await alice.post("/api/tools/file_read", json={"project": "default", "path": "/a"})
        ).status_code == 200
        assert (
            await bob.post("/api/tools/file_read", json={"project": "default", "path": "/a"})
        ).status_code == 404
    [call] = await service.calls("file_write")
    assert (call["tenant"], call["key_label"]) == (tenant_of(issuer.url, "alice"), "oauth:agent")
    assert await admin.fetchval("SELECT count(*) FROM tenants") == 2
    assert await admin.fetchval("SELECT count(*) FROM api_keys") == 0


async def test_keys_open_what_they_opened(service: Service) -> None:
    async with service.http(await service.key()) as http:
        assert (await mcp(http, "file_write", WRITTEN)).json()["result"]["isError"] is False


async def test_a_token_is_taken_from_the_header_for_tokens_alone(
    service: Service, issuer: Issuer
) -> None:
    token = issuer.token()
    async with service.http(None) as http:
        for headers in (
            {"X-API-Key": token},
            {"Authorization": token},
            {"Authorization": f"Basic {token}"},
        ):
            assert (await http.get("/api/tools", headers=headers)).status_code == 401, headers
        assert (await http.get("/api/tools", params={"APIKEY": token})).status_code == 401


async def test_a_token_is_confined_to_the_projects_of_its_claim(
    service: Service, issuer: Issuer
) -> None:
    async with service.http(issuer.token(projects=["a"])) as http:
        assert (
            await http.post("/api/tools/file_write", json=WRITTEN | {"project": "a"})
        ).status_code == 200
        assert (await http.post("/api/tools/file_write", json=WRITTEN)).status_code == 403
    async with service.http(issuer.token()) as http:
        assert (await http.post("/api/tools/file_write", json=WRITTEN)).status_code == 403


async def test_a_token_without_any_scope_is_403_and_told_which(
    service: Service, issuer: Issuer
) -> None:
    async with service.http(issuer.token(scope="openid")) as http:
        answer = await http.get("/api/tools")
        assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
        assert answer.headers["www-authenticate"] == f'Bearer error="insufficient_scope", {USUAL}'


async def test_a_call_that_needs_another_scope_is_403_and_told_which(
    service: Service, issuer: Issuer
) -> None:
    told = f'Bearer error="insufficient_scope", {USUAL}'
    async with service.http(issuer.token(scope="memsvc:read", projects="*")) as http:
        assert (await mcp(http, "file_projects", {})).status_code == 200
        for answer in (
            await mcp(http, "file_write", WRITTEN),
            await http.post("/api/tools/file_write", json=WRITTEN),
            await http.put("/api/files/default/content/a", content=b"x"),
        ):
            assert (answer.status_code, answer.headers["www-authenticate"]) == (403, told)
        answer = await http.post("/api/tools/keys_list", json={})
        assert 'scope="memsvc:admin memsvc:read"' in answer.headers["www-authenticate"]


async def test_a_key_that_lacks_a_permission_is_asked_for_no_scope(service: Service) -> None:
    async with service.http(await service.key(permissions=["read"])) as http:
        answer = await mcp(http, "file_write", WRITTEN)
        assert (answer.status_code, answer.json()["result"]["isError"]) == (200, True)
        answer = await http.post("/api/tools/file_write", json=WRITTEN)
        assert answer.status_code == 403
        assert "www-authenticate" not in answer.headers


async def test_a_key_that_a_token_makes_ends_with_it(service: Service, issuer: Issuer) -> None:
    async with service.http(issuer.token(scope="memsvc:read memsvc:admin", projects="*")) as http:
        made = (await http.post("/api/tools/keys_create", json={})).json()["key"]
        assert (made["permissions"], made["expires_at"] is not None) == (["admin", "read"], True)
        refused = await http.post("/api/tools/keys_create", json={"permissions": ["write"]})
        assert refused.status_code == 403
        refused = await http.post(
            "/api/tools/keys_create", json={"expires_at": "2099-01-01T00:00:00Z"}
        )
        assert refused.status_code == 403


async def test_while_nobody_knows_the_issuers_keys_tokens_are_503_and_keys_are_let_in(
    issuer: Issuer, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    issuer.status = 503
    auth = AuthOptions(mode="listed", oauth=OAuthOptions(**issuer.options))
    async with served(database_urls, admin, auth=auth) as service:
        async with service.http(issuer.token()) as http:
            answer = await http.get("/api/tools")
            assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
            assert answer.headers["retry-after"] == "1"
        async with service.http(await service.key()) as http:
            assert (await http.get("/api/tools")).status_code == 200


async def test_in_open_mode_a_bad_token_is_nobodys_key(
    issuer: Issuer, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    auth = AuthOptions(mode="open", oauth=OAuthOptions(**issuer.options))
    async with (
        served(database_urls, admin, auth=auth) as service,
        service.http(issuer.token(aud="x")) as http,
    ):
        assert (await http.get("/api/tools")).status_code == 401
    assert await admin.fetchval("SELECT count(*) FROM tenants") == 0


async def test_without_an_issuer_there_is_no_metadata(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, service.http() as http:
        assert (await http.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404


async def test_no_token_stands_in_a_log_or_a_table(
    service: Service, issuer: Issuer, admin: asyncpg.Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = issuer.token(projects="*"), issuer.token(aud=f"other-{os.getpid()}", projects="*")
    async with service.http(good) as http:
        assert (await mcp(http, "file_write", WRITTEN)).status_code == 200
        assert (
            await http.get("/api/tools", headers={"Authorization": f"Bearer {bad}"})
        ).status_code == 401
    await service.calls("file_write")
    told = "".join(capfd.readouterr()) + str(await admin.fetch("SELECT c::text FROM calls c"))
    for token in (good, bad):
        assert not any(piece in told for piece in token.split("."))
    assert "alice" not in told
