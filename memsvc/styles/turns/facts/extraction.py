"""Finds facts in what a user says in a turn; recalled memory that came back in it is nobody's statement."""

from collections.abc import Mapping, Sequence

from memsvc.core.background import computed
from memsvc.core.facts import Claim
from memsvc.core.items import Item, role_of, text_parts
from memsvc.core.rules import extraction
from memsvc.core.rules.extraction import Found
from memsvc.styles.turns.block import is_data

Findings = Mapping[int, Found]
"""What the rules found in items, by `id` of each item in which they found anything."""


async def findings(items: Sequence[Item]) -> Findings:
    """Return what the rules find in the user messages among these items, the newest ones first as far as a turn is
    read. It depends on nothing but the items, so that no lock and no transaction need be held meanwhile."""
    chars = sum(len(text) for item in items if role_of(item) == "user" for text in text_parts(item))
    return await computed(chars, _found, items)


def claims_of(found: Findings, items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Claim]:
    """Return the claims in these items (pairs of event id and item), in the order in which they are made."""
    events = [(event, found.get(id(item), ())) for event, item in items]
    return extraction.claims_of(events, session=session, turn=turn, user=user)


def extract(items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Claim]:
    """Return the claims in the user messages of a turn, in the order in which they are made."""
    return claims_of(_found([item for _, item in items]), items, session=session, turn=turn, user=user)


def _found(items: Sequence[Item]) -> Findings:
    said = [item for item in items if not is_data(item)]
    found = zip(said, extraction.read(said), strict=True)
    return {id(item): findings for item, findings in found if findings}
