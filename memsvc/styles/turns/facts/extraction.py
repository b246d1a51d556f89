"""Fact extraction from a turn's user messages; echoed memory blocks are ignored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memsvc.core.background import run_in_thread
from memsvc.core.facts import Claim, Doubt
from memsvc.core.items import Item, message_at, role_of, text_parts
from memsvc.core.rules import extraction
from memsvc.core.rules.changes import Change, changes_in
from memsvc.core.rules.extraction import TURN_CHARS_READ, ItemMatches
from memsvc.styles.turns.block import is_data


@dataclass(frozen=True, slots=True)
class Findings:
    """What the rules find in messages: matches and changes, by `id` of each item with any."""

    matches: Mapping[int, ItemMatches]
    changes: Mapping[int, tuple[Change, ...]] = field(default_factory=dict)

    @property
    def needs_facts(self) -> bool:
        """Return whether facts are to be read for them, under their locks."""
        return bool(self.matches or self.changes)


async def find_matches(items: Sequence[Item]) -> Findings:
    """Return what the rules find in the user messages of these items.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""
    chars = sum(len(text) for item in items if role_of(item) == "user" for text in text_parts(item))
    return await run_in_thread(chars, _read_matches, items)


def claims_of(
    found: Findings,
    items: Sequence[tuple[str, Item]],
    *,
    session: str,
    turn: str,
    user: str,
    now: datetime | None = None,
) -> list[Claim]:
    """Return the claims in these items (pairs of event id and item), in order of their times.

    A claim has the client's time of its item, where that is before `now`."""
    events = [(event, found.matches.get(id(item), ())) for event, item in items]
    claims = extraction.claims_of(events, session=session, turn=turn, user=user)
    if now is None:
        return claims
    times = {event: time for event, item in items if (time := message_at(item)) and time < now}
    with_time: list[Claim] = [
        replace(claim, message_at=times.get(claim.evidence.item)) for claim in claims
    ]
    return sorted(with_time, key=lambda claim: claim.message_at or now)


def extract(
    items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str
) -> list[Claim]:
    """Return the claims in the user messages of a turn, in the order in which they are made."""
    return claims_of(
        _read_matches([item for _, item in items]), items, session=session, turn=turn, user=user
    )


def doubts_of(
    found: Findings,
    items: Sequence[tuple[str, Item]],
    *,
    session: str,
    turn: str,
    now: datetime,
) -> list[tuple[Change, Doubt]]:
    """Return the changes in these items, each with the doubt that it casts on facts."""
    return [
        (change, Doubt(change.text, min(message_at(item) or now, now), session, turn))
        for _, item in items
        for change in found.changes.get(id(item), ())
    ]


def _read_matches(items: Sequence[Item]) -> Findings:
    messages = [item for item in items if not is_data(item)]
    found = zip(messages, extraction.read(messages), strict=True)
    return Findings({id(item): matches for item, matches in found if matches}, _changes(messages))


def _changes(messages: Sequence[Item]) -> dict[int, tuple[Change, ...]]:
    """Return the certain changes in user messages, the newest read first, up to the limit."""
    found: dict[int, tuple[Change, ...]] = {}
    chars = TURN_CHARS_READ
    for item in reversed(messages):
        text = "\n".join(text_parts(item)) if role_of(item) == "user" else ""
        if text and (chars := chars - len(text)) > -TURN_CHARS_READ:
            changes = tuple(change for change in changes_in(text) if not change.weak)
            found |= {id(item): changes} if changes else {}
    return found
