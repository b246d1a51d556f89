"""Fact extraction from a turn's user messages; echoed memory blocks are ignored."""

from collections.abc import Mapping, Sequence

from memsvc.core.background import run_in_thread
from memsvc.core.facts import Claim
from memsvc.core.items import Item, role_of, text_parts
from memsvc.core.rules import extraction
from memsvc.core.rules.extraction import ItemMatches
from memsvc.styles.turns.block import is_data

MatchesByItem = Mapping[int, ItemMatches]
"""Matches of the rules, by `id` of each item that has any."""


async def find_matches(items: Sequence[Item]) -> MatchesByItem:
    """Return the rules' matches in the user messages of these items.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""
    chars = sum(len(text) for item in items if role_of(item) == "user" for text in text_parts(item))
    return await run_in_thread(chars, _read_matches, items)


def claims_of(
    found: MatchesByItem, items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str
) -> list[Claim]:
    """Return the claims in these items (pairs of event id and item), in order."""
    events = [(event, found.get(id(item), ())) for event, item in items]
    return extraction.claims_of(events, session=session, turn=turn, user=user)


def extract(
    items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str
) -> list[Claim]:
    """Return the claims in the user messages of a turn, in the order in which they are made."""
    return claims_of(
        _read_matches([item for _, item in items]), items, session=session, turn=turn, user=user
    )


def _read_matches(items: Sequence[Item]) -> MatchesByItem:
    messages = [item for item in items if not is_data(item)]
    found = zip(messages, extraction.read(messages), strict=True)
    return {id(item): matches for item, matches in found if matches}
