"""Turns known only by id, stored elsewhere: a retry of one succeeds and stores nothing."""

from collections.abc import Iterable
from datetime import datetime

import orjson

from memsvc.store import guard
from memsvc.store.derived import Done
from memsvc.styles.turns.layout import exact, session_root


def noted_file(session: str) -> str:
    """Return the file that lists such turns of a session."""
    return f"{session_root(session)}/meta/imported_turns.jsonl"


def noted_line(turn: str, now: datetime) -> bytes:
    """Return the record of one such turn."""
    return orjson.dumps({"ts": exact(now), "type": "turn_noted", "turn_id": turn}) + b"\n"


def noted(turn: str, now: datetime) -> Done:
    """Return the guard of one such turn."""
    return Done(turn, guard.ANY_CONTENT, 0, {"turn_id": turn, "stored_items": 0, "fact_ids": []}, now)


def read_noted(lines: Iterable[bytes]) -> list[Done]:
    """Return the guards of such turns, from their records."""
    records = map(orjson.loads, lines)
    return [noted(record["turn_id"], datetime.fromisoformat(record["ts"])) for record in records]
