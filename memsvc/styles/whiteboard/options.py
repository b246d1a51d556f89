"""Options of whiteboards."""

from pydantic import Field

from memsvc.core.options import Options


class WhiteboardOptions(Options):
    """Limits of whiteboards and of the model that writes them."""

    tokens_max: int = Field(
        1500,
        ge=100,
        le=20_000,
        description="maximum tokens of a board, about two pages; a model is given the limit in"
        " words",
    )
    window_entries: int = Field(
        5,
        ge=0,
        le=100,
        description="latest entries of a conversation that are kept, in RAM only",
    )
    lead_in_entries: int = Field(
        3,
        ge=0,
        le=100,
        description="maximum number of kept entries that a model sees before the new ones",
    )
    round_tok_max: int = Field(
        8000,
        ge=200,
        le=1_000_000,
        description="maximum tokens of new entries in one update; more are split into several",
    )
    deadline_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="time limit of a model for one update, and of a call as a whole",
    )
    attempts_max: int = Field(
        5,
        ge=1,
        le=20,
        description="retries of an update when another call changed the board in the meantime",
    )
    conversations_kept: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="conversations whose latest entries are kept, in RAM only",
    )
    history_kept: int = Field(
        50, ge=0, le=1000, description="number of past versions of a board that are kept"
    )
    entries_max: int = Field(500, ge=1, description="maximum number of entries in one call")
    content_chars_max: int = Field(100_000, ge=1, description="maximum characters of one entry")
    call_chars_max: int = Field(
        400_000, ge=1, description="maximum characters of all entries in one call"
    )
    boards_max: int = Field(100_000, ge=1, description="maximum number of boards in a project")
