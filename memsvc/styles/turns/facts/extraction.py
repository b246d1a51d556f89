"""Fact extraction from a turn's user messages; echoed memory blocks are ignored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.core.background import run_in_thread
from memsvc.core.facts import Claim, Doubt, Evidence
from memsvc.core.items import Item, message_at
from memsvc.core.rules import extraction
from memsvc.core.rules.changes import Change, changes_in
from memsvc.core.rules.extraction import TEXT_CHARS_READ, TURN_CHARS_READ
from memsvc.core.rules.memory_requests import memory_requests
from memsvc.core.rules.statements import remembered
from memsvc.core.secrets import replace_secrets
from memsvc.styles.turns.block import is_data
from memsvc.styles.turns.turn_items import TurnItem


async def read_statements(items: Sequence[TurnItem]) -> None:
    """Read the matches of the rules in these items' user messages, and their changes.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""
    await run_in_thread(_user_chars(items), _read_statements, items)


async def read_changes(items: Sequence[TurnItem]) -> None:
    """Read the changes that these items' user messages say, weak ones too."""
    await run_in_thread(_user_chars(items), _read_changes, items)


def may_change_facts(items: Sequence[TurnItem]) -> bool:
    """Return whether facts are to be read for what these items say, under their locks."""
    return any(item.matches for item in items) or any(True for _ in _certain_changes(items))


def claims_of(
    items: Sequence[tuple[str, TurnItem]],
    *,
    session: str,
    turn: str,
    user: str,
    now: datetime | None = None,
) -> list[Claim]:
    """Return the claims in these items (pairs of event id and item), in order of their times.

    A claim has the client's time of its item, where that is before `now`."""
    events = [(event, item.matches) for event, item in items]
    claims = extraction.claims_of(events, session=session, turn=turn, user=user)
    if now is None:
        return claims
    times = {event: time for event, item in items if (time := message_at(item.item)) and time < now}
    with_time: list[Claim] = [
        replace(claim, message_at=times.get(claim.evidence.item)) for claim in claims
    ]
    return sorted(with_time, key=lambda claim: claim.message_at or now)


def extract(
    items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str
) -> list[Claim]:
    """Return the claims in the user messages of a turn, in the order in which they are made."""
    read = [(event, TurnItem(item)) for event, item in items]
    _read_matches([item for _, item in read])
    return claims_of(read, session=session, turn=turn, user=user)


def doubts_of(
    items: Sequence[tuple[str, TurnItem]], *, session: str, turn: str, user: str, now: datetime
) -> list[tuple[Change, Doubt, Evidence]]:
    """Return the changes in these items, with the doubt that each casts on facts and its source."""
    events = {id(item): event for event, item in items}
    found = [
        (
            change,
            Doubt(
                replace_secrets(change.text), min(message_at(item.item) or now, now), session, turn
            ),
            Evidence(session, turn, events[id(item)], user),
        )
        for item, change in _certain_changes([item for _, item in items])
    ]
    return found[::-1]


def _user_chars(items: Sequence[TurnItem]) -> int:
    return sum(len(item.text) for item in items if item.role == "user")


def _read_matches(items: Sequence[TurnItem]) -> None:
    messages = [item for item in items if not is_data(item.item)]
    texts = [item.text if item.role == "user" else "" for item in messages]
    for item, matches in zip(messages, extraction.read(texts), strict=True):
        item.matches = matches


def _read_statements(items: Sequence[TurnItem]) -> None:
    _read_matches(items)
    _read_changes(items)
    for item in items:
        if item.role == "user" and not is_data(item.item):
            text, requests = memory_requests(item.text[:TEXT_CHARS_READ])
            spans = [span for request in requests for span in request.contents]
            item.asks_to_remember = bool(spans)
            item.secret_request = any(remembered(text, *span) is None for span in spans)


def _read_changes(items: Sequence[TurnItem]) -> None:
    for item in items:
        item.changes = changes_in(item.text) if item.role == "user" else ()


def _certain_changes(items: Sequence[TurnItem]) -> Iterator[tuple[TurnItem, Change]]:
    """Yield the changes that may end facts, the last first, up to the limit of a turn."""
    chars = TURN_CHARS_READ
    for item in reversed(items):
        if item.role != "user" or is_data(item.item):
            continue
        chars -= len(item.text)
        if chars <= -TURN_CHARS_READ:
            return
        for change in reversed(item.changes):
            if change.may_end_facts:
                yield item, change
