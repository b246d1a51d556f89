"""Options of the memories style."""

from pydantic import Field

from memsvc.core.options import Count, Limit, Options


class MemoriesOptions(Options):
    """Limits of calls that store memories, and defaults for searching and hiding memories."""

    decay_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="number of days after which an unchanged memory is hidden, but not deleted; 0:"
        " memories are never hidden. The environment variable MEMORY_DECAY_DAYS sets"
        " the same value, and a project can override it",
    )
    search_limit: Limit = Field(
        5, description="default maximum number of memories that a search returns"
    )
    deadline_s: float = Field(
        30.0,
        gt=0,
        le=600,
        description="time limit for a call that adds memories. It covers both steps of the model:"
        " extracting facts and comparing them with existing memories. When the limit is reached,"
        " the call fails and stores nothing",
    )
    max_output_tokens: int = Field(
        4096, ge=100, description="maximum number of tokens in each answer of the model"
    )
    compared_max: Limit = Field(
        50,
        description="maximum number of existing memories with which the model compares new facts",
    )
    facts_max: Limit = Field(
        50,
        description="maximum number of facts extracted from one conversation; further facts are"
        " ignored",
    )
    messages_max: Count = Field(
        200, description="maximum number of messages in one call; a call with more is refused"
    )
    conversation_chars_max: Count = Field(
        100_000,
        description="maximum number of characters in all messages of one call together; a call with"
        " more is refused",
    )
    metadata_bytes_max: int = Field(
        8192,
        ge=2,
        description="maximum size of a memory's metadata, in bytes of JSON; a call with larger"
        " metadata is refused",
    )
    per_user_max: Count = Field(
        10_000,
        description="maximum number of memories of a user; a call that would exceed it is refused",
    )
    users_max: Count = Field(
        100_000,
        description="maximum number of users with memories in a project; calls that add memories of"
        " further users are refused",
    )
