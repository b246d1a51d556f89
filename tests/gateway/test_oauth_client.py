"""The official client finds the issuer by itself, gets a token there and calls with it."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AuthorizationCode, AuthorizationParams, construct_redirect_uri
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.applications import Starlette

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.oauth import OAuthOptions, tenant_of
from tests.gateway.conftest import ORIGIN
from tests.gateway.issuer import RESOURCE, Issuer, issuing
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
AUTHORITY = "http://127.0.0.1:9000"
CALLBACK = "http://127.0.0.1:3000/callback"


class Authority:
    """An authorization server in which everybody is alice and agrees to everything; it keeps what
    it is given."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.asked: list[list[str] | None] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        self.asked.append(params.scopes)
        code = f"code-{len(self.codes)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=2**33,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, _: OAuthClientInformationFull, code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, code: AuthorizationCode
    ) -> OAuthToken:
        claims = {"iss": f"{AUTHORITY}/", "aud": code.resource, "client_id": client.client_id}
        scope = " ".join(code.scopes)
        return OAuthToken(
            access_token=self._issuer.token(scope=scope, **claims), expires_in=600, scope=scope
        )

    def app(self) -> Starlette:
        scopes = ["memsvc:read", "memsvc:write", "memsvc:admin"]
        registering = ClientRegistrationOptions(
            enabled=True, valid_scopes=scopes, default_scopes=scopes
        )
        made: Any = self
        return Starlette(
            routes=create_auth_routes(
                made, AnyHttpUrl(AUTHORITY), client_registration_options=registering
            )
        )


class Kept:
    """What a client keeps between its calls."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class WithoutStreams(httpx2.ASGITransport):
    """The app in this process; its stream of changes, which this transport could only read whole,
    is refused, as a server without one refuses it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and request.url.path == "/mcp":
            return httpx2.Response(405, request=request)
        return await super().handle_async_request(request)


@pytest.mark.parametrize("wire", ["legacy", "2026-07-28"])
async def test_a_client_without_a_token_finds_the_issuer_and_gets_one(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, wire: str
) -> None:
    async with issuing() as issuer:
        authority = Authority(issuer)
        there = httpx2.ASGITransport(authority.app())
        oauth = OAuthOptions(
            issuer=f"{AUTHORITY}/", resource=RESOURCE, jwks_url=f"{issuer.url}/keys"
        )
        agreed: dict[str, str] = {}

        async def agree(url: str) -> None:
            async with httpx2.AsyncClient(transport=there) as browser:
                answer = await browser.get(url)
            query = parse_qs(urlsplit(answer.headers["location"]).query)
            agreed.update({name: values[0] for name, values in query.items()})

        async def came_back() -> AuthorizationCodeResult:
            return AuthorizationCodeResult(
                code=agreed["code"], state=agreed.get("state"), iss=agreed.get("iss")
            )

        kept = Kept()
        auth = OAuthClientProvider(
            RESOURCE,
            OAuthClientMetadata(client_name="agent", redirect_uris=[AnyUrl(CALLBACK)]),
            kept,
            agree,
            came_back,
        )
        options = AuthOptions(mode="listed", oauth=oauth)
        async with (
            served(database_urls, admin, auth=options) as service,
            httpx2.AsyncClient(
                transport=WithoutStreams(service.app),
                mounts={AUTHORITY: there},
                auth=auth,
                timeout=60,
            ) as http,
            Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
        ):
            outcome = await client.call_tool(
                "file_write", {"project": "default", "path": "/a", "content": "x"}
            )
            assert outcome.is_error is False
            [call] = await service.calls("file_write")
        assert kept.tokens is not None
        assert authority.asked == [["memsvc:read", "memsvc:write"]]
        assert call["tenant"] == tenant_of(f"{AUTHORITY}/", "alice")
