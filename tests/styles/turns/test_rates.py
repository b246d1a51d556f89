"""The twelve rates that a memory of turns is judged by, each measured over lives that are made up
for each seed."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from memsvc.core.items import Item, canonical
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    assistant,
    events,
    file_paths,
    file_records,
    file_text,
    recalled_facts,
    say,
    unblocked,
    user,
)

pytestmark = pytest.mark.slow

NAMES = ["Ada", "Grace", "Barbara", "Hedy", "Radia", "Frances", "Sophie", "Karen"]
LIKED = [
    "green tea",
    "slow trains",
    "dark chocolate",
    "window seats",
    "short meetings",
    "loud music",
]
TODAY = ["to pay the rent", "to call the plumber", "to water the orchids", "to renew the passport"]
WEEKLY = [
    "to paint the fence",
    "to file the taxes",
    "to repair the bicycle",
    "to visit the dentist",
]
SMALL_TALK = [
    "How is the weather?",
    "Tell a joke.",
    "Explain tides.",
    "Sort these: 3 1 2.",
    "Go on.",
    "yes",
    "yes",
]
OFF_TOPIC = ["Explain chromodynamics.", "Translate Zanzibar.", "Summarise Hamlet."]


@dataclass
class Life:
    """A session: what was stated in it, what is asked about it, and every item of it."""

    session: str
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    turns: list[tuple[str, str, str]] = field(default_factory=list)

    def items(self) -> list[Item]:
        return [item for _, said, answer in self.turns for item in (user(said), assistant(answer))]


def made_up(chosen: random.Random, session: str) -> Life:
    """A life: four facts said at some time between small talk."""
    life = Life(session)
    name, liked, today, weekly = map(chosen.choice, (NAMES, LIKED, TODAY, WEEKLY))
    life.facts = {
        "What is my name?": ("user_name", name),
        "What do I prefer?": ("user_preference", liked),
        "What task is there today?": ("today_task", today),
        "What is my task this week?": ("weekly_task", weekly),
    }
    stated = [
        f"My name is {name}.",
        f"I prefer {liked}.",
        f"Today I need {today}.",
        f"This week I need {weekly}.",
    ]
    said = stated + [chosen.choice(SMALL_TALK) for _ in range(8)]
    chosen.shuffle(said)
    life.turns = [(f"t{number}", text, f"Answer {number}.") for number, text in enumerate(said)]
    return life


async def live(door: Door, life: Life) -> None:
    for turn, said, answer in life.turns:
        await say(door, turn, said, answer=answer, session=life.session)


@pytest.fixture(params=range(3))
async def lives(request: pytest.FixtureRequest, opened: Opened) -> tuple[Door, list[Life]]:
    """Three sessions that were lived through, with little of them in the running context."""
    chosen = random.Random(request.param)
    door = opened(recent_context_items=2)
    told = [made_up(chosen, f"s{number}") for number in range(3)]
    for life in told:
        await live(door, life)
    return door, told


Lives = tuple[Door, list[Life]]


async def recalled(door: Door, life: Life, question: str) -> list[tuple[str, str]]:
    prepared = await ask(door, question, session=life.session)
    return await recalled_facts(door, prepared, session=life.session)


async def test_fact_recall_recall_and_precision_are_one(lives: Lives) -> None:
    door, told = lives
    hits = shown = right = 0
    for life in told:
        for question, fact in life.facts.items():
            found = await recalled(door, life, question)
            hits += fact in found
        for question in [*list(life.facts)[:1], *OFF_TOPIC]:
            found = await recalled(door, life, question)
            shown += len(found)
            right += life.facts.get(question) in found
    assert hits / (len(told) * 4) == 1
    assert right / shown == 1


async def test_expired_fact_suppression_rate_and_durable_fact_survival_rate_are_one(
    lives: Lives, clock: FakeClock
) -> None:
    door, told = lives
    for days, gone in ((2, {"today_task"}), (6, {"today_task", "weekly_task"})):
        clock.advance(days=days)
        for life in told:
            for _ in range(2):
                for question, fact in life.facts.items():
                    found = await recalled(door, life, question)
                    assert (fact in found) == (fact[0] not in gone), (question, days)
                await door("memory_run_maintenance", session_id=life.session)


async def test_idempotency_score_is_one(lives: Lives) -> None:
    door, told = lives
    paths = [path for life in told for path in await file_paths(door, f"/memory/{life.session}")]
    before = {path: await file_text(door, path) for path in paths}
    for life in told:
        await live(door, life)
    assert {path: await file_text(door, path) for path in paths} == before


async def test_session_isolation_leak_rate_is_zero(lives: Lives) -> None:
    door, told = lives
    leaks = 0
    for life in told:
        own = str(life.items())
        others = {
            value
            for other in told
            if other is not life
            for _, value in other.facts.values()
            if value not in own
        }
        for question in life.facts:
            prepared = str(await ask(door, question, session=life.session))
            leaks += sum(value in prepared for value in others)
        assert len((await ask(door, "Who am I?", session=life.session + "0"))["input_items"]) == 1
    assert leaks == 0


async def test_exact_dedup_score_and_duplicate_growth_ratio_hold_when_all_is_said_again(
    lives: Lives,
) -> None:
    door, told = lives
    grown = []
    for life in told:
        tiers = [
            path
            for path in await file_paths(door, f"/memory/{life.session}")
            if "/memory_tiers/" in path
        ]
        before = sum([len(await file_records(door, path)) for path in tiers])
        for again in range(6):
            for turn, said, answer in life.turns:
                await say(door, f"{turn}-{again}", said, answer=answer, session=life.session)
        tiers = [
            path
            for path in await file_paths(door, f"/memory/{life.session}")
            if "/memory_tiers/" in path
        ]
        grown.append(sum([len(await file_records(door, path)) for path in tiers]) / before)
        listed = (await door("memory_list_facts", session_id=life.session, limit=500))["facts"]
        assert len(listed) == len({(fact["fact_id"], fact["value"]) for fact in listed})
    assert max(grown) <= 1.05


@pytest.mark.parametrize("seed", range(3))
async def test_prompt_duplicate_rate_and_persisted_history_echo_rate_are_zero_and_history_equivalence_score_one(
    opened: Opened, seed: int
) -> None:
    door = opened(recent_context_items=6)
    life = made_up(random.Random(seed), "s1")
    held: list[Item] = []
    for turn, said, answer in life.turns:
        whole = {"conversation_items": [*held, user(said)], "current_input_start": len(held)}
        prepared = await door("memory_before_turn", session_id="s1", turn_id=turn, **whole)
        latest = await ask(door, said, turn_id=turn)
        shown = unblocked(prepared)
        assert shown == [*held, user(said)]
        assert unblocked(latest) == [*held, user(said)][-7:]
        assert latest["recall_fact_ids"] == prepared["recall_fact_ids"]
        often = Counter(map(canonical, [*held, user(said)]))
        for items in (shown, unblocked(latest)):
            assert all(
                count <= often[item] for item, count in Counter(map(canonical, items)).items()
            )
        given = prepared["input_items"]
        await door(
            "memory_after_turn",
            session_id="s1",
            turn_id=turn,
            input_items=given,
            output_items=[assistant(answer)],
        )
        held += [user(said), assistant(answer)]
    assert [record["item"] for record in await events(door)] == held


@pytest.mark.parametrize("seed", range(3))
async def test_compaction_guard_score_is_one(opened: Opened, seed: int) -> None:
    door = opened(recent_context_items=2, max_input_tok=100)
    life = made_up(random.Random(seed), "s1")
    await live(door, life)
    await door("memory_run_maintenance", session_id="s1")
    compacted = [
        record
        for path in await file_paths(door, "/memory/s1/events/compact")
        if path.endswith(".jsonl")
        for record in await file_records(door, path)
    ]
    assert [record["type"] for record in compacted][-1:] == ["compact_summary"]
    assert [record["item"] for record in await events(door)] == life.items()
    prepared = await ask(door, "And now?")
    assert prepared["context_token_count"] <= 100
    assert unblocked(prepared)[-2:] == [life.items()[-1], user("And now?")]
