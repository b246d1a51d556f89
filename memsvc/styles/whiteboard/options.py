"""Options of whiteboards."""

from pydantic import Field

from memsvc.core.options import Options


class WhiteboardOptions(Options):
    """Limits of the whiteboards, and of the model that writes them."""

    tokens_max: int = Field(
        1500,
        ge=100,
        le=20_000,
        description="tokens of a board at the most, about two pages; a model is told in words",
    )
    window_entries: int = Field(
        5,
        ge=0,
        le=100,
        description="latest entries of a conversation that are remembered, in memory alone",
    )
    lead_in_entries: int = Field(
        3,
        ge=0,
        le=100,
        description="remembered entries that a model is shown before the new ones, at the most",
    )
    round_tok_max: int = Field(
        8000,
        ge=200,
        le=1_000_000,
        description="tokens of new entries that go into one update; more make several",
    )
    deadline_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="how long a model may take for one update, and how long a call waits in all",
    )
    attempts_max: int = Field(
        5,
        ge=1,
        le=20,
        description="times that an update is made anew because somebody else wrote the board"
        " meanwhile",
    )
    conversations_kept: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="conversations whose latest entries are remembered, in memory alone",
    )
    history_kept: int = Field(
        50, ge=0, le=1000, description="past versions of a board that are kept, the newest ones"
    )
    entries_max: int = Field(500, ge=1, description="entries of one call")
    content_chars_max: int = Field(100_000, ge=1, description="characters of one entry")
    call_chars_max: int = Field(400_000, ge=1, description="characters of all entries of one call")
    boards_max: int = Field(100_000, ge=1, description="boards that a project may have")
