"""`memsvc doctor` where no server runs: what it looks at, and what it calls amiss."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memsvc.cli.doctor import doctor
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio


async def test_a_database_without_vectors_is_amiss_only_where_a_model_makes_them(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def found(*, amiss: bool) -> dict[str, Any]:
        with pytest.raises(SystemExit) if amiss else nullcontext():
            await asyncio.to_thread(doctor, as_json=True, data_dir=tmp_path)
        return {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    await admin.execute("DROP TABLE IF EXISTS embeddings")
    monkeypatch.setenv("MEMSVC_DATABASE__URL", database_urls.app)
    assert all(one["ok"] for one in (await found(amiss=False)).values())
    monkeypatch.setenv("MEMSVC_EMBEDDINGS__PROVIDER", "openai")
    monkeypatch.setenv("MEMSVC_EMBEDDINGS__BASE_URL", "http://127.0.0.1:9/v1")
    told = await found(amiss=True)
    assert not told["vectors"]["ok"]
    assert "pgvector" in told["vectors"]["recovery"]
