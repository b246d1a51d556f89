"""Memories over plain HTTP, as clients of such memories call them."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx2
import pytest

from memsvc.adapters.options import ModelOptions
from memsvc.core.scope import Permission
from tests.endpoints import provider
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
ALEX = [
    {"role": "user", "content": "Hi, I'm Alex. I'm a vegetarian and allergic to nuts."},
    {"role": "assistant", "content": "Hello Alex! I'll remember your dietary preferences."},
]


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@pytest.fixture
async def http(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    async with service.http() as http:
        yield http


async def add(http: httpx2.AsyncClient, *, user: str = "alex", **more: Any) -> list[dict[str, Any]]:
    answer = await http.post("/api/memories/", json={"messages": ALEX, "user_id": user} | more)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def texts(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["memory"] for one in answer.json()["results"]]


async def test_the_five_operations_have_the_shapes_that_clients_know(
    http: httpx2.AsyncClient,
) -> None:
    body = {
        "messages": ALEX,
        "user_id": "alex",
        "metadata": {"session_id": "session_123", "source": "chat"},
    }
    added = (await http.post("/api/memories/", json=body)).json()
    assert added.keys() == {"results", "message"}
    assert [(one["memory"], one["event"]) for one in added["results"]] == [
        ("Name is Alex", "ADD"),
        ("Is vegetarian", "ADD"),
        ("Allergic to nuts", "ADD"),
    ]
    assert added["message"] == "Added 3 memories successfully"
    found = await http.post(
        "/api/memories/search/",
        json={"query": "What are my food preferences?", "user_id": "alex", "limit": 5},
    )
    assert set(texts(found)) == {"Is vegetarian", "Allergic to nuts"}
    one = found.json()["results"][0]
    assert one.keys() == {"id", "memory", "user_id", "created_at", "updated_at", "metadata"}
    assert one["created_at"] == one["updated_at"]
    assert datetime.fromisoformat(one["created_at"]).utcoffset() is not None
    assert (one["user_id"], one["metadata"]) == ("alex", body["metadata"])
    listed = await http.get("/api/memories/alex/", params={"limit": 2})
    assert texts(listed) == ["Allergic to nuts", "Is vegetarian"]
    gone = await http.delete(
        f"/api/memories/{added['results'][0]['id']}/", params={"user_id": "alex"}
    )
    assert gone.json() == {"success": True, "message": "Memory deleted successfully"}
    rest = await http.delete("/api/memories/", params={"user_id": "alex"})
    assert rest.json() == {"success": True, "message": "Deleted 2 memories"}
    assert texts(await http.get("/api/memories/alex/")) == []


@pytest.mark.parametrize("slash", ["", "/"])
async def test_every_path_may_end_with_a_slash(http: httpx2.AsyncClient, slash: str) -> None:
    memory = (await add(http))[0]["id"]
    one = f"/api/memories/alex/{memory}"
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/api/memories", {"messages": ALEX, "user_id": "alex"}),
        ("POST", "/api/memories/search", {"query": "vegetarian", "user_id": "alex"}),
        ("GET", "/api/memories/alex", None),
        ("GET", one, None),
        ("PUT", one, {"memory": "Name is Alexandra"}),
        ("GET", f"{one}/history", None),
        ("GET", "/api/memories/settings", None),
        ("PUT", "/api/memories/settings", {"decayDays": 6}),
        ("GET", "/api/memories/extraction-prompt", None),
        ("PUT", "/api/memories/extraction-prompt", {"prompt": "List facts of: {conversation}"}),
        ("DELETE", "/api/memories/extraction-prompt", None),
        ("DELETE", one, None),
    ]
    for method, path, body in calls:
        answer = await http.request(
            method, path + slash, **({"json": body} if body is not None else {})
        )
        assert answer.status_code == 200, (method, path, answer.text)
    for path in (f"/api/memories/{(await add(http))[0]['id']}{slash}", f"/api/memories{slash}"):
        assert (await http.delete(path, params={"user_id": "alex"})).status_code == 200
    assert texts(await http.get(f"/api/memories{slash}", params={"user_id": "alex"})) == []


async def test_one_memory_is_read_changed_and_its_history_told(http: httpx2.AsyncClient) -> None:
    memory = (await add(http))[1]["id"]
    path = f"/api/memories/alex/{memory}"
    assert (await http.get(path)).json()["memory"] == "Is vegetarian"
    changed = (await http.put(path, json={"memory": "Is vegan", "metadata": {"by": "me"}})).json()
    assert (changed["id"], changed["memory"], changed["metadata"]) == (
        memory,
        "Is vegan",
        {"by": "me"},
    )
    assert changed["updated_at"] > changed["created_at"]
    await http.delete(path)
    steps = (await http.get(f"{path}/history")).json()["results"]
    assert [(one["event"], one["memory"], one["old_memory"], one["origin"]) for one in steps] == [
        ("ADD", "Is vegetarian", None, "rule"),
        ("UPDATE", "Is vegan", "Is vegetarian", "user"),
        ("DELETE", "", "Is vegan", "user"),
    ]


async def test_what_is_not_there_is_404_and_what_cannot_be_understood_400(
    http: httpx2.AsyncClient,
) -> None:
    memory = (await add(http))[0]["id"]
    for method, path in [
        ("DELETE", "/api/memories/mem_1/?user_id=alex"),
        ("DELETE", f"/api/memories/{memory}?user_id=bob"),
        ("GET", f"/api/memories/bob/{memory}"),
        ("GET", f"/api/memories/bob/{memory}/history"),
        ("GET", f"/api/memories/alex/{memory}/future"),
    ]:
        answer = await http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
    assert (await http.delete("/api/memories/mem_1?user_id=alex")).json()[
        "message"
    ] == "Memory not found"
    answer = await http.put(f"/api/memories/bob/{memory}", json={"memory": "Is Bob"})
    assert answer.status_code == 404
    bad: list[tuple[str, str, Any]] = [
        ("POST", "/api/memories", {"messages": ALEX}),
        ("POST", "/api/memories", {"user_id": "alex"}),
        ("POST", "/api/memories", {"messages": "hello", "user_id": "alex"}),
        ("POST", "/api/memories", {"messages": [{"content": "hello"}], "user_id": "alex"}),
        ("POST", "/api/memories", {"messages": ["hello"], "user_id": "alex"}),
        ("POST", "/api/memories", {"messages": ALEX, "user_id": True}),
        ("POST", "/api/memories", {"messages": ALEX, "user_id": 4.2}),
        ("POST", "/api/memories", {"messages": ALEX, "user_id": "alex", "infer": "maybe"}),
        ("POST", "/api/memories", {"messages": ALEX, "user_id": ""}),
        ("POST", "/api/memories", {"messages": ALEX, "user_id": "alex", "metadata": "x"}),
        (
            "POST",
            "/api/memories",
            {"messages": ALEX, "user_id": "alex", "metadata": {"a": "x" * 9000}},
        ),
        ("POST", "/api/memories", [1]),
        ("POST", "/api/memories?project=a", {"messages": ALEX, "user_id": "alex", "project": "b"}),
        ("POST", "/api/memories/search", {"query": " ", "user_id": "alex"}),
        ("POST", "/api/memories/search", {"query": "x", "user_id": "alex", "limit": -1}),
        ("GET", "/api/memories/alex?limit=none", None),
        ("GET", "/api/memories/alex?limit=-1", None),
        ("GET", f"/api/memories/{memory}/history", None),
        ("PUT", f"/api/memories/{memory}", {"memory": "Is Bob"}),
        ("DELETE", "/api/memories?user_id=alex&run_id=r1", None),
        ("GET", "/api/memories/alex?colour=red", None),
        ("GET", "/api/memories", None),
        ("DELETE", f"/api/memories/{memory}", None),
        ("DELETE", "/api/memories", None),
        ("PUT", "/api/memories/settings", {"decayDays": -1}),
        ("PUT", "/api/memories/extraction-prompt", {"prompt": "no place for it"}),
        ("PUT", f"/api/memories/alex/{memory}", {"memory": "  "}),
        ("GET", "/api/memories/alex?project=a/b", None),
        ("GET", "/api/memories/%FF", None),
        ("DELETE", f"/api/memories/alex/{memory}%FF", None),
    ]
    for method, path, body in bad:
        answer = await http.request(method, path, **({"json": body} if body is not None else {}))
        assert answer.status_code == 400, (method, path, body, answer.text)
        assert answer.json()["code"] in ("INVALID_ARGUMENT", "INVALID_PATH")
        assert answer.json()["retryable"] is False
    assert (
        await http.post("/api/memories", content=b"{", headers={"content-type": "application/json"})
    ).is_client_error
    assert len(texts(await http.get("/api/memories/alex"))) == 3


async def test_another_method_is_refused_with_those_that_there_are(
    http: httpx2.AsyncClient,
) -> None:
    for method, path, allowed in [
        ("PUT", "/api/memories", {"POST", "GET", "DELETE"}),
        ("POST", "/api/memories/alex", {"GET", "PUT", "DELETE"}),
        ("POST", "/api/memories/alex/mem_1", {"GET", "PUT", "DELETE"}),
    ]:
        answer = await http.request(method, path, json={})
        assert (answer.status_code, answer.json()["code"]) == (405, "INVALID_ARGUMENT")
        assert set(answer.headers["allow"].split(", ")) == allowed


async def test_a_memory_is_changed_and_its_history_read_by_its_id_alone(
    http: httpx2.AsyncClient,
) -> None:
    memory = (await add(http))[1]["id"]
    path, who = f"/api/memories/{memory}", {"user_id": "alex"}
    changed = await http.put(path, json={"memory": "Is vegan"} | who)
    assert (changed.status_code, changed.json()["memory"]) == (200, "Is vegan")
    again = await http.put(path, params=who, json={"memory": "Is a vegan cook"})
    assert again.json()["memory"] == "Is a vegan cook"
    steps = (await http.get(f"{path}/history", params=who)).json()["results"]
    assert [one["memory"] for one in steps] == ["Is vegetarian", "Is vegan", "Is a vegan cook"]
    for answer in (
        await http.put(path, json={"memory": "Is Bob", "user_id": "bob"}),
        await http.get(f"{path}/history", params={"user_id": "bob"}),
    ):
        assert answer.status_code == 404


async def test_a_numeric_user_id_is_its_decimal_digits(http: httpx2.AsyncClient) -> None:
    added = await http.post("/api/memories", json={"messages": ALEX, "user_id": 42})
    assert len(texts(added)) == 3
    assert len(texts(await http.get("/api/memories/42"))) == 3
    found = await http.post("/api/memories/search", json={"query": "nuts", "user_id": 42})
    assert found.json()["results"][0]["user_id"] == "42"


async def test_a_list_limit_of_zero_is_that_of_a_search(http: httpx2.AsyncClient) -> None:
    raw = [{"role": "user", "content": f"Note number {number}"} for number in range(101)]
    assert len(await add(http, messages=raw, infer=False)) == 101
    for path in ("/api/memories/alex?limit=0", "/api/memories?user_id=alex&limit=0"):
        assert len(texts(await http.get(path))) == 100
    asked = {"query": "note", "user_id": "alex", "limit": 0}
    assert len(texts(await http.post("/api/memories/search", json=asked))) == 100


async def test_without_inference_what_is_said_is_kept_as_it_is(http: httpx2.AsyncClient) -> None:
    raw = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is the door  open?"},
        {"role": "assistant", "content": "It is."},
        {"role": "assistant", "tool_calls": [{"id": "1"}]},
    ]
    added = await add(http, messages=raw, infer=False, metadata={"source": "chat"})
    assert [(one["event"], one["memory"]) for one in added] == [
        ("ADD", "Is the door open?"),
        ("ADD", "It is."),
    ]
    assert await add(http, messages=raw, infer=False) == []
    listed = (await http.get("/api/memories/alex")).json()["results"]
    assert {one["metadata"]["source"] for one in listed} == {"chat"}
    for text in ("x" * 1025, "My password is hunter2-Zx9!"):
        body = {"messages": [{"role": "user", "content": text}], "user_id": "alex", "infer": False}
        answer = await http.post("/api/memories", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")


async def test_agent_and_run_are_kept_and_select_what_is_read(http: httpx2.AsyncClient) -> None:
    def said(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": text}]

    await add(http, messages=said("I like tea."), agent_id="cook", run_id="r1")
    await add(http, messages=said("I like green soup."), agent_id="cook", run_id=2)
    await add(http, messages=said("I like jazz."), metadata={"source": "chat"})
    listed = (await http.get("/api/memories/alex")).json()["results"]
    assert [one["metadata"] for one in listed] == [
        {"source": "chat"},
        {"agent_id": "cook", "run_id": "2"},
        {"agent_id": "cook", "run_id": "r1"},
    ]
    for query, expected in [
        ({"agent_id": "cook"}, ["Likes green soup", "Likes tea"]),
        ({"run_id": "r1"}, ["Likes tea"]),
        ({"agent_id": "cook", "run_id": "2"}, ["Likes green soup"]),
        ({"agent_id": "bard"}, []),
    ]:
        assert texts(await http.get("/api/memories/alex", params=query)) == expected
        assert (
            texts(await http.get("/api/memories", params=query | {"user_id": "alex"})) == expected
        )
        asked = {"query": "what do I like: tea, green soup, jazz?", "user_id": "alex"} | query
        found = texts(await http.post("/api/memories/search", json=asked))
        assert sorted(found) == sorted(expected)


SPOKEN: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [{"id": "1", "type": "function"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "I like rain."},
    {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "I like rain."},
    {"type": "reasoning", "summary": []},
    {"role": "user", "content": ""},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
]


@pytest.mark.parametrize("beside", SPOKEN, ids=str)
async def test_a_message_without_text_does_not_keep_the_others_from_being_read(
    http: httpx2.AsyncClient, beside: dict[str, Any]
) -> None:
    messages = [beside, {"role": "user", "content": "I love hiking."}, beside]
    assert [one["memory"] for one in await add(http, messages=messages)] == ["Likes hiking"]
    where = {"user_id": "alex", "conversation_id": "one"}
    updated = await http.post("/api/tools/context_update", json=where | {"entries": messages})
    assert updated.status_code == 200, updated.text
    board = await http.post("/api/tools/whiteboard_get", json=where)
    assert "I love hiking. (user)" in board.json()["text"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": {"type": "text", "text": "I love hiking."}},
        {"role": "user", "content": [{"text": "I love hiking."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "I love hiking."}]},
        {"role": "user", "parts": [{"text": "I love hiking."}]},
        {"role": "USER", "text": "I love hiking."},
        {"type": "message", "role": "user", "content": "I love hiking."},
        {"type": "human", "content": "I love hiking."},
    ],
    ids=str,
)
async def test_messages_of_other_apis_are_read(
    http: httpx2.AsyncClient, message: dict[str, Any]
) -> None:
    assert [one["memory"] for one in await add(http, messages=[message])] == ["Likes hiking"]
    where = {"user_id": "alex", "conversation_id": "one"}
    updated = await http.post("/api/tools/context_update", json=where | {"entries": [message]})
    assert updated.status_code == 200, updated.text
    board = (await http.post("/api/tools/whiteboard_get", json=where)).json()["text"]
    assert "I love hiking. (user)" in board.replace("(USER)", "(user)")


@pytest.mark.parametrize(
    "user",
    [
        "../x",
        "a/b",
        "..",
        "メモ",
        "%2e",
        "search",
        "settings",
        "events",
        "extraction-prompt",
        "a?b#c",
        "a b&c",
    ],
)
async def test_any_user_id_is_a_user_of_its_own(http: httpx2.AsyncClient, user: str) -> None:
    """Words that are paths of their own are reached percent-encoded, or by the query."""
    await add(http, user="somebody")
    await add(http, user=user)
    words = "".join(f"%{byte:02X}" for byte in user.encode())
    assert len(texts(await http.get(f"/api/memories/{words}"))) == 3
    assert len(texts(await http.get(f"/api/memories?user_id={quote(user, safe='')}"))) == 3
    memory = (await http.get(f"/api/memories/{words}")).json()["results"][0]["id"]
    assert (await http.get(f"/api/memories/{words}/{memory}")).json()["user_id"] == user
    gone = await http.delete(f"/api/memories?user_id={quote(user, safe='')}")
    assert gone.json()["message"] == "Deleted 3 memories"
    assert len(texts(await http.get("/api/memories/somebody"))) == 3


async def test_projects_and_tenants_see_nothing_of_each_other(
    service: Service, http: httpx2.AsyncClient
) -> None:
    added = await http.post("/api/memories?project=one", json={"messages": ALEX, "user_id": "alex"})
    memory = added.json()["results"][0]["id"]
    async with service.http("key-two") as other:
        for stranger, project in ((http, "two"), (other, "one")):
            there = {"project": project}
            assert texts(await stranger.get("/api/memories/alex", params=there)) == []
            found = await stranger.post(
                "/api/memories/search",
                params=there,
                json={"query": "vegetarian", "user_id": "alex"},
            )
            assert texts(found) == []
            for method in ("GET", "DELETE"):
                answer = await stranger.request(
                    method, f"/api/memories/alex/{memory}", params=there
                )
                assert answer.status_code == 404
            answer = await stranger.delete("/api/memories", params={"user_id": "alex"} | there)
            assert answer.json()["message"] == "Deleted 0 memories"
    assert len(texts(await http.get("/api/memories/alex", params={"project": "one"}))) == 3


async def test_settings_are_stored_as_they_were_sent_and_read_over_defaults(
    http: httpx2.AsyncClient,
) -> None:
    path = "/api/memories/settings"
    assert (await http.get(path)).json() == {
        "memoryEnabled": True,
        "decayDays": 0,
        "searchLimit": 5,
    }
    assert (await http.put(path, json={"decayDays": 6, "memoryEnabled": False})).json() == {
        "success": True
    }
    assert (await http.get(path)).json() == {
        "memoryEnabled": False,
        "decayDays": 6,
        "searchLimit": 5,
    }
    assert (await http.put(path, json={"searchLimit": 1})).json() == {"success": True}
    assert (await http.get(path)).json() == {
        "memoryEnabled": True,
        "decayDays": 0,
        "searchLimit": 1,
    }
    await add(http)
    body = {"query": "food", "user_id": "alex"}
    assert len(texts(await http.post("/api/memories/search", json=body))) == 1
    assert len(texts(await http.post("/api/memories/search", json=body | {"limit": 0}))) == 2
    other = await http.get(path, params={"project": "other"})
    assert other.json() == {"memoryEnabled": True, "decayDays": 0, "searchLimit": 5}


async def test_the_extraction_prompt_can_be_changed_and_reset(http: httpx2.AsyncClient) -> None:
    path = "/api/memories/extraction-prompt"
    default = (await http.get(path)).json()
    assert default["isCustom"] is False
    assert "Personal Information Organizer" in default["prompt"]
    assert (await http.put(path, json={"prompt": "Facts of {conversation}?"})).json() == {
        "success": True
    }
    assert (await http.get(path)).json() == {"prompt": "Facts of {conversation}?", "isCustom": True}
    assert (await http.delete(path)).json() == {"prompt": default["prompt"]}
    assert (await http.get(path)).json() == default


async def test_a_key_may_only_do_what_it_is_for(service: Service, http: httpx2.AsyncClient) -> None:
    memory = (await add(http))[0]["id"]
    reader = await service.key(permissions=frozenset({Permission.READ}))
    async with service.http(reader) as narrow:
        assert len(texts(await narrow.get("/api/memories/alex"))) == 3
        for method, path, body in [
            ("POST", "/api/memories", {"messages": ALEX, "user_id": "alex"}),
            ("DELETE", f"/api/memories/{memory}?user_id=alex", None),
            ("DELETE", "/api/memories?user_id=alex", None),
            ("PUT", "/api/memories/settings", {"decayDays": 1}),
        ]:
            answer = await narrow.request(
                method, path, **({"json": body} if body is not None else {})
            )
            assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
    async with service.http(None) as nobody:
        assert (await nobody.get("/api/memories/alex")).status_code == 401


async def test_a_model_that_is_away_is_503_and_leaves_nothing_behind(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with provider() as model:
        told = ModelOptions(base_url=model.url, api_key="sk", retries=0)
        async with served(database_urls, admin, model=told) as service, service.http() as http:
            model.always = "broken"
            answer = await http.post("/api/memories", json={"messages": ALEX, "user_id": "alex"})
            assert answer.status_code == 503
            body = answer.json()
            assert (body["code"], body["retryable"]) == ("UNAVAILABLE", True)
            assert body["message"].startswith("Failed to extract facts: ")
            model.always = "fine"
            answer = await http.post("/api/memories", json={"messages": ALEX, "user_id": "alex"})
            assert answer.json()["message"].startswith("Failed to extract facts: ")
            assert texts(await http.get("/api/memories/alex")) == []
            model.says = '{"facts": []}'
            answer = await http.post("/api/memories", json={"messages": ALEX, "user_id": "alex"})
            assert answer.json() == {"results": [], "message": "No new information found to store"}


async def test_the_call_log_knows_whose_memories_and_not_what_they_say(
    service: Service, http: httpx2.AsyncClient
) -> None:
    await add(http)
    [call] = await service.calls("memories_add")
    assert call["arguments"]["user_id"] == "alex"
    assert "vegetarian" not in str(call)
