"""What each page shows: with something to show, with nothing, with hostile names, and to keys that
may less."""

import re

import pytest

from memsvc.console.routes import ACTIONS
from memsvc.core.scope import Permission
from tests.console.conftest import Service, Visit, check_harmless, fill, visiting

pytestmark = pytest.mark.anyio

PLAIN = (
    "", "volume", "projects", "sessions", "facts", "boards", "files", "notebook", "playground", "memories",
    "memory-settings", "memory-prompt", "knowledge", "calls", "jobs", "settings", "keys", "usage", "purge",
)  # fmt: skip
"""Pages that need no name."""
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\u202eevil\u2066 مرحبا " + "W" * 300
TYPED = re.compile(r' value="[^"]*"|<textarea.*?</textarea>', re.DOTALL)
"""What stands in a field is as it was typed: it may be sent again."""
NAME = "\"><img src=x onerror=alert(1)>&'{{7*7}}"


async def test_the_overview_says_what_is_off_and_how_to_turn_it_on(visit: Visit) -> None:
    overview = await visit.text("")
    assert "memsvc reranker use" in overview


async def test_each_page_shows_that_there_is_nothing(visit: Visit) -> None:
    for path in PLAIN:
        check_harmless(await visit.text(path))
    for path, said in (
        ("sessions", "No sessions yet"),
        ("knowledge", "No knowledge yet"),
        ("boards", "No boards"),
        ("jobs", "The queue is empty"),
        ("", "Send a first turn"),
    ):
        assert said in await visit.text(path), path
    assert "No matching calls" in await visit.text("calls", tool="nobody")
    assert "No matching blocks" in await visit.text("knowledge", tag="nobody")
    assert "Nothing is recalled" in await visit.text("knowledge", q="nobody")


async def test_each_page_shows_what_there_is(service: Service, visit: Visit) -> None:
    known = await fill(service)
    texts = {path: await visit.text(path) for path in PLAIN}
    assert "A block: plain" in texts["knowledge"]
    assert "elfmem_show" in texts["calls"]
    assert "plain" in texts["sessions"]
    assert "NOT_FOUND" in texts[""]
    assert "1 call failed in the last 24 hours" in texts[""]
    assert ">plain</bdi>" in await visit.text("session", id="plain")
    block = await visit.text("block", id=known["block"])
    assert "Another block: plain" in block
    assert block.count('<svg class="chart') == 2
    recalled = await visit.text("knowledge", q="block plain", frame="attention")
    assert "A block: plain" in recalled
    assert "Centrality" in recalled
    for path, text in texts.items():
        check_harmless(text)
        assert "none" not in text.partition("<main")[2].partition("</h1>")[0], path


async def test_session_that_is_not_there_is_not_found(service: Service, visit: Visit) -> None:
    await fill(service)
    answer = await visit.get("session", id="nosuch")
    assert answer.status_code == 404
    check_harmless(answer.text)
    assert "No session has this name in project <bdi>default</bdi>" in answer.text
    assert "forgotten" not in answer.text
    async with service.http() as http:
        forget = {"session_id": "plain", "turn_ids": ["plain1"], "dry_run": False}
        assert (await http.post("/api/tools/memory_forget", json=forget)).is_success
    assert "all of them were forgotten" in await visit.text("session", id="plain")


async def test_call_log_links_sessions_that_have_a_name(service: Service, visit: Visit) -> None:
    async with service.http() as http:
        await http.post("/api/tools/memory_profile", json={"project": "other"})
        await http.post(
            "/api/tools/memory_list_turns", json={"project": "other", "session_id": "named"}
        )
    await service.calls("memory_list_turns", most=1)
    text = await visit.text("calls", **{"in": "all"})
    links = re.findall(r'<a href="([^"]*/session\?[^"]*)"', text)
    assert [link.partition("/other/")[2] for link in links] == ["session?id=named"]


async def test_names_and_texts_of_others_stay_text(service: Service, visit: Visit) -> None:
    known = await fill(service, text=HOSTILE, name=NAME)
    named = [
        ("session", {"id": NAME}),
        ("recall", {"id": NAME}),
        ("facts", {"session": NAME, "user": NAME}),
        ("boards", {"user": NAME}),
        ("board", {"user": NAME, "id": NAME}),
        ("memories", {"user": NAME}),
        ("file", {"path": "/notes/a.md"}),
        ("notebook", {"id": "root"}),
        ("knowledge", {"tag": NAME, "category": NAME}),
        ("knowledge", {"q": HOSTILE}),
        ("block", {"id": known["block"], "done": NAME}),
        ("calls", {"tool": NAME, "session_id": NAME, "key_label": NAME}),
        ("purge", {"name": NAME, "level": NAME}),
        ("keys", {"done": NAME}),
    ]
    for path, query in [*((path, {}) for path in PLAIN), *named]:
        text = await visit.text(path, **query)
        check_harmless(text)
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "\u202e" not in TYPED.sub("", text), path
        assert "49" not in text.partition("{{7*7}}")[2][:2], path
    block = await visit.text("block", id=known["block"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in block
    assert "\\u202eevil" in block
    for path, query in (
        ("block", {"id": NAME}),
        ("key", {"id": NAME}),
        ("project", {"name": NAME}),
    ):
        answer = await visit.get(path, **query)
        assert answer.status_code in (400, 404), (path, answer.status_code)
        check_harmless(answer.text)


async def test_parts_of_pages_come_alone(service: Service, visit: Visit) -> None:
    await fill(service)
    assert "turns" in await visit.part("volume")
    assert "Calls, 24 h" in await visit.part("usage")
    assert '<option value="default">' in await visit.part("projects")
    assert "elfmem_show" in await visit.part("calls")


async def test_the_call_log_is_narrowed_and_paged(service: Service, visit: Visit) -> None:
    async with service.http() as http:
        for number in range(60):
            await http.post(
                "/api/tools/file_read", json={"project": "default", "path": f"/{number}"}
            )
    await service.calls("file_read", 60)
    text = await visit.text("calls", tool="file_read", status="error")
    assert text.count('<td class="number nowrap">') >= 50
    more = (
        text.partition('<tr class="more">')[2]
        .partition('href="')[2]
        .partition('"')[0]
        .replace("&amp;", "&")
    )
    assert "tool=file_read" in more
    second = await visit.http.get(more)
    assert second.text.count('<span class="tag bad">') == 10
    assert "No matching calls" in await visit.text(
        "calls", tool="file_read", until="2020-01-01T00:00"
    )
    assert "No matching calls" in await visit.text(
        "calls", tool="file_read", since="2120-01-01T00:00"
    )
    assert (await visit.get("calls", since="yesterday")).status_code == 400
    assert (await visit.get("calls", status="nothing")).status_code == 400


async def test_another_project_is_opened_by_its_name(visit: Visit) -> None:
    answer = await visit.get("project", name=" notes-2 ")
    assert (answer.status_code, answer.headers["location"]) == (303, visit.address("", "notes-2"))
    for name in ("../x", "", "a b", "x" * 129):
        answer = await visit.get("project", name=name)
        assert answer.status_code == 400
        assert "project must be 1 to 128" in answer.text
    assert (await visit.get("sessions", project="a b")).status_code == 400


async def test_a_key_that_may_only_read_sees_and_changes_nothing(service: Service) -> None:
    known = await fill(service)
    async with visiting(
        service, await service.key(permissions=frozenset({Permission.READ}))
    ) as visit:
        for path in PLAIN:
            if path not in ("keys", "purge"):
                check_harmless(await visit.text(path))
        for path in ("keys", "purge"):
            answer = await visit.get(path)
            assert answer.status_code == 403
            assert "PERMISSION_DENIED" in answer.text
        overview = await visit.text("")
        assert visit.address("keys") not in overview
        assert visit.address("calls") in overview
        assert "not permitted for your key" in await visit.text("settings")
        block = await visit.text("block", id=known["block"])
        assert 'method="post" action="/console/' + visit.slot + "/default" not in block
        for path in ACTIONS:
            answer = await visit.send(
                path, id=known["block"], level="session", name="plain", signal="1", overlap="1"
            )
            assert answer.status_code in (400, 403), path
        assert (await visit.send("purge", level="session", name="plain")).status_code == 403
    async with visiting(service) as owner:
        assert "A block: plain" in await owner.text("block", id=known["block"])


async def test_a_key_of_one_project_sees_no_other(service: Service) -> None:
    await fill(service, name="of-default")
    async with visiting(service, await service.key(projects=frozenset({"mine"}))) as visit:
        assert visit.project == "mine"
        for path in PLAIN:
            text = await visit.text(path)
            check_harmless(text)
            assert "of-default" not in text, path
        assert "of-default" not in await visit.text("calls", **{"in": "all"})
        assert 'value="default"' not in await visit.text("projects")
        assert (await visit.get("project", name="default")).status_code == 403
        for path in ("sessions", "knowledge", "calls", "boards", "files", "notebook", "usage"):
            answer = await visit.get(path, project="default")
            assert "of-default" not in answer.text, path
        assert (await visit.get("sessions", project="default")).status_code == 403
        overview = await visit.get("", project="default")
        assert "PERMISSION_DENIED" in overview.text


async def test_a_tool_that_a_key_hides_is_told_and_its_place_is_not_there(service: Service) -> None:
    hidden = ["elfmem_ls", "calls_summary", "elfmem_show"]
    async with visiting(service, await service.key(hidden_tools=hidden)) as visit:
        settings = await visit.text("settings")
        assert "calls_summary" in settings.partition("Hidden tools")[2].partition("</dd>")[0]
        assert visit.address("knowledge") not in settings
        assert "The last 24 hours" not in await visit.text("calls")
        assert (await visit.get("knowledge")).status_code == 404
