"""What is there afterwards, read through the public tools alone and compared with what was
acknowledged."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchmarks.faults.calling import TENANTS, Caller, Tenant
from benchmarks.faults.serving import Ground, checked
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import USER, Acknowledged, spoken

PROJECT = "default"
FACTS_A_TURN = ("name", "like")


@dataclass
class Found:
    """What does not add up, by kind."""

    faults: Counter[str] = field(default_factory=Counter)
    events: int = 0
    facts: int = 0
    looked_up: int = 0


async def audit(
    ground: Ground,
    acknowledged: Acknowledged,
    trial: Trial,
    *,
    sample: int = 40,
    rows: bool = True,
) -> None:
    """Compare, and tell the trial. The server of the ground must run. Without `rows` only answers
    are judged, and not whether derived rows are those that this version would make."""
    found = Found()
    for tenant in TENANTS:
        async with Caller(ground.url, tenant, "rest", ground.seen) as caller:
            await _audit_tenant(caller, tenant, acknowledged.turns[tenant], found, sample)
    trial.note("turns acknowledged", acknowledged.count)
    trial.note(
        "events, facts, turns looked up", f"{found.events}, {found.facts}, {found.looked_up}"
    )
    for what in (
        "turns lost",
        "turns twice",
        "half turns",
        "turns nobody sent",
        "facts without their event",
    ):
        trial.equal(what, found.faults[what], 0)
    trial.equal("facts lost or twice", found.faults["facts lost or twice"], 0)
    trial.equal("turns not found by recall", found.faults["turns not found by recall"], 0)
    if rows:
        told = await asyncio.to_thread(checked, ground)
        trial.equal("rows that differ (maintain --check)", told["differences"], 0)
    trial.equal("turns refused for good", len(acknowledged.refused), 0)
    trial.remarks += acknowledged.refused[:5]


async def _audit_tenant(
    caller: Caller, tenant: Tenant, turns: dict[str, str], found: Found, sample: int
) -> None:
    events, facts = await _records(caller)
    found.events += len(events)
    found.facts += len(facts)
    items: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        items.setdefault(event["turn_id"], []).append(event)
    for turn, session in turns.items():
        there = items.pop(turn, [])
        ids = Counter(event["id"] for event in there)
        wanted = spoken(tenant, turn, session)
        texts = [wanted[way][0]["content"] for way in ("input_items", "output_items")]
        if not there:
            found.faults["turns lost"] += 1
        elif max(ids.values()) > 1:
            found.faults["turns twice"] += 1
        elif [event["item"]["content"][0]["text"] for event in there] != texts:
            found.faults["half turns"] += 1
    found.faults["turns nobody sent"] += len(items)
    _audit_facts(events, facts, turns, found)
    for turn in random.Random(1).sample(sorted(turns), min(sample, len(turns))):
        mark = turn.replace("-", "")
        answer = await caller.used(
            "memory_before_turn",
            session_id="auditor",
            user_id=USER,
            current_input=f"Noted {mark}?",
            explain=True,
        )
        refs = Counter(
            one["ref"] for one in answer["explanation"]["candidates"] if one["kind"] == "turn"
        )
        found.looked_up += 1
        found.faults["turns not found by recall"] += refs[f"{turn}-out-0"] != 1


def _audit_facts(
    events: list[dict[str, Any]], facts: list[dict[str, Any]], turns: dict[str, str], found: Found
) -> None:
    said = {event["id"]: event["item"]["content"][0]["text"] for event in events}
    stated = [fact for fact in facts if fact["type"] == "fact_upsert"]
    for fact in stated:
        if fact["value"].lower() not in said.get(fact["source_item_id"], "").lower():
            found.faults["facts without their event"] += 1
    counted = Counter(fact["id"] for fact in stated)
    wanted = Counter(f"{turn}-fact-{rule}" for turn in turns for rule in FACTS_A_TURN)
    found.faults["facts lost or twice"] += sum(((counted - wanted) + (wanted - counted)).values())


async def _records(caller: Caller) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events and facts as the files of all sessions have them, in their order."""
    events: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    for path in await _files(caller):
        content = (await caller.used("file_read", project=PROJECT, path=path))["content"]
        records = [orjson.loads(line) for line in content.splitlines()]
        if "/events/raw/" in path:
            events += records
        elif "/memory_tiers/" in path:
            facts += records
    return events, facts


async def _files(caller: Caller) -> list[str]:
    paths: list[str] = []
    cursor = None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = await caller.used(
            "file_list", project=PROJECT, path="/memory", depth=64, limit=1024, **more
        )
        paths += [entry["path"] for entry in page["entries"] if entry["path"].endswith(".jsonl")]
        cursor = page["next_cursor"]
        if not cursor:
            return paths
