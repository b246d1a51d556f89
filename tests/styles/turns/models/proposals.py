"""What a scripted model answers, and what became of it."""

from typing import Any

import asyncpg

from memsvc.core.scope import Scope
from memsvc.styles.turns.models.model_extraction import EXTRACT_JOB
from tests.door import Door


def adds(key: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "change": "add",
        "key": key,
        "value": value,
        "tier": "L0",
        "confidence": 0.9,
        "evidence": ["m1"],
    } | more


def updates(fact: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "change": "update",
        "fact": fact,
        "value": value,
        "tier": "L0",
        "evidence": ["m1"],
    } | more


def deletes(fact: str, **more: Any) -> dict[str, Any]:
    return {"change": "delete", "fact": fact, "evidence": ["m1"]} | more


async def extract(door: Door, session: str = "s1") -> None:
    """Run the job of a session once, whatever waits."""
    await door.jobs[EXTRACT_JOB].run(Scope(door.caller.tenant, "default"), session)


async def believed(admin: asyncpg.Connection) -> dict[str, str]:
    """The values of the facts that hold, by key."""
    rows = await admin.fetch("SELECT key, value FROM facts WHERE state = 'active' ORDER BY entry")
    return {row["key"]: row["value"] for row in rows}


async def waiting(admin: asyncpg.Connection) -> list[str]:
    return [
        row["subject"]
        for row in await admin.fetch("SELECT subject FROM job_refs WHERE name = $1", EXTRACT_JOB)
    ]
