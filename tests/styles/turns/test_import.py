"""Import of sessions that clients kept themselves: nothing lost, nothing twice, nothing brought
back."""

import threading
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store import derived, guard
from memsvc.store.database import Database
from memsvc.styles.turns.maintenance.claim import MAINTENANCE_TURN
from memsvc.styles.turns.migration import legacy as reading
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.door import Door, Refused
from tests.fakes import FakeClock
from tests.styles.turns.folders import (
    DAY,
    L0,
    L2,
    RAW,
    canonical,
    event,
    fact,
    jsonl,
    legacy,
    superseded,
    turn,
)
from tests.styles.turns.steps import meanwhile
from tests.styles.turns.talk import (
    ask,
    events,
    file_paths,
    file_text,
    row_counts,
    say,
    snapshot,
    user,
    values,
)

IMPORT = "memory_import_session"


async def bring(
    door: Door, files: dict[str, str], session: str = "s1", **more: Any
) -> dict[str, Any]:
    return await door(IMPORT, session_id=session, files=files, **more)


@pytest.mark.parametrize("layout", [canonical, legacy])
async def test_both_layouts_come_in_with_turns_facts_and_what_became_of_them(
    door: Door, layout: Any
) -> None:
    done = await bring(door, layout())
    counts = done["counts"]
    assert (counts["turns"], counts["items"], counts["turns_noted"]) == (2, 4, 1)
    assert (counts["facts_active"], counts["facts_superseded"]) == (1, 1)
    assert (done["broken_count"], done["conflicts"], done["unknown_files"]) == (0, [], [])
    assert values(await ask(door, "What is my name?")) == ["grace"]
    assert "the harbour opens at six" in str(
        (await ask(door, "When does the harbour open?"))["input_items"]
    )


async def test_events_keep_their_times_and_ids(door: Door) -> None:
    await bring(door, canonical())
    kept = await events(door, day=DAY.replace("-", "/"))
    assert [(one["id"], one["ts"], one["item_id"]) for one in kept[:2]] == [
        ("t1-in-0", f"{DAY}T09:00:00Z", "item-of-t1-in-0"),
        ("t1-out-0", f"{DAY}T09:00:00Z", "item-of-t1-out-0"),
    ]
    state = orjson.loads(await file_text(door, "/memory/s1/meta/state.json"))
    assert state["latest_turn_id"] == "t2"
    assert {"t0", "t1", "t2"} == set(state["processed_turn_ids"])


@pytest.mark.parametrize("layout", [canonical, legacy])
async def test_importing_twice_is_importing_once(
    door: Door, admin: asyncpg.Connection, layout: Any
) -> None:
    await bring(door, layout())
    before = await snapshot(admin)
    again = await bring(door, layout())
    assert again["counts"]["turns_already_here"] == 2
    assert not any(
        again["counts"].get(name)
        for name in ("turns", "turns_noted", "facts_active", "facts_superseded")
    )
    assert await snapshot(admin) == before


async def test_a_dry_run_says_the_same_and_writes_nothing(
    door: Door, admin: asyncpg.Connection
) -> None:
    before = await row_counts(admin)
    dry = await bring(door, canonical(), dry_run=True)
    assert await row_counts(admin) == before
    assert (await bring(door, canonical()))["counts"] == dry["counts"]


async def test_a_retry_of_an_imported_turn_is_a_duplicate_and_other_items_are_a_conflict(
    door: Door,
) -> None:
    await bring(door, canonical())
    same = await say(door, "t1", "my name is ada", answer="hello ada")
    assert (same["stored_items"], same["fact_ids"]) == (2, ["user_name"])
    await door.refuses(
        "CONFLICT", "memory_after_turn", session_id="s1", turn_id="t1", input_items=[user("else")]
    )


async def test_a_turn_that_is_only_known_as_done_succeeds_again_and_stores_nothing(
    door: Door, admin: asyncpg.Connection
) -> None:
    await bring(door, canonical())
    before = await snapshot(admin)
    assert (await say(door, "t0", "My name is Nobody."))["stored_items"] == 0
    assert await snapshot(admin) == before


async def test_a_turn_that_is_here_with_other_items_is_left_and_told(door: Door) -> None:
    await say(door, "t1", "Something else.")
    done = await bring(door, canonical())
    assert (done["conflicts"], done["counts"]["turns"]) == (["t1"], 1)
    assert [one["turn_id"] for one in await events(door)] == ["t1"]


async def test_older_turns_stand_before_those_that_were_here(door: Door) -> None:
    await say(door, "now-1", "The newest question.", answer="The newest answer.")
    await bring(door, canonical())
    context = await file_text(door, "/memory/s1/runtime/context/current.jsonl")
    assert [orjson.loads(line)["turn_id"] for line in context.splitlines()] == [
        "t1",
        "t1",
        "t2",
        "t2",
        "now-1",
        "now-1",
    ]
    state = orjson.loads(await file_text(door, "/memory/s1/meta/state.json"))
    assert state["latest_turn_id"] == "now-1"


async def order(door: Door) -> list[str]:
    """The turns of the running context, oldest first."""
    context = await file_text(door, "/memory/s1/runtime/context/current.jsonl")
    return list(dict.fromkeys(orjson.loads(line)["turn_id"] for line in context.splitlines()))


async def test_what_is_said_while_older_turns_come_in_is_kept(
    door: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(door, "now", "This is said today.", answer="Yes.")
    clock.advance(minutes=1)
    live = []

    async def one_more(at: int) -> None:
        live.append(f"live{at}")
        await say(door, live[-1], f"The ferry leaves at nine, says {live[-1]}.")

    with monkeypatch.context() as patched:
        meanwhile(patched, one_more)
        await bring(door, canonical())
    assert len(live) > 4
    assert await order(door) == ["t1", "t2", "now", *live]


async def test_older_turns_that_could_not_be_put_in_their_place_are_put_there_by_the_next_import(
    door: Door, clock: FakeClock, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await say(door, "now", "This is said today.", answer="Yes.")
    clock.advance(minutes=1)
    async with database.begin(scope) as tx:
        claim = await guard.claim(tx, "s1", MAINTENANCE_TURN, fingerprint=b"", now=clock.now())
    with pytest.raises(Refused) as refused:
        await bring(door, canonical())
    assert refused.value.code is Code.RESOURCE_BUSY
    async with database.begin(scope) as tx:
        await guard.release(tx, "s1", MAINTENANCE_TURN, claim.token)
    assert await order(door) == ["now", "t1", "t2"]
    await bring(door, canonical())
    assert await order(door) == ["t1", "t2", "now"]
    before = await snapshot(admin)
    await bring(door, canonical())
    assert await snapshot(admin) == before


@pytest.mark.parametrize(
    ("holder", "part", "parts_done"),
    [
        (TurnRebuild, "_events", 0),
        (TurnRebuild, "_events", 1),
        (TurnRebuild, "_session", 0),
        (derived, "reset_progress", 0),
    ],
)
async def test_an_import_that_was_killed_while_it_put_turns_in_their_place_loses_none_and_is_gone_on_with(
    door: Door,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    holder: object,
    part: str,
    parts_done: int,
) -> None:
    await say(door, "now", "This is said today.", answer="Yes.")
    clock.advance(minutes=1)
    whole = getattr(holder, part)
    done: list[int] = []

    async def killed(*given: Any, **more: Any) -> Any:
        if len(done) == parts_done:
            raise KeyboardInterrupt
        done.append(1)
        return await whole(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(holder, part, killed)
        with pytest.raises(KeyboardInterrupt):
            await bring(door, canonical())
    assert await order(door) == ["now", "t1", "t2"]
    await bring(door, canonical())
    assert await order(door) == ["t1", "t2", "now"]
    assert "the harbour opens at six" in str(
        (await ask(door, "When does the harbour open?"))["input_items"]
    )


@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_turn_that_is_forgotten_while_older_turns_come_in_stays_forgotten(
    door: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    await say(door, "now", "The password is swordfish.", answer="Yes.")
    clock.advance(minutes=1)

    async def forget(at: int) -> None:
        if at == step:
            await door("memory_forget", session_id="s1", turn_ids=["now"])

    with monkeypatch.context() as patched:
        meanwhile(patched, forget)
        await bring(door, canonical())
    assert await order(door) == ["t1", "t2"]
    assert "swordfish" not in str(await ask(door, "What is the password?"))


async def test_imported_items_past_their_time_to_live_go_with_their_events(
    door: Door, clock: FakeClock
) -> None:
    await bring(door, canonical())
    where = "/memory/s1/meta/policy.json"
    await door(
        "file_write", project="default", path=where, content='{"ttl_days": 1}', mode="TRUNCATE"
    )
    clock.advance(hours=1)
    done = await door("memory_run_maintenance", session_id="s1")
    assert done["expired_items"] == 4
    assert not any("/events/" in path for path in await file_paths(door, "/memory/s1"))
    assert "harbour" not in str((await ask(door, "When does it open?"))["input_items"])
    assert (await say(door, "t0", "My name is Nobody."))["stored_items"] == 0


async def test_broken_lines_are_counted_with_their_place_and_stop_nothing(door: Door) -> None:
    files = canonical()
    lines = files[RAW].splitlines(keepends=True)
    files[RAW] = (
        "".join([lines[0], '{"torn": \n', lines[1], '"text"\n', '{"who": 1}\n', *lines[2:]])
        + '{"id": "t3-'
    )
    done = await bring(door, files)
    assert done["counts"]["turns"] == 2
    assert [(one["file"], one["line"]) for one in done["broken"]] == [
        (RAW, 2),
        (RAW, 4),
        (RAW, 5),
        (RAW, 8),
    ]
    assert "torn" not in str(done)


async def test_an_event_without_turn_time_or_item_is_broken_and_the_rest_is_not(door: Door) -> None:
    bad = [event("", "in", "lost") | {"id": "x"}, event("t8", "in", "y") | {"item": {"role": 7}}]
    files = {
        "log.jsonl": jsonl(
            [
                event("t7", "in", "no time") | {"ts": "0001-01-01T00:00:00Z"},
                *bad,
                *turn("t9", "a", "b"),
            ]
        )
    }
    done = await bring(door, files)
    assert (done["counts"]["turns"], done["broken_count"]) == (1, 3)


async def test_imported_item_with_an_unreadable_time_is_left_out_and_named(door: Door) -> None:
    dated = event("t1", "in", "dated")
    wrong = event("t2", "in", "wrong")
    wrong["item"] |= {"metadata": {"occurred_at": "14/11/2023"}}
    epoch = event("t3", "in", "epoch") | {"ts": 1700000000}
    torn = event("t4", "in", "torn") | {"ts": "last Tuesday"}
    done = await bring(door, {"log.jsonl": jsonl([dated, wrong, epoch, torn])})
    assert done["counts"]["items"] == 2
    assert [(one["line"], one["why"].split(" must")[0]) for one in done["broken"]] == [
        (2, "the line is not a response item: item.metadata.occurred_at"),
        (4, "ts is not valid"),
    ]


async def test_a_crash_that_wrote_a_turn_twice_leaves_it_once(door: Door) -> None:
    files = {
        "log.jsonl": jsonl(
            [*turn("t1", "yes", "ok"), *turn("t1", "yes", "ok"), *turn("t2", "yes", "ok")]
        )
    }
    done = await bring(door, files)
    assert (
        done["counts"]["turns"],
        done["counts"]["items"],
        done["counts"]["events_repeated"],
    ) == (2, 4, 2)


async def test_a_deleted_fact_stays_deleted_although_the_index_has_it(door: Door) -> None:
    held = fact("t1-fact-name", "ada")
    gone = fact(
        "t2-fact_delete-user_name", "", kind="fact_delete", state="deleted", at=f"{DAY}T10:00:00Z"
    )
    index = {"updated_at": f"{DAY}T09:00:00Z", "facts": {"user_name::name": held}}
    files = canonical() | {
        L0: jsonl([held, gone]),
        "indexes/active_facts.json": orjson.dumps(index).decode(),
    }
    assert (await bring(door, files))["counts"]["facts_deleted"] == 1
    assert values(await ask(door, "What is my name?")) == []


@pytest.mark.parametrize("backwards", [False, True])
async def test_of_changes_within_one_second_the_last_one_holds_whatever_their_ids(
    door: Door, backwards: bool
) -> None:
    at = f"{DAY}T09:00:00Z"
    first, second = ("b", "a") if backwards else ("a", "b")
    old = fact(f"{first}-fact", "old", tier="L2" if backwards else "L0")
    told = superseded(
        f"{first}-fact", "old", f"{second}-fact", at=at, tier="L2" if backwards else "L0"
    )
    new = fact(
        f"{second}-fact", "new", tier="L0" if backwards else "L2", expires_at="2027-01-01T00:00:00Z"
    )
    shards = {L0: [new], L2: [old, told]} if backwards else {L0: [old, told], L2: [new]}
    await bring(
        door,
        {name: jsonl(some) for name, some in shards.items()} | {RAW: jsonl(turn("t1", "hi", "ho"))},
    )
    assert values(await ask(door, "What is my name?")) == ["new"]


async def test_facts_of_the_index_are_taken_where_no_record_tells_of_them(door: Door) -> None:
    index = {"facts": {"user_name::name": fact("t1-fact-name", "ada")}}
    await bring(
        door, {"indexes/active_facts.json": orjson.dumps(index).decode(), **legacy_events()}
    )
    assert values(await ask(door, "What is my name?")) == ["ada"]


def legacy_events() -> dict[str, str]:
    return {"log.jsonl": jsonl(turn("t1", "hi", "ho"))}


async def test_facts_past_their_day_do_not_come_back(door: Door) -> None:
    task = fact("t1-fact-today-task", "milk", fact_id="today_task", key="today_task", tier="L1")
    done = await bring(door, {"memory_facts.jsonl": jsonl([task])} | legacy_events())
    assert done["counts"]["facts_expired"] == 1
    assert values(await ask(door, "What do I need today?")) == []


async def test_newer_words_that_are_here_already_win_over_what_is_imported(door: Door) -> None:
    await say(door, "now-1", "My name is Edith.")
    done = await bring(door, canonical())
    assert done["counts"]["facts_known_better"] == 1
    assert values(await ask(door, "What is my name?")) == ["Edith"]


async def test_imported_facts_give_way_to_what_is_said_next(door: Door, clock: FakeClock) -> None:
    await bring(door, canonical())
    clock.advance(minutes=1)
    await say(door, "t3", "My name is Edith.")
    assert values(await ask(door, "What is my name?")) == ["Edith"]


async def test_what_is_forgotten_here_is_not_brought_back_by_another_import(door: Door) -> None:
    await bring(door, canonical())
    await door("memory_forget", session_id="s1", fact_ids=["user_name"])
    await bring(door, canonical())
    assert values(await ask(door, "What is my name?")) == []


async def test_memory_blocks_of_older_clients_are_left_out(door: Door) -> None:
    told = event(
        "t1", "in", "<memory_reference>\n- Fact[x][L0] name=eve\n</memory_reference>", number=0
    )
    told["item"]["role"] = "developer"
    done = await bring(door, {"log.jsonl": jsonl([told, event("t1", "in", "hello", number=1)])})
    assert (done["counts"]["items"], done["counts"]["memory_blocks_left_out"]) == (1, 1)


async def test_older_file_names_are_read_by_what_is_in_them(door: Door) -> None:
    files = {
        "legacy_log.json": orjson.dumps(turn("t1", "a", "b")).decode(),
        "legacy.jsonl": canonical()[L0],
    }
    counts = (await bring(door, files))["counts"]
    assert (counts["turns"], counts["facts_active"]) == (1, 1)


@pytest.mark.parametrize(
    "name", ["../s2/log.jsonl", "/etc/passwd", "a//b", "events/../../x", "a\x00b", ".", ""]
)
async def test_names_that_lead_out_of_the_session_are_refused(door: Door, name: str) -> None:
    await door.refuses("INVALID_PATH", IMPORT, session_id="s1", files={name: "{}"})


async def test_files_of_nobody_are_told_and_nothing_of_them_is_kept(
    door: Door, admin: asyncpg.Connection
) -> None:
    before = await row_counts(admin)
    done = await bring(door, {"notes.txt": "secret", ".abstract": "old words"})
    assert done["unknown_files"] == ["notes.txt"]
    assert await row_counts(admin) == before


async def test_a_killed_import_goes_on_where_it_stood(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = jsonl([line for at in range(500) for line in turn(f"t{at}", f"word{at}", "ok")])
    from memsvc.styles.turns.migration.session_import import BATCH_EVENTS, SessionImport  # noqa: PLC0415

    whole = SessionImport._write
    calls = []

    async def killed(self: Any, *given: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        await whole(self, *given)

    monkeypatch.setattr(SessionImport, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        await bring(door, {"log.jsonl": many})
    monkeypatch.setattr(SessionImport, "_write", whole)
    counts = (await bring(door, {"log.jsonl": many}))["counts"]
    assert (counts["turns_already_here"], counts["turns"]) == (BATCH_EVENTS, 500 - BATCH_EVENTS)
    assert len(await events(door, day=DAY.replace("-", "/"))) == 1000


async def test_a_policy_comes_along_and_governs_the_facts(door: Door, clock: FakeClock) -> None:
    week = {"version": 1, "tiers": {"L1": {"retention_days": 30, "sweep": True}}}
    task = fact("t1-fact-today-task", "milk", fact_id="today_task", key="today_task", tier="L1")
    files = {"meta/policy.json": orjson.dumps(week).decode(), "memory_facts.jsonl": jsonl([task])}
    done = await bring(door, files | legacy_events())
    assert (done["counts"]["policies"], done["counts"]["facts_active"]) == (1, 1)
    policy = orjson.loads(await file_text(door, "/memory/s1/meta/policy.json"))
    assert policy["tiers"]["L1"]["retention_days"] == 30
    bad = await bring(
        door, {"meta/policy.json": '{"tiers": {"L1": 7}}'} | legacy_events(), session="s2"
    )
    assert [one["why"] for one in bad["broken"]] == ["the record is not a valid policy"]


async def test_nothing_is_imported_into_a_session_that_is_to_keep_nothing(door: Door) -> None:
    where = "/memory/s1/meta/policy.json"
    await door(
        "file_write", project="default", path=where, content='{"store": false}', mode="TRUNCATE"
    )
    await door.refuses("PERMISSION_DENIED", IMPORT, session_id="s1", files=canonical())


async def test_another_tenant_sees_nothing_of_an_import(door: Door, other_call: Door) -> None:
    await bring(door, canonical())
    assert values(await ask(other_call, "What is my name?")) == []
    with pytest.raises(Refused) as refused:
        await file_text(other_call, f"/memory/s1/{RAW}")
    assert refused.value.code is Code.NOT_FOUND


async def test_a_packed_file_of_very_many_frames_is_told_as_broken_and_the_rest_comes_in(
    door: Door,
) -> None:
    packed = "events/archive/2026/01/01/log-20260101.jsonl.zst"
    done = await bring(door, canonical() | {packed: "P*M\x18\0\0\0\0" * 145_000})
    assert done["broken"] == [
        {
            "file": packed,
            "line": 0,
            "why": "the zstd archive consists of more than 10000 frames (compressed parts)",
        }
    ]
    assert done["counts"]["turns"] == 2


async def test_the_service_goes_on_with_other_calls_while_files_are_read(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[threading.Thread] = []
    whole = reading.read

    def read(files: Any) -> reading.LegacyRecords:
        readers.append(threading.current_thread())
        return whole(files)

    monkeypatch.setattr(reading, "read", read)
    await bring(door, canonical())
    assert len(readers) == 1
    assert readers[0] is not threading.current_thread()


async def test_what_a_person_corrected_is_not_undone_by_an_import(door: Door) -> None:
    await door(
        "memory_after_turn",
        session_id="s1",
        turn_id="here",
        input_items=[user("My name is Eva.")],
    )
    [eva] = (await door("memory_list_facts", session_id="s1"))["facts"]
    await door("memory_correct_fact", session_id="s1", record_id=eva["record_id"], value="Eve")
    for at in (f"{DAY}T09:00:00Z", "2026-01-06T09:00:00Z"):
        done = await bring(
            door, legacy_events() | {L0: jsonl([fact(f"{at}-fact-name", "ada", at=at)])}
        )
        assert values(await ask(door, "What is my name?")) == ["Eve"]
        assert done["counts"]["facts_known_better"] == 1
