"""Changes of resources, told to clients that wait for them by a stream."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import orjson
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import Subscription

from memsvc.core.scope import Permission, Scope
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp import http, notifications
from memsvc.store.calls import CallFilter, list_calls
from memsvc.store.changes import CHANNEL, change_key
from memsvc.store.database import Database
from memsvc.store.keys import NewKey, create_key, hash_key, revoke_key
from tests.fakes import FakeClock
from tests.gateway.wired import Opened, told
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = pytest.mark.anyio

NO_CACHE = AuthOptions(mode="open", cache_s=0)


async def ended(subscription: Subscription) -> None:
    """The stream ends as the server means it to, with no event before."""
    async with asyncio.timeout(10):
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)


async def test_a_change_by_one_server_is_told_by_another(replica: Opened) -> None:
    uris = ["MEMORY://%61lice/1", "memory://alice/1?project=other"]
    async with replica() as here, replica() as there, there.client() as client:
        async with client.listen(resource_subscriptions=uris) as subscription:
            assert subscription.honored.resource_subscriptions == uris
            await here.write()
            assert await told(subscription) == uris[0]
            await here.write(project="other")
            assert await told(subscription) == uris[1]
            assert there.streams() == 1
        await until(lambda: there.streams() == 0)
        assert there.changes.watch_count() == 0


async def test_nobody_hears_of_what_belongs_to_others(replica: Opened) -> None:
    async with (
        replica() as server,
        server.client() as one,
        server.client("key-two") as two,
        one.listen(resource_subscriptions=["memory://alice/1", "memory://alice/2"]) as first,
        two.listen(resource_subscriptions=["memory://alice/1"]) as second,
    ):
        await server.write()
        assert await told(first) == "memory://alice/1"
        await server.write(key="key-two")  # what was written before would have come before this
        assert await told(second) == "memory://alice/1"
        await server.write("2")
        assert await told(first) == "memory://alice/2"


async def test_only_what_the_caller_may_read_is_honoured(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    narrow = await _key(database, clock, permissions=[Permission.READ], projects=["default"])
    blind = await _key(database, clock, hidden_tools=["board_read"])
    uris = [
        "memory://alice/1",
        "memory://alice/1?project=other",
        "memory://alice/a/b",
        "memory://alice/%FF",
        "odd",
    ]
    async with (
        replica() as server,
        server.client(narrow.text) as client,
        server.client(blind.text) as other,
    ):
        async with client.listen(
            resource_subscriptions=uris, tools_list_changed=True
        ) as subscription:
            assert subscription.honored.resource_subscriptions == uris[:1]
            assert subscription.honored.tools_list_changed is None
            await server.write()
            assert await told(subscription) == uris[0]
        async with other.listen(resource_subscriptions=uris) as subscription:
            assert subscription.honored.resource_subscriptions is None
        await server.gateway.call_log.flush()
    async with database.begin_tenant(Scope(hash_key("key-one"), "*"), read_only=True) as tx:
        [record] = (
            await list_calls(
                tx,
                CallFilter(tool="board_read", projects=frozenset({"default"})),
                after=None,
                limit=10,
            )
        ).calls
    assert (record.surface, record.status, record.key_label) == (
        "subscription",
        "success",
        "narrow",
    )


async def _key(database: Database, clock: FakeClock, **narrowed: Any) -> NewKey:
    return await create_key(database, "narrow", clock.now(), tenant=hash_key("key-one"), **narrowed)


async def test_a_key_that_was_revoked_or_has_expired_hears_no_more(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    revoked = await _key(database, clock)
    expiring = await _key(database, clock, expires_at=clock.now() + timedelta(hours=1))
    uris = ["memory://alice/1"]
    async with (
        replica(auth=NO_CACHE) as server,
        server.client(revoked.text) as one,
        server.client(expiring.text) as two,
        one.listen(resource_subscriptions=uris) as first,
        two.listen(resource_subscriptions=uris) as second,
    ):
        await server.write()
        assert await told(first) == uris[0]
        assert await told(second) == uris[0]
        await revoke_key(database, revoked.key.key_id, clock.now())
        clock.advance(timedelta(hours=2))
        await server.write()
        await ended(first)
        await ended(second)
        await until(lambda: server.streams() == 0)


async def test_a_stream_is_of_age_at_some_time(replica: Opened) -> None:
    async with (
        replica(limits=LimitsOptions(listen_s_max=0.05)) as server,
        server.client() as client,
        client.listen(resource_subscriptions=["memory://alice/1"]) as subscription,
    ):
        await ended(subscription)


async def test_a_server_that_stops_ends_its_streams_and_opens_none(replica: Opened) -> None:
    async with replica() as server, server.client() as client:
        async with client.listen(resource_subscriptions=["memory://alice/1"]) as subscription:
            server.gateway.draining.start()
            await ended(subscription)
        with pytest.raises(MCPError) as raised:
            async with client.listen(resource_subscriptions=["memory://alice/1"]):
                pass
        assert raised.value.error.data["code"] == "UNAVAILABLE"


async def test_streams_have_a_bound_for_each_tenant_and_for_all(replica: Opened) -> None:
    limits = LimitsOptions(listeners_max=3, tenant_listeners_max=2, listener_uris_max=2)
    uris = ["memory://alice/1"]
    async with (
        replica(limits=limits) as server,
        server.client() as one,
        server.client("key-two") as two,
    ):
        async with one.listen(resource_subscriptions=uris), one.listen(resource_subscriptions=uris):
            assert await _refused(one, uris) == (-32603, "RATE_LIMITED")
            async with two.listen(resource_subscriptions=uris):
                assert await _refused(two, uris) == (-32603, "RATE_LIMITED")
            await until(lambda: server.streams() == 2)
            assert await _refused(two, [f"memory://alice/{number}" for number in range(3)]) == (
                -32602,
                "INVALID_ARGUMENT",
            )
        await until(lambda: server.streams() == 0)
        async with one.listen(resource_subscriptions=uris):
            assert server.streams() == 1


async def _refused(client: Client, uris: list[str]) -> tuple[int, str]:
    with pytest.raises(MCPError) as raised:
        async with client.listen(resource_subscriptions=uris):
            pass
    return raised.value.error.code, raised.value.error.data["code"]


async def test_who_does_not_read_is_sent_away(
    replica: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "WRITE_S_MAX", 0.05)

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    async with (
        replica() as server,
        server.client() as client,
        client.listen(resource_subscriptions=["memory://alice/1"]) as subscription,
    ):
        monkeypatch.setattr("mcp.server.session.ServerSession.send_notification", never)
        await server.write()
        await ended(subscription)
        assert server.streams() == 0


async def test_a_stream_that_nobody_reads_is_cut_off(
    replica: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "WRITE_S_MAX", 0.05)
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": {"resourceSubscriptions": ["memory://alice/1"]}, "_meta": envelope}
    body = orjson.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    )
    headers = {
        "host": "127.0.0.1",
        "authorization": "Bearer key-one",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
    }
    received = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return received.pop() if received else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 1:
            await asyncio.Event().wait()

    asked = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    async with replica() as server:
        async with asyncio.timeout(10):
            await server.gateway.app(asked, receive, send)
        assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
        assert b"notifications/subscriptions/acknowledged" in sent[1]["body"]
        assert server.streams() == 0


async def test_everybody_is_told_when_changes_are_heard_again(
    replica: Opened, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.store.changes.RECONNECT_S_MIN", 0.01)
    async with (
        replica() as server,
        server.client() as client,
        client.listen(
            resource_subscriptions=["memory://alice/1", "memory://alice/2"]
        ) as subscription,
    ):
        killed = await admin.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'memsvc changes' AND datname = current_database()"
        )
        assert killed == 1
        assert {await told(subscription), await told(subscription)} == {
            "memory://alice/1",
            "memory://alice/2",
        }
        assert "memsvc_changes_heard 1.0" in server.gateway.metrics.text().decode()
        await server.write()
        assert await told(subscription) == "memory://alice/1"


async def test_what_goes_through_the_database_tells_neither_tenant_nor_identifier(
    replica: Opened, database_urls: DatabaseUrls
) -> None:
    heard: list[str] = []
    connection = await asyncpg.connect(database_urls.superuser)
    try:
        await connection.add_listener(CHANNEL, lambda *told: heard.append(told[-1]))
        async with replica() as server:
            await server.write("secret-1")
            await until(lambda: any(not one.startswith("echo ") for one in heard))
    finally:
        await connection.close()
    [payload] = [one for one in heard if not one.startswith("echo ")]
    tenant = hash_key("key-one")
    assert payload == change_key(Scope(tenant, "default"), "memory://alice/secret-1")
    assert tenant.hex() not in payload
    assert len(payload) == 64
    assert payload != change_key(Scope(hash_key("key-two"), "default"), "memory://alice/secret-1")
    assert payload != change_key(Scope(tenant, "other"), "memory://alice/secret-1")
