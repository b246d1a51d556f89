"""Digests: written by the follow-up, once a span, the same however often it runs."""

from typing import Any

import asyncpg
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.core.call_context import NO_TRACER, call_scope
from memsvc.core.scope import Scope
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.recall.digests import FRESH_MAX, SPAN_ITEMS, WORDS_MAX, digest_of, span_ref
from memsvc.worker import Worker, WorkerOptions
from tests.door import Door
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls
from tests.styles.turns.talk import user
from tests.waiting import until


async def digests(admin: asyncpg.Connection) -> dict[str, str]:
    """The words of each digest by its reference."""
    rows = await admin.fetch(
        "SELECT ref, cues FROM entries WHERE role = 'digest' AND length > 0 ORDER BY ref"
    )
    assert len({row["ref"] for row in rows}) == len(rows)
    return {row["ref"]: row["cues"] for row in rows}


async def store(door: Door, turn: str, count: int, **more: Any) -> None:
    items = [user(f"Item {turn}x{number} of marzipan.") for number in range(count)]
    await door("memory_after_turn", session_id="s 1", turn_id=turn, input_items=items, **more)


async def follow_up(door: Door) -> None:
    await door.jobs[FOLLOW_UP_JOB].run(Scope(door.caller.tenant, "default"), "s 1")


async def test_full_spans_stay_and_the_last_is_written_anew(
    door: Door, admin: asyncpg.Connection
) -> None:
    await store(door, "a", SPAN_ITEMS + 20, user_id="ada")
    await follow_up(door)
    first = await digests(admin)
    assert list(first) == [span_ref("s 1", 0), span_ref("s 1", SPAN_ITEMS)]
    assert "ax0 marzipan" in first[span_ref("s 1", 0)]
    for _ in range(2):
        await follow_up(door)
        assert await digests(admin) == first
    await store(door, "b", 5, user_id="ada")
    await follow_up(door)
    second = await digests(admin)
    assert second[span_ref("s 1", 0)] == first[span_ref("s 1", 0)]
    assert second[span_ref("s 1", SPAN_ITEMS)].endswith("bx4")
    assert await admin.fetchval("SELECT digested_entry FROM sessions") == SPAN_ITEMS


async def test_a_search_never_has_more_than_a_few_of_them_to_look_through(
    door: Door, admin: asyncpg.Connection
) -> None:
    waiting = []
    for number in range(2 * FRESH_MAX):
        await store(door, f"t{number}", SPAN_ITEMS, user_id="ada")
        await follow_up(door)
        waiting.append(
            await admin.fetchval(
                "SELECT count(*) FROM fresh_terms AS f WHERE EXISTS (SELECT FROM entries AS e"
                " WHERE e.book = f.book AND e.entry = f.entry AND e.tenant = f.tenant AND"
                " e.project = f.project AND e.role = 'digest')"
            )
        )
    assert 0 < max(waiting) < FRESH_MAX
    assert len(await digests(admin)) == 2 * FRESH_MAX


async def test_they_follow_from_the_items_alone(door: Door, admin: asyncpg.Connection) -> None:
    await store(door, "a", 2 * SPAN_ITEMS + 3, user_id="ada")
    await follow_up(door)
    before = await digests(admin)
    await admin.execute("UPDATE sessions SET digested_entry = 0")
    await follow_up(door)
    assert await digests(admin) == before


async def test_what_is_forgotten_is_in_no_digest_any_more(
    door: Door, admin: asyncpg.Connection
) -> None:
    await store(door, "a", SPAN_ITEMS, user_id="ada")
    await store(door, "b", 2, user_id="ada")
    await follow_up(door)
    await door("memory_forget", session_id="s 1", turn_ids=["a"])
    await door.work()
    assert list(await digests(admin)) == [span_ref("s 1", SPAN_ITEMS)]


async def test_a_session_without_a_user_has_none(door: Door, admin: asyncpg.Connection) -> None:
    await store(door, "a", SPAN_ITEMS)
    await follow_up(door)
    await door.jobs[FOLLOW_UP_JOB].run(Scope(door.caller.tenant, "default"), "never seen")
    assert await digests(admin) == {}


async def test_a_session_in_which_another_user_spoke_gets_no_more_of_them(
    door: Door, admin: asyncpg.Connection
) -> None:
    await store(door, "a", 3, user_id="ada")
    await store(door, "b", 3, user_id="bob")
    await follow_up(door)
    assert await digests(admin) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog and the cat.\nA dog!", "dog cat"),
        ("Zürich 2023", "zürich 2023"),
        ("昨日東京へ行った", "昨日東京へ行った"),
        ("", ""),
    ],
)
def test_a_digest_has_each_word_once_and_none_that_tells_nothing(text: str, words: str) -> None:
    assert digest_of(text) == words


def test_a_digest_is_bounded() -> None:
    assert len(digest_of(" ".join(f"word{number}" for number in range(9999))).split()) == WORDS_MAX
    assert len(digest_of("x" * 9999)) < 100


async def test_a_gap_in_the_numbers_of_a_session_costs_no_walk(
    door: Door, admin: asyncpg.Connection
) -> None:
    """Behind the gap everything is as before it: written, consolidated and compacted once."""
    await store(door, "a", SPAN_ITEMS + 20, user_id="ada")
    await follow_up(door)
    far = 10**9
    await admin.execute("UPDATE books SET next_entry = $1 WHERE name = 'turns/s 1'", far)
    await store(door, "b", 5, user_id="ada")
    round_trips = await trips(door)
    assert list(await digests(admin)) == [
        span_ref("s 1", number) for number in (0, SPAN_ITEMS, far)
    ]
    assert round_trips < 100
    await door("memory_run_maintenance", session_id="s 1")
    assert await admin.fetchval("SELECT consolidated_entry FROM sessions") == far + 5
    await door("memory_forget", session_id="s 1", turn_ids=["b"])
    await follow_up(door)
    assert list(await digests(admin)) == [span_ref("s 1", number) for number in (0, SPAN_ITEMS)]


async def trips(door: Door) -> int:
    """How many round trips the follow-up takes."""
    with call_scope("", NO_TRACER) as under_way:
        await follow_up(door)
    return under_way.round_trips


async def test_a_turn_that_a_session_has_no_number_left_for_is_refused(
    door: Door, admin: asyncpg.Connection
) -> None:
    await store(door, "a", 1, user_id="ada")
    await admin.execute("UPDATE books SET next_entry = 2147483647 WHERE name = 'turns/s 1'")
    items = [user("One more.")]
    error = await door.refuses(
        "QUOTA_EXCEEDED", "memory_after_turn", session_id="s 1", turn_id="b", input_items=items
    )
    assert "another session" in str(error)
    assert await admin.fetchval("SELECT count(*) FROM guards WHERE turn = 'b'") == 0


async def test_books_whose_numbers_lie_far_apart_keep_nobody_elses_follow_up_waiting(
    door: Door,
    other_call: Door,
    admin: asyncpg.Connection,
    database_urls: DatabaseUrls,
    meter: RecordingMeter,
) -> None:
    items = [user(f"Item {number} of marzipan.") for number in range(17)]
    mine = {"session_id": "s", "turn_id": "t", "user_id": "ada", "input_items": items}
    for number in range(5):
        await door("memory_after_turn", project=f"big{number}", **mine)
    await admin.execute("UPDATE books SET next_entry = 2147478648 WHERE name = 'turns/s'")
    for number in range(5):
        await door("memory_after_turn", project=f"big{number}", **(mine | {"turn_id": "far"}))
    await other_call("memory_after_turn", **mine)
    await admin.execute("UPDATE memsvc_queue SET execute_after = now() - interval '1 s'")
    assert door.database is not None
    worker = Worker(
        database_urls.app,
        door.database,
        list(door.jobs.values()),
        SystemClock(),
        meter,
        WorkerOptions(poll_s=0.2),
    )

    async def all_done() -> bool:
        return not await admin.fetchval(
            "SELECT count(*) FROM job_refs WHERE name = $1", FOLLOW_UP_JOB
        )

    async with worker.running():
        await until(all_done)
    written = await admin.fetch(
        "SELECT count(*) AS spans FROM entries WHERE role = 'digest' GROUP BY project"
    )
    assert sorted(row["spans"] for row in written) == [1, 2, 2, 2, 2, 2]
