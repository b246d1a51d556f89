"""Clock of active hours, which runs only while somebody works with a memory."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from memsvc.store.activity import Activity

NO_TOKENS: Final = {
    "llm_input_tokens": 0,
    "llm_output_tokens": 0,
    "embedding_tokens": 0,
    "llm_calls": 0,
    "embedding_calls": 0,
}


def now_of(was: Activity | None, now: datetime, idle: timedelta) -> Activity:
    """Return the use of a memory at `now`.

    The time since its last use counts as active if it is not longer than `idle`; otherwise a new
    session has begun, and the time between does not count.
    """
    if was is None:
        return Activity(0.0, now, 0.0)
    passed = now - was.seen_at
    if passed <= idle:
        return replace(
            was, active_h=was.active_h + max(0.0, passed / timedelta(hours=1)), seen_at=max(now, was.seen_at)
        )
    return replace(was, seen_at=now, session_from_h=was.active_h, session_tokens={})


def is_open(was: Activity | None, now: datetime, idle: timedelta) -> bool:
    """Return whether a session is open."""
    return was is not None and now - was.seen_at <= idle


def spend(was: Activity, spent: dict[str, int]) -> Activity:
    """Return the use with the token usage of models added."""
    if not any(spent.values()):
        return was
    return replace(
        was, session_tokens=_sum(was.session_tokens, spent), lifetime_tokens=_sum(was.lifetime_tokens, spent)
    )


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in NO_TOKENS}
