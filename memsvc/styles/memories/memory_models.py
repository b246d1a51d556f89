"""Arguments and results of the memory tools, named as REST clients of such memories know them."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from memsvc.core.errors import invalid
from memsvc.core.paths import check_identifier
from memsvc.core.tools import Arguments, Result

QUERY_CHARS_MAX: Final = 16_384
TEXT_CHARS_MAX: Final = 1024
MEMORY_ID_CHARS_MAX: Final = 64
PROMPT_CHARS_MAX: Final = 20_000
LIST_LIMIT: Final = 100
LIST_LIMIT_MAX: Final = 10_000
SEARCH_LIMIT_MAX: Final = 1000
_OBJECT: Final[dict[str, Any]] = {"type": "object", "additionalProperties": True}

Metadata = Annotated[dict[str, Any], WithJsonSchema(_OBJECT)]


class MemoryMessage(BaseModel):
    """One message of a conversation; other fields that a client sends are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    role: str = Field(max_length=32, description="who speaks: user, assistant or system")
    content: Annotated[
        Any,
        WithJsonSchema(
            {
                "description": "what is said: a text, or parts with a text each",
                "anyOf": [{"type": "string"}, {"type": "array", "items": _OBJECT}],
            }
        ),
    ]

    @field_validator("content")
    @classmethod
    def _text(cls, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            texts = [one.get("text") for one in value if isinstance(one, dict)]
            return "\n".join(text for text in texts if isinstance(text, str))
        raise ValueError("must be a string or an array of parts")


class UserArguments(Arguments):
    """Arguments of every tool over a user's memories."""

    user_id: str = Field(description="whose memories; any text of up to 128 bytes")

    @field_validator("user_id")
    @classmethod
    def _user(cls, value: str) -> str:
        return check_identifier(value.strip(), "user_id")


class OneMemoryArguments(UserArguments):
    """Arguments of every tool over one memory."""

    memory_id: str = Field(min_length=1, max_length=MEMORY_ID_CHARS_MAX, description="which memory")

    @field_validator("memory_id")
    @classmethod
    def _memory(cls, value: str) -> str:
        return check_identifier(value, "memory_id")


class AddMemoriesArguments(UserArguments):
    messages: list[MemoryMessage] = Field(description="the conversation, oldest first")
    metadata: Metadata = Field(
        default_factory=dict,
        description="kept with every memory that this adds, such as session_id and source",
    )

    @field_validator("metadata")
    @classmethod
    def _metadata(cls, value: dict[str, Any]) -> dict[str, Any]:
        return checked_metadata(value)


class SearchMemoriesArguments(UserArguments):
    query: str = Field(max_length=QUERY_CHARS_MAX, description="a question, or words to look for")
    limit: int | None = Field(
        None,
        ge=0,
        le=SEARCH_LIMIT_MAX,
        description="memories at the most; the project's searchLimit (5) if not given, 0: 100",
    )

    @field_validator("query")
    @classmethod
    def _query(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


class ListMemoriesArguments(UserArguments):
    limit: int = Field(
        LIST_LIMIT,
        ge=1,
        le=LIST_LIMIT_MAX,
        description="memories at the most, the one that was made last first",
    )


class ChangeMemoryArguments(OneMemoryArguments):
    memory: str = Field(max_length=TEXT_CHARS_MAX, description="what it says from now on")
    metadata: Metadata | None = Field(
        None, description="what to keep with it instead; unchanged if not given"
    )

    @field_validator("memory")
    @classmethod
    def _text(cls, value: str) -> str:
        text = " ".join(value.split())
        if not text or "\x00" in text:
            raise ValueError("must be a text that is not blank")
        return text

    @field_validator("metadata")
    @classmethod
    def _metadata(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if value is None else checked_metadata(value)


class MemorySettingsArguments(Arguments):
    memoryEnabled: bool | None = Field(  # noqa: N815
        None, description="whether clients should use memories; true if not given"
    )
    decayDays: float | None = Field(  # noqa: N815
        None,
        ge=0,
        le=36500,
        description="days after which a memory is hidden; 0: never; the server's if not given",
    )
    searchLimit: int | None = Field(  # noqa: N815
        None,
        ge=0,
        le=SEARCH_LIMIT_MAX,
        description="memories that a search answers with; the server's if not given",
    )

    def overrides(self) -> dict[str, Any]:
        """Return the settings that were given."""
        return self.model_dump(
            include={"memoryEnabled", "decayDays", "searchLimit"}, exclude_none=True
        )


class ExtractionPromptArguments(Arguments):
    prompt: str = Field(
        max_length=PROMPT_CHARS_MAX,
        description="the request; {conversation} stands where the messages go",
    )


class AddedMemory(BaseModel):
    id: str = Field(description="the memory")
    memory: str = Field(description='what it says now; "" when it was deleted')
    event: Literal["ADD", "UPDATE", "DELETE"] = Field(description="what was done")


class AddMemoriesResult(Result):
    results: list[AddedMemory] = Field(
        description="what was done, in order; nothing of what was known already"
    )
    message: str = Field(description="how many were added, in words")
    unplaced: list[str] | None = Field(
        None,
        description="facts that the model found and did not place: they may be known already",
        exclude_if=lambda value: value is None,
    )


class UserMemoryResult(Result):
    id: str = Field(description="the memory")
    memory: str = Field(description="what it says")
    user_id: str = Field(description="whose it is")
    created_at: datetime = Field(description="when it was made")
    updated_at: datetime = Field(description="when it was changed last; created_at until then")
    metadata: Metadata = Field(description="what the client keeps with it")


class MemoriesResult(Result):
    results: list[UserMemoryResult] = Field(description="the memories")


class DoneResult(Result):
    success: bool = Field(description="true: it is done")
    message: str = Field(description="what was done, in words")


class MemoryHistoryStep(BaseModel):
    event: Literal["ADD", "UPDATE", "DELETE"] = Field(description="what was done")
    memory: str = Field(description='what it said from then on; "" when it was deleted')
    old_memory: str | None = Field(description="what it said before")
    at: datetime = Field(description="when")
    origin: str = Field(description="who found what it said: rule, model or user")
    session_id: str = Field(description='in which session, where metadata told that; else ""')


class MemoryHistoryResult(Result):
    results: list[MemoryHistoryStep] = Field(description="what became of it, oldest first")


class MemorySettingsResult(Result):
    memoryEnabled: bool = Field(description="whether clients should use memories")  # noqa: N815
    decayDays: float = Field(description="days after which a memory is hidden; 0: never")  # noqa: N815
    searchLimit: int = Field(  # noqa: N815
        description="memories that a search answers with when it names no limit; 0: 100"
    )


class SuccessResult(Result):
    success: bool = Field(description="true: it is done")


class ExtractionPromptResult(Result):
    prompt: str = Field(description="how a model is asked for the facts of a conversation")
    isCustom: bool = Field(description="whether that is the project's own way")  # noqa: N815


class ResetPromptResult(Result):
    prompt: str = Field(
        description="how a model is asked from now on, as in every project without a way of its own"
    )


def checked_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata; INVALID_ARGUMENT where a database could not store it."""
    if not _is_valid_json(value):
        raise invalid("metadata must not hold NUL characters")
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
