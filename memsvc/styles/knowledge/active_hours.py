"""Clock of active hours, which runs only while somebody works with a memory."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from memsvc.store.usage_clock import UsageClock

NO_TOKENS: Final = {
    "llm_input_tokens": 0,
    "llm_output_tokens": 0,
    "embedding_tokens": 0,
    "llm_calls": 0,
    "embedding_calls": 0,
}


def usage_at(was: UsageClock | None, now: datetime, idle: timedelta) -> UsageClock:
    """Return the use of a memory at `now`.

    The time since its last use counts as active if it is not longer than `idle`; otherwise a new
    session has begun, and the time between does not count.
    """
    if was is None:
        return UsageClock(0.0, now, 0.0)
    passed = now - was.seen_at
    if passed <= idle:
        return replace(
            was,
            active_h=was.active_h + max(0.0, passed / timedelta(hours=1)),
            seen_at=max(now, was.seen_at),
        )
    return replace(was, seen_at=now, session_from_h=was.active_h, session_tokens={})


def is_open(was: UsageClock | None, now: datetime, idle: timedelta) -> bool:
    """Return whether a session is open."""
    return was is not None and now - was.seen_at <= idle


def add_token_usage(was: UsageClock, token_usage: dict[str, int]) -> UsageClock:
    """Return the use with the token usage of models added."""
    if not any(token_usage.values()):
        return was
    return replace(
        was,
        session_tokens=_sum(was.session_tokens, token_usage),
        lifetime_tokens=_sum(was.lifetime_tokens, token_usage),
    )


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in NO_TOKENS}
