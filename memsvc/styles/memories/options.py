"""Options of the memories style."""

from pydantic import Field

from memsvc.core.options import Options


class MemoriesOptions(Options):
    """Limits and defaults of search, listing and calls."""

    decay_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="days after which an unchanged memory is hidden (never deleted); 0: never."
        " MEMORY_DECAY_DAYS is a short form; a project can override it",
    )
    search_limit: int = Field(
        5, ge=1, le=1000, description="default number of memories in a search"
    )
    deadline_s: float = Field(
        30.0,
        gt=0,
        le=600,
        description="time limit of the model for one call, for both steps together",
    )
    max_output_tokens: int = Field(4096, ge=100, description="maximum tokens of each model answer")
    compared_max: int = Field(
        50, ge=1, le=1000, description="existing memories that the model compares new facts with"
    )
    facts_max: int = Field(
        50, ge=1, le=1000, description="maximum number of facts extracted from one conversation"
    )
    messages_max: int = Field(200, ge=1, description="maximum number of messages in one call")
    conversation_chars_max: int = Field(
        100_000, ge=1, description="maximum characters of all messages in one call"
    )
    metadata_bytes_max: int = Field(
        8192, ge=2, description="maximum size of a memory's metadata, in bytes of JSON"
    )
    per_user_max: int = Field(10_000, ge=1, description="maximum number of memories of a user")
    users_max: int = Field(
        100_000, ge=1, description="maximum number of users with memories in a project"
    )
