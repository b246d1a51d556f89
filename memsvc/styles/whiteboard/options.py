"""Options of whiteboards."""

from pydantic import Field

from memsvc.core.options import Count, LimitOrNone, Options


class WhiteboardOptions(Options):
    """Limits of whiteboards and of the model that writes them."""

    tokens_max: int = Field(
        1500,
        ge=100,
        le=20_000,
        description="maximum size of a whiteboard in tokens (the default is about two pages); a"
        " model is given this limit as a number of words",
    )
    window_entries: int = Field(
        5,
        ge=0,
        le=100,
        description="number of latest entries (messages or events) that are kept for each"
        " conversation; they are kept in RAM only",
    )
    lead_in_entries: int = Field(
        3,
        ge=0,
        le=100,
        description="maximum number of earlier entries (messages or events) that a model receives"
        " before the new entries",
    )
    round_tok_max: int = Field(
        8000,
        ge=200,
        le=1_000_000,
        description="maximum number of tokens of new entries (messages or events) in one update; if"
        " there are more, they are split into several updates",
    )
    deadline_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="time limit for a call that updates a whiteboard; the same limit applies each"
        " time a model writes the whiteboard",
    )
    attempts_max: int = Field(
        5,
        ge=1,
        le=20,
        description="maximum number of attempts to write an update while other calls keep changing"
        " the whiteboard; after the last attempt, the update fails",
    )
    conversations_kept: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="number of conversations whose latest entries (messages or events) are kept;"
        " they are kept in RAM only",
    )
    history_kept: LimitOrNone = Field(
        50,
        description="number of past versions that are kept of each whiteboard; older ones are"
        " deleted",
    )
    entries_max: Count = Field(
        500,
        description="maximum number of entries (messages or events) in one call; a call with more"
        " is refused",
    )
    content_chars_max: Count = Field(
        100_000,
        description="maximum number of characters in one entry (a message or event); a call with a"
        " longer one is refused",
    )
    call_chars_max: Count = Field(
        400_000,
        description="maximum number of characters in all entries (messages or events) of one call"
        " together; a call with more is refused",
    )
    boards_max: Count = Field(
        100_000,
        description="maximum number of whiteboards in a project; further ones are refused",
    )
