"""Types of what the memory tools take and return."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from memsvc.core.errors import invalid
from memsvc.core.items import read_message
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_identifier
from memsvc.core.tool_methods import OMIT_NONE, result, tool
from memsvc.styles.memories.options import MemoriesOptions

QUERY_CHARS_MAX: Final = 16_384
TEXT_CHARS_MAX: Final = 1024
SEARCH_LIMIT_MAX: Final = 1000
_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}


Event = Literal["ADD", "UPDATE", "DELETE"]
memory_tool = partial(tool, toolset="memories", logs=("user_id", "memory_id"))


class MemoryMessage(BaseModel):
    """One message; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    role: Annotated[
        str,
        Field(max_length=32, description="role of the speaker: user, assistant or system"),
        AfterValidator(lambda value: value.strip().lower()),
    ]
    content: Annotated[
        str,
        WithJsonSchema(
            {
                "description": "text of the message, or parts that each contain text",
                "anyOf": [{"type": "string"}, {"type": "array", "items": _OBJECT}],
            }
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, str]:
        return read_message(value)


def checked_metadata(value: JsonObject) -> JsonObject:
    """Return the metadata; INVALID_ARGUMENT where a database could not store it."""
    if not _is_valid_json(value):
        raise invalid("metadata must not contain NUL characters")
    return value


def _is_valid_json(value: Any) -> bool:
    match value:
        case str():
            return "\x00" not in value
        case dict():
            return all(
                _is_valid_json(name) and _is_valid_json(member) for name, member in value.items()
            )
        case list():
            return all(map(_is_valid_json, value))
        case _:
            return True


def check_size(metadata: JsonObject | None, options: MemoriesOptions) -> None:
    """Raise INVALID_ARGUMENT for more metadata than may be kept with a memory."""
    if metadata and len(orjson.dumps(metadata)) > options.metadata_bytes_max:
        raise invalid(f"metadata is limited to {options.metadata_bytes_max} bytes")


def owners_of(agent_id: str | None, run_id: str | None) -> dict[str, str]:
    """Return the members of metadata that say of which agent and run a memory is."""
    named = {"agent_id": agent_id, "run_id": run_id}
    return {name: value for name, value in named.items() if value is not None}


def checked_query(value: str) -> str:
    """Return the query; ValueError for a blank one."""
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def checked_text(value: str) -> str:
    """Return the text of a memory with single spaces; ValueError for a blank one."""
    text = " ".join(value.split())
    if not text or "\x00" in text:
        raise ValueError("must be a text that is not blank and contains no NUL characters")
    return text


def decimal(value: Any) -> Any:
    """Return a whole number as its digits, anything else as it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


UserId = Annotated[
    str,
    BeforeValidator(decimal, json_schema_input_type=str),
    AfterValidator(lambda value: check_identifier(value.strip(), "user_id")),
    "user id",
]
AgentId = Annotated[
    str | None,
    BeforeValidator(decimal),
    AfterValidator(lambda value: value and check_identifier(value, "agent_id and run_id")),
]
"""The id of an agent or run, by which memories are told apart in their metadata."""
MemoryId = Annotated[
    str,
    Field(min_length=1, max_length=64),
    AfterValidator(partial(check_identifier, name="memory_id")),
    "id of the memory",
]
Metadata = Annotated[JsonObject, WithJsonSchema(_OBJECT)]
CheckedMetadata = Annotated[Metadata, AfterValidator(checked_metadata)]
SearchLimit = Annotated[int | None, Field(ge=0, le=SEARCH_LIMIT_MAX)]
MemoryText = Annotated[
    str,
    Field(max_length=TEXT_CHARS_MAX),
    AfterValidator(checked_text),
    "new text",
]
Query = Annotated[
    str,
    Field(max_length=QUERY_CHARS_MAX),
    AfterValidator(checked_query),
    "a question, or words to search for",
]


@result
class UserMemory:
    id: Annotated[str, "the memory"]
    memory: Annotated[str, "text of the memory"]
    user_id: Annotated[str, "user to whom the memory belongs"]
    created_at: Annotated[datetime, "time when the memory was created"]
    updated_at: Annotated[
        datetime, "time of the last change; created_at if the memory is unchanged"
    ]
    metadata: Annotated[Metadata, "metadata that the client stored with the memory"]


@result
class FoundMemories:
    results: Annotated[list[UserMemory], "memories of the user"]


@result
class MemoryDeletion:
    success: Annotated[bool, "true on success"]
    message: Annotated[str, "the result in words"]


@result
class AddedMemory:
    __pydantic_config__ = ConfigDict()

    id: Annotated[str, "the memory"]
    memory: Annotated[str, 'text of the memory; "" if it was deleted']
    event: Annotated[Event, "the action"]


@result
class AddedMemories:
    results: Annotated[
        list[AddedMemory],
        "changes in the order in which they were made; facts that were already known are omitted",
    ]
    message: Annotated[str, "number of added memories, in words"]
    unplaced: Annotated[
        list[str] | None,
        OMIT_NONE,
        "extracted facts that the model ignored, perhaps because they were already known",
    ] = None


@result
class MemoryStep:
    __pydantic_config__ = ConfigDict()

    event: Annotated[Event, "the action"]
    memory: Annotated[str, 'text of the memory after the change; "" if it was deleted']
    old_memory: Annotated[str | None, "text of the memory before the change"]
    at: Annotated[datetime, "time of the change"]
    origin: Annotated[str, "who wrote the text: rule, model or user"]
    session_id: Annotated[str, 'session_id from the memory\'s metadata; "" if there is none']


@result
class MemoryHistory:
    results: Annotated[list[MemoryStep], "changes, oldest first"]
