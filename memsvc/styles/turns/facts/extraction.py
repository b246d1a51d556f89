"""Fact extraction from a turn's user messages; echoed memory blocks are ignored."""

from collections.abc import Mapping, Sequence

from memsvc.core.background import computed
from memsvc.core.facts import Claim
from memsvc.core.items import Item, role_of, text_parts
from memsvc.core.rules import extraction
from memsvc.core.rules.extraction import Found
from memsvc.styles.turns.block import is_data

Findings = Mapping[int, Found]
"""Matches of the rules, by `id` of each item that has any."""


async def findings(items: Sequence[Item]) -> Findings:
    """Return the rules' matches in the user messages of these items.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""
    chars = sum(len(text) for item in items if role_of(item) == "user" for text in text_parts(item))
    return await computed(chars, _found, items)


def claims_of(found: Findings, items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Claim]:
    """Return the claims in these items (pairs of event id and item), in order."""
    events = [(event, found.get(id(item), ())) for event, item in items]
    return extraction.claims_of(events, session=session, turn=turn, user=user)


def extract(items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Claim]:
    """Return the claims in the user messages of a turn, in the order in which they are made."""
    return claims_of(_found([item for _, item in items]), items, session=session, turn=turn, user=user)


def _found(items: Sequence[Item]) -> Findings:
    said = [item for item in items if not is_data(item)]
    found = zip(said, extraction.read(said), strict=True)
    return {id(item): findings for item, findings in found if findings}
