"""Turns known only by id, stored elsewhere: a retry of one succeeds and stores nothing."""

from collections.abc import Iterable
from datetime import datetime

import orjson

from memsvc.store import guard
from memsvc.store.derived import DoneTurn
from memsvc.styles.turns.file_layout import exact_timestamp, session_root


def placeholder_file(session: str) -> str:
    """Return the file that lists such turns of a session."""
    return f"{session_root(session)}/meta/imported_turns.jsonl"


def placeholder_line(turn: str, now: datetime) -> bytes:
    """Return the record of one such turn."""
    return orjson.dumps({"ts": exact_timestamp(now), "type": "turn_noted", "turn_id": turn}) + b"\n"


def placeholder_guard(turn: str, now: datetime) -> DoneTurn:
    """Return the guard of one such turn."""
    return DoneTurn(
        turn, guard.ANY_CONTENT, 0, {"turn_id": turn, "stored_items": 0, "fact_ids": []}, now
    )


def read_placeholder_lines(lines: Iterable[bytes]) -> list[DoneTurn]:
    """Return the guards of such turns, from their records."""
    records = map(orjson.loads, lines)
    return [
        placeholder_guard(record["turn_id"], datetime.fromisoformat(record["ts"]))
        for record in records
    ]
