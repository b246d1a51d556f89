"""Reader of a session's event files, raw and archived, line by line in the order of writing."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from memsvc.core.items import Item
from memsvc.store import files, tree
from memsvc.store.database import Tx
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.maintenance.raw_archive import decompress

FILES_A_PAGE: Final = 1000
CONTENT_BYTES_MAX: Final = 1024 * 1024 * 1024

_SHARD = re.compile(r"/events/(raw|archive)/\d{4}/\d\d/\d\d/log-(\d{8})\.jsonl(\.zst)?\Z")
_DIRECTION_BY_TYPE = {"input_item": "in", "output_item": "out"}


@dataclass(frozen=True, slots=True, order=True)
class EventFile:
    """The events of a day; an archive holds earlier events than the raw file of the same day."""

    day: str
    raw: bool
    path: str

    @property
    def is_archive(self) -> bool:
        """Return whether it is an archive."""
        return not self.raw


@dataclass(frozen=True, slots=True)
class EventLine:
    """One item of a turn as it was written.

    `place` is stream, start and size of the line; `result` is the answer of the turn, on its last
    line."""

    event: str
    turn: str
    user: str
    direction: str
    item: Item
    message_at: datetime
    place: tuple[int, int, int]
    result: Any


async def event_files(tx: Tx, session: str, *, after: EventFile | None = None) -> list[EventFile]:
    """Return the event files of a session after this one, oldest first."""
    found = []
    for place in ("archive", "raw"):
        last = ""
        while page := await tree.files_at(
            tx, f"{session_root(session)}/events/{place}", after=last, limit=FILES_A_PAGE
        ):
            last = page[-1]
            for path in page:
                shard = _SHARD.search(path)
                if shard is not None:
                    found.append(EventFile(shard[2], shard[1] == "raw", path))
    return sorted(file for file in found if after is None or file > after)


async def lines_of(tx: Tx, file: EventFile) -> list[EventLine]:
    """Return the items in an event file."""
    stream, content = await _content(tx, file)
    found = []
    start = 0
    for text in content.splitlines(keepends=True):
        body = orjson.loads(text)
        if body.get("type") in _DIRECTION_BY_TYPE:
            found.append(_line(body, (stream, start, len(text))))
        start += len(text)
    return found


async def forgotten_turns(tx: Tx, event_file_list: list[EventFile]) -> set[str]:
    """Return the turns that these files mark as forgotten."""
    turns = set()
    for file in event_file_list:
        _, content = await _content(tx, file)
        for text in content.splitlines():
            if (
                b'"turn_forgotten"' in text
                and (body := orjson.loads(text)).get("type") == "turn_forgotten"
            ):
                turns.add(body["turn_id"])
    return turns


async def _content(tx: Tx, file: EventFile) -> tuple[int, bytes]:
    stored = await files.find(tx, file.path)
    if stored is None:
        return 0, b""
    content = await files.read(tx, stored, 0, stored.size_bytes)
    return stored.stream, decompress(
        content, bytes_max=CONTENT_BYTES_MAX
    ) if file.is_archive else content


def _line(body: dict[str, Any], place: tuple[int, int, int]) -> EventLine:
    return EventLine(
        event=body["id"],
        turn=body["turn_id"],
        user=body.get("user_id") or "",
        direction=_DIRECTION_BY_TYPE[body["type"]],
        item=body["item"],
        message_at=datetime.fromisoformat(body["ts"]).astimezone(UTC),
        place=place,
        result=body.get("result"),
    )
