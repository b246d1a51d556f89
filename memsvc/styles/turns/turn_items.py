"""Items of a turn, each read once on its way from the caller to the events of the store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Self

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.background import SLICE_CHARS, others_first, run_in_thread
from memsvc.core.errors import invalid, payload_too_large
from memsvc.core.facts import Claim, Doubt, Evidence, Statement
from memsvc.core.frozen import frozen
from memsvc.core.items import ReadItem, check_sendable, normalize_item, unread_fields
from memsvc.core.rules import extraction
from memsvc.core.rules.changes import (
    CHANGE_CHARS_MAX,
    EVENT_CHARS_MAX,
    Change,
    changes_in,
    is_about_others,
)
from memsvc.core.rules.extraction import NOTHING, TURN_CHARS_READ, Reading
from memsvc.core.rules.forget_requests import (
    asks_to_forget,
    mentions_forgetting,
    without_forgetting,
)
from memsvc.core.secrets import replace_secrets, without_secrets
from memsvc.core.vectors import MeantText
from memsvc.store import facts
from memsvc.store.index import NewEntry, meant_text
from memsvc.store.search import QueryEmbedding
from memsvc.store.style_files import LogPosition
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.options import TurnOptions

TOOL_TEXT_CHARS_MAX = 2000
NAMED_MAX = 5
"""Fields that a note names."""
MEANINGS_MAX = 8
"""Messages of a turn whose meaning is compared with earlier ones: each takes one search."""
_INDEXED_ROLES = frozenset({"user", "assistant", "tool"})


@frozen
class TurnItem(ReadItem):
    """An item with its tokens, and what a user's message says, once these were read.

    `sent` is the item as the caller sent it, where secrets were masked; `changing` the meaning of a
    message that says a change."""

    sent: "TurnItem | None" = None
    tokens: int = 0
    reading: Reading = NOTHING
    changes: Sequence[Change] = ()
    changing: QueryEmbedding | None = None
    forgets: bool = False

    @property
    def as_sent(self) -> "TurnItem":
        """Return the item as the caller sent it."""
        return self.sent or self

    @property
    def asks_to_forget(self) -> bool:
        """Return whether a user asks to forget something."""
        return self.forgets and self.role == "user" and asks_to_forget(self.text)

    def masked(self) -> "TurnItem":
        """Return the item without secrets, itself if it has none."""
        item = without_secrets(self.item)
        return self if item == self.item else TurnItem.of(item, sent=self, tokens=self.tokens)


async def items_of(
    values: Sequence[Any], name: str, options: TurnOptions, now: datetime
) -> list[TurnItem]:
    """Return the items of the argument `name`, a few at a time, so that others have the loop.

    INVALID_ARGUMENT names the first item that is invalid or that no model's API takes,
    PAYLOAD_TOO_LARGE the first that no file could hold."""
    if len(values) > options.items_max:
        raise invalid(f"{name} is limited to {options.items_max} items, not {len(values)}")
    items = []
    size_bytes = 0
    role = "assistant" if name == "output_items" else "user"
    for index, value in enumerate(values):
        where = f"{name}[{index}]"
        item = TurnItem.of(normalize_item(value, where, now, role=role))
        check_sendable(item, where)
        if (item_bytes := len(item.content)) > options.item_bytes_max:
            raise payload_too_large(
                f"{where} has {item_bytes} bytes; the limit is {options.item_bytes_max}",
            )
        items.append(item)
        size_bytes += item_bytes
        if size_bytes > SLICE_CHARS:
            await others_first(size_bytes)
            size_bytes = 0
    return items


def unread_note(**items_by_name: Sequence[TurnItem]) -> list[str]:
    """Return a note that names items with text in a place that memory does not read, if any."""
    unread = [
        f"{name}[{index}].{field}"
        for name, items in items_by_name.items()
        for index, item in enumerate(items)
        for field in unread_fields(item)
    ]
    if not unread:
        return []
    named = ", ".join(unread[:NAMED_MAX])
    more = f" and {len(unread) - NAMED_MAX} more" if len(unread) > NAMED_MAX else ""
    advice = "send text as content, with the role user or assistant"
    return [f"memory cannot read {named}{more}: {advice}"]


async def read_statements(items: Sequence[TurnItem]) -> list[TurnItem]:
    """Return the items with what the rules find in the user's messages, and the changes they say.

    The newest ones are read first, up to the limit of a turn. It depends on the items alone, so
    that no lock and no transaction is needed meanwhile."""

    def read() -> list[TurnItem]:
        readings = extraction.read([_own_text(item) for item in items])
        return [
            replace(item, reading=reading)
            for item, reading in zip(_with_changes(items), readings, strict=True)
        ]

    return await run_in_thread(_chars(items), read)


async def read_changes(items: Sequence[TurnItem]) -> list[TurnItem]:
    """Return the items with the changes that the user's messages say, weak ones too."""
    return await run_in_thread(_chars(items), lambda: _with_changes(items))


def _with_changes(items: Sequence[TurnItem]) -> list[TurnItem]:
    return [replace(item, changes=_changes(item), forgets=_forgets(item)) for item in items]


FORGETTING_CHARS_MAX: Final = 2_000
"""Maximum length of a message that is searched for requests to forget something."""


def _chars(items: Sequence[TurnItem]) -> int:
    return sum(len(item.text) for item in items)


def _forgets(item: TurnItem) -> bool:
    is_short = len(item.text) <= FORGETTING_CHARS_MAX
    return is_short and item.role in ("user", "assistant") and mentions_forgetting(item.text)


def _changes(item: TurnItem) -> Sequence[Change]:
    text = _own_text(item)
    return changes_in(text) if text else ()


async def read_meaning(
    items: Sequence[TurnItem], embedding: Embedding, chars_max: int
) -> list[TurnItem]:
    """Return the items; the user's latest messages that say a change have their meaning.

    Messages of up to `chars_max` characters are indexed whole: the vectors made here are stored
    with them."""
    result = list(items)
    short_max = min(EVENT_CHARS_MAX, chars_max)
    own = [
        at
        for at, item in enumerate(result)
        if _own_text(item).strip() and len(item.text) <= short_max
    ]
    for at in own[-MEANINGS_MAX:]:
        result[at] = replace(result[at], changing=await _changing(result[at], embedding))
    return result


async def _changing(item: TurnItem, embedding: Embedding) -> QueryEmbedding | None:
    """Return the meaning of a message by which the user says that something of theirs changed.

    What somebody or something else is said to do is left to the words of the change."""
    sure = [change for change in item.changes if not change.weak]
    if (sure and all(change.subject for change in sure)) or is_about_others(item.text):
        return None
    return await embedding.of_change(item.text, is_said=bool(sure))


def _own_text(item: TurnItem) -> str:
    """Return what the user says in an item: "" for other roles and for memory that comes back."""
    return item.text if item.role == "user" and not item.is_memory else ""


def may_change_facts(items: Sequence[TurnItem]) -> bool:
    """Return whether facts are to be read for what these items say, under their locks."""
    return any(item.reading.matches or item.changing for item in items) or any(
        _certain_changes(items)
    )


def _certain_changes(items: Sequence[TurnItem]) -> Iterator[tuple[int, Change]]:
    """Yield the changes that may end facts, the last first, up to the limit of a turn.

    Each comes with the place of its item."""
    chars = TURN_CHARS_READ
    for place in range(len(items) - 1, -1, -1):
        chars -= len(_own_text(items[place]))
        if chars <= -TURN_CHARS_READ:
            return
        for change in reversed(items[place].changes):
            if change.may_end_facts:
                yield place, change


@frozen
class Turn:
    """The new input of a turn and its output: event ids, directions and items, inputs first."""

    session: str
    turn: str
    user: str
    events: Sequence[tuple[str, str, TurnItem]]

    @classmethod
    def of(
        cls,
        session: str,
        turn: str,
        user: str,
        inputs: Sequence[TurnItem],
        output_items: Sequence[TurnItem],
    ) -> Self:
        """Return the turn of these items."""
        events = [
            (file_layout.event_id(turn, direction, number), direction, item)
            for direction, items in (("in", inputs), ("out", output_items))
            for number, item in enumerate(items)
        ]
        return cls(session, turn, user, events)

    def claims(self, now: datetime) -> list[Claim]:
        """Return the claims of the turn in order of their times.

        A claim has the client's time of its item, where that is before `now`."""
        readings = [(event, item.reading) for event, _, item in self.events]
        claims = extraction.claims_of(
            readings, session=self.session, turn=self.turn, user=self.user
        )
        times = {
            event: item.message_at
            for event, _, item in self.events
            if item.message_at is not None and item.message_at < now
        }
        dated = [replace(claim, message_at=times.get(claim.evidence.item)) for claim in claims]
        return sorted(dated, key=lambda claim: claim.message_at or now)

    def meant_texts(self, text_chars_max: int, now: datetime) -> list[MeantText]:
        """Return the texts whose vectors are stored with the turn, if no fact is known already."""
        items = [
            MeantText(_indexed_part(item, text_chars_max), item.role) for *_, item in self.events
        ]
        statements = [
            facts.StatementWithExpiry(claim, None)
            for claim in self.claims(now)
            if isinstance(claim, Statement)
        ]
        return items + [meant_text(entry) for entry in facts.entries(statements, now)]

    def doubts(self, now: datetime) -> list[tuple[Change, Doubt, Evidence]]:
        """Return the changes of the turn, each with the doubt that it casts and its source."""
        found = []
        for place, change in _certain_changes([item for *_, item in self.events]):
            event, _, item = self.events[place]
            doubt = self._doubt(change.text, item, now)
            found.append((change, doubt, Evidence(self.session, self.turn, event, self.user)))
        return found[::-1]

    def meant(self, now: datetime) -> list[tuple[QueryEmbedding, Doubt]]:
        """Return the meaning of the messages that say a change, each with the doubt it casts."""
        return [
            (item.changing, self._doubt(item.text.strip()[:CHANGE_CHARS_MAX], item, now))
            for *_, item in self.events
            if item.changing is not None
        ]

    def _doubt(self, text: str, item: TurnItem, now: datetime) -> Doubt:
        said_at = min(item.message_at or now, now)
        return Doubt(replace_secrets(text), said_at, self.session, self.turn)

    def lines(self, now: datetime, result: Any) -> list[bytes]:
        """Return the event line of each item; the last one holds the `result` of the turn."""
        results = [None] * (len(self.events) - 1) + [result]
        return [
            file_layout.event_line(
                event, self.turn, self.user, direction, item.item, now, result=item_result
            )
            for (event, direction, item), item_result in zip(self.events, results, strict=True)
        ]

    def entries(
        self, lines: Sequence[bytes], span: LogPosition, text_chars_max: int, now: datetime
    ) -> list[NewEntry]:
        """Return the entry of each item; the lines follow each other from the start of the span."""
        entries = []
        start = span.start
        for (event, _, item), line in zip(self.events, lines, strict=True):
            place = (span.stream, start, len(line))
            entries.append(entry_of(event, item, place, text_chars_max, now))
            start += len(line)
        return entries


def entry_of(
    event: str, item: TurnItem, place: tuple[int, int, int], text_chars_max: int, now: datetime
) -> NewEntry:
    """Return the entry of an item that was counted and whose changes were read.

    `place` is the stream, start and size of its line."""
    stream, start, size_bytes = place
    return NewEntry(
        ref=event,
        keywords=CHANGE_MARK if any(change.is_news for change in item.changes) else "",
        text=_indexed_part(item, text_chars_max),
        message_at=item.message_at or now,
        role=item.role,
        speaker=item.speaker,
        digest=item.digest,
        tokens=item.tokens,
        stream=stream,
        start=start,
        size_bytes=size_bytes,
    )


def _indexed_part(item: TurnItem, text_chars_max: int) -> str:
    """Return what an item is found by: the first part of its text.

    A request to forget something, which names what is to be forgotten, is no part of it."""
    if item.role not in _INDEXED_ROLES:
        return ""
    if item.role == "tool":
        return item.text[:TOOL_TEXT_CHARS_MAX]
    part = item.text[:text_chars_max]
    return without_forgetting(part, is_users=item.role == "user") if item.forgets else part
