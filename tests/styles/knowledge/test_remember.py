"""What is remembered is there at once, once, and until it is given up."""

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.knowledge.options import KnowledgeOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.knowledge.blocks import block, learn, listed, recall, remember, shown

pytestmark = pytest.mark.anyio


async def test_a_block_is_created_and_can_be_recalled_at_once(call: Door) -> None:
    kept = await call(
        "elfmem_remember", content="  The staging database is read-only. ", tags=["database"]
    )
    assert kept["status"] == "created"
    assert (kept["visible"], kept["pending_consolidation"], kept["should_dream"]) == (
        True,
        True,
        False,
    )
    assert kept["summary"] == f"Stored block {kept['block_id'][:8]}. Status: created."
    found = await recall(call, "which database is read-only")
    assert found["text"] == "## Relevant Knowledge\n[1] The staging database is read-only."
    assert (
        found["blocks"][0] | {"id": kept["block_id"], "status": "inbox", "tags": ["database"]}
        == found["blocks"][0]
    )


async def test_the_same_content_is_a_duplicate_whatever_its_case_and_before_and_after_consolidation(
    call: Door,
) -> None:
    first = await remember(call, "Ada likes tea.")
    for _ in range(2):
        again = await call("elfmem_remember", content=" ADA likes tea. ")
        assert (again["status"], again["block_id"]) == ("duplicate_rejected", first)
        assert again["summary"] == f"Duplicate — block {first[:8]} already exists."
        await call("elfmem_dream")
    assert again["pending_consolidation"] is False
    assert len(await listed(call)) == 1


async def test_what_was_forgotten_may_be_remembered_anew(call: Door) -> None:
    first = await remember(call, "Ada likes tea.")
    await call("elfmem_forget", block_id=first)
    second = await call("elfmem_remember", content="Ada likes tea.")
    assert second["status"] == "created"
    assert second["block_id"] != first
    assert shown(await recall(call, "tea")) == ["Ada likes tea."]


async def test_the_third_block_fills_an_inbox_of_three_and_a_job_drains_it(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> None:
    call = open_door(
        database, clock, tokens, meter, scope, knowledge=KnowledgeOptions(inbox_threshold=3)
    )
    for text in ("alpha beaver", "gamma dolphin"):
        assert not (await call("elfmem_remember", content=text))["should_dream"]
    assert await call.work() == []
    assert (await call("elfmem_status"))["inbox_count"] == 2
    assert (await call("elfmem_remember", content="epsilon ferret"))["should_dream"]
    assert await call.work() == [("knowledge.consolidate", "")]
    status = await call("elfmem_status")
    assert (status["inbox_count"], status["active_count"]) == (0, 3)


async def test_a_cue_finds_what_the_text_does_not_say(call: Door) -> None:
    await remember(call, "Use the blue button.", cue="how do I release to production")
    assert shown(await recall(call, "production release")) == ["Use the blue button."]


async def test_an_edit_changes_what_is_found_and_keeps_what_is_thought(call: Door) -> None:
    block_id = await learn(call, "Prefers spaces.", "style")
    await call("elfmem_outcome", block_ids=[block_id], signal=1.0)
    before = await block(call, "Prefers spaces.")
    edited = await call("elfmem_edit", block_id=block_id, content="Prefers tabs.")
    assert edited == {"block_id": block_id, "summary": f"Edited block {block_id[:8]}."}
    assert await block(call, "Prefers tabs.") == before | {"content": "Prefers tabs."}
    assert shown(await recall(call, "spaces")) == []
    assert shown(await recall(call, "tabs")) == ["Prefers tabs."]
    await call("elfmem_edit", block_id=block_id, cue="indentation of code")
    assert shown(await recall(call, "indentation")) == ["Prefers tabs."]


async def test_an_edit_needs_something_to_change_a_block_that_is_there_and_a_text_of_its_own(
    call: Door,
) -> None:
    one, other = await remember(call, "one thing"), await remember(call, "another matter")
    refused = await call.refuses("INVALID_ARGUMENT", "elfmem_edit", block_id=one)
    assert refused["message"] == "edit() needs content, cue, or both — nothing to change."
    refused = await call.refuses("NOT_FOUND", "elfmem_edit", block_id="nope-nope-nope", content="x")
    assert refused["message"] == "Block 'nope-nop…' not found."
    assert refused["recovery"].startswith("Check the block_id is current.")
    refused = await call.refuses(
        "ALREADY_EXISTS", "elfmem_edit", block_id=one, content="Another matter"
    )
    assert refused["block_id"] == other
    await call("elfmem_edit", block_id=one, content="One thing")


async def test_what_was_forgotten_is_gone_from_every_table(
    call: Door, admin: asyncpg.Connection
) -> None:
    block_id = await learn(call, "The zanzibar password rotates.", "secret-tag", cue="quokka")
    other = await learn(call, "Something else entirely.")
    await call("elfmem_connect", source=block_id, target=other)
    gone = await call("elfmem_forget", block_id=block_id)
    assert (gone["status"], gone["summary"]) == ("forgotten", f"Forgot block {block_id[:8]}.")
    again = await call("elfmem_forget", block_id=block_id)
    assert (again["status"], again["summary"]) == (
        "already_archived",
        f"Block {block_id[:8]} was already archived.",
    )
    await call.refuses("NOT_FOUND", "elfmem_forget", block_id="nope")
    assert shown(await recall(call, "zanzibar quokka")) == []
    assert "The zanzibar password rotates." not in await listed(call)
    for table in (
        "entries",
        "fresh_terms",
        "posting_lists",
        "notions",
        "notion_tags",
        "edges",
        "contradictions",
    ):
        rows = "\n".join(row[0] for row in await admin.fetch(f"SELECT t::text FROM {table} AS t"))
        assert "zanzibar" not in rows.lower(), table
        assert "quokka" not in rows, table
        assert "secret-tag" not in rows, table
    assert await admin.fetchval("SELECT count(*) FROM edges") == 0
    status = await call("elfmem_status")
    assert (status["active_count"], status["archived_count"]) == (1, 1)


async def test_forgetting_takes_the_texts_along_that_a_block_stands_for(
    call: Door, admin: asyncpg.Connection
) -> None:
    """A duplicate is archived for the block that says the same; nobody sees it, and so nobody could
    forget it."""
    first = await learn(call, "The zanzibar vault opens at nine.")
    await learn(call, "The zanzibar vault opens: at nine!")
    await learn(call, "The zanzibar vault, opens at nine.")
    assert len(await listed(call)) == 1
    status = await call("elfmem_status")
    await call("elfmem_forget", block_id=first)
    assert "zanzibar" not in "\n".join(
        row[0] for row in await admin.fetch("SELECT e::text FROM entries AS e")
    )
    after = await call("elfmem_status")
    assert (after["active_count"], after["archived_count"]) == (0, status["archived_count"] + 1)


async def test_a_block_that_was_archived_before_is_forgotten_all_the_same(
    call: Door, admin: asyncpg.Connection
) -> None:
    kept = await learn(call, "The zanzibar vault opens at nine.")
    twin = await learn(call, "The zanzibar vault opens: at nine!")
    told = await call("elfmem_forget", block_id=twin)
    assert told["status"] == "already_archived"
    entries = "\n".join(row[0] for row in await admin.fetch("SELECT e::text FROM entries AS e"))
    assert "opens: at nine!" not in entries
    assert list(await listed(call)) == ["The zanzibar vault opens at nine."]
    assert (await listed(call))["The zanzibar vault opens at nine."]["id"] == kept


async def test_blocks_are_listed_by_tag_and_category(call: Door) -> None:
    await remember(call, "I help.", "self/value")
    await remember(call, "I learn.", "self/goal", "plan")
    await remember(call, "It rains.", category="observation")
    assert set(await listed(call, tag="self/%")) == {"I help.", "I learn."}
    assert set(await listed(call, tag="self/goal")) == {"I learn."}
    assert set(await listed(call, tag="pl_n")) == {"I learn."}
    assert set(await listed(call, category="observation")) == {"It rains."}
    assert set(await listed(call, tag="self/%", category="observation")) == set()
    await remember(call, "Windows.", "path/c:\\")
    assert (
        set(await listed(call, tag="path/c:\\"))
        == set(await listed(call, tag="%\\"))
        == {"Windows."}
    )
    assert (await call("elfmem_ls", tag="no\\thing"))["summary"] == "No active blocks match."
    assert len((await call("elfmem_ls", limit=2))["result"]) == 2


async def test_the_inbox_lists_what_waits_the_longest_waiting_first(
    call: Door, clock: FakeClock
) -> None:
    assert (await call("elfmem_inbox"))["summary"] == "Inbox empty."
    for text in ("first", "second", "third"):
        await remember(call, text)
        clock.advance(minutes=1)
    assert [one["content"] for one in (await call("elfmem_inbox", max_count=2))["result"]] == [
        "first",
        "second",
    ]
    await call("elfmem_dream")
    assert (await call("elfmem_inbox"))["result"] == []


async def test_a_project_holds_so_many_blocks_and_no_more(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> None:
    call = open_door(
        database, clock, tokens, meter, scope, knowledge=KnowledgeOptions(blocks_max=2)
    )
    first = await remember(call, "one")
    await remember(call, "two")
    await call.refuses("QUOTA_EXCEEDED", "elfmem_remember", content="three")
    await call("elfmem_forget", block_id=first)
    await remember(call, "three")


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": " \n "},
        {"content": "x", "tags": [" "]},
        {"content": "x", "tags": ["a\nb"]},
        {"content": "x" * 20_001},
    ],
)
async def test_what_cannot_be_kept_is_refused(call: Door, wrong: dict[str, object]) -> None:
    await call.refuses("INVALID_ARGUMENT", "elfmem_remember", **wrong)
    assert (await call("elfmem_status"))["inbox_count"] == 0


async def test_projects_and_tenants_have_memories_of_their_own(
    call: Door, other_call: Door
) -> None:
    block_id = await learn(call, "Ada likes tea.")
    for stranger, project in ((other_call, "default"), (call, "elsewhere")):
        assert (await stranger("elfmem_recall", project=project, query="tea"))["blocks"] == []
        told = await stranger("elfmem_outcome", project=project, block_ids=[block_id], signal=0.0)
        assert told["skipped"] == [{"id": block_id, "reason": "unmatched"}]
        await stranger.refuses("NOT_FOUND", "elfmem_forget", project=project, block_id=block_id)
        assert (await stranger("elfmem_status", project=project))["active_count"] == 0
        assert (await stranger("elfmem_remember", project=project, content="Ada likes tea."))[
            "status"
        ] == "created"
