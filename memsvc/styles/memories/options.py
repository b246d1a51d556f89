"""Options of the memories style."""

from pydantic import Field

from memsvc.core.options import Options


class MemoriesOptions(Options):
    """Limits and defaults of search, listing and calls."""

    decay_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="days after which a memory that nobody changed is hidden, never deleted; 0:"
        " never. MEMORY_DECAY_DAYS is a short form; a project may say otherwise",
    )
    search_limit: int = Field(
        5, ge=1, le=1000, description="memories that a search answers with when it names no limit"
    )
    deadline_s: float = Field(
        30.0, gt=0, le=600, description="how long the model may take for one call, both times"
    )
    max_output_tokens: int = Field(
        4096, ge=100, description="tokens that the model may answer with each time"
    )
    compared_max: int = Field(
        50, ge=1, le=1000, description="memories that the model compares new facts with"
    )
    facts_max: int = Field(50, ge=1, le=1000, description="facts taken from one conversation")
    messages_max: int = Field(200, ge=1, description="messages in one call")
    conversation_chars_max: int = Field(
        100_000, ge=1, description="characters of all messages of one call"
    )
    metadata_bytes_max: int = Field(
        8192, ge=2, description="bytes of what a client keeps with a memory, as JSON"
    )
    per_user_max: int = Field(10_000, ge=1, description="memories that a user may have")
    users_max: int = Field(
        100_000, ge=1, description="users that a project may have had memories of"
    )
