"""Blocks kept by many at once, and consolidation that is killed at any statement."""

import asyncio

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.knowledge.options import KnowledgeOptions
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.race.test_maintenance_faults import Mortal

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
MOST = 120
TEXTS = [
    "the giraffe house opens at noon",
    "the giraffe house is painted green",
    "The Giraffe House opens at noon!",
    "the giraffe house does not open at noon",
]
STATE = """
    SELECT n.notion, n.status, n.archive_reason, n.superseded_by, n.tier, n.confidence,
        n.reinforcements, n.scored_by
    FROM notions AS n WHERE n.project = $1 ORDER BY n.notion
"""


@pytest.fixture
def door(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Door:
    return open_door(
        database, clock, tokens, meter, scope, knowledge=KnowledgeOptions(inbox_threshold=1000)
    )


async def test_fifty_who_remember_the_same_keep_one_block(
    call: Door, admin: asyncpg.Connection
) -> None:
    done = await asyncio.gather(
        *(call("elfmem_remember", content="Ada likes tea.") for _ in range(50))
    )
    assert sorted(one["status"] for one in done) == ["created"] + ["duplicate_rejected"] * 49
    assert len({one["block_id"] for one in done}) == 1
    assert await admin.fetchval("SELECT count(*) FROM notions") == 1
    assert await admin.fetchval("SELECT count(*) FROM entries") == 1
    assert (await call("elfmem_status"))["inbox_count"] == 1


async def test_writers_recallers_and_dreamers_at_once_lose_nothing(
    call: Door, admin: asyncpg.Connection
) -> None:
    async def keep(number: int) -> None:
        kept = await call("elfmem_remember", content=f"animal{number} lives in house{number % 5}")
        found = await call("elfmem_recall", query=f"animal{number}")
        assert kept["block_id"] in {block["id"] for block in found["blocks"]}
        await call("elfmem_outcome", block_ids=[kept["block_id"]], signal=0.9)

    await asyncio.gather(
        *(keep(number) for number in range(15)), *(call("elfmem_dream") for _ in range(4))
    )
    await call("elfmem_dream")
    status = await call("elfmem_status")
    assert (status["inbox_count"], status["active_count"], status["archived_count"]) == (0, 15, 0)
    counted = await admin.fetch("SELECT status, count(*) FROM notions GROUP BY 1")
    assert {row[0]: row[1] for row in counted} == {"active": 15}


@pytest.mark.slow
async def test_consolidation_that_is_killed_at_any_statement_goes_on_where_it_was(
    call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(project: str) -> None:
        for text in TEXTS:
            await call("elfmem_remember", project=project, content=text)

    async def state(project: str) -> list[list[tuple[object, ...]]]:
        queries = (
            STATE,
            "SELECT low, high, weight FROM edges WHERE project = $1 ORDER BY 1, 2",
            "SELECT low, high, kind FROM contradictions WHERE project = $1 ORDER BY 1, 2",
            "SELECT inbox, active, archived FROM activity WHERE project = $1",
        )
        return [[tuple(row) for row in await admin.fetch(query, project)] for query in queries]

    await fill("whole")
    await call("elfmem_dream", project="whole")
    expected = await state("whole")
    assert expected[-1] == [(0, 3, 1)]
    mortal = Mortal(monkeypatch)
    for dies_at in range(1, MOST):
        project = f"p{dies_at}"
        mortal.dies_at = None
        await fill(project)
        mortal.sent, mortal.dies_at = 0, dies_at
        died = False
        try:
            await call("elfmem_dream", project=project)
        except Refused:
            died = True
        mortal.dies_at = None
        await call("elfmem_dream", project=project)
        if (await state(project))[-1] == expected[-1]:
            curated = await admin.fetchval(
                "SELECT curated_h FROM activity WHERE project = $1", project
            )
            if (
                curated is None
            ):  # killed between the last block and the curation, which the next one does
                await call("elfmem_curate", project=project)
        assert await state(project) == expected, dies_at
        if not died:
            assert dies_at > 20
            return
    raise AssertionError("it never came through")
