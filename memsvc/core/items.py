"""Response items: messages, calls and outputs of a conversation, and access to their fields."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self

import orjson

from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.frozen import frozen
from memsvc.core.timestamp import read_time, unreadable_time
from memsvc.core.untrusted import is_memory_block

Item = dict[str, Any]

LEVELS_MAX = 100
_MEDIA_WORDS = ("image", "file", "audio")

_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})
_ROLE_BY_NAME: Final = {role: role for role in _ROLES if role != "tool"} | {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
"""Roles by the names that other APIs have for them, as a role or as the type of a message."""
_SENDABLE_ROLES: Final = _ROLES | {"function"}
_INSTEAD_OF_CONTENT: Final = ("tool_calls", "function_call", "tool_call_id", "audio", "refusal")
"""Fields of Chat Completions that make the content of a message optional."""
_TIMES = ("timestamp", "created_at", "create_time")
"""Fields beside the content of a message in which clients and their exports keep its time."""
_MESSAGE_FIELDS = frozenset({"type", "role", "id", "status", "name", "metadata", *_TIMES})
_NEEDS_TEXT = frozenset({"input_text", "output_text", "text"})
_TEXT_PARTS = _NEEDS_TEXT | {"refusal", "summary_text"}
CLOCK_ERROR_MAX: Final = timedelta(days=1)
"""How far ahead of the server's clock a message may be: a time without an offset may be local."""


@frozen
class ReadItem:
    """A normalised item, and all that memory reads in it, read once.

    `counted_texts` are the texts that a model reads, and `media` how many pictures, files and
    sounds it gets. `message_at` is the client's time. `is_memory` marks the data message of a
    memory block."""

    item: Item
    content: bytes
    digest: int
    role: str
    text: str
    speaker: str
    message_at: datetime | None
    is_memory: bool
    counted_texts: Sequence[str]
    media: int

    @classmethod
    def of(cls, item: Item, **fields: Any) -> Self:
        """Read a normalised item; `fields` are those that a subclass has beside."""
        content, role, parts = canonical(item), role_of(item), text_parts(item)
        return cls(
            item,
            content,
            hash_of_content(content),
            role,
            "\n".join([*parts, *_output_texts(item)]),
            speaker_of(item),
            message_at(item),
            role == "user" and len(parts) == 1 and is_memory_block(parts[0]),
            *counted_parts(item),
            **fields,
        )


def normalize_item(
    item: Any, where: str, now: datetime | None = None, *, role: str = "user"
) -> Item:
    """Return the item with string content as one text part and `type` filled in, else unchanged.

    A message without a role gets this one.

    A message of another API becomes one of these: its role (`model`), its type in place of a role
    (`human`), its `parts` or `text` in place of content, one part in place of several.

    INVALID_ARGUMENT, naming `where`, when it is not an object, when a field that memory reads has a
    wrong type, and when its time is in the future, seen from `now`."""
    if not isinstance(item, dict):
        raise invalid(f"{where} must be an object")
    for field in ("type", "role", "name", "call_id", "id"):
        if item.get(field) is not None and not isinstance(item[field], str):
            raise invalid(f"{where}.{field} must be a string")
    metadata = item.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise invalid(f"{where}.metadata must be an object")
    item = _of_other_api(item)
    content = item.get("content")
    kind = item.get("type")
    if kind is None:
        if "role" not in item and "content" not in item:
            raise invalid(f"{where} needs a type, or a role and content")
        kind = "message"
    normalized: Item = {"type": kind} | item | {"type": kind}
    if kind == "message" and item.get("role") is None:
        normalized["role"] = role
    if isinstance(content, str):
        part = "output_text" if normalized.get("role") == "assistant" else "input_text"
        normalized["content"] = [{"type": part, "text": content}]
    elif content is not None:
        parts = [content] if isinstance(content, dict) else content
        normalized["content"] = _checked_parts(parts, where)
    _check_times(item, where, now)
    _check_plain(normalized, where)
    return normalized


_READ_FIELDS: Final = ("type", "role", "content", "parts", "text", "output", "summary")


def read_message(value: Any) -> dict[str, str]:
    """Return the role and readable text (`content`) of a message or item of any API.

    The text is "" for a call; there is no role where neither a role nor a type is given. ValueError
    where it cannot be read."""
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    try:
        item = normalize_item({name: value[name] for name in _READ_FIELDS if name in value}, "")
    except MemsvcError as error:
        raise ValueError(error.message.lstrip(". ")) from None
    has_role = any(value.get(name) is not None for name in ("role", "type"))
    named = item.get("role")
    role = {"role": role_of(item) if named is None else named} if has_role else {}
    return role | {"content": text_of(item).replace("\x00", "")}


def _of_other_api(item: Item) -> Item:
    """Return a message as this API has it, if it has another form; else the item itself."""
    role, kind = item.get("role"), item.get("type")
    if role is None and kind != "tool" and (named := _ROLE_BY_NAME.get(kind or "")):
        item = item | {"type": "message", "role": named}
    elif role is not None and (named := _ROLE_BY_NAME.get(role.casefold())) and named != role:
        item = item | {"role": named}
    if item.get("content") is not None or item.get("role") is None:
        return item
    parts, text = item.get("parts"), item.get("text")
    content: Any = text
    if isinstance(parts, list):
        name, content = "parts", [{"text": one} if isinstance(one, str) else one for one in parts]
    elif isinstance(text, str):
        name = "text"
    else:
        return item
    return {field: item[field] for field in item if field != name} | {"content": content}


def unread_fields(item: ReadItem) -> list[str]:
    """Return the fields of an item in which it may say what memory does not read, if it has none.

    These are a role that memory does not know, and the unknown fields of a message without content
    and without calls."""
    fields = item.item
    if item.text.strip():
        return ["role"] if item.role == "other" else []
    if fields["type"] != "message":
        return ["text"] if fields.get("text") else []
    if unsendable_field(fields) != "content":
        return []
    return [name for name, value in fields.items() if name not in _MESSAGE_FIELDS and value]


def unsendable_field(item: Item) -> str:
    """Return the field that makes model APIs reject a message, or "" if it may be accepted.

    It is an unknown role, or content or text that is missing."""
    if item["type"] != "message":
        return ""
    if item.get("role") not in _SENDABLE_ROLES:
        return "role"
    if item.get("content") is None:
        has_other = any(item.get(field) is not None for field in _INSTEAD_OF_CONTENT)
        return "" if has_other else "content"
    for index, part in enumerate(_content(item)):
        if part.get("text") is None and (not part or part.get("type") in _NEEDS_TEXT):
            return f"content[{index}].text"
    return ""


def check_sendable(item: ReadItem, where: str) -> None:
    """Raise INVALID_ARGUMENT for a message that no model's API takes.

    A message with text in an unknown field is accepted; `unread_fields` names the field."""
    field = unsendable_field(item.item)
    if field == "role":
        raise invalid(f"{where}.role must be one of {', '.join(sorted(_SENDABLE_ROLES))}")
    if field and not unread_fields(item):
        raise invalid(f"{where}.{field} is required")


def _check_plain(item: Item, where: str) -> None:
    if not _has_max_depth(item, LEVELS_MAX):
        raise invalid(f"{where} has more than {LEVELS_MAX} nested levels")
    try:
        canonical(item)
    except orjson.JSONEncodeError as error:
        raise invalid(
            f"{where} cannot be stored as JSON: it contains an integer larger than 64 bits,"
            " or text that is not Unicode"
        ) from error


def _has_max_depth(value: Any, levels: int) -> bool:
    """Return whether a value nests at most this deep; a deeper one could not be returned."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(
        _has_max_depth(child, levels - 1) for child in inner if isinstance(child, dict | list)
    )


def _checked_parts(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise invalid(f"{where}.content must be a string or an array of parts")
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise invalid(f"{where}.content[{index}] must be an object")
        for field in ("type", "text"):
            if part.get(field) is not None and not isinstance(part[field], str):
                raise invalid(f"{where}.content[{index}].{field} must be a string")
    return content


def user_message(text: str) -> Item:
    """Return one user message with one text part."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def text_parts(item: Item) -> list[str]:
    """Return the texts of a message's parts, in order."""
    return [
        part["text"]
        for part in _content(item)
        if (part.get("type") or "text") in _TEXT_PARTS and part.get("text")
    ]


def _content(item: Item) -> list[Item]:
    content = item.get("content")
    return content if isinstance(content, list) else []


def text_of(item: Item) -> str:
    """Return the readable text of the item: its message text, or the output of a call; else ""."""
    return "\n".join([*text_parts(item), *_output_texts(item)])


def _output_texts(item: Item) -> list[str]:
    output = item.get("output")
    if isinstance(output, str):
        return [output]
    return [
        part["text"]
        for part in (output if isinstance(output, list) else ())
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]


def counted_parts(item: Item) -> tuple[list[str], int]:
    """Return the texts of an item that a model reads, and how many pictures, files and sounds.

    The texts are those of its parts, its name, arguments and output."""
    parts, output, arguments = _parts(item), item.get("output"), item.get("arguments")
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    values = (item.get("name"), arguments, item.get("input"), output)
    texts += [value for value in values if isinstance(value, str)]
    texts += [orjson.dumps(arguments).decode()] if isinstance(arguments, dict | list) else []
    texts += [orjson.dumps(output).decode()] if isinstance(output, dict) else []
    return texts, sum(any(word in str(part.get("type")) for word in _MEDIA_WORDS) for part in parts)


def _parts(item: Item) -> list[Item]:
    lists = (item.get("content"), item.get("summary"), item.get("output"))
    return [
        part
        for parts in lists
        if isinstance(parts, list)
        for part in parts
        if isinstance(part, dict)
    ]


def role_of(item: Item) -> str:
    """Return the role: `user`, `assistant`, `system`, `developer`, `tool` or `other` for a message.

    `tool` for everything else."""
    if item["type"] != "message":
        return "tool"
    role = item.get("role") or "user"
    return role if role in _ROLES else "other"


def speaker_of(item: Item) -> str:
    """Return the speaker's name if the client gave one: `metadata.speaker`, or a message's `name`.

    Else ""."""
    speaker = (item.get("metadata") or {}).get("speaker")
    if not speaker and item["type"] == "message":
        speaker = item.get("name")
    return speaker.replace("\x00", "")[:128] if isinstance(speaker, str) else ""


def canonical(item: Item) -> bytes:
    """Return the same bytes for the same item, whatever the order of its fields."""
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


def hash_of_content(content: bytes) -> int:
    """Return a signed 64-bit fingerprint of an item by its canonical bytes."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


def fingerprint(groups: Sequence[Sequence[bytes]]) -> bytes:
    """Return a 32-byte fingerprint of several lists of items: order and content count.

    An item is given by its canonical bytes."""
    return hashlib.sha256(
        orjson.dumps([[content.hex() for content in group] for group in groups])
    ).digest()


def message_at(item: Item) -> datetime | None:
    """Return the client's time of a message, with its offset: `metadata.occurred_at`.

    Else the first of the fields beside the content in which exports keep it. None where there is
    none, or it cannot be read, which `normalize_item` refuses."""
    for _, value in _times(item):
        try:
            return read_time(value)
        except (ValueError, OverflowError):
            return None
    return None


def _times(item: Item) -> Iterator[tuple[str, Any]]:
    """Yield the times that an item gives, with the names of their fields, the main one first."""
    occurred_at = (item.get("metadata") or {}).get("occurred_at")
    named = [("metadata.occurred_at", occurred_at), *((name, item.get(name)) for name in _TIMES)]
    return ((name, value) for name, value in named if value not in (None, ""))


def _check_times(item: Item, where: str, now: datetime | None) -> None:
    for name, value in _times(item):
        try:
            said_at = read_time(value)
        except (ValueError, OverflowError):
            raise unreadable_time(f"{where}.{name}") from None
        if now is not None and said_at > now + CLOCK_ERROR_MAX:
            raise invalid(f"{where}.{name} is more than a day after the server's time")
