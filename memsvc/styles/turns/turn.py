"""A turn to be stored: its items as events, as lines of a file and as entries of the index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.items import message_at, speaker_of
from memsvc.store.append_log import LogPosition
from memsvc.store.index import NewEntry
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.turn_items import TurnItem

TOOL_TEXT_CHARS_MAX = 2000
_INDEXED_ROLES = frozenset({"user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
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
        self, lines: Sequence[bytes], span: LogPosition, costs: Costs, now: datetime
    ) -> list[NewEntry]:
        """Return the entry of each item; the lines follow each other from the start of the span."""
        entries = []
        start = span.start
        for (event, item), line in zip(self.items(), lines, strict=True):
            place = (span.stream, start, len(line))
            entries.append(entry_of(event, item, place, costs, now))
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
    event: str, item: TurnItem, place: tuple[int, int, int], costs: Costs, now: datetime
) -> NewEntry:
    """Return the entry of an item that was counted and whose changes were read.

    `place` is the stream, start and size of its line."""
    text = item.text if item.role in _INDEXED_ROLES else ""
    stream, start, size_bytes = place
    return NewEntry(
        ref=event,
        keywords=CHANGE_MARK if item.changes else "",
        text=text[: TOOL_TEXT_CHARS_MAX if item.role == "tool" else costs.text_chars_max],
        message_at=message_at(item.item) or now,
        role=item.role,
        speaker=speaker_of(item.item),
        digest=item.digest,
        tokens=item.tokens,
        stream=stream,
        start=start,
        size_bytes=size_bytes,
    )
