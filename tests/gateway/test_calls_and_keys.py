"""The registry of keys and the call log, on PostgreSQL."""

import re
from datetime import timedelta
from typing import Literal
from uuid import uuid4

import asyncpg
import pytest

from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.gateway.auth import Authenticator, AuthOptions
from memsvc.gateway.call_accounting import AuditOptions, call_log
from memsvc.store import keys
from memsvc.store.calls import CallFilter, insert_calls, list_calls
from memsvc.store.database import Database
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.test_audit import record

pytestmark = pytest.mark.anyio


async def test_a_key_is_kept_by_its_hash_alone(
    database: Database, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    made = await keys.create_key(
        database, "laptop", clock.now(), projects=["b", "a"], hidden_tools=["x"]
    )
    assert re.fullmatch(r"msk_[A-Za-z0-9_-]{43}", made.text)
    assert made.text not in repr(made)
    assert made.text not in repr(await admin.fetch("SELECT * FROM api_keys"))
    found = await keys.find_key(database, keys.hash_key(made.text))
    assert found == made.key
    assert found.projects == {"a", "b"}
    assert found.permissions == frozenset(Permission)
    assert await keys.find_key(database, keys.hash_key("another")) is None


async def test_several_keys_share_a_tenant_and_are_listed(
    database: Database, clock: FakeClock
) -> None:
    first = await keys.create_key(database, "first", clock.now())
    second = await keys.create_key(
        database, "second", clock.advance(seconds=1), tenant=first.key.tenant
    )
    other = await keys.create_key(database, "other", clock.advance(seconds=1))
    assert [key.label for key in await keys.list_keys(database, first.key.tenant)] == [
        "first",
        "second",
    ]
    assert [key.label for key in await keys.list_keys(database)] == ["first", "second", "other"]
    assert second.key.tenant == first.key.tenant != other.key.tenant


async def test_a_key_adopts_only_a_tenant_that_exists(database: Database, clock: FakeClock) -> None:
    made = await keys.create_key(database, "laptop", clock.now())
    tenant = keys.hash_key("an open-mode key")
    with pytest.raises(MemsvcError, match="this tenant does not exist"):
        await keys.set_tenant(database, made.key.key_id, tenant)
    assert await keys.remember_tenant(database, tenant, clock.now()) is True
    assert await keys.remember_tenant(database, tenant, clock.now()) is False
    assert (await keys.set_tenant(database, made.key.key_id, tenant)).tenant == tenant
    with pytest.raises(MemsvcError, match="key does not exist"):
        await keys.set_tenant(database, uuid4(), tenant)


async def test_the_last_use_never_moves_back(database: Database, clock: FakeClock) -> None:
    made = await keys.create_key(database, "laptop", clock.now())
    later = clock.advance(minutes=5)
    await keys.set_last_used(database, {made.key.key_id: later})
    await keys.set_last_used(
        database, {made.key.key_id: later - timedelta(minutes=1), uuid4(): later}
    )
    await keys.set_last_used(database, {})
    [key] = await keys.list_keys(database)
    assert key.last_used_at == later


def authenticator(
    database: Database,
    clock: FakeClock,
    mode: Literal["listed", "open"] = "listed",
    cache_s: float = 0,
) -> Authenticator:
    return Authenticator(database, AuthOptions(mode=mode, cache_s=cache_s), clock, RecordingMeter())


async def test_a_listed_key_becomes_its_caller(database: Database, clock: FakeClock) -> None:
    made = await keys.create_key(
        database,
        "narrow",
        clock.now(),
        permissions=[Permission.READ],
        projects=["p"],
        hidden_tools=["x"],
    )
    for mode in ("listed", "open"):
        doorman = authenticator(database, clock, mode)
        assert await doorman.resolve(made.text) == Caller(
            tenant=made.key.tenant,
            key_label="narrow",
            permissions=frozenset({Permission.READ}),
            projects=frozenset({"p"}),
            hidden_tools=frozenset({"x"}),
            key_id=made.key.key_id,
        )
        await doorman.write_last_used()
    [key] = await keys.list_keys(database)
    assert key.last_used_at == clock.now()


@pytest.mark.parametrize("mode", ["listed", "open"])
async def test_a_revoked_or_expired_key_opens_nothing_not_even_a_tenant_of_its_own(
    database: Database, clock: FakeClock, mode: str
) -> None:
    revoked = await keys.create_key(database, "revoked", clock.now())
    expiring = await keys.create_key(
        database, "expiring", clock.now(), expires_at=clock.now() + timedelta(hours=1)
    )
    doorman = authenticator(database, clock, mode)
    assert await doorman.resolve(revoked.text) is not None
    assert await doorman.resolve(expiring.text) is not None
    first = await keys.revoke_key(database, revoked.key.key_id, clock.now())
    assert (
        await keys.revoke_key(database, revoked.key.key_id, clock.advance(hours=1))
    ).revoked_at == first.revoked_at
    assert await doorman.resolve(revoked.text) is None
    assert await doorman.resolve(expiring.text) is None
    with pytest.raises(MemsvcError, match="key does not exist"):
        await keys.revoke_key(database, uuid4(), clock.now())


async def test_an_expiry_is_seen_through_the_cache(database: Database, clock: FakeClock) -> None:
    made = await keys.create_key(
        database, "k", clock.now(), expires_at=clock.now() + timedelta(seconds=1)
    )
    doorman = authenticator(database, clock, cache_s=300)
    assert await doorman.resolve(made.text) is not None
    clock.advance(seconds=2)
    assert await doorman.resolve(made.text) is None


async def test_an_unlisted_key_is_a_tenant_in_open_mode_alone(
    database: Database, clock: FakeClock
) -> None:
    assert await authenticator(database, clock).resolve("anything") is None
    caller = await authenticator(database, clock, "open").resolve("anything")
    assert caller == Caller(tenant=keys.hash_key("anything"), key_label="open")
    assert await keys.remember_tenant(database, caller.tenant, clock.now()) is False
    for odd in ("", "x" * 513, "a\x00b"):
        assert await authenticator(database, clock, "open").resolve(odd) is None


async def test_calls_are_inserted_once_and_in_their_own_scope_alone(
    database: Database, clock: FakeClock, scope: Scope, other_scope: Scope
) -> None:
    records = [record(clock) for _ in range(3)]
    for _ in range(2):
        async with database.begin(scope) as tx:
            await insert_calls(tx, records)
    async with database.begin_tenant(scope, read_only=True) as tx:
        assert len((await list_calls(tx, CallFilter(), after=None, limit=10)).calls) == 3
    async with database.begin_tenant(other_scope, read_only=True) as tx:
        assert (await list_calls(tx, CallFilter(), after=None, limit=10)).calls == []
    async with database.begin(other_scope) as tx:
        with pytest.raises(ValueError, match="tenant and project"):
            await insert_calls(tx, records)


async def test_the_call_log_writes_what_waits_at_the_end(
    database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope
) -> None:
    log = call_log(database, meter, clock, AuditOptions(batch_records=2))
    async with log.running():
        for _ in range(5):
            log.record(record(clock))
    assert log.backlog() == 0
    async with database.begin_tenant(scope, read_only=True) as tx:
        assert len((await list_calls(tx, CallFilter(), after=None, limit=10)).calls) == 5
