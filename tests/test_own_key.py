"""The key of a data folder, which whoever serves from it shares."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.own_key import own_key
from memsvc.store import keys
from memsvc.store.database import Database

pytestmark = pytest.mark.anyio


async def test_a_key_that_another_process_is_just_writing_is_waited_for(database: Database, tmp_path: Path) -> None:
    made = await keys.create_key(database, "first", datetime.now(UTC))
    file = tmp_path / "api-key"
    waiting = asyncio.create_task(own_key(database, file))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    file.write_text(f"{made.text}\n")
    assert await waiting == made.text


async def test_a_folder_that_has_no_key_while_others_were_made_says_so(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.own_key.WRITTEN_S_MAX", 0.0)
    await keys.create_key(database, "first", datetime.now(UTC))
    with pytest.raises(MemsvcError) as refused:
        await own_key(database, tmp_path / "api-key")
    assert refused.value.code is Code.PERMISSION_DENIED
