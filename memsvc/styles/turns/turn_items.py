"""Items of a turn, each read once on its way from the caller to the store."""

from dataclasses import dataclass
from functools import cached_property

from memsvc.core.items import Item, canonical, hash_of_content, role_of, text_of
from memsvc.core.rules.changes import Change
from memsvc.core.rules.extraction import ItemMatches


@dataclass(eq=False)
class TurnItem:
    """A normalised item, and what has been read of it so far.

    `tokens` are there once they were counted (`Costs.count`), `matches` and `changes` of a user
    message once its statements were read (`read_statements`)."""

    item: Item
    tokens: int = 0
    matches: ItemMatches = ()
    changes: tuple[Change, ...] = ()

    @cached_property
    def role(self) -> str:
        """Return the role, as `role_of`."""
        return role_of(self.item)

    @cached_property
    def text(self) -> str:
        """Return the readable text, as `text_of`."""
        return text_of(self.item)

    @cached_property
    def content(self) -> bytes:
        """Return the same bytes for the same item, as `canonical`."""
        return canonical(self.item)

    @cached_property
    def digest(self) -> int:
        """Return the fingerprint of the content, as `item_hash`."""
        return hash_of_content(self.content)
