"""What a tenant stores, by whichever style, stands under one quota, which tells how to come below
it."""

from itertools import count
from typing import Any

import asyncpg
import pytest

from memsvc.administration.archive_restore import FileQuotas
from memsvc.core.call_context import NO_TRACER, CallContext, call_scope, current_call
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rate_limits import StorageQuota, StoredOptions
from memsvc.store.database import Tx
from memsvc.store.usage import Quota
from tests.administration.archived import exported, restored, rows
from tests.administration.purged import said
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, FakeEmbedder
from tests.waiting import until

pytestmark = pytest.mark.anyio
BYTES_MAX = 20_000


@pytest.fixture
def door(database: Any, clock: FakeClock, tokens: Any, meter: Any, scope: Scope) -> Door:
    limits = LimitsOptions(stored=StoredOptions(tenant_bytes_max=BYTES_MAX, grace_days=30))
    return open_door(database, clock, tokens, meter, scope, limits=limits)


async def talk(call: Door, turn: str) -> dict[str, Any]:
    text = f"Turn {turn} is long. " * 300
    return await call(
        "memory_after_turn", session_id="s", turn_id=turn, user_id="u", input_items=[said(text)]
    )


async def counted(call: Door) -> None:
    """As soon as the process has looked again at what the tenant holds."""
    assert call.dispatch.quota is not None
    await call.dispatch.quota.count(call.caller.tenant)


async def filled(call: Door) -> int:
    for turn in range(4):
        await talk(call, f"t{turn}")
    await counted(call)
    return (await call("tenant_usage"))["total"]["turn_bytes"]


async def test_turns_beyond_the_quota_are_refused_and_what_frees_or_reads_goes_on(
    call: Door,
) -> None:
    assert await filled(call) >= BYTES_MAX
    turn: dict[str, Any] = {
        "session_id": "s",
        "turn_id": "t9",
        "user_id": "u",
        "input_items": [said("Hello.")],
    }
    refused = await call.refuses("QUOTA_EXCEEDED", "memory_after_turn", **turn)
    assert "tenant_purge" in refused["recovery"]
    for tool, asked in (
        ("file_write", {"project": "p", "path": "/a", "content": "x"}),
        ("elfmem_remember", {"content": "The coast is white."}),
        (
            "memories_add",
            {"user_id": "u", "messages": [{"role": "user", "content": "I live in Rome."}]},
        ),
        ("update_document", {"id": "root", "content": "# Notes\n"}),
        (
            "context_update",
            {
                "user_id": "u",
                "conversation_id": "c",
                "entries": [{"role": "user", "content": "Hi."}],
            },
        ),
    ):
        await call.refuses("QUOTA_EXCEEDED", tool, **asked)
    await call("memory_before_turn", session_id="s", user_id="u", current_input="What is long?")
    await call("memory_run_maintenance", session_id="s")
    await call("memory_forget", session_id="s", turn_ids=["t0"])
    await call("tenant_purge", project="default", level="session", name="s", confirm="s")
    await counted(call)
    assert (await talk(call, "t10"))["stored_items"] == 1


async def test_usage_tells_the_bytes_of_each_style_and_the_quota(call: Door) -> None:
    await talk(call, "t1")
    await call("file_write", project="default", path="/a", content="12345", mode="TRUNCATE")
    await call("file_write", project="default", path="/a", content="1234567", mode="TRUNCATE")
    await call("elfmem_remember", content="The coast is white.")
    await call(
        "memories_add", user_id="u", messages=[{"role": "user", "content": "I live in Rome."}]
    )
    await call("update_document", id="root", content="# Notes\n")
    entries = [{"role": "user", "content": "We decided to sail."}]
    await call("context_update", user_id="u", conversation_id="c", entries=entries)
    told = await call("tenant_usage")
    total = told["total"]
    parts = (
        "turn_bytes",
        "board_bytes",
        "document_bytes",
        "knowledge_bytes",
        "memories_bytes",
        "past_bytes",
    )
    assert all(total[name] for name in (*parts, "derived_bytes"))
    assert total["turn_bytes"] > 5000
    assert total["document_bytes"] == len("# Notes\n")
    assert (
        total["held_bytes"]
        == sum(total[name] for name in parts) + total["file_bytes"] + total["derived_bytes"]
    )
    assert (told["tenant_bytes_max"], told["unbounded_until"]) == (BYTES_MAX, None)


@pytest.mark.one_server("sizes are those of the coordinator")
async def test_what_is_derived_is_counted_as_about_what_it_takes_on_disk(
    database: Any,
    clock: FakeClock,
    tokens: Any,
    meter: Any,
    scope: Scope,
    admin: asyncpg.Connection,
) -> None:
    call = open_door(database, clock, tokens, meter, scope, embedder=FakeEmbedder())
    empty = await on_disk(admin)
    vocabulary = [f"word{number * number % 3001}" for number in range(3000)]
    async with call.at_work():
        for turn in range(80):
            text = f"I like {vocabulary[turn]}. " + " ".join(vocabulary[turn * 30 : turn * 30 + 60])
            await call(
                "memory_after_turn",
                session_id="s",
                turn_id=f"t{turn}",
                user_id="u",
                input_items=[said(text)],
            )
            await call("memory_before_turn", session_id="s", user_id="u", current_input=text[:100])
        await call.work()
    total = (await call("tenant_usage"))["total"]
    assert total["vectors"] >= 80
    assert 0.5 <= total["derived_bytes"] / (await on_disk(admin) - empty) <= 2


async def on_disk(admin: asyncpg.Connection) -> int:
    """What the tables of what is derived take, their indexes too, without what is dead."""
    sizes = []
    for table in ("entries", "fresh_terms", "posting_lists", "facts", "recalls", "embeddings"):
        await admin.execute(f"VACUUM FULL {table}")
        sizes.append(await admin.fetchval("SELECT pg_total_relation_size($1::regclass)", table))
    return sum(sizes)


async def test_a_restore_is_held_to_the_quota_before_anybody_sees_of_it(
    call: Door, admin: asyncpg.Connection, other_scope: Scope, clock: FakeClock
) -> None:
    await talk(call, "t1")
    await call("file_write", project="default", path="/a", content="x" * 1000)
    archive = await exported(call)
    held = (await call("tenant_usage"))["total"]
    other = call.as_tenant(other_scope)
    await other("file_write", project="elsewhere", path="/a", content="x" * 1000)
    before = await rows(admin, other_scope.tenant)
    content = held["held_bytes"] - held["derived_bytes"]
    for quota in (Quota(content), Quota(content + 1000), Quota(held["held_bytes"] + 500)):
        for check in (True, False):
            with pytest.raises(MemsvcError, match=r"stores \d+") as refusal:
                await restored(other, archive, check=check, allowed=FileQuotas(10**6, 0, quota))
            assert (refusal.value.code, "tenant_purge" in str(refusal.value.recovery)) == (
                Code.QUOTA_EXCEEDED,
                True,
            )
            assert await rows(admin, other_scope.tenant) == before
    enough = (await other("tenant_usage"))["total"]["held_bytes"] + held["held_bytes"]
    allowed = FileQuotas(10**6, 0, Quota(enough))
    assert (await restored(other, archive, allowed=allowed)).projects[0].written
    assert (
        not (await restored(other, archive, allowed=FileQuotas(10**6, 0, Quota(1))))
        .projects[0]
        .written
    )
    occupied = await restored(
        call, archive, check=True, allowed=FileQuotas(10**6, 0, Quota(held["held_bytes"]))
    )
    assert occupied.projects[0].occupied


async def test_a_tenant_from_before_the_quota_may_restore_beyond_it(
    call: Door, admin: asyncpg.Connection, other_scope: Scope, clock: FakeClock
) -> None:
    await talk(call, "t1")
    archive = await exported(call)
    await admin.execute(
        "INSERT INTO tenants (tenant, created_at, bounded_since) VALUES ($1, $2, $2)",
        other_scope.tenant,
        clock.now(),
    )
    done = await restored(
        call.as_tenant(other_scope), archive, allowed=FileQuotas(10**6, 0, Quota(1, grace_days=30))
    )
    assert done.projects[0].written


async def test_a_tenant_from_before_the_quota_has_time_to_come_below_it(
    call: Door, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    await admin.execute(
        "INSERT INTO tenants (tenant, created_at, bounded_since) VALUES ($1, $2, $2)",
        call.caller.tenant,
        clock.now(),
    )
    await filled(call)
    await talk(call, "t5")
    assert (await call("tenant_usage"))["unbounded_until"] == "2026-02-04T12:00:00Z"
    clock.advance(days=30)
    await counted(call)
    with pytest.raises(Refused, match="QUOTA_EXCEEDED"):
        await talk(call, "t6")
    assert (await call("tenant_usage"))["unbounded_until"] is None


async def test_a_process_looks_by_itself_what_a_tenant_holds(call: Door, clock: FakeClock) -> None:
    numbers = count()

    async def refused() -> bool:
        clock.advance(seconds=601)
        try:
            await talk(call, f"t{next(numbers)}")
        except Refused as error:
            return error.code is Code.QUOTA_EXCEEDED
        return False

    await until(refused)


async def test_a_count_that_failed_is_not_tried_again_with_each_write(
    call: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Tx] = []

    async def failing(tx: Tx) -> int:
        tried.append(tx)
        raise MemsvcError(Code.UNAVAILABLE, "the statement took too long")

    monkeypatch.setattr("memsvc.store.usage.quota_bytes", failing)
    quota = call.dispatch.quota
    assert quota is not None
    for turn in range(3):
        await talk(call, f"t{turn}")
        await until(lambda: _done(quota))
    assert len(tried) == 1


async def _done(quota: StorageQuota) -> bool:
    return not quota._tasks


async def test_what_is_counted_is_no_part_of_the_call_that_finds_it_is_due(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = door.dispatch.quota
    assert counting is not None
    seen: list[CallContext] = []
    count_now = counting.count

    async def count_seen(tenant: bytes) -> None:
        seen.append(current_call())
        await count_now(tenant)

    monkeypatch.setattr(counting, "count", count_seen)
    with call_scope("a call", NO_TRACER):
        await talk(door, "t0")
        await until(lambda: bool(seen))
    assert not seen[0].request_id
