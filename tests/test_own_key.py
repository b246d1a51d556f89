"""The key of a data folder, which whoever serves from it shares."""

import asyncio
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission
from memsvc.folder_key import LEGACY_LABEL, first_key, list_legacy_keys, load_key
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.oauth import OAuthOptions
from memsvc.store import keys
from memsvc.store.database import Database
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio


async def test_a_key_that_another_process_is_just_writing_is_waited_for(
    database: Database, tmp_path: Path
) -> None:
    made = await keys.create_key(database, "first", datetime.now(UTC))
    file = tmp_path / "api-key"
    waiting = asyncio.create_task(load_key(database, file))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    file.write_text(f"{made.text}\n")
    assert await waiting == made.text


async def test_a_folder_that_has_no_key_while_others_were_made_says_so(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.folder_key.WRITTEN_S_MAX", 0.0)
    await keys.create_key(database, "first", datetime.now(UTC))
    with pytest.raises(MemsvcError) as refused:
        await load_key(database, tmp_path / "api-key")
    assert refused.value.code is Code.PERMISSION_DENIED


async def test_start_with_a_revoked_key_names_the_tenant_to_create_another_for(
    database: Database, tmp_path: Path
) -> None:
    now, file = datetime.now(UTC), tmp_path / "api-key"
    made = await keys.create_key(database, "first", now)
    file.write_text(f"{made.text}\n")
    file.chmod(0o600)
    await keys.revoke_key(database, made.key.key_id, now)
    _, sentence = await first_key(database, file, now)
    assert f"`memsvc key create --tenant {made.key.tenant.hex()}`" in sentence


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o644, 1), (0o640, 1)])
async def test_key_file_that_others_may_read_is_warned_of(
    mode: int, warnings: int, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "api-key"
    text, _ = await first_key(database, file, NOW)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(mode)
    with structlog.testing.capture_logs() as told:
        await first_key(database, file, NOW)
    assert [line["file"] for line in told] == [str(file)] * warnings
    assert text not in str(told)


TURN = {
    "session_id": "s",
    "turn_id": "t",
    "input_items": [{"role": "user", "content": "I live in Kobe."}],
}
ASKED = {"session_id": "s", "current_input": "Where do I live?"}
NOW = datetime(2026, 1, 5, tzinfo=UTC)


async def test_keys_that_opened_a_memory_without_being_listed_are_listed_where_it_holds_anything(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, database: Database
) -> None:
    async with served(database_urls, admin, auth=AuthOptions(mode="open")) as service:
        made = await keys.create_key(service.database, "made", NOW)
        async with (
            service.http("wrote") as wrote,
            service.http("looked") as looked,
            service.http("wrote-too") as more,
        ):
            for http in (wrote, more):
                assert (
                    await http.post(
                        "/api/tools/memory_after_turn", json=TURN | {"output_items": []}
                    )
                ).is_success
            assert (await looked.post("/api/tools/memory_before_turn", json=ASKED)).is_success
    for _ in range(2):
        async with served(database_urls, admin, auth=AuthOptions()) as service:
            async with service.http("wrote") as wrote:
                assert (
                    "Kobe" in (await wrote.post("/api/tools/memory_before_turn", json=ASKED)).text
                )
            for key, status in (("looked", 401), ("tpyo", 401), (made.text, 200)):
                async with service.http(key) as http:
                    assert (await http.get("/api/tools")).status_code == status
            listed = await keys.list_keys(service.database)
            assert sorted(key.label for key in listed) == [LEGACY_LABEL, LEGACY_LABEL, "made"]
    [one] = await keys.list_keys(database, hashlib.sha256(b"wrote").digest())
    await keys.revoke_key(database, one.key_id, NOW)
    async with (
        served(database_urls, admin, auth=AuthOptions()) as service,
        service.http("wrote") as wrote,
    ):
        assert (await wrote.get("/api/tools")).status_code == 401


async def test_processes_that_start_at_once_adopt_a_key_once_and_only_where_any_key_was_a_tenant(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    async with (
        served(database_urls, admin, auth=AuthOptions(mode="open")) as service,
        service.http("wrote") as wrote,
    ):
        assert (
            await wrote.post("/api/tools/memory_after_turn", json=TURN | {"output_items": []})
        ).is_success
    await list_legacy_keys(database, AuthOptions(), "0.0.0.0", NOW)
    await list_legacy_keys(database, AuthOptions(mode="listed"), "127.0.0.1", NOW)
    assert await keys.list_keys(database) == []
    await asyncio.gather(
        *(list_legacy_keys(database, AuthOptions(), "127.0.0.1", NOW) for _ in range(4))
    )
    assert [key.label for key in await keys.list_keys(database)] == [LEGACY_LABEL]
    [key] = await keys.list_keys(database)
    assert Permission.ADMIN in key.permissions
    text, _ = await first_key(database, tmp_path / "api-key", NOW)
    assert (tmp_path / "api-key").read_text().strip() == text


async def test_what_is_adopted_where_tokens_are_taken_manages_no_keys(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, database: Database
) -> None:
    async with (
        served(database_urls, admin, auth=AuthOptions(mode="open")) as service,
        service.http("wrote") as wrote,
    ):
        assert (
            await wrote.post("/api/tools/memory_after_turn", json=TURN | {"output_items": []})
        ).is_success
    issuer = "https://issuer.example"
    tokens = OAuthOptions(
        issuer=issuer, resource="https://memory.example/mcp", jwks_url=f"{issuer}/jwks"
    )
    await list_legacy_keys(database, AuthOptions(oauth=tokens), "127.0.0.1", NOW)
    [key] = await keys.list_keys(database)
    assert (key.label, key.permissions) == (LEGACY_LABEL, {Permission.READ, Permission.WRITE})
