"""Users are asked before a call removes anything for good, where their clients can ask them: on both
wires, by any replica; and nobody else's answer counts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import orjson
import pytest
from mcp import Client
from mcp_types import ElicitResult

from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key, revoke_key
from tests.e2e.sdk import WIRES, connected
from tests.fakes import FakeClock
from tests.gateway.catalogue import EchoArguments, EchoResult, tool
from tests.gateway.test_http_sessions import Client as RawClient
from tests.gateway.wired import Opened

pytestmark = pytest.mark.anyio

SECRET = "canary-9d1f"
AGREED = {"action": "accept", "content": {"confirm": True}}
User = Callable[[Any, Any], Awaitable[ElicitResult]]


class Wiped:
    """A destructive tool, and how often it ran."""

    def __init__(self) -> None:
        self.times = 0

    async def wipe(self, scope: Scope, _: EchoArguments) -> EchoResult:
        self.times += 1
        return EchoResult(project=scope.project, text="wiped", items=[], parts=[])

    def tools(self) -> list[Tool]:
        changes = {"permission": Permission.WRITE, "read_only": False, "destructive": True}
        return [
            tool("wipe", self.wipe, **changes),
            tool("wipe_twice", self.wipe, removes=lambda args: args.count > 1, **changes),
        ]


@pytest.fixture
def wiped() -> Wiped:
    return Wiped()


def answering(**answer: Any) -> tuple[User, list[str]]:
    """A user who answers every question so, and the questions."""
    asked: list[str] = []

    async def answer_it(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        assert params.requested_schema["properties"]["confirm"]["type"] == "boolean"
        return ElicitResult(**answer)

    return answer_it, asked


async def outcome(client: Client, name: str = "wipe", **arguments: Any) -> str:
    """The code that a call ends with; "" for success."""
    called = await client.call_tool(name, {"session_id": "one", "text": SECRET} | arguments)
    if not called.is_error:
        return ""
    code: str = orjson.loads(called.content[0].text)["code"]
    return code


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("with_progress", [False, True])
async def test_who_agrees_is_obeyed(
    replica: Opened, wiped: Wiped, wire: str, with_progress: bool
) -> None:
    user, asked = answering(**AGREED)

    async def hear(*_: Any) -> None:
        pass

    async with (
        replica(wiped.tools()) as server,
        connected(server.url, "key-one", wire, elicitation_callback=user) as client,
    ):
        called = await client.call_tool(
            "wipe",
            {"session_id": "one", "text": SECRET},
            progress_callback=hear if with_progress else None,
        )
        assert called.structured_content["text"] == "wiped"
    assert wiped.times == 1
    assert asked == [
        "This cannot be undone:\nWipe; project: default; session_id: one; text: 11 bytes"
    ]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"confirm": False}},
        {"action": "accept", "content": {"confirm": "true"}},
        {"action": "accept"},
    ],
)
async def test_who_does_not_agree_loses_nothing(
    replica: Opened, wiped: Wiped, wire: str, answer: dict[str, Any]
) -> None:
    user, asked = answering(**answer)
    async with (
        replica(wiped.tools()) as server,
        connected(server.url, "key-one", wire, elicitation_callback=user) as client,
    ):
        assert await outcome(client) == "NOT_ACCEPTED"
    assert (wiped.times, len(asked)) == (0, 1)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("action", "advice"),
    [("decline", "do not repeat the call"), ("cancel", "limits.confirm_s_max to 0")],
)
async def test_a_dismissed_question_is_no_refusal_and_the_error_says_what_helps(
    replica: Opened, wiped: Wiped, wire: str, action: str, advice: str
) -> None:
    user, _ = answering(action=action)
    async with (
        replica(wiped.tools()) as server,
        connected(server.url, "key-one", wire, elicitation_callback=user) as client,
    ):
        called = await client.call_tool("wipe", {"session_id": "one", "text": SECRET})
        assert advice in orjson.loads(called.content[0].text)["recovery"]


@pytest.mark.parametrize("wire", WIRES)
async def test_nobody_is_asked_where_nothing_goes_or_nobody_can_answer(
    replica: Opened, wiped: Wiped, wire: str
) -> None:
    user, asked = answering(action="decline")
    async with replica(wiped.tools()) as server:
        async with connected(server.url, "key-one", wire, elicitation_callback=user) as client:
            assert await outcome(client, "wipe_twice", count=1) == ""
            assert asked == []
            assert await outcome(client, "wipe_twice", count=2) == "NOT_ACCEPTED"
            assert len(asked) == 1
        async with connected(server.url, "key-one", wire) as client:
            assert await outcome(client) == ""
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer key-one"}) as http:
            came = await http.post(f"{server.url}/api/tools/wipe", json={})
            assert came.status_code == 200
    assert wiped.times == 3


@pytest.mark.parametrize("wire", WIRES)
async def test_an_operator_can_let_nobody_be_asked(
    replica: Opened, wiped: Wiped, wire: str
) -> None:
    user, asked = answering(action="decline")
    async with (
        replica(wiped.tools(), limits=LimitsOptions(confirm_s_max=0)) as server,
        connected(server.url, "key-one", wire, elicitation_callback=user) as client,
    ):
        assert await outcome(client) == ""
    assert asked == []


class Asked(RawClient):
    """A client of the older wire that shows its user forms, whose every message is seen."""

    async def initialize(self, url: str, **more: Any) -> None:
        params = more | {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        self.session = (await self.post(url, "initialize", **params)).headers["mcp-session-id"]

    async def answer(self, url: str, question: str, key: str = "", **result: Any) -> int:
        body = {"jsonrpc": "2.0", "id": question, "result": result or AGREED}
        headers = self.headers(**({"Authorization": f"Bearer {key}"} if key else {}))
        return (await self.http.post(f"{url}/mcp", json=body, headers=headers)).status_code

    @asynccontextmanager
    async def wiping(
        self, url: str, **arguments: str
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The messages of the response to a call that wipes."""
        params = {"name": "wipe", "arguments": {"session_id": "one"} | arguments}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with self.http.stream(
            "POST", f"{url}/mcp", json=body, headers=self.headers()
        ) as response:
            assert response.headers["content-type"] == "text/event-stream"
            lines = response.aiter_lines()
            yield (
                orjson.loads(line.removeprefix("data: "))
                async for line in lines
                if line.startswith("data: ")
            )


@asynccontextmanager
async def asking(url: str, key: str = "key-one") -> AsyncIterator[Asked]:
    async with httpx2.AsyncClient(timeout=30) as http:
        client = Asked(http, key)
        await client.initialize(url)
        yield client


async def rows(admin: asyncpg.Connection) -> int:
    return int(await admin.fetchval("SELECT count(*) FROM mcp_questions"))


async def test_the_answer_may_come_to_another_replica(
    replica: Opened, wiped: Wiped, admin: asyncpg.Connection
) -> None:
    async with (
        replica(wiped.tools()) as here,
        replica(wiped.tools()) as there,
        asking(here.url) as client,
        client.wiping(here.url) as messages,
    ):
        question = await anext(messages)
        assert question["method"] == "elicitation/create"
        assert (wiped.times, await rows(admin)) == (0, 1)
        assert await client.answer(there.url, question["id"]) == 202
        async with asyncio.timeout(10):
            assert (await anext(messages))["result"]["isError"] is False
        assert (wiped.times, await rows(admin)) == (1, 0)


@pytest.mark.parametrize("text", ["tools/list", "initialize", "progressToken", "params"])
async def test_no_argument_keeps_the_user_from_being_asked(
    replica: Opened, wiped: Wiped, text: str
) -> None:
    async with (
        replica(wiped.tools()) as server,
        asking(server.url) as client,
        client.wiping(server.url, text=text) as messages,
    ):
        question = await anext(messages)
        assert (question["method"], wiped.times) == ("elicitation/create", 0)
        answer = {"action": "decline", "content": {"params": text}}
        assert await client.answer(server.url, question["id"], **answer) == 202
        async with asyncio.timeout(10):
            result = (await anext(messages))["result"]
        assert orjson.loads(result["content"][0]["text"])["code"] == "NOT_ACCEPTED"
    assert wiped.times == 0


async def test_a_client_that_wants_progress_of_its_first_request_has_a_session(
    replica: Opened, wiped: Wiped
) -> None:
    async with replica(wiped.tools()) as server, httpx2.AsyncClient(timeout=30) as http:
        client = Asked(http, "key-one")
        await client.initialize(server.url, _meta={"progressToken": "t"})
        async with client.wiping(server.url) as messages:
            question = await anext(messages)
            assert question["method"] == "elicitation/create"
            await client.answer(server.url, question["id"], action="decline")
    assert wiped.times == 0


async def test_an_answer_of_another_key_or_session_is_none(
    replica: Opened, wiped: Wiped, database: Database, clock: FakeClock
) -> None:
    second = await create_key(database, "second", clock.now(), tenant=hash_key("key-one"))
    async with (
        replica(wiped.tools()) as server,
        asking(server.url) as client,
        asking(server.url) as other_session,
        asking(server.url, "key-two") as other_tenant,
        client.wiping(server.url) as messages,
    ):
        question = (await anext(messages))["id"]
        for key in ("key-two", second.text):
            assert await client.answer(server.url, question, key) == 404
        for other in (other_session, other_tenant):
            assert await other.answer(server.url, question) == 202  # as any unknown answer
        await asyncio.sleep(0.2)
        assert wiped.times == 0
        await client.answer(server.url, question, action="decline")
        result = (await anext(messages))["result"]
        assert orjson.loads(result["content"][0]["text"])["code"] == "NOT_ACCEPTED"
    assert wiped.times == 0


async def test_who_never_answers_is_not_waited_for(
    replica: Opened, wiped: Wiped, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    limits = LimitsOptions(confirm_s_max=0.2)
    async with replica(wiped.tools(), limits=limits) as server, asking(server.url) as client:
        async with asyncio.timeout(5), client.wiping(server.url) as messages:
            question = (await anext(messages))["id"]
            assert server.gateway.dispatch.admission.running_calls() == 0
            assert server.streams() == 1
            error = orjson.loads((await anext(messages))["result"]["content"][0]["text"])
        assert (error["code"], error["retryable"]) == ("NOT_ACCEPTED", False)
        assert "REST" in error["recovery"]
        assert (server.streams(), await rows(admin)) == (0, 0)
        clock.advance(timedelta(seconds=1))
        assert await client.answer(server.url, question) == 202
        async with client.wiping(server.url) as messages:
            await client.answer(server.url, (await anext(messages))["id"])
            assert (await anext(messages))["result"]["isError"] is False
    assert (wiped.times, await rows(admin)) == (1, 0)


async def test_a_key_that_is_revoked_meanwhile_removes_nothing(
    replica: Opened, wiped: Wiped, database: Database, clock: FakeClock
) -> None:
    made = await create_key(database, "narrow", clock.now(), tenant=hash_key("key-one"))
    auth = AuthOptions(mode="open", cache_s=0)
    async with (
        replica(wiped.tools(), auth=auth) as server,
        asking(server.url, made.text) as client,
        client.wiping(server.url) as messages,
    ):
        question = (await anext(messages))["id"]
        await revoke_key(database, made.key.key_id, clock.now())
        assert await client.answer(server.url, question) == 401
        error = orjson.loads((await anext(messages))["result"]["content"][0]["text"])
        assert error["code"] in ("NOT_ACCEPTED", "PERMISSION_DENIED")
    assert wiped.times == 0


async def test_an_answer_on_the_newer_wire_is_bound_to_its_call(
    replica: Opened, wiped: Wiped, clock: FakeClock
) -> None:
    async def call(http: httpx2.AsyncClient, key: str = "key-one", **params: Any) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }
        given = {"name": "wipe", "arguments": {"session_id": "one"}, "_meta": meta} | params
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": given["name"],
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}
        return (await http.post(f"{url}/mcp", json=body, headers=headers)).json()["result"]

    async with (
        replica(wiped.tools()) as here,
        replica(wiped.tools()) as there,
        httpx2.AsyncClient() as http,
    ):
        url = here.url
        required = await call(http)
        assert required["resultType"] == "input_required"
        agreed = {
            "inputResponses": {"confirm": AGREED},
            "requestState": required["requestState"],
        }
        for changed in (
            {"arguments": {"session_id": "two"}},
            {"requestState": ""},
            {"requestState": required["requestState"][:-1] + "x"},
            {"requestState": "9" + required["requestState"]},
        ):
            refused = await call(http, **(agreed | changed))
            assert orjson.loads(refused["content"][0]["text"])["code"] == "NOT_ACCEPTED"
        refused = await call(http, "key-two", **agreed)
        assert orjson.loads(refused["content"][0]["text"])["code"] == "NOT_ACCEPTED"
        assert wiped.times == 0
        url = there.url
        assert (await call(http, **agreed))["isError"] is False
        assert wiped.times == 1
        clock.advance(timedelta(seconds=601))
        late = await call(http, **agreed)
        assert orjson.loads(late["content"][0]["text"])["code"] == "NOT_ACCEPTED"
    assert wiped.times == 1
