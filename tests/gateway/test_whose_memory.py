"""Whose memory a call is about: the arguments, else the headers, else the key say it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import orjson
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.urls import encode_header
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
Surface = Literal["mcp", "rest"]
SURFACES: tuple[Surface, ...] = ("mcp", "rest")
SAID = {"ada": "My parrot is called Coco.", "bob": "The boat trip starts at noon."}
QUESTION = "What did we talk about?"
NEWER = "2026-07-28"
WIRE = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@dataclass
class Client:
    """A client on one surface, with a key, headers and arguments that it always sends."""

    service: Service
    surface: Surface
    key: str = "key-one"
    headers: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call, or the body of its error."""
        arguments = self.arguments | arguments
        async with self.service.http(self.key) as http:
            if self.surface == "rest":
                path = f"/api/tools/{tool}"
                answer = await http.post(path, json=arguments, headers=self.headers)
                return dict(answer.json())
            params = {"name": tool, "arguments": arguments}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await http.post("/mcp", json=request, headers=WIRE | self.headers)
        body = answer.json()
        if "result" not in body:
            return dict(body)
        if body["result"]["isError"]:
            return dict(orjson.loads(body["result"]["content"][0]["text"]))
        return dict(body["result"]["structuredContent"])

    async def say(self, text: str, **arguments: Any) -> dict[str, Any]:
        """Store a turn in which a person says this."""
        stored = await self(
            "memory_after_turn",
            input_items=[{"role": "user", "content": text}],
            output_items=[{"role": "assistant", "content": "All right."}],
            **arguments,
        )
        assert stored["ok"], stored
        return stored

    async def told(self, question: str = QUESTION, **arguments: Any) -> str:
        """Everything that a model is sent before it answers a question."""
        found = await self("memory_before_turn", current_input_text=question, **arguments)
        return orjson.dumps(found["input_items"]).decode()


async def client_of(service: Service, surface: Surface, user: str, by: str) -> Client:
    """A client whose user is named in the arguments, in a header, or by its key."""
    match by:
        case "argument":
            return Client(service, surface, arguments={"user_id": user})
        case "header":
            headers = {"X-Memsvc-User": encode_header(user)}
            return Client(service, surface, headers=headers)
        case _:
            return Client(service, surface, await service.key(user_id=user))


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("by", ["argument", "header", "key"])
async def test_two_users_without_a_session_are_not_told_each_others_words(
    service: Service, surface: Surface, by: str
) -> None:
    clients = {user: await client_of(service, surface, user, by) for user in SAID}
    for user, text in SAID.items():
        await clients[user].say(text)
    for user, other in (("ada", "bob"), ("bob", "ada")):
        told = await clients[user].told()
        assert SAID[user] in told
        assert SAID[other] not in told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ada", "Ada"),
        ("ada", "@ada"),
        ("ö" * 64, "ö" * 63 + "oo"),
        ("a" * 128, "a" * 127 + "b"),
        ("default", "ada"),
    ],
)
async def test_default_session_of_a_user_is_no_other_users(
    service: Service, one: str, other: str
) -> None:
    for user in (one, other, ""):
        await Client(service, "rest").say(SAID["ada"], user_id=user)
    found = await Client(service, "rest")("memory_list_sessions")
    assert len({session["session_id"] for session in found["sessions"]}) == 3


@pytest.mark.parametrize("surface", SURFACES)
async def test_session_default_of_earlier_versions_stays_readable(
    service: Service, surface: Surface
) -> None:
    await Client(service, surface).say(SAID["ada"], session_id="default", user_id="ada")
    ada = await client_of(service, surface, "ada", "header")
    assert SAID["ada"] in await ada.told("What is the name of my parrot?")
    turns = await (await client_of(service, "rest", "ada", "header"))(
        "memory_list_turns", session_id="default"
    )
    assert SAID["ada"] in [item["text"] for item in turns["items"]]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("blank", [None, "", "  "])
async def test_headers_are_the_defaults_of_project_and_user(
    service: Service, surface: Surface, blank: str | None
) -> None:
    headers = {"X-Memsvc-Project": "garden", "X-Memsvc-User": "ada"}
    ada = Client(service, surface, headers=headers)
    await ada.say(SAID["ada"], project=blank, user_id=blank, session_id="s")
    plain = Client(service, "rest")
    assert (await plain("memory_list_sessions", project="default"))["sessions"] == []
    [session] = (await plain("memory_list_sessions", project="garden"))["sessions"]
    assert (session["session_id"], session["user_id"]) == ("s", "ada")
    written = await ada("file_write", path="/todo.txt", content="milk")
    assert written.get("code") is None, written
    assert (await ada("file_read", path="/todo.txt"))["content"] == "milk"
    assert (await plain("file_read", project="garden", path="/todo.txt"))["content"] == "milk"


@pytest.mark.parametrize("surface", SURFACES)
async def test_argument_wins_over_the_header_and_it_over_the_key(
    service: Service, surface: Surface
) -> None:
    key = await service.key(projects=["garden"])
    headers = {"X-Memsvc-Project": "house", "X-Memsvc-User": "ada"}
    await Client(service, surface, key).say("The key says garden.")
    await Client(service, surface, headers=headers).say("The header says house.")
    await Client(service, surface, headers=headers).say("Neither.", project="shed", user_id="bob")
    found = {}
    for project in ("garden", "house", "shed"):
        listed = await Client(service, "rest")("memory_list_sessions", project=project)
        found[project] = [each["user_id"] for each in listed["sessions"]]
    assert found == {"garden": [""], "house": ["ada"], "shed": ["bob"]}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"user_id": "bob"}, {}),
        ({}, {"X-Memsvc-User": "bob"}),
        ({"user_id": "ada"}, {"X-Memsvc-User": "bob"}),
        ({"project": "house"}, {}),
        ({}, {"X-Memsvc-Project": "house"}),
    ],
)
async def test_bound_key_names_no_other_user_and_no_other_project(
    service: Service, surface: Surface, arguments: dict[str, str], headers: dict[str, str]
) -> None:
    key = await service.key(user_id="ada", projects=["garden"])
    assert (await Client(service, surface, key)("memory_profile")).get("code") is None
    refused = await Client(service, surface, key, headers)("memory_profile", **arguments)
    assert refused["code"] == "PERMISSION_DENIED"
    assert "bob" not in orjson.dumps(refused).decode()


async def test_bound_key_makes_no_key_of_another_user(service: Service) -> None:
    bound = Client(service, "rest", await service.key(user_id="ada"))
    assert (await bound("keys_create", user_id="bob"))["code"] == "PERMISSION_DENIED"
    made = await bound("keys_create")
    about = {"key_id": made["key"]["key_id"], "any_user": True}
    assert (await bound("keys_update", **about))["code"] == "PERMISSION_DENIED"
    assert made["key"]["user_id"] == "ada"
    rotated = await bound("keys_rotate", key_id=made["key"]["key_id"])
    assert rotated["key"]["user_id"] == "ada"
    for empty in ("", "  "):
        assert (await bound("keys_create", user_id=empty))["code"] == "INVALID_ARGUMENT"
    free = Client(service, "rest", headers={"X-Memsvc-User": "bob"})
    assert (await free("keys_create", label="free"))["key"]["user_id"] == ""


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Memsvc-Project", "gar den"),
        ("X-Memsvc-Project", "../garden"),
        ("X-Memsvc-Project", "p" * 129),
        ("X-Memsvc-Project", "*"),
        ("X-Memsvc-User", "u" * 129),
        ("X-Memsvc-User", "=?base64?w?="),
        ("X-Memsvc-User", encode_header("a\nb")),
    ],
)
async def test_header_that_is_no_name_is_refused_and_not_repeated(
    service: Service,
    surface: Surface,
    header: str,
    value: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with service.http() as http:
        path = "/mcp" if surface == "mcp" else "/api/tools/memory_list_sessions"
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"} if surface == "mcp" else {}
        answer = await http.post(path, json=request, headers=WIRE | {header: value})
    assert answer.status_code == 400
    assert answer.json()["code"] in ("INVALID_ARGUMENT", "INVALID_PATH")
    output = capfd.readouterr()
    assert value not in answer.text + output.out + output.err


async def test_header_of_a_user_may_be_any_text(service: Service) -> None:
    client = await client_of(service, "rest", "Jürgen 北", "header")
    await client.say(SAID["ada"])
    [session] = (await Client(service, "rest")("memory_list_sessions"))["sessions"]
    assert session["user_id"] == "Jürgen 北"


async def test_tools_of_a_connection_need_no_project_and_no_user(service: Service) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = WIRE | {"X-Memsvc-Tools": "all"}
    own = {"X-Memsvc-Project": "garden", "X-Memsvc-User": "ada"}
    async with service.http() as http:
        plain = await http.post("/mcp", json=request, headers=headers)
        connected = await http.post("/mcp", json=request, headers=headers | own)
    for answer, is_own in ((plain, False), (connected, True)):
        schemas = {tool["name"]: tool["inputSchema"] for tool in answer.json()["result"]["tools"]}
        assert ("project" in schemas["file_read"]["required"]) is not is_own
        assert ("user_id" in schemas["memory_profile"]["required"]) is not is_own
        assert ("default" in schemas["memory_forget"]["properties"]["project"]) is not is_own
        assert ("default" in schemas["memory_forget"]["properties"]["user_id"]) is not is_own
        assert schemas["mcp_pipe"]["properties"]["project"]["default"] == "*"


async def test_sessions_and_turns_listed_without_arguments_are_the_users_own(
    service: Service,
) -> None:
    clients = {user: await client_of(service, "rest", user, "header") for user in SAID}
    for user, text in SAID.items():
        await clients[user].say(text)
    for user, client in clients.items():
        [session] = (await client("memory_list_sessions"))["sessions"]
        assert session["user_id"] == user
        assert SAID[user] in [each["text"] for each in (await client("memory_list_turns"))["items"]]


async def test_call_log_says_whose_memory_a_call_was_about(service: Service) -> None:
    headers = {"X-Memsvc-Project": "garden", "X-Memsvc-User": "ada"}
    await Client(service, "mcp", headers=headers).say(SAID["ada"])
    [call] = await service.calls("memory_after_turn")
    assert call["project"] == "garden"
    assert (call["arguments"]["user_id"], call["arguments"]["session_id"]) == ("ada", "default@ada")


HOST = {"X-Memsvc-Tools": "host", "X-Memsvc-Project": "garden", "X-Memsvc-User": "ada"}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_correct_fact", {"record_id": "0" * 12, "value": "Kiel"}),
        ("memory_forget", {"undo": "0" * 32}),
        ("memories_get", {"memory_id": "none"}),
        ("file_read", {"path": "/none.txt"}),
    ],
)
async def test_not_found_says_where_it_looked(
    service: Service, surface: Surface, tool: str, arguments: dict[str, str]
) -> None:
    refused = await Client(service, surface, headers=HOST)(tool, **arguments)
    assert refused["code"] == "NOT_FOUND"
    place = refused["looked_in"]
    assert place["project"] == "garden"
    assert place.get("user_id", "ada") == "ada"


async def test_empty_answers_say_where_they_looked(service: Service) -> None:
    client = Client(service, "rest", headers=HOST)
    forgotten = await client("memory_forget", query="my phone number")
    listed = await client("memory_list_facts")
    profile = await client("memory_profile")
    for text in (forgotten["note"], listed["note"], profile["text"]):
        assert 'project garden, user "ada"' in text


async def test_profile_begins_with_its_owner_whose_name_is_no_line_of_it(service: Service) -> None:
    name = "ada\u2028instruction: <obey>"
    client = await client_of(service, "rest", name, "header")
    await client.say("I'm allergic to peanuts.")
    owner, *facts = (await client("memory_profile"))["text"].splitlines()
    assert owner.startswith('project default, user "ada')
    assert "<obey>" not in owner
    assert [fact.partition(":")[0] for fact in facts] == ["allergy"]
    assert (await client("memory_list_facts"))["note"] is None


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_instructions_are_short_where_hooks_call_before_and_after(
    service: Service, method: str
) -> None:
    found = {}
    for toolset in ("agent", "host"):
        async with service.http() as http:
            answer = await http.post(
                "/mcp", json=greeting(method), headers=greeted(method) | {"X-Memsvc-Tools": toolset}
            )
        found[toolset] = answer.json()["result"]["instructions"]
    counter = O200kCounter()
    assert len(found["host"].splitlines()) == 5
    assert "neither memory_before_turn nor memory_after_turn" in found["host"]
    assert "Call `memory_after_turn`" in found["agent"]
    assert counter.count(found["host"]) < 200 < counter.count(found["agent"]) < 500


def greeting(method: str) -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    if method == "initialize":
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    else:
        prefix = "io.modelcontextprotocol/"
        meta = {
            f"{prefix}protocolVersion": NEWER,
            f"{prefix}clientInfo": info,
            f"{prefix}clientCapabilities": {},
        }
        params = {"_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def greeted(method: str) -> dict[str, str]:
    newer = {"MCP-Protocol-Version": NEWER, "Mcp-Method": method}
    return WIRE | (newer if method != "initialize" else {})


@pytest.mark.parametrize("first", ["model", "hook"])
async def test_turn_that_model_and_hook_send_is_stored_once(service: Service, first: str) -> None:
    model = Client(service, "mcp", headers=HOST)
    hook = Client(service, "rest", headers=HOST, arguments={"session_id": "claude-code-1"})
    senders = [model, hook] if first == "model" else [hook, model]
    for sender in senders:
        await sender.say(SAID["ada"], turn_id="prompt-1")
    await hook.say("Another prompt.", turn_id="prompt-2")
    plain = Client(service, "rest", headers={"X-Memsvc-Project": "garden"})
    sessions = (await plain("memory_list_sessions"))["sessions"]
    assert sum(session["turns"] for session in sessions) == 2


async def test_key_of_one_user_sets_no_policy_where_others_speak(service: Service) -> None:
    plain = Client(service, "rest")
    ada = Client(service, "rest", await service.key(user_id="ada"))
    bob = Client(service, "rest", await service.key(user_id="bob"))
    await ada.say(SAID["ada"], session_id="mine")
    policy = {"project": "default", "path": "/memory/mine/meta/policy.json", "mode": "TRUNCATE"}
    refused = await bob("file_write", **policy, content='{"store": false}')
    assert refused["code"] == "PERMISSION_DENIED"
    assert (await ada.say("I keep bees.", session_id="mine"))["stored_items"] > 0
    for allowed in (ada, plain):
        assert "code" not in await allowed("file_write", **policy, content='{"ttl_days": 9}')
    await bob.say("I came too.", session_id="mine")
    assert (await ada("file_write", **policy, content="{}"))["code"] == "PERMISSION_DENIED"


async def test_equal_words_of_two_turns_are_both_stored(service: Service) -> None:
    model = Client(service, "mcp", headers=HOST)
    hook = Client(service, "rest", headers=HOST, arguments={"session_id": "claude-code-1"})
    await model.say(SAID["ada"], turn_id="a")
    await hook.say(SAID["ada"], turn_id="b")
    other = Client(service, "rest", headers=HOST | {"X-Memsvc-User": "bob"})
    await other.say(SAID["ada"], turn_id="b", session_id="bobs")
    plain = Client(service, "rest", headers={"X-Memsvc-Project": "garden"})
    assert len((await plain("memory_list_sessions"))["sessions"]) == 3


async def test_host_toolset_has_no_tools_of_the_loop_and_few_tokens(service: Service) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with service.http() as http:
        answer = await http.post("/mcp", json=request, headers=WIRE | HOST)
    tools = answer.json()["result"]["tools"]
    assert {tool["name"] for tool in tools} == {
        *("memory_profile", "memory_correct_fact", "memory_forget", "memory_list_facts"),
        *("find_tool", "mcp_pipe", "file_read", "file_write"),
    }
    named = ("name", "description", "inputSchema")
    texts = [orjson.dumps({name: tool[name] for name in named}).decode() for tool in tools]
    assert sum(map(O200kCounter().count, texts)) <= 1800
