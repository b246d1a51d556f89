"""A turn to be stored: its items as events, as lines of a file and as entries of the index."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.items import Item, item_hash, message_at, role_of, speaker_of, text_of
from memsvc.store.append_log import LogPosition
from memsvc.store.index import NewEntry
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.budget import Costs

TOOL_TEXT_CHARS_MAX = 2000
_INDEXED_ROLES = frozenset({"user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class Turn:
    """The new input of a turn, and its output."""

    session: str
    turn: str
    user: str
    inputs: Sequence[Item]
    output_items: Sequence[Item]

    def items(self) -> list[tuple[str, Item]]:
        """Return each item with its event id, inputs first."""
        return [(event, item) for event, _, item in self._events()]

    def lines(self, now: datetime, result: Any) -> list[bytes]:
        """Return the event line of each item; the last one holds the `result` of the turn."""
        events = self._events()
        results = [None] * (len(events) - 1) + [result]
        return [
            file_layout.event_line(event, self.turn, self.user, direction, item, now, result=one)
            for (event, direction, item), one in zip(events, results, strict=True)
        ]

    def entries(
        self,
        lines: Sequence[bytes],
        span: LogPosition,
        costs: Costs,
        now: datetime,
        changes: Container[int],
    ) -> list[NewEntry]:
        """Return the entry of each item; the lines follow each other from the start of the span.

        `changes` are the ids of the items that say a change."""
        entries = []
        start = span.start
        for (event, item), line in zip(self.items(), lines, strict=True):
            place = (span.stream, start, len(line))
            entries.append(entry_of(event, item, place, costs, now, changes))
            start += len(line)
        return entries

    def _events(self) -> list[tuple[str, str, Item]]:
        sources = (("in", self.inputs), ("out", self.output_items))
        return [
            (file_layout.event_id(self.turn, direction, number), direction, item)
            for direction, items in sources
            for number, item in enumerate(items)
        ]


def entry_of(
    event: str,
    item: Item,
    place: tuple[int, int, int],
    costs: Costs,
    now: datetime,
    changes: Container[int],
) -> NewEntry:
    """Return the entry of an item; `place` is the stream, start and size of its line.

    `changes` are the ids of the items that say a change."""
    role = role_of(item)
    text = text_of(item) if role in _INDEXED_ROLES else ""
    stream, start, size_bytes = place
    return NewEntry(
        ref=event,
        keywords=CHANGE_MARK if id(item) in changes else "",
        text=text[: TOOL_TEXT_CHARS_MAX if role == "tool" else costs.text_chars_max],
        message_at=message_at(item) or now,
        role=role,
        speaker=speaker_of(item),
        digest=item_hash(item),
        tokens=costs.item(item),
        stream=stream,
        start=start,
        size_bytes=size_bytes,
    )
