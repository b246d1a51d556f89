"""What people, models and tools say in tests, and what tests look up of what became of it."""

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from gzip import decompress
from importlib.resources import files
from typing import Any

import asyncpg
import orjson
import tiktoken

from memsvc.adapters import tokens
from memsvc.core.items import Item
from memsvc.core.ranking import Candidate, Kind
from memsvc.styles.turns import block
from memsvc.styles.turns.turn_items import TurnItem
from migrations.schema import metadata
from tests.door import Door

_RANKS = decompress(files("memsvc.adapters").joinpath(tokens.ENCODING_FILE).read_bytes()).split()
ENCODING = tiktoken.Encoding(
    "o200k_base",
    pat_str=tokens.PATTERN,
    mergeable_ranks=dict(zip(map(b64decode, _RANKS[::2]), map(int, _RANKS[1::2]), strict=True)),
    special_tokens=tokens.SPECIAL_TOKENS,
)
_LEAD_IN = re.compile(r"^(?:my name is|i'm allergic to|i'm|[\w ]+:) ", re.IGNORECASE)
APART = frozenset({"calls", "alembic_version", "server_secrets"})
ROLES = ("user", "assistant", "tool", "system", "developer")
AT = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
OPEN, CLOSE = "<memory_reference>\n", "\n</memory_reference>"


def user(text: str, **fields: Any) -> Item:
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
        **fields,
    }


def assistant(text: str, **fields: Any) -> Item:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
        **fields,
    }


def developer(text: str) -> Item:
    return {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": text}],
    }


async def say(
    door: Door, turn: str, *said: str, answer: str = "", session: str = "s1", **more: Any
) -> dict[str, Any]:
    """Store a turn of user messages with the assistant's answer to them."""
    outputs = [assistant(answer)] if answer else []
    items = [user(text) for text in said]
    return await door(
        "memory_after_turn",
        session_id=session,
        turn_id=turn,
        input_items=items,
        output_items=outputs,
        **more,
    )


async def ask(door: Door, question: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    """What is prepared for a question."""
    return await door("memory_before_turn", session_id=session, current_input=question, **more)


def texts(items: list[Item]) -> list[str]:
    """The text of each message."""
    return [part["text"] for item in items for part in item.get("content") or [] if "text" in part]


def memory(prepared: dict[str, Any]) -> dict[str, Any]:
    """What the memory block of a prepared input holds, its turns item by item with session, turn,
    time, role and speaker, its facts with since when; empty lists for facts, insights and turns
    where there are none."""
    nothing: dict[str, Any] = {"facts": [], "insights": [], "turns": []}
    items = prepared["input_items"]
    if items[0]["role"] != "developer" or texts(items[:1]) != [block.POLICY]:
        return nothing
    [text] = texts(items[1:2])
    assert text.startswith(OPEN)
    assert text.endswith(CLOSE)
    body: dict[str, Any] = orjson.loads(text.removeprefix(OPEN).removesuffix(CLOSE))
    dated = {name: [*_dated(body[name])] for name in ("profile", "facts") if name in body}
    return nothing | body | dated | {"turns": [*_said(body.get("turns", []))]}


def _dated(facts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The facts with the day that is said where it changes."""
    since = ""
    for fact in facts:
        since = fact.get("since", since)
        yield fact | {"since": since}


def _said(conversations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    speakers: dict[str, str] = {}
    for conversation in conversations:
        time = conversation["time"]
        speakers |= conversation.get("speakers", {})
        for turn, said in conversation["said"].items():
            time = _at(said, time)
            at = {"session": conversation["session"], "turn": turn}
            for item in said.get("items") or [*_by_role(said)]:
                time = _at(item, time)
                role = item.get("role") or next(role for role in item if role in ROLES)
                named = {"speaker": speakers[role]} if speakers.get(role) else {}
                text = {"role": role, "text": item.get("text", item.get(role))}
                yield at | named | item | text | {"time": time}


def _by_role(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The items of a turn that is told by its roles."""
    told = {role: said[role] for role in said if role in ROLES}
    more = {name: said[name] for name in said if name not in ROLES}
    for role, texts_of in (told or {"": [""]}).items():
        for text in texts_of if isinstance(texts_of, list) else [texts_of]:
            yield more | ({role: text} if role else {})


def _at(said: dict[str, Any], before: str) -> str:
    """The time of a turn or item, of which only what changes is said."""
    time: str = said.get("time", before)
    return time if len(time) > 5 else before[:11] + time + before[16:]


def values(prepared: dict[str, Any]) -> list[str]:
    """The values of the facts that are recalled, of those in the profile without what leads in."""
    body = memory(prepared)
    of_profile = [
        _LEAD_IN.sub("", fact["statement"]).rstrip(".")
        for fact in body.get("profile", ())
        if fact["id"] in prepared["recall_fact_ids"]
    ]
    return of_profile + [fact.get("value") or fact["statement"] for fact in body["facts"]]


def profile(prepared: dict[str, Any]) -> list[tuple[str, str]]:
    """The class and the statement of each fact in the profile."""
    told = memory(prepared).get("profile", ())
    return [(fact["class"], fact["statement"]) for fact in told]


async def recalled_facts(
    door: Door, prepared: dict[str, Any], session: str = "s1", **more: Any
) -> list[tuple[str, str]]:
    """The recalled facts as pairs of fact id and value, found by their record ids."""
    listed = await door("memory_list_facts", session_id=session, state="all", limit=500, **more)
    by_record = {fact["record_id"]: (fact["fact_id"], fact["value"]) for fact in listed["facts"]}
    return [by_record[record] for record in prepared["recall_fact_ids"]]


def recalled(kind: Kind, **fields: Any) -> Candidate:
    """A recalled fact, insight, passage or item as the memory block gets it."""
    said = {name: fields.pop(name) for name in ("session", "role", "speaker") if name in fields}
    time, turn, entry = fields.pop("time", AT), fields.pop("turn", "t"), fields.pop("entry", 1)
    return Candidate(
        entry,
        {},
        0,
        **({"session": "s", "role": "user"} | said),
        message_at=time,
        ref=f"{turn}-in-0",
        index_id=1,
        score=1.0,
        kind=kind,
        id="r",
        fields=fields,
        tokens=10,
    )


def turn_items(items: Sequence[Item]) -> list[TurnItem]:
    """Return items as they come from the door."""
    return [TurnItem.of(item) for item in items]


def stripped(items: Sequence[Item]) -> tuple[list[Item], bool]:
    """Return the items without any memory block, and whether there was one."""
    kept, found = block.strip(turn_items(items))
    return [item.item for item in kept], found


def unblocked(prepared: dict[str, Any]) -> list[Item]:
    """The prepared input without its memory block."""
    return stripped(prepared["input_items"])[0]


def counted(items: list[Item]) -> int:
    """Tokens of items as any client can count them: every text, name, argument and output, and 4 an
    item."""
    return sum(
        4 + sum(len(ENCODING.encode_ordinary(text)) for text in _texts(item)) for item in items
    )


def _texts(item: Item) -> list[str]:
    output = item.get("output")
    parts = [*(item.get("content") or []), *(output if isinstance(output, list) else [])]
    words = [part.get("text") for part in parts] + [item.get("name"), item.get("arguments"), output]
    return [word for word in words if isinstance(word, str)]


async def file_text(door: Door, path: str) -> str:
    content: str = (await door("file_read", project="default", path=path))["content"]
    return content


async def file_records(door: Door, path: str) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    return [orjson.loads(line) for line in (await file_text(door, path)).split("\n")[:-1]]


async def file_paths(door: Door, directory: str) -> list[str]:
    """Every file below a directory."""
    listed = await door("file_list", project="default", path=directory, depth=64, limit=1024)
    return [entry["path"] for entry in listed["entries"] if entry["type"] == "FILE"]


async def events(door: Door, session: str = "s1", day: str = "2026/01/05") -> list[dict[str, Any]]:
    """The events of a day, as they stand in the file."""
    return await file_records(
        door, f"/memory/{session}/events/raw/{day}/log-{day.replace('/', '')}.jsonl"
    )


async def row_counts(admin: asyncpg.Connection) -> dict[str, int]:
    """How many rows each table has, as `snapshot`."""
    names = sorted(name for name in metadata.tables if name not in APART)
    return {name: await admin.fetchval(f"SELECT count(*) FROM {name}") for name in names}


async def snapshot(admin: asyncpg.Connection) -> dict[str, list[str]]:
    """Every row of every table, but for the call log and what servers share to sign with."""
    names = sorted(name for name in metadata.tables if name not in APART)
    return {
        name: sorted(str(row) for row in await admin.fetch(f"SELECT * FROM {name}"))
        for name in names
    }


async def cells(admin: asyncpg.Connection, word: str) -> list[str]:
    """The columns of tables in which a word stands, as text or as bytes."""
    columns = await admin.fetch(
        """
        SELECT c.relname, a.attname, a.atttypid::regtype::text AS type FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
        """
    )
    found = []
    for row in columns:
        told = f"{row['attname']}::text"
        if row["type"] == "bytea":
            told = f"encode({row['attname']}, 'escape')"
        sql = f"SELECT count(*) FROM {row['relname']} WHERE lower({told}) LIKE $1"
        if await admin.fetchval(sql, f"%{word.lower()}%"):
            found.append(f"{row['relname']}.{row['attname']}")
    return found
