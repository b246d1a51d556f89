"""A board is what was made of a conversation last: it is there for the next call, and gone when it
was deleted."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from tests.contract.test_input import HOSTILE, REFUSED
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter, ScriptedLlm
from tests.styles.whiteboard.conftest import Opened
from tests.styles.whiteboard.pages import WHO, entry, everything, note, read

pytestmark = pytest.mark.anyio
NO_BOARD = {
    "text": "",
    "exists": False,
    "made_by": "",
    "version": "",
    "updated_at": None,
    "tokens": 0,
}


async def test_what_the_model_wrote_is_the_board_and_is_there_after_a_restart(
    board: Door, llm: ScriptedLlm, opened: Opened, clock: FakeClock
) -> None:
    assert await board("whiteboard_get", **WHO) == NO_BOARD
    llm.answers += ["Alice plans a trip to Kyoto."]
    await note(board, "I want to go to Kyoto.", "In May.")
    found = await board("whiteboard_get", **WHO)
    assert (found["text"], found["exists"], found["made_by"]) == (
        "Alice plans a trip to Kyoto.",
        True,
        "model",
    )
    assert (found["updated_at"], found["tokens"]) == ("2026-01-05T12:00:00Z", 7)
    assert await opened()("whiteboard_get", **WHO) == found


async def test_no_entries_and_blank_ones_change_nothing(board: Door, llm: ScriptedLlm) -> None:
    for entries in ([], [entry("  "), entry("\u200b\x07")]):
        assert await board("context_update", **WHO, entries=entries) == {"result": True}
    assert (llm.asked, await board("whiteboard_get", **WHO)) == ([], NO_BOARD)


async def test_boards_of_users_conversations_and_projects_are_apart(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += ["one", "two", "three", "four"]
    elsewhere: list[dict[str, Any]] = [
        {},
        {"user_id": "bob"},
        {"conversation_id": "124"},
        {"project": "other"},
    ]
    for where in elsewhere:
        await note(board, "hello there", **where)
    assert [await read(board, **where) for where in elsewhere] == ["one", "two", "three", "four"]


async def test_hostile_identifiers_have_boards_of_their_own(board: Door, llm: ScriptedLlm) -> None:
    for number, name in enumerate(HOSTILE):
        llm.answers += [f"user {number}", f"conversation {number}"]
        await note(board, "x", user_id=name)
        await note(board, "x", conversation_id=name)
    for number, name in enumerate(HOSTILE):
        assert await read(board, user_id=name) == f"user {number}"
        assert await read(board, conversation_id=name) == f"conversation {number}"
    listed = [
        (one["user_id"], one["conversation_id"])
        for one in (await board("whiteboard_list"))["boards"]
    ]
    assert len(set(listed)) == 2 * len(HOSTILE)
    assert [conversation for user, conversation in listed if user == "メモ"] == ["123"]


async def test_identifiers_that_no_one_can_have_are_refused(board: Door, llm: ScriptedLlm) -> None:
    for value in ("", *REFUSED):
        for name in WHO:
            await board.refuses(
                "INVALID_ARGUMENT", "context_update", **WHO | {name: value}, entries=[entry("x")]
            )
            await board.refuses("INVALID_ARGUMENT", "whiteboard_get", **WHO | {name: value})
    assert llm.asked == []


async def test_an_identifier_is_the_same_in_each_form_of_unicode(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += ["the board of an é"]
    await note(board, "x", user_id="e\u0301")
    assert await read(board, user_id="\xe9") == "the board of an é"


async def test_a_board_is_a_file_that_callers_read_and_do_not_write(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += ["What we know.\n\n<!-- written by rules -->"]
    await note(board, "x", conversation_id="a/b")
    [listed] = (await board("whiteboard_list"))["boards"]
    assert listed["path"] == "/whiteboard/alice/a%2Fb.md"
    file = await board("file_read", project="default", path=listed["path"])
    assert (
        file["content"]
        == "What we know.\n\n<!-- written by rules -->\n\n<!-- written by a model -->\n"
    )
    assert (await board("whiteboard_get", **WHO | {"conversation_id": "a/b"}))["made_by"] == "model"
    await board.refuses(
        "PERMISSION_DENIED",
        "file_write",
        project="default",
        path=listed["path"],
        content="x",
        mode="TRUNCATE",
    )
    for path in (listed["path"], "/whiteboard"):
        await board.refuses(
            "PERMISSION_DENIED", "file_delete", project="default", path=path, recursive=True
        )


async def test_a_board_of_a_moment_is_what_it_said_then(
    board: Door, llm: ScriptedLlm, clock: FakeClock
) -> None:
    before = clock.now() - timedelta(hours=1)
    for hour in range(3):
        llm.answers += [f"hour {hour}"]
        await note(board, "x")
        clock.advance(hours=1)
    at = clock.now()
    past = [
        await board("whiteboard_get", **WHO, as_of=(at - timedelta(hours=ago)).isoformat())
        for ago in (3, 2.5, 2)
    ]
    assert [one["text"] for one in past] == ["hour 0", "hour 0", "hour 1"]
    assert [one["made_by"] for one in past] == ["model"] * 3
    assert await read(board, as_of=at.isoformat()) == "hour 2"
    assert await board("whiteboard_get", **WHO, as_of=before.isoformat()) == NO_BOARD
    await board.refuses("INVALID_ARGUMENT", "whiteboard_get", **WHO, as_of="yesterday")


async def test_history_is_listed_newest_first_a_page_at_a_time(
    board: Door, llm: ScriptedLlm, clock: FakeClock
) -> None:
    assert await board("whiteboard_history", **WHO) == {"versions": [], "next_cursor": None}
    for number in range(7):
        llm.answers += [f"version {number}"]
        await note(board, "x")
        clock.advance(minutes=1)
    found: list[dict[str, Any]] = []
    cursor = None
    for size in (3, 3, 1):
        page = await board("whiteboard_history", **WHO, limit=3, cursor=cursor)
        assert len(page["versions"]) == size
        found, cursor = found + page["versions"], page["next_cursor"]
    assert cursor is None
    assert [one["current"] for one in found] == [True] + [False] * 6
    assert [one["updated_at"] for one in found] == [
        f"2026-01-05T12:0{minute}:00Z" for minute in range(6, -1, -1)
    ]
    assert {one["made_by"] for one in found} == {"model"}
    unknown = f"{'f' * 32}:1"
    await board.refuses("NOT_FOUND", "whiteboard_history", **WHO, cursor=unknown)
    await board.refuses(
        "NOT_FOUND", "whiteboard_history", **WHO | {"user_id": "bob"}, cursor=unknown
    )


async def test_a_version_is_brought_back_and_what_was_there_becomes_one(
    board: Door, llm: ScriptedLlm, clock: FakeClock
) -> None:
    for text in ("the first", "the second"):
        llm.answers += [text]
        await note(board, "x")
        clock.advance(minutes=1)
    first = (await board("whiteboard_history", **WHO))["versions"][-1]["version"]
    restored = await board("whiteboard_restore", **WHO, version=first)
    now = await board("whiteboard_get", **WHO)
    assert (now["text"], now["version"], now["updated_at"]) == (
        "the first",
        restored["version"],
        restored["updated_at"],
    )
    assert len((await board("whiteboard_history", **WHO))["versions"]) == 3
    assert await board("whiteboard_restore", **WHO, version=restored["version"]) == restored
    for version in (
        f"{'f' * 32}:1",
        f"{first.split(':')[0]}:99",
        f"{first.split(':')[0]}:{9 * 10**18}",
    ):
        await board.refuses("NOT_FOUND", "whiteboard_restore", **WHO, version=version)
    await board.refuses(
        "NOT_FOUND", "whiteboard_restore", **WHO | {"user_id": "bob"}, version=first
    )
    llm.answers += ["the third"]
    await note(board, "y")
    assert "Current memory:\nthe first\n" in llm.asked[-1].text
    assert "Recent context" not in llm.asked[-1].text


async def test_only_so_many_versions_are_kept_however_old_they_are(
    opened: Opened, llm: ScriptedLlm, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    board = opened(llm, history_kept=3)
    begun = clock.now()
    for number in range(8):
        llm.answers += [f"version-{number}"]
        await note(board, "x")
        clock.advance(days=100)
    assert len((await board("whiteboard_history", **WHO))["versions"]) == 4
    await board.jobs["files.purge"].run(Scope(board.caller.tenant, "default"), "")
    assert len((await board("whiteboard_history", **WHO))["versions"]) == 4
    stored = await everything(admin)
    assert [number for number in range(8) if f"version-{number}" in stored] == [4, 5, 6, 7]
    assert await read(board, as_of=(clock.now() - timedelta(days=350)).isoformat()) == "version-4"
    gone = await board.refuses(
        "NOT_FOUND", "whiteboard_get", **WHO, as_of=(begun + timedelta(days=1)).isoformat()
    )
    assert "the version of the whiteboard at the time as_of is no longer kept" in gone["message"]


async def test_a_deleted_board_is_in_no_table_any_more(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    llm: ScriptedLlm,
    admin: asyncpg.Connection,
) -> None:
    board = open_door(database, clock, tokens, meter, scope, llm=llm, embedder=FakeEmbedder())
    for text in ("The quokka prefers marzipan.", "The quokka prefers obsidian."):
        llm.answers += [text]
        await note(board, "something about an animal")
        await board.work()  # so that there are vectors
    stored = await everything(admin)
    assert "marzipan" in stored
    assert "obsidian" in stored
    assert await admin.fetchval("SELECT count(*) FROM embeddings") > 0
    assert await board("whiteboard_delete", **WHO) == {"deleted": True}
    stored = await everything(admin)
    for word in ("quokka", "marzipan", "obsidian"):
        assert word not in stored
    for table in ("files", "streams", "blocks", "entries", "embeddings"):
        assert await admin.fetchval(f"SELECT count(*) FROM {table}") == 0, table
    assert await board("whiteboard_delete", **WHO) == {"deleted": False}
    assert await board("whiteboard_get", **WHO) == NO_BOARD
    assert (await board("whiteboard_history", **WHO))["versions"] == []
    assert (await board("whiteboard_list"))["boards"] == []


async def test_what_is_written_after_a_deletion_knows_nothing_of_before(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += ["about the quokka", "about the walrus"]
    await note(board, "there was a quokka")
    await board("whiteboard_delete", **WHO)
    await note(board, "there is a walrus")
    assert "quokka" not in llm.asked[-1].text
    assert (await read(board), len((await board("whiteboard_history", **WHO))["versions"])) == (
        "about the walrus",
        1,
    )


async def test_boards_are_listed_in_pages(board: Door, llm: ScriptedLlm) -> None:
    llm.always = "a board"
    for user in ("ann", "bob"):
        for number in range(3):
            await note(board, "x", user_id=user, conversation_id=f"c{number}")
    seen, cursor = [], ""
    while cursor is not None:
        page = await board("whiteboard_list", limit=4, cursor=cursor)
        seen += [(one["user_id"], one["conversation_id"]) for one in page["boards"]]
        cursor = page["next_cursor"]
    assert seen == [(user, f"c{number}") for user in ("ann", "bob") for number in range(3)]
    assert len((await board("whiteboard_list", user_id="bob"))["boards"]) == 3
    assert (await board("whiteboard_list", user_id="bo"))["boards"] == []
    assert (await board("whiteboard_list", project="other"))["boards"] == []
    for cursor in ("x", "/whiteboard/a", "/memory/a/b.md", "/whiteboard/a/b\x00.md"):
        await board.refuses("INVALID_ARGUMENT", "whiteboard_list", cursor=cursor)


async def test_what_a_board_says_is_found_by_the_next_turn_that_asks(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    llm: ScriptedLlm,
) -> None:
    door = open_door(database, clock, tokens, meter, scope, llm=llm)
    llm.answers += ["The zeppelin leaves from Vienna."]
    await note(door, "x")
    asked = {
        "session_id": "s",
        "user_id": "alice",
        "current_input": "Where does the zeppelin leave?",
    }
    told = await door("memory_before_turn", **asked, sources=["whiteboard"])
    assert "zeppelin leaves from Vienna" in str(told["input_items"])
    llm.answers += ["The balloon leaves from Graz."]
    await note(door, "y")
    assert "Vienna" not in str(await door("memory_before_turn", **asked, sources=["whiteboard"]))


async def test_limits_are_taken_at_their_bound_and_refused_one_over(
    opened: Opened, llm: ScriptedLlm
) -> None:
    board = opened(llm, entries_max=3, content_chars_max=10, call_chars_max=25)
    llm.always = "a board"
    short = entry("x")
    for right, wrong in (
        ([short] * 3, [short] * 4),
        ([entry("x" * 10)], [entry("x" * 11)]),
        (
            [entry("x" * 10), entry("x" * 10), entry("x" * 5)],
            [entry("x" * 10), entry("x" * 10), entry("x" * 6)],
        ),
        ([entry("x", role="r" * 64)], [entry("x", role="r" * 65)]),
        ([entry("x", role="r")], [entry("x", role="")]),
        ([entry("x", type="t" * 64)], [entry("x", type="t" * 65)]),
    ):
        assert await board("context_update", **WHO, entries=right) == {"result": True}
        await board.refuses("INVALID_ARGUMENT", "context_update", **WHO, entries=wrong)
    for wrong in (
        [{"content": "x"}],
        ["x"],
        [None],
        "x",
        [entry("x", timestamp="noon")],
    ):
        await board.refuses("INVALID_ARGUMENT", "context_update", **WHO, entries=wrong)


async def test_what_else_a_client_sends_with_an_entry_is_not_looked_at(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += ["a board"]
    sent = entry("hello", id="m1", metadata={"a": 1}, timestamp=None, type=None)
    assert await board("context_update", **WHO, entries=[sent]) == {"result": True}
