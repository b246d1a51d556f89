"""`search` and `fetch` find and read what a tenant has, in the form of ChatGPT's connectors."""

from typing import Any, NoReturn
from uuid import UUID

import asyncpg
import orjson
import pytest
from mcp import Client

from memsvc.core.errors import HTTP_STATUS, Code, MemsvcError
from memsvc.core.scope import Permission
from memsvc.gateway import search_tools
from memsvc.runtime import all_published
from memsvc.store.database import Database
from tests.e2e.sdk import connected, used
from tests.gateway.served import served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

SAID = "My cello teacher in Vienna is called Marta."
NOTES = (
    "Ada told me that the launch moved to Thursday.",
    "The gearbox of the red tractor leaks oil.",
    "We should paint the kitchen blue.",
)
UNKNOWN = (
    "turn:s2/none",
    "turn:none/t-1",
    "turn:",
    "turn:s%00/t-1",
    "turn:s/" + "x" * 2000,
    "odd:1",
    "memory:ada/none",
    "memory:",
    "document:../root",
    "whiteboard:ada/none",
    "whiteboard:",
    "whiteboard:ada/" + "x" * 2000,
    "knowledge:none",
    "knowledge:" + "0" * 16,
    "file:relative",
    "file:/../notes/cello.md",
    "file:/notes",
    "x",
)
"""Ids of nothing, and what could be no id."""
OF_EACH_KIND = (
    "turn:s/t",
    "file:/notes.md",
    "document:root",
    f"memory:ada/{UUID(int=1)}",
    "whiteboard:ada/c",
    f"knowledge:{'0' * 16}",
)


async def test_all_kinds_of_memory_are_found_and_read_by_their_tenant_alone(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin) as service,
        wired(service.app) as url,
        connected(url, "key-one") as one,
        connected(url, "key-two") as two,
    ):
        for user, session in (("ada", "s/1"), ("", "s2")):
            about = {"session_id": session, "user_id": user, "turn_id": "t-1"}
            said = [{"role": "user", "content": f"{SAID} I am {user}."}]
            answer = [{"role": "assistant", "content": "Noted."}]
            await used(one, "memory_after_turn", **about, input_items=said, output_items=answer)
        content = "# Cello\nThe strings are Larsen.\n"
        await used(one, "file_write", project="default", path="/notes/cello.md", content=content)
        await one.call_tool(
            "update_document", {"id": "root", "content": "The cello is in the hall."}
        )
        facts = [{"role": "user", "content": "I like my cello more than my piano."}]
        await used(one, "memories_add", user_id="ada", messages=facts)
        entries = [{"role": "user", "content": "The cello lesson is on Friday."}]
        board = {"user_id": "a/b", "conversation_id": "."}
        await used(one, "context_update", **board, entries=entries)
        learned = "A cello needs a new bow after ten years."
        block = await used(one, "elfmem_remember", content=learned)
        found = await used(one, "search", query="cello")
        kinds = {each["id"].partition(":")[0] for each in found["results"]}
        assert kinds == {"turn", "file", "document", "memory", "whiteboard", "knowledge"}
        ids = [each["id"] for each in found["results"]]
        assert {
            "turn:s%2F1/t-1",
            "turn:s2/t-1",
            "file:/notes/cello.md",
            "whiteboard:a%2Fb/%2E",
            f"knowledge:{block['block_id']}",
        } <= {*ids}
        assert len({*ids}) == len(ids)
        for each in found["results"]:
            assert {*each} == {"id", "title", "url"}
            answer = await one.call_tool("fetch", {"id": each["id"]})
            body = answer.structured_content
            assert {*body} == {"id", "title", "text", "url", "metadata"}
            assert [orjson.loads(part.text) for part in answer.content] == [body]
            assert (body["id"], body["url"]) == (each["id"], each["url"])
            if each["id"].startswith(("file:", "document:", "turn:")):
                resource = await one.read_resource(each["url"])
                assert "ello" in str(resource.contents)
            if each["id"].startswith(("turn:", "knowledge:")):
                assert body["title"] == each["title"]
            assert "ello" in body["text"]
            theirs = await two.call_tool("fetch", {"id": each["id"]})
            if each["id"] == "document:root":  # every notebook has one
                assert "ello" not in str(theirs.structured_content)
            else:
                assert theirs.is_error
        turn = await used(one, "fetch", id="turn:s%2F1/t-1")
        assert turn["text"] == f"user: {SAID} I am ada.\nassistant: Noted."
        assert turn["title"] == f"turn s/1/t-1: user: {SAID} I am ada. assistant: Noted."
        learnt = await used(one, "fetch", id=f"knowledge:{block['block_id']}")
        assert learnt["text"] == learned
        assert (await used(two, "search", query="cello")) == {"results": []}
        nothing = {(await refused(two, each)) for each in ids if each != "document:root"}
        nothing |= {await refused(one, each) for each in UNKNOWN}
        nothing |= {
            await refused(one, each, project="other") for each in ids if each != "document:root"
        }
        assert nothing == {("NOT_FOUND", "nothing in memory has this id")}
        assert await used(one, "search", query="cello", project="other") == {"results": []}
        assert (await one.call_tool("search", {"query": " "})).is_error


async def refused(client: Client, reference: str, **more: str) -> tuple[str, str]:
    """The error of a fetch, its code and message."""
    answer = await client.call_tool("fetch", {"id": reference, **more})
    assert answer.is_error, reference
    error = orjson.loads(answer.content[0].text)
    return error["code"], error["message"]


async def test_a_key_searches_the_project_that_it_is_confined_to_and_no_other(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        of_work = await service.key(projects=frozenset({"work"}))
        of_two = await service.key(projects=frozenset({"work", "home"}))
        unread = await service.key(permissions=frozenset({Permission.WRITE}))
        turnless = [
            await service.key(hidden_tools=frozenset({hidden}))
            for hidden in ("memory_before_turn", "memory_list_turns")
        ]
        alone = await service.key(hidden_tools=frozenset({"memory_list_sessions"}))
        async with connected(url, "key-one") as one:
            for project in ("default", "work"):
                said = [{"role": "user", "content": f"{SAID} This is {project}."}]
                about = {"project": project, "session_id": "s", "user_id": "ada", "turn_id": "t"}
                await used(one, "memory_after_turn", **about, input_items=said, output_items=[])
                file = {"project": project, "path": f"/{project}.md", "content": "a cello"}
                await used(one, "file_write", **file)
        async with connected(url, of_work) as client:
            found = (await used(client, "search", query="cello"))["results"]
            assert {"turn:s/t", "file:/work.md"} == {each["id"] for each in found}
            assert {each["url"].split("/")[2] for each in found} == {"work"}
            assert "This is work." in (await used(client, "fetch", id="turn:s/t"))["text"]
            assert (await refused(client, "file:/default.md"))[0] == "NOT_FOUND"
            for reference in ("file:/default.md", "turn:s/t"):
                code, _ = await refused(client, reference, project="default")
                assert code == "PERMISSION_DENIED"
            denied = await client.call_tool("search", {"query": "cello", "project": "default"})
            assert denied.is_error
        async with connected(url, of_two) as client:
            assert (await refused(client, "turn:s/t"))[0] == "PERMISSION_DENIED"
            assert await used(client, "search", query="cello", project="work") == {"results": found}
        async with connected(url, unread) as client:
            assert (await refused(client, "turn:s/t"))[0] == "PERMISSION_DENIED"
        for key in turnless:
            async with connected(url, key) as client:
                found = (await used(client, "search", query="cello"))["results"]
                assert [each["id"] for each in found] == ["file:/default.md"]
                assert (await refused(client, "turn:s/t"))[0] == "NOT_FOUND"
        async with connected(url, alone) as client:
            found = (await used(client, "search", query="cello"))["results"]
            assert [each["id"] for each in found] == ["file:/default.md"]
            assert "This is default." in (await used(client, "fetch", id="turn:s/t"))["text"]


async def test_what_is_disabled_is_found_and_read_by_nobody(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    disabled = {"mcp": {"tools": {"disabled": ["memory_list_turns"]}}}
    async with (
        served(database_urls, admin, settings=disabled) as service,
        wired(service.app) as url,
        connected(url, "key-one") as one,
    ):
        said = [{"role": "user", "content": SAID}]
        await used(one, "memory_after_turn", session_id="s", turn_id="t", input_items=said)
        assert (await used(one, "search", query="cello"))["results"] == []
        assert (await refused(one, "turn:s/t"))[0] == "NOT_FOUND"


async def test_words_find_turns_that_a_prompt_is_not_told_and_other_words_find_none(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin) as service,
        wired(service.app) as url,
        connected(url, "key-one") as one,
    ):
        for number, text in enumerate(NOTES):
            said = [{"role": "user", "content": text}]
            about = {"session_id": f"s{number}", "user_id": "ada", "turn_id": "t"}
            await used(one, "memory_after_turn", **about, input_items=said, output_items=[])
        words = "Explain how a launch works"
        prompt = await used(
            one, "memory_before_turn", session_id="new", user_id="ada", current_input_text=words
        )
        assert "Thursday" not in str(prompt)
        found = (await used(one, "search", query=words))["results"]
        assert found[0]["id"] == "turn:s0/t"
        for each in found:
            assert (await used(one, "fetch", id=each["id"]))["id"] == each["id"]
        assert (await used(one, "search", query="quantum chromodynamics"))["results"] == []


async def test_turns_of_a_session_of_several_users_are_found(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        keys = {user: await service.key(user_id=user) for user in ("ada", "ben", "zed")}
        confined = await service.key(projects=frozenset({"work"}))
        async with connected(url, "key-one") as one:
            for turn, user, text in (
                ("t1", "ada", "We decided to use PostgreSQL 17."),
                ("t2", "ben", "The staging server is called otter."),
            ):
                said = [{"role": "user", "content": text}]
                about = {"session_id": "team", "user_id": user, "turn_id": turn}
                await used(one, "memory_after_turn", **about, input_items=said, output_items=[])
            for user in keys:
                said = [{"role": "user", "content": "My private cello is brown."}]
                about = {"session_id": f"of-{user}", "user_id": user, "turn_id": "t"}
                await used(one, "memory_after_turn", **about, input_items=said, output_items=[])
            for query, turn in (("PostgreSQL 17", "t1"), ("staging server otter", "t2")):
                found = (await used(one, "search", query=query))["results"]
                assert found[0]["id"] == f"turn:team/{turn}"
            found = (await used(one, "search", query="private cello"))["results"]
            assert {each["id"] for each in found} == {f"turn:of-{user}/t" for user in keys}
            assert (await used(one, "search", query="quantum"))["results"] == []
        for key, expected in ((keys["ben"], ["turn:team/t2"]), (keys["zed"], []), (confined, [])):
            async with connected(url, key) as client:
                found = (await used(client, "search", query="staging server otter"))["results"]
                assert [each["id"] for each in found][:1] == expected
        async with connected(url, keys["ben"]) as client:
            found = (await used(client, "search", query="private cello"))["results"]
            assert [each["id"] for each in found] == ["turn:of-ben/t"]


async def test_a_key_of_a_user_who_never_spoke_finds_memories_of_this_user(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        key = await service.key(user_id="zed")
        async with connected(url, key) as client:
            said = [{"role": "user", "content": "I collect antique barometers."}]
            await used(client, "memories_add", messages=said)
            [found] = (await used(client, "search", query="barometers"))["results"]
            assert "barometers" in (await used(client, "fetch", id=found["id"]))["text"]


async def test_memories_of_users_who_never_spoke_are_found_by_a_key_of_no_user(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        memoryless = await service.key(hidden_tools=frozenset({"memories_search"}))
        async with connected(url, "key-one") as one, connected(url, "key-two") as two:
            for number in range(30):
                said = [{"role": "user", "content": "I collect antique clocks."}]
                await used(one, "memories_add", user_id=f"user{number}", messages=said)
            for user in ("zed", "yan"):
                said = [{"role": "user", "content": f"I, {user}, collect antique barometers."}]
                await used(one, "memories_add", user_id=user, messages=said)
            found = (await used(one, "search", query="antique barometers"))["results"]
            texts = [(await used(one, "fetch", id=each["id"]))["text"] for each in found]
            assert sum("barometers" in text for text in texts[:2]) == 2
            assert (await used(one, "search", query="barometers", project="other"))["results"] == []
            assert (await used(two, "search", query="barometers"))["results"] == []
        async with connected(url, memoryless) as client:
            assert (await used(client, "search", query="barometers"))["results"] == []


async def test_whiteboards_and_knowledge_are_found_by_keys_that_may_read_them(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        async with connected(url, "key-one") as one:
            for user in ("ada", "ben"):
                said = [{"role": "user", "content": f"The barometer belongs to {user}."}]
                about = {"user_id": user, "conversation_id": "c"}
                await used(one, "context_update", **about, entries=said)
            block = await used(one, "elfmem_remember", content="A barometer falls before rain.")
        boards = ["whiteboard:ada/c", "whiteboard:ben/c"]
        knowledge = f"knowledge:{block['block_id']}"
        keys = [
            (await service.key(), [*boards, knowledge]),
            (
                await service.key(permissions=frozenset({Permission.READ})),
                [*boards, knowledge],
            ),
            (await service.key(user_id="ben"), ["whiteboard:ben/c", knowledge]),
            (await service.key(hidden_tools=frozenset({"whiteboard_get"})), [knowledge]),
            (await service.key(hidden_tools=frozenset({"elfmem_recall"})), boards),
            (await service.key(hidden_tools=frozenset({"elfmem_show"})), boards),
        ]
        for key, expected in keys:
            async with connected(url, key) as client:
                found = (await used(client, "search", query="barometer"))["results"]
                assert sorted(each["id"] for each in found) == sorted(expected)
                for reference in [*boards, knowledge]:
                    if reference in expected:
                        text = (await used(client, "fetch", id=reference))["text"]
                        assert "barometer" in text
                    else:
                        assert (await client.call_tool("fetch", {"id": reference})).is_error
                other = await used(client, "search", query="barometer", project="other")
                assert other["results"] == []


async def test_a_long_turn_is_fetched_whole(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_tools, "ITEMS_MAX", 2)
    monkeypatch.setattr(search_tools, "TITLE_ITEMS", 2)
    texts = [f"{n} " + "cello and viola " * 400 + f"end {n}" for n in range(5)]
    said = [{"role": "user", "content": text} for text in texts]
    async with (
        served(database_urls, admin) as service,
        wired(service.app) as url,
        connected(url, "key-one") as one,
    ):
        for turn in ("t1", "t2", "t3"):
            about = {"session_id": "s", "turn_id": turn}
            items = said if turn == "t2" else [{"role": "user", "content": f"Only {turn}."}]
            await used(one, "memory_after_turn", **about, input_items=items, output_items=[])
        assert (await used(one, "fetch", id="turn:s/t2"))["text"] == "\n".join(
            f"user: {text}".strip() for text in texts
        )
        assert (await used(one, "fetch", id="turn:s/t1"))["text"] == "user: Only t1."
        for found in (await used(one, "search", query="cello and viola"))["results"]:
            fetched = await used(one, "fetch", id=found["id"])
            assert found["title"] == fetched["title"]


async def test_an_outage_is_an_error_and_no_empty_answer(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Code.UNAVAILABLE

    def begin(*_: Any, **__: Any) -> NoReturn:
        raise MemsvcError(failing, "the database is away")

    asked = {"search": [{"query": "cello"}], "fetch": [{"id": each} for each in OF_EACH_KIND]}
    async with served(database_urls, admin) as service, service.http() as http:
        monkeypatch.setattr(Database, "begin", begin)
        for failing in (Code.UNAVAILABLE, Code.RESOURCE_BUSY, Code.INTERNAL_ERROR):
            for tool, bodies in asked.items():
                for body in bodies:
                    answer = await http.post(f"/api/tools/{tool}", json=body)
                    assert answer.status_code == HTTP_STATUS[failing], body
                    assert answer.json()["code"] == failing


def test_they_are_a_set_of_their_own() -> None:
    tools = [tool for tool in all_published().tools if tool.is_in({"chatgpt"})]
    assert [tool.name for tool in tools] == ["search", "fetch"]
    assert not any(tool.is_in({"agent"}) for tool in tools)
