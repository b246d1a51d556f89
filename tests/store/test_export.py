"""Rows of an archive are written all of them, or the project has none."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import export
from memsvc.store.database import Database
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio
ARCHIVES = (UUID(int=1), UUID(int=2))


@pytest.mark.parametrize("archives", [(), ARCHIVES[:1], ARCHIVES])
async def test_rows_are_written_where_one_archive_marks_the_project_and_nowhere_else(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection,
    archives: Sequence[UUID],
) -> None:  # fmt: skip
    for archive in archives:
        await admin.execute(
            "INSERT INTO restores (tenant, project, archive, restored_at) VALUES ($1, $2, $3, $4)",
            scope.tenant,
            scope.project,
            archive,
            clock.now(),
        )
    rows = [(UUID(int=at), export.ExportStream(at, 1, clock.now())) for at in range(3)]

    async def restore() -> None:
        async with database.begin(scope) as tx:
            tables = await export.describe_tables(tx, ["streams"])
            await export.put_streams(tx, tables["streams"], rows)

    if len(archives) == 1:
        await restore()
    else:
        with pytest.raises(MemsvcError) as refused:
            await restore()
        assert refused.value.code is Code.CONFLICT
    assert await admin.fetchval("SELECT count(*) FROM streams") == 3 * (len(archives) == 1)
