"""Fact extraction from a turn's user messages; echoed memory blocks are ignored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.core.background import run_in_thread
from memsvc.core.facts import Claim, Doubt
from memsvc.core.items import Item, message_at, role_of, text_of, text_parts
from memsvc.core.rules import extraction
from memsvc.core.rules.changes import Change, changes_in
from memsvc.core.rules.extraction import TURN_CHARS_READ, ItemMatches
from memsvc.styles.turns.block import is_data


@dataclass(frozen=True, slots=True)
class Findings:
    """What the rules find in messages: matches and changes, by `id` of each item with any.

    `certain_changes` are those that put facts in doubt, of the newest items."""

    matches: Mapping[int, ItemMatches]
    changes: Mapping[int, tuple[Change, ...]]
    certain_changes: Mapping[int, tuple[Change, ...]]

    @property
    def needs_facts(self) -> bool:
        """Return whether facts are to be read for them, under their locks."""
        return bool(self.matches or self.certain_changes)


async def find_matches(items: Sequence[Item]) -> Findings:
    """Return what the rules find in the user messages of these items.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""
    return await run_in_thread(_user_chars(items), _read_matches, items)


async def find_changes(items: Sequence[Item]) -> Mapping[int, tuple[Change, ...]]:
    """Return the changes that user messages say, also weak ones, by `id` of each item with any."""
    return await run_in_thread(_user_chars(items), _changes, items)


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
        for change in found.certain_changes.get(id(item), ())
    ]


def _user_chars(items: Sequence[Item]) -> int:
    return sum(len(text) for item in items if role_of(item) == "user" for text in text_parts(item))


def _read_matches(items: Sequence[Item]) -> Findings:
    messages = [item for item in items if not is_data(item)]
    found = zip(messages, extraction.read(messages), strict=True)
    matches = {id(item): matches for item, matches in found if matches}
    changes = _changes(items)
    return Findings(matches, changes, _certain(messages, changes))


def _changes(items: Sequence[Item]) -> dict[int, tuple[Change, ...]]:
    texts = [(id(item), text_of(item)) for item in items if role_of(item) == "user"]
    return {number: found for number, text in texts if (found := changes_in(text))}


def _certain(
    messages: Sequence[Item], changes: Mapping[int, tuple[Change, ...]]
) -> dict[int, tuple[Change, ...]]:
    """Return the changes that are not weak, of the newest messages up to the limit of a turn."""
    found: dict[int, tuple[Change, ...]] = {}
    chars = TURN_CHARS_READ
    for item in reversed(messages):
        if role_of(item) == "user" and (chars := chars - len(text_of(item))) > -TURN_CHARS_READ:
            certain = tuple(change for change in changes.get(id(item), ()) if not change.weak)
            found |= {id(item): certain} if certain else {}
    return found
