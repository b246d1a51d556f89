"""Items of a turn, each read once on its way from the caller to the events of the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.frozen import frozen
from memsvc.core.items import (
    Item,
    canonical,
    hash_of_content,
    message_at,
    role_of,
    speaker_of,
    text_of,
)
from memsvc.core.rules.changes import Change
from memsvc.core.rules.extraction import ItemMatches
from memsvc.core.secrets import without_secrets
from memsvc.store.index import NewEntry
from memsvc.store.style_files import LogPosition
from memsvc.styles.turns import file_layout

TOOL_TEXT_CHARS_MAX = 2000
_INDEXED_ROLES = frozenset({"user", "assistant", "tool"})


@dataclass(eq=False)
class TurnItem:
    """A normalised item, and what has been read of it so far.

    Where secrets are masked, `item` is without them and `sent` as the caller sent it. `tokens` are
    there once they were counted (`Costs.count`), `matches` and `changes` of a user message once its
    statements were read (`read_statements`), and whether it `asks_to_remember` something, a
    `secret_request` for a secret that becomes no fact."""

    item: Item
    tokens: int = 0
    matches: ItemMatches = ()
    changes: tuple[Change, ...] = ()
    sent: Item | None = None
    asks_to_remember: bool = False
    secret_request: bool = False

    @property
    def as_sent(self) -> Item:
        """Return the item as the caller sent it."""
        return self.sent or self.item

    def masked(self) -> "TurnItem":
        """Return the item without secrets, itself if it has none."""
        item = without_secrets(self.item)
        return self if item == self.item else TurnItem(item, sent=self.item)

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
        """Return the fingerprint of the content, as `hash_of_content`."""
        return hash_of_content(self.content)


@frozen
class Turn:
    """The new input of a turn, and its output."""

    session: str
    turn: str
    user: str
    inputs: Sequence[TurnItem]
    output_items: Sequence[TurnItem]

    def items(self) -> list[tuple[str, TurnItem]]:
        """Return each item with its event id, inputs first."""
        return [(event, item) for event, _, item in self._events()]

    def lines(self, now: datetime, result: Any) -> list[bytes]:
        """Return the event line of each item; the last one holds the `result` of the turn."""
        events = self._events()
        results = [None] * (len(events) - 1) + [result]
        return [
            file_layout.event_line(
                event, self.turn, self.user, direction, item.item, now, result=item_result
            )
            for (event, direction, item), item_result in zip(events, results, strict=True)
        ]

    def entries(
        self, lines: Sequence[bytes], span: LogPosition, text_chars_max: int, now: datetime
    ) -> list[NewEntry]:
        """Return the entry of each item; the lines follow each other from the start of the span."""
        entries = []
        start = span.start
        for (event, item), line in zip(self.items(), lines, strict=True):
            place = (span.stream, start, len(line))
            entries.append(entry_of(event, item, place, text_chars_max, now))
            start += len(line)
        return entries

    def _events(self) -> list[tuple[str, str, TurnItem]]:
        sources = (("in", self.inputs), ("out", self.output_items))
        return [
            (file_layout.event_id(self.turn, direction, number), direction, item)
            for direction, items in sources
            for number, item in enumerate(items)
        ]


def entry_of(
    event: str, item: TurnItem, place: tuple[int, int, int], text_chars_max: int, now: datetime
) -> NewEntry:
    """Return the entry of an item that was counted and whose changes were read.

    `place` is the stream, start and size of its line."""
    text = item.text if item.role in _INDEXED_ROLES else ""
    stream, start, size_bytes = place
    return NewEntry(
        ref=event,
        keywords=CHANGE_MARK if any(change.is_news for change in item.changes) else "",
        text=text[: TOOL_TEXT_CHARS_MAX if item.role == "tool" else text_chars_max],
        message_at=message_at(item.item) or now,
        role=item.role,
        speaker=speaker_of(item.item),
        digest=item.digest,
        tokens=item.tokens,
        stream=stream,
        start=start,
        size_bytes=size_bytes,
    )
