"""Finds facts in what a user says in a turn; recalled memory that came back in it is nobody's statement."""

from collections.abc import Sequence

from memsvc.core.facts import Claim
from memsvc.core.items import Item
from memsvc.core.rules import extraction
from memsvc.styles.turns.block import is_data


def extract(items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Claim]:
    """The claims in the user messages of a turn, in the order in which they are made (pairs of event id and item)."""
    said = [(event, item) for event, item in items if not is_data(item)]
    return extraction.extract(said, session=session, turn=turn, user=user)


def states_anything(items: Sequence[Item]) -> bool:
    """Whether the user says anything in these items that a rule reads."""
    return extraction.states_anything([item for item in items if not is_data(item)])
