"""What consolidation makes of what waits: by a model that is shown the identity, and by rules
without one."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.knowledge.dream import DREAM_S
from memsvc.styles.knowledge.options import KnowledgeOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter, ScriptedLlm
from tests.styles.knowledge.blocks import (
    PATIENT,
    block,
    dropped,
    learn,
    listed,
    recall,
    remember,
    shown,
)

pytestmark = pytest.mark.anyio


def judgement(
    alignment: float = 0.5, tags: list[str] | None = None, **contradictions: float
) -> dict[str, Any]:
    return {
        "alignment": alignment,
        "tags": tags or [],
        "contradictions": [{"id": name, "score": score} for name, score in contradictions.items()],
    }


async def test_nothing_to_consolidate_is_idle(call: Door) -> None:
    done = await call("elfmem_dream")
    assert (done["status"], done["processed"], done["health"]) == ("idle", 0, None)
    assert done["summary"] == "Nothing to consolidate. Inbox was empty."
    assert done["message"] == "No pending blocks to consolidate"
    await remember(call, "The office cat is called Miro.")
    assert "message" not in await call("elfmem_dream")


async def test_blocks_are_promoted_and_what_says_the_same_is_superseded(call: Door) -> None:
    kept = await remember(call, "The office cat is called Miro.")
    await remember(call, "the office cat is called MIRO!", "pets")
    await remember(call, "Giraffes sleep little.")
    done = await call("elfmem_dream")
    assert (done["processed"], done["promoted"], done["deduplicated"]) == (3, 2, 1)
    assert done["summary"] == "Consolidated 3: 2 promoted, 1 deduped, 0 edges."
    assert done["health"] == {
        "edge_creation_rate": 0,
        "promotion_rate": pytest.approx(2 / 3),
        "deduplication_rate": pytest.approx(1 / 3),
    }
    one = await block(call, "The office cat is called Miro.")
    assert (one["id"], one["tags"], one["status"]) == (kept, ["pets"], "active")
    status = await call("elfmem_status")
    assert (status["inbox_count"], status["active_count"], status["archived_count"]) == (0, 2, 1)
    assert status["last_consolidated"] == "2026-01-05T12:00:00+00:00"
    assert len(shown(await recall(call, "office cat"))) == 1


async def test_what_differs_in_a_number_or_adds_a_word_is_no_duplicate(call: Door) -> None:
    long = (
        "the deploy of the billing service to the production cluster in Frankfurt on weekdays"
        " waits for {} minutes"
    )
    await remember(call, long.format(5))
    await remember(call, long.format(6))
    done = await call("elfmem_dream")
    assert (done["promoted"], done["deduplicated"], done["contradictions"]) == (2, 0, 1)
    assert shown(await recall(call, "billing deploy")) == [long.format(6)]


async def test_near_duplicates_are_both_kept_and_one_is_shown(call: Door) -> None:
    text = (
        "our weekly report about giraffes goes to the zoo director every monday before lunch"
        " by {} mail"
    )
    await learn(call, text.format("plain"))
    await remember(call, text.format("registered"))
    done = await call("elfmem_dream")
    assert (done["promoted"], done["near_duplicates"]) == (1, 1)
    assert done["summary"].endswith("1 near-duplicate pair kept and flagged.")
    found = await recall(call, "giraffe report")
    assert len(shown(found)) == 1
    assert list(dropped(found).values()) == ["contradiction"]


async def test_what_is_alike_gets_an_edge_that_leads_from_one_to_the_other(
    call: Door, admin: asyncpg.Connection
) -> None:
    await learn(call, "the giraffe house opens at noon", "zoo")
    await remember(call, "the giraffe house closes at dusk", "zoo")
    done = await call("elfmem_dream")
    assert done["edges_created"] == 1
    edge = await admin.fetchrow("SELECT * FROM edges")
    assert edge is not None
    assert (edge["relation"], edge["origin"]) == ("similar", "similarity")
    assert edge["weight"] >= 0.45


async def test_a_block_gets_five_edges_at_the_most(call: Door, admin: asyncpg.Connection) -> None:
    for number in ["one", "two", "three", "four", "five", "six", "seven"]:
        await learn(call, f"the giraffe house has room {number}")
    most = await admin.fetch("SELECT high, low FROM edges")
    ends = Counter(end for edge in most for end in edge)
    newest = (await block(call, "the giraffe house has room seven"))["id"]
    assert ends[newest] == 5


async def test_rules_measure_alignment_against_the_identity(
    call: Door, admin: asyncpg.Connection
) -> None:
    await learn(call, "I care for giraffes in the zoo.", "self/value")
    await learn(call, "Giraffes in the zoo need care.")
    await learn(call, "Copper conducts heat.")
    rows = await admin.fetch(
        "SELECT n.alignment, n.scored_by, e.text FROM notions n"
        " JOIN entries e USING (tenant, entry)"
    )
    aligned = {row["text"]: row["alignment"] for row in rows}
    assert aligned["I care for giraffes in the zoo."] == 0.9
    assert aligned["Giraffes in the zoo need care."] > 0.8
    assert aligned["Copper conducts heat."] == 0
    assert {row["scored_by"] for row in rows} == {"rules"}
    confidence = {text: one["confidence"] for text, one in (await listed(call)).items()}
    assert confidence["Giraffes in the zoo need care."] > 0.8
    assert confidence["Copper conducts heat."] == 0.5


async def test_the_model_is_shown_the_identity_the_block_and_what_is_like_it(
    judged: Door, llm: ScriptedLlm
) -> None:
    llm.answers.append(judgement(0.9, ["self/value"]))
    await learn(judged, "I care for giraffes.", "self/value")
    llm.answers.append(judgement())
    await learn(judged, "Giraffes eat leaves </data> & more.", "zoo")
    llm.answers.append(judgement())
    await learn(judged, "Giraffes drink water.")
    first, _, last = llm.asked
    assert first.shown["identity"] == first.shown["others"] == []
    assert first.shown["block"] == {"content": "I care for giraffes.", "tags": ["self/value"]}
    assert last.shown["identity"] == ["I care for giraffes."]
    assert last.shown["block"] == {"content": "Giraffes drink water.", "tags": []}
    assert {one["content"] for one in last.shown["others"]} == {
        "I care for giraffes.",
        "Giraffes eat leaves </data> & more.",
    }
    assert "</data>" not in last.text
    assert "`self/goal`" in last.instructions
    assert "self/constitutional" not in last.instructions


async def test_a_judgement_decides_confidence_tags_tier_and_contradictions(
    judged: Door, llm: ScriptedLlm, admin: asyncpg.Connection, meter: RecordingMeter
) -> None:
    llm.answers.append(judgement(0.8, ["self/goal", "self/constitutional", "nonsense"]))
    await learn(judged, "Ship the release in May.")
    one = await block(judged, "Ship the release in May.")
    assert (one["confidence"], one["tags"]) == (pytest.approx(0.8), ["self/goal"])
    assert await admin.fetchval("SELECT tier FROM notions") == "durable"
    assert await admin.fetchval("SELECT scored_by FROM notions") == "fake:1"
    llm.answers.append(judgement(0.69, b1=0.95, b9=1.0))
    await learn(judged, "Ship nothing before the release in summer.")
    assert (await block(judged, "Ship nothing before the release in summer."))["confidence"] == 0.5
    found = await recall(judged, "ship release")
    assert shown(found) == ["Ship the release in May."]
    assert dropped(found) == {"Ship nothing before the release in summer.": "contradiction"}
    spent = (await judged("elfmem_status"))["session_tokens"]
    assert spent["llm_calls"] == 2
    assert spent["llm_input_tokens"] > spent["llm_output_tokens"] > 0
    assert "LLM: " in (await judged("elfmem_status"))["summary"]
    assert meter.total("memsvc_model_calls_total", purpose="judgement", status="success") == 2


async def test_a_doubtful_contradiction_is_none(judged: Door, llm: ScriptedLlm) -> None:
    llm.always = judgement(0.5, b1=0.79)
    await learn(judged, "giraffe tall")
    await learn(judged, "giraffe wide")
    assert len(shown(await recall(judged, "giraffe"))) == 2


@pytest.mark.parametrize(
    "answer",
    [MemsvcError(Code.UNAVAILABLE, "away"), MemsvcError(Code.INTERNAL_ERROR, "refused")],
)
async def test_where_the_model_fails_the_rules_judge(
    judged: Door, llm: ScriptedLlm, answer: MemsvcError
) -> None:
    llm.always = answer
    await remember(judged, "giraffe tall")
    done = await judged("elfmem_dream")
    assert (done["promoted"], done["scored_by_rules"]) == (1, 1)


async def test_a_model_that_hangs_leaves_all_blocks_to_the_rules_after_one_deadline(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    llm: ScriptedLlm,
) -> None:
    options = PATIENT.model_copy(update={"block_timeout_s": 0.05})
    call = open_door(database, clock, tokens, meter, scope, knowledge=options, llm=llm)
    llm.meanwhile = asyncio.Event().wait
    for text in ("giraffe tall", "walrus wide", "okapi shy"):
        await remember(call, text)
    done = await call("elfmem_dream")
    assert (done["status"], done["promoted"], done["scored_by_rules"]) == ("done", 3, 3)
    assert len(llm.asked) == 1
    assert KnowledgeOptions.model_fields["block_timeout_s"].default * 2 < DREAM_S


async def test_a_dream_that_runs_out_of_time_says_how_many_blocks_remain(
    judged: Door, llm: ScriptedLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.styles.knowledge.dream.DREAM_S", 1.0)
    await remember(judged, "giraffe tall")
    await remember(judged, "walrus wide")
    llm.meanwhile = asyncio.Event().wait
    done = await judged("elfmem_dream")
    assert (done["status"], done["inbox_remaining"]) == ("out_of_time", 2)
    assert done["summary"] == "Ran out of time, 2 remaining, run dream() again to continue."
    assert "message" not in done

    async def hang_next() -> None:
        llm.meanwhile = asyncio.Event().wait

    llm.meanwhile, llm.always = hang_next, judgement()
    done = await judged("elfmem_dream")
    assert (done["status"], done["processed"]) == ("out_of_time", 1)
    assert done["summary"].endswith(
        " — ran out of time, 1 remaining, run dream() again to continue."
    )


async def test_a_caller_may_do_without_the_model_and_a_tenant_has_so_many_calls_a_day(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    llm: ScriptedLlm,
) -> None:
    options = PATIENT.model_copy(update={"judgements_a_day": 1})
    call = open_door(database, clock, tokens, meter, scope, knowledge=options, llm=llm)
    llm.always = judgement()
    await remember(call, "alpha beaver")
    assert (await call("elfmem_dream", no_llm=True))["scored_by_rules"] == 1
    assert llm.asked == []
    await remember(call, "gamma dolphin")
    await remember(call, "epsilon ferret")
    assert (await call("elfmem_dream"))["scored_by_rules"] == 1
    assert len(llm.asked) == 1
    clock.advance(days=1)
    await learn(call, "zeta gnu")
    assert len(llm.asked) == 2


async def test_what_changes_while_the_model_thinks_is_not_decided_by_what_it_saw(
    judged: Door, llm: ScriptedLlm
) -> None:
    llm.always = judgement(0.9)
    block_id = await remember(judged, "giraffe tall")

    async def edit() -> None:
        llm.meanwhile = lambda: asyncio.sleep(0)
        await judged("elfmem_edit", block_id=block_id, content="walrus wide")

    llm.meanwhile = edit
    done = await judged("elfmem_dream")
    assert done["promoted"] == 1
    assert [question.shown["block"]["content"] for question in llm.asked] == [
        "giraffe tall",
        "walrus wide",
    ]

    forgotten = await remember(judged, "okapi shy")

    async def forget() -> None:
        await judged("elfmem_forget", block_id=forgotten)

    llm.meanwhile = forget
    assert (await judged("elfmem_dream"))["processed"] == 0
    assert shown(await recall(judged, "okapi")) == []


async def test_nobody_waits_for_the_model_but_who_dreams(judged: Door, llm: ScriptedLlm) -> None:
    await remember(judged, "giraffe tall")

    async def others() -> None:
        await remember(judged, "walrus wide")
        assert shown(await recall(judged, "giraffe")) == ["giraffe tall"]
        llm.meanwhile = lambda: asyncio.sleep(0)

    llm.always = judgement()
    llm.meanwhile = others
    assert (await judged("elfmem_dream"))["processed"] == 2


async def test_two_dreams_at_once_come_to_the_same_end(judged: Door, llm: ScriptedLlm) -> None:
    both = asyncio.Barrier(2)
    llm.always = judgement()
    for number in range(6):
        await remember(judged, f"animal{number} lives in house{number}")
    arrived = 0

    async def gate() -> None:
        nonlocal arrived
        arrived += 1
        if arrived <= 2:
            async with asyncio.timeout(20):
                await both.wait()

    llm.meanwhile = gate
    done = await asyncio.gather(judged("elfmem_dream"), judged("elfmem_dream"))
    assert sum(one["promoted"] for one in done) == 6
    status = await judged("elfmem_status")
    assert (status["inbox_count"], status["active_count"], status["archived_count"]) == (0, 6, 0)


async def test_an_embedder_tells_what_is_the_same_and_gives_every_block_its_vector(
    embedded: Door, embedder: FakeEmbedder, admin: asyncpg.Connection
) -> None:
    embedder.alike = {"automobile": "car", "damaged": "broken", "totally": "broken"}
    await learn(embedded, "car broken")
    await remember(embedded, "automobile damaged")
    done = await embedded("elfmem_dream")
    assert done["deduplicated"] == 1
    assert await admin.fetchval("SELECT count(*) FROM embeddings") == 1
    await embedded.work()
    assert await admin.fetchval("SELECT count(*) FROM embeddings") == 1


async def test_an_embedder_out_of_reach_holds_up_nothing(
    embedded: Door, embedder: FakeEmbedder
) -> None:
    embedder.failing = MemsvcError(Code.UNAVAILABLE, "away")
    await remember(embedded, "giraffe tall")
    assert (await embedded("elfmem_dream"))["promoted"] == 1
    assert shown(await recall(embedded, "giraffe")) == ["giraffe tall"]


async def test_curation_follows_the_first_consolidation_and_then_every_40_active_hours(
    call: Door, clock: FakeClock
) -> None:
    await remember(call, "giraffe tall")
    assert (await call("elfmem_dream"))["curated"] is True
    for hour in range(1, 81):
        clock.advance(minutes=30)
        await remember(call, f"tick {hour} of the clock on wall{hour}")
        if hour == 79:
            assert (await call("elfmem_dream"))["curated"] is False
    assert (await call("elfmem_dream"))["curated"] is True


async def test_thresholds_come_from_the_options(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> None:
    strict = KnowledgeOptions(duplicate_similarity_min=1.0, near_similarity_min=0.3, edges_max=0)
    call = open_door(database, clock, tokens, meter, scope, knowledge=strict)
    await remember(call, "the giraffe house is painted green")
    await remember(call, "the giraffe house has many windows")
    done = await call("elfmem_dream")
    assert (done["near_duplicates"], done["edges_created"]) == (1, 0)
