"""`memsvc doctor` where no server runs: what it looks at, and what it calls amiss."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest

from memsvc.cli.check_commands import doctor
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio


async def test_tables_that_are_open_and_timeouts_that_are_off_are_amiss(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    server: TestServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def amiss() -> dict[str, str]:
        with pytest.raises(SystemExit):
            await asyncio.to_thread(doctor, as_json=True, data_dir=tmp_path)
        return {
            one["name"]: one["found"]
            for one in json.loads(capsys.readouterr().out)
            if not one["ok"]
        }

    monkeypatch.setenv("MEMSVC_DATABASE__URL", database_urls.app)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER ROLE {server.app} IN DATABASE {name} SET statement_timeout = 0")
    assert await amiss() == {"timeouts": "disabled: statement_timeout"}
    await admin.execute(
        "ALTER TABLE facts DISABLE ROW LEVEL SECURITY; CREATE POLICY oops ON entries USING (true)"
    )
    assert await amiss() == {
        "database": "row-level security is off or was changed on entries, facts"
    }
