"""Session folders as a client-side SDK leaves them: made-up sessions, in both layouts, and what
goes wrong in them."""

from collections.abc import Sequence
from typing import Any

import orjson

DAY = "2026-01-02"
RAW = "events/raw/2026/01/02/log-20260102.jsonl"
L0 = "memory_tiers/L0/2026/01/facts-202601.jsonl"
L2 = "memory_tiers/L2/2026/01/facts-2026-W01.jsonl"


def jsonl(records: Sequence[dict[str, Any]]) -> str:
    return "".join(orjson.dumps(record).decode() + "\n" for record in records)


def event(
    turn: str, way: str, text: str, *, number: int = 0, at: str = f"{DAY}T09:00:00Z", user: str = ""
) -> Any:
    """One line of an event log."""
    role, part = ("user", "input_text") if way == "in" else ("assistant", "output_text")
    return {
        "id": f"{turn}-{way}-{number}",
        "ts": at,
        "type": "input_item" if way == "in" else "output_item",
        "turn_id": turn,
        "user_id": user,
        "item_id": f"item-of-{turn}-{way}-{number}",
        "item": {"type": "message", "role": role, "content": [{"type": part, "text": text}]},
    }


def turn(name: str, said: str, answered: str, **more: Any) -> list[Any]:
    """The lines of a turn."""
    return [event(name, "in", said, **more), event(name, "out", answered, **more)]


def fact(
    record: str,
    value: str,
    *,
    fact_id: str = "user_name",
    key: str = "name",
    at: str = f"{DAY}T09:00:00Z",
    tier: str = "L0",
    of_turn: str = "t1",
    kind: str = "fact_upsert",
    state: str = "active",
    **more: Any,
) -> dict[str, Any]:
    """One record of a fact."""
    return {
        "id": record,
        "ts": at,
        "type": kind,
        "fact_id": fact_id,
        "key": key,
        "value": value,
        "confidence": 0.95,
        "tier": tier,
        "state": state,
        "source_turn_id": of_turn,
        "source_user_id": "",
        **more,
    }


def superseded(old: str, value: str, by: str, *, at: str, **more: Any) -> dict[str, Any]:
    """The record that says that a fact was replaced."""
    return fact(
        f"{old}-mutation",
        value,
        at=at,
        kind="fact_supersede",
        state="superseded",
        superseded_by=by,
        **more,
    )


def canonical() -> dict[str, str]:
    """Two turns, a name that was corrected, and a state that knows of an older turn too."""
    events = [
        *turn("t1", "my name is ada", "hello ada", at=f"{DAY}T09:00:00Z"),
        *turn("t2", "my name is grace, the harbour opens at six", "noted", at=f"{DAY}T09:05:00Z"),
    ]
    facts = [
        fact("t1-fact-name", "ada"),
        superseded("t1-fact-name", "ada", "t2-fact-name", at=f"{DAY}T09:05:00Z", of_turn="t2"),
        fact("t2-fact-name", "grace", at=f"{DAY}T09:05:00Z", of_turn="t2"),
    ]
    state = {"version": 1, "latest_turn_id": "t2", "processed_turn_ids": ["t0", "t1", "t2"]}
    return {RAW: jsonl(events), L0: jsonl(facts), "meta/state.json": orjson.dumps(state).decode()}


def legacy() -> dict[str, str]:
    """The same session in the older layout."""
    modern = canonical()
    return {
        "log.jsonl": modern[RAW],
        "context.jsonl": modern[RAW],
        "memory_facts.jsonl": modern[L0],
        "meta.json": orjson.dumps({"version": 1, "processed_turn": ["t0", "t1", "t2"]}).decode(),
    }
