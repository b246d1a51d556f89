"""What outcomes teach, of which blocks, and what curation makes of what was not used."""

from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.knowledge.blocks import PATIENT, block, learn, listed, recall, remember, shown

pytestmark = pytest.mark.anyio


async def row(admin: asyncpg.Connection, block_id: str) -> dict[str, Any]:
    found = await admin.fetchrow("SELECT * FROM notions WHERE notion = $1", block_id)
    assert found is not None
    return dict(found)


async def hours(call: Door, clock: FakeClock, count: int) -> None:
    """Let so many active hours go by."""
    for _ in range(2 * count):
        clock.advance(minutes=30)
        await call("elfmem_outcome", block_ids=["nobody"], signal=0.5)


async def test_a_good_outcome_moves_confidence_and_tells_by_how_much(
    call: Door, admin: asyncpg.Connection
) -> None:
    block_id = await learn(call, "giraffe tall")
    times = (await row(admin, block_id))["reinforcements"]
    told = await call("elfmem_outcome", block_ids=[block_id], signal=1.0, source="test_pass")
    assert told["mean_confidence_delta"] == pytest.approx(1 / 6)
    assert told["summary"] == "Outcome recorded: 1 block updated (+0.167 avg confidence)."
    after = await row(admin, block_id)
    assert (after["confidence"], after["reinforcements"]) == (pytest.approx(2 / 3), times + 1)
    audit = dict(await admin.fetchrow("SELECT * FROM outcomes") or {})
    assert (audit["notion"], audit["number"], audit["signal"], audit["weight"]) == (
        block_id,
        1,
        1,
        1,
    )
    assert (audit["source"], audit["before"], audit["after"]) == (
        "test_pass",
        0.5,
        after["confidence"],
    )


async def test_a_neutral_outcome_neither_reinforces_nor_penalises(
    call: Door, admin: asyncpg.Connection
) -> None:
    block_id = await learn(call, "giraffe tall")
    before = await row(admin, block_id)
    for signal in (0.5, 0.20):
        told = await call("elfmem_outcome", block_ids=[block_id], signal=signal)
        assert (told["blocks_updated"], told["blocks_penalized"]) == (1, 0)
    after = await row(admin, block_id)
    for name in ("reinforcements", "decay_per_h", "reinforced_h"):
        assert after[name] == before[name]


async def test_a_bad_outcome_makes_a_block_fade_faster_but_not_what_is_durable(
    call: Door, admin: asyncpg.Connection
) -> None:
    plain, goal = await learn(call, "giraffe tall"), await learn(call, "Ship it.", "self/goal")
    told = await call("elfmem_outcome", block_ids=[plain, goal], signal=0.1)
    assert (told["blocks_updated"], told["blocks_penalized"]) == (2, 1)
    assert (await row(admin, plain))["decay_per_h"] == 0.02
    assert (await row(admin, goal))["decay_per_h"] == 0.001
    for _ in range(3):
        await call("elfmem_outcome", block_ids=[plain], signal=0.0)
    assert (await row(admin, plain))["decay_per_h"] == 0.05


async def test_blocks_that_helped_together_get_an_edge_and_then_a_stronger_one(
    call: Door, admin: asyncpg.Connection
) -> None:
    ids = [await learn(call, text) for text in ("alpha beaver", "gamma dolphin", "epsilon ferret")]
    first = await call("elfmem_outcome", block_ids=ids, signal=0.9)
    assert (first["outcome_edges_created"], first["edges_reinforced"]) == (3, 0)
    second = await call("elfmem_outcome", block_ids=ids[:2], signal=1.0)
    assert (second["outcome_edges_created"], second["edges_reinforced"]) == (0, 1)
    edges = await admin.fetch("SELECT weight, relation, origin FROM edges ORDER BY weight")
    assert [edge["weight"] for edge in edges] == [
        pytest.approx(0.72),
        pytest.approx(0.72),
        pytest.approx(0.82),
    ]
    assert {(edge["relation"], edge["origin"]) for edge in edges} == {("outcome", "outcome")}
    for _ in range(5):
        await call("elfmem_outcome", block_ids=ids[:2], signal=1.0)
    assert await admin.fetchval("SELECT max(weight) FROM edges") == 1


async def test_what_cannot_learn_is_skipped_with_the_reason(
    call: Door, admin: asyncpg.Connection
) -> None:
    identity = await learn(call, "I tell the truth.", "self/constitutional")
    gone = await learn(call, "giraffe tall")
    await call("elfmem_forget", block_id=gone)
    waiting = await remember(call, "walrus wide")
    told = await call(
        "elfmem_outcome", block_ids=[identity, gone, waiting, "nope", "nope"], signal=0.9
    )
    assert {one["id"]: one["reason"] for one in told["skipped"]} == {
        identity: "constitutional",
        gone: "archived",
        waiting: "pending_inbox",
        "nope": "unmatched",
    }
    assert told["summary"].startswith(
        "Outcome recorded: nothing to update. Not scored: 1 archived; "
    )
    assert await admin.fetchval("SELECT count(*) FROM outcomes") == 0


async def test_an_outcome_that_is_none_changes_nothing(call: Door) -> None:
    block_id = await learn(call, "giraffe tall")
    refused = await call.refuses(
        "INVALID_ARGUMENT", "elfmem_outcome", block_ids=[block_id], signal=1.5
    )
    assert refused["message"] == "signal must be in [0.0, 1.0], got 1.5"
    refused = await call.refuses(
        "INVALID_ARGUMENT", "elfmem_outcome", block_ids=[block_id], signal=1, weight=0
    )
    assert refused["message"] == "weight must be > 0.0, got 0.0"
    assert (await block(call, "giraffe tall"))["confidence"] == 0.5
    assert (await call("elfmem_outcome", block_ids=[], signal=1))[
        "summary"
    ] == "Outcome recorded: nothing to update."


async def test_it_is_the_first_call_of_a_session_or_none(call: Door, clock: FakeClock) -> None:
    block_id = await learn(call, "giraffe tall")
    clock.advance(days=30)
    assert (await call("elfmem_status"))["session_active"] is False
    assert (await call("elfmem_outcome", block_ids=[block_id], signal=1))["blocks_updated"] == 1
    status = await call("elfmem_status")
    assert (status["session_active"], status["session_hours"], status["total_active_hours"]) == (
        True,
        0,
        0,
    )


async def test_the_clock_counts_what_is_between_calls_of_a_session(
    call: Door, clock: FakeClock
) -> None:
    await remember(call, "alpha beaver")
    clock.advance(minutes=30)
    assert (await call("elfmem_status"))["total_active_hours"] == 0.5
    await remember(call, "gamma dolphin")
    clock.advance(minutes=31)
    status = await call("elfmem_status")
    assert (status["session_active"], status["session_hours"], status["total_active_hours"]) == (
        False,
        None,
        0.5,
    )
    assert status["summary"].startswith(
        "Session: inactive | Inbox: 2/1000 | Active: 0 blocks | Health: good\n"
    )
    await remember(call, "epsilon ferret")
    clock.advance(minutes=6)
    status = await call("elfmem_status")
    assert (status["session_hours"], status["total_active_hours"]) == (
        pytest.approx(0.1),
        pytest.approx(0.6),
    )


async def test_curation_archives_what_has_faded_and_nothing_else(
    call: Door, clock: FakeClock
) -> None:
    await learn(call, "It rains in Rome.", category="observation")
    await learn(call, "Giraffes are tall.")
    await learn(call, "Ship the release.", "self/goal")
    await hours(call, clock, 59)
    for _ in range(2):
        await call("elfmem_dream")
    assert (await call("elfmem_curate"))["archived"] == 0  # and its five strongest are fresh again
    await hours(call, clock, 61)
    done = await call("elfmem_curate")
    assert done["archived"] == 1
    assert done["summary"] == "Curated: 1 archived, 2 reinforced."
    assert set(await listed(call)) == {"Giraffes are tall.", "Ship the release."}
    assert shown(await recall(call, "rains in Rome")) == []
    assert (await call("elfmem_status"))["archived_count"] == 1
    for asked in ({}, {"category": "observation"}):
        (gone,) = (await call("elfmem_ls", archived=True, **asked))["result"]
        assert (gone["content"], gone["status"], gone["archive_reason"]) == (
            "It rains in Rome.",
            "archived",
            "decayed",
        )
    assert (await call("elfmem_ls", archived=True, category="knowledge"))["result"] == []
    await call.refuses("INVALID_ARGUMENT", "elfmem_ls", archived=True, tag="self/%")


async def test_a_bridge_survives_and_its_spokes_do_not(call: Door, clock: FakeClock) -> None:
    hub = await learn(call, "hub of it all", category="observation")
    for word in ["alpha", "beaver", "gamma", "dolphin"]:
        spoke = await learn(call, f"spoke {word}", category="observation")
        await call("elfmem_connect", source=hub, target=spoke)
    await hours(call, clock, 61)
    assert (await call("elfmem_curate"))["archived"] == 4
    assert set(await listed(call)) == {"hub of it all"}


async def test_what_is_told_not_to_archive_keeps_what_has_faded(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> None:
    options = PATIENT.model_copy(update={"archive_decayed": False})
    call = open_door(database, clock, tokens, meter, scope, knowledge=options)
    await learn(call, "It rains.", category="observation")
    await hours(call, clock, 61)
    assert (await call("elfmem_curate"))["archived"] == 0


async def test_curation_reinforces_the_five_strongest_and_the_constitution(
    call: Door, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    for word in ["alpha", "beaver", "gamma", "dolphin", "epsilon", "ferret", "zeta"]:
        await learn(call, f"fact of {word}")
    await learn(call, "I tell the truth.", "self/constitutional")
    clock.advance(minutes=20)
    done = await call("elfmem_curate")
    assert (done["reinforced"], done["constitutional_reinforced"]) == (5, 1)
    fresh = await admin.fetchval("SELECT count(*) FROM notions WHERE reinforced_h > 0.3")
    assert fresh in (5, 6)


async def test_weak_edges_go_faded_ones_too_and_an_agents_own_stay(
    call: Door, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    texts = ("alpha beaver", "gamma dolphin", "epsilon ferret", "zeta gnu")
    ids = [await learn(call, text, category="observation") for text in texts]
    await call("elfmem_connect", source=ids[0], target=ids[1])
    await call("elfmem_outcome", block_ids=[ids[1], ids[2]], signal=0.6)
    await call("elfmem_outcome", block_ids=[ids[2], ids[3]], signal=0.6)
    await admin.execute(
        "UPDATE edges SET weight = 0.09 WHERE low = least($1, $2) AND high = greatest($1, $2)",
        *ids[2:],
    )
    done = await call("elfmem_curate")
    assert (done["edges_pruned"], done["edges_decayed"], done["total_edges_after"]) == (1, 0, 2)
    await admin.execute("UPDATE activity SET active_h = 100")
    await admin.execute("UPDATE notions SET reinforced_h = 100")
    done = await call("elfmem_curate")
    assert (done["edges_pruned"], done["edges_decayed"], done["total_edges_after"]) == (0, 1, 1)
    assert "1 edges decayed (1 remain)" in done["summary"]
    assert done["summary"].endswith(
        "Tip: consider recall() to reactivate relevant knowledge clusters."
    )
    assert await admin.fetchval("SELECT origin FROM edges") == "agent"


async def test_nothing_to_curate_says_so(call: Door) -> None:
    assert (await call("elfmem_curate"))["summary"] == "Curated: nothing required."
