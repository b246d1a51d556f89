"""Arguments and results of the whiteboard tools."""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from memsvc.core.errors import invalid
from memsvc.core.paths import PATH_BYTES_MAX, check_identifier
from memsvc.core.timestamp import parse_timestamp
from memsvc.core.tools import Arguments, Result, Version
from memsvc.styles.whiteboard.boards import BoardId

ROLE_CHARS_MAX: Final = 64
TYPE_CHARS_MAX: Final = 64
HISTORY_LIMIT: Final = 20
HISTORY_LIMIT_MAX: Final = 100
LIST_LIMIT: Final = 100
LIST_LIMIT_MAX: Final = 1000
CURSOR_CHARS_MAX: Final = 2 * PATH_BYTES_MAX


class WhiteboardArguments(Arguments):
    """Arguments of every tool of one board."""

    user_id: str = Field(description="the person; any text of up to 128 bytes")
    conversation_id: str = Field(description="the conversation; any text of up to 128 bytes")

    @field_validator("user_id", "conversation_id")
    @classmethod
    def _identifier(cls, value: str, field: ValidationInfo) -> str:
        return check_identifier(value, str(field.field_name))

    @property
    def board(self) -> BoardId:
        """Return the key of the board."""
        return BoardId(self.user_id, self.conversation_id)


class ContextEntry(BaseModel):
    """Something that happened in the conversation. Anything else that a client sends is ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)

    role: str = Field(
        min_length=1,
        max_length=ROLE_CHARS_MAX,
        description="who or what it comes from: user, assistant, system, or a kind of event",
    )
    content: str = Field(description="what was said or what happened")
    timestamp: float | None = Field(None, description="when, in seconds since 1970")
    type: str | None = Field(
        None, max_length=TYPE_CHARS_MAX, description="what it is, such as message or file"
    )


class BoardUpdateArguments(WhiteboardArguments):
    entries: list[ContextEntry] = Field(
        description="what is new, oldest first; none changes nothing"
    )


class BoardUpdateResult(Result):
    result: bool = Field(description="true: the entries are in the board, and it is stored")


class BoardGetArguments(WhiteboardArguments):
    as_of: str = Field(
        "", description="a moment (RFC 3339): the board as it was then; now if not given"
    )

    @field_validator("as_of")
    @classmethod
    def _timestamp(cls, value: str) -> str:
        parse_timestamp(value, "as_of")
        return value


class BoardResult(Result):
    text: str = Field(description="the board, as plain text; empty when there is none")
    exists: bool = Field(description="whether there is a board")
    made_by: Literal["model", "rules", ""] = Field(
        description="model: a model wrote it; rules: lines that rules took from the entries;"
        " empty when there is none"
    )
    version: str = Field(description="token of this state of the board; empty when there is none")
    updated_at: datetime | None = Field(description="when it was written; null when there is none")
    tokens: int = Field(description="tokens (o200k_base) of the text")


class BoardHistoryArguments(WhiteboardArguments):
    limit: int = Field(
        HISTORY_LIMIT, ge=1, le=HISTORY_LIMIT_MAX, description="versions at the most"
    )
    cursor: Version | None = Field(None, description="next_cursor of the page before")


class BoardVersion(Result):
    version: str = Field(description="token of the version")
    updated_at: datetime = Field(description="when it was written")
    made_by: Literal["model", "rules"] = Field(description="who wrote it")
    size_bytes: int = Field(description="bytes of its file")
    current: bool = Field(description="whether it is what the board is now")


class BoardHistoryResult(Result):
    versions: list[BoardVersion] = Field(description="newest first, the current one among them")
    next_cursor: str | None = Field(None, description="cursor of the next page, when there is one")


class BoardRestoreArguments(WhiteboardArguments):
    version: Version = Field(description="version to bring back, as whiteboard_history lists it")


class BoardRestoreResult(Result):
    version: str = Field(
        description="token of the new state of the board; unchanged when it said the same already"
    )
    updated_at: datetime = Field(description="when that was written")


class BoardDeleteResult(Result):
    deleted: bool = Field(description="whether there was a board")


class BoardListArguments(Arguments):
    user_id: str = Field(
        "", description="only the boards of this person; of everybody if not given"
    )
    limit: int = Field(LIST_LIMIT, ge=1, le=LIST_LIMIT_MAX, description="boards at the most")
    cursor: str = Field(
        "", max_length=CURSOR_CHARS_MAX, description="next_cursor of the page before"
    )

    @field_validator("user_id")
    @classmethod
    def _user(cls, value: str) -> str:
        return check_identifier(value, "user_id") if value else ""

    @field_validator("cursor")
    @classmethod
    def _cursor(cls, value: str) -> str:
        if value and BoardId.of(value) is None:
            raise invalid("cursor must be the next_cursor of an earlier answer")
        return value


class ListedBoard(Result):
    user_id: str = Field(description="whose board it is")
    conversation_id: str = Field(description="the conversation that it is about")
    path: str = Field(description="the file that holds it, for file_read")
    updated_at: datetime = Field(description="when it was last written")
    size_bytes: int = Field(description="bytes of the file")


class BoardListResult(Result):
    boards: list[ListedBoard] = Field(description="in byte order of their paths")
    next_cursor: str | None = Field(None, description="cursor of the next page, when there is one")
