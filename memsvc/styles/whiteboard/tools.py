"""Tools, resources and prompt of whiteboards, and completion of users and conversations."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from memsvc.core.background import run_in_thread
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.items import read_message
from memsvc.core.paths import PATH_BYTES_MAX, check_identifier, encode_segment
from memsvc.core.ports import TokenCounter
from memsvc.core.resources import Completion, ListedResource, Prompt, Resource, ResourceListing
from memsvc.core.scope import Permission, Scope
from memsvc.core.timestamp import parse_timestamp
from memsvc.core.tool_methods import result, tool, tools_of
from memsvc.core.tools import (
    SILENT,
    NextCursor,
    ProgressCallback,
    Published,
    Version,
    removes_nothing,
)
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.store.ownership import OwnerData
from memsvc.styles.passage_search import CitationSearch
from memsvc.styles.services import StyleServices
from memsvc.styles.whiteboard.board_writers import BoardWriter, ModelBoardWriter, RuleBoardWriter
from memsvc.styles.whiteboard.boards import (
    INDEX_NAME,
    ROOT,
    BoardId,
    Boards,
    BoardVersion,
    ListedBoard,
    MadeBy,
    directory_of,
    known,
)
from memsvc.styles.whiteboard.entries import BoardEntry, clean, one_line
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.updates import BoardUpdates

ROLE_CHARS_MAX: Final = 64
TYPE_CHARS_MAX: Final = 64
HISTORY_LIMIT: Final = 20
HISTORY_LIMIT_MAX: Final = 100
REPORT_INTERVAL_S: Final = 1.0


@asynccontextmanager
async def _wait_reported(progress: ProgressCallback, max_s: float) -> AsyncIterator[None]:
    """Report for how many seconds a call has waited for its board, as long as it does."""
    if progress is SILENT:
        yield
        return
    loop = asyncio.get_running_loop()
    started_s = loop.time()

    async def report() -> None:
        while True:
            progress.report(round(loop.time() - started_s, 1), max_s, "waiting for the whiteboard")
            await asyncio.sleep(REPORT_INTERVAL_S)

    report_task = asyncio.create_task(report())
    try:
        yield
    finally:
        report_task.cancel()


Limit = Annotated[int, Field(ge=1, le=HISTORY_LIMIT_MAX), "maximum number of versions"]
UserId = Annotated[
    str,
    AfterValidator(partial(check_identifier, name="user_id")),
    "user id; up to 128 bytes",
]
ConversationId = Annotated[
    str,
    AfterValidator(partial(check_identifier, name="conversation_id")),
    "conversation id; up to 128 bytes",
]
board_tool = partial(tool, toolset="whiteboard", logs=("user_id", "conversation_id"))


class ContextEntry(BaseModel):
    """Something that happened; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)

    role: str = Field(
        min_length=1,
        max_length=ROLE_CHARS_MAX,
        description="source: user, assistant, system, or a kind of event",
    )
    content: str = Field(description="text of the message or event")
    timestamp: float | None = Field(
        None, description="time of the message or event, in seconds since 1970"
    )
    type: str | None = Field(
        None, max_length=TYPE_CHARS_MAX, description="kind of entry, such as message or file"
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, Any]:
        message = read_message(value)
        return {**value, **message}


@result
class BoardUpdate:
    result: Annotated[bool, "true once the stored whiteboard includes these entries"]


@result
class BoardText:
    text: Annotated[str, "text of the whiteboard; empty if it does not exist"]
    exists: Annotated[bool, "whether the whiteboard exists"]
    made_by: Annotated[
        Literal[MadeBy, ""],
        "who wrote the text: a model, or rules that selected lines from messages and"
        " events; empty if the whiteboard does not exist",
    ]
    version: Annotated[str, "version token of the whiteboard; empty if it does not exist"]
    updated_at: Annotated[
        datetime | None, "time when the whiteboard was written; null if it does not exist"
    ]
    tokens: Annotated[int, "number of tokens (o200k_base) of the text"]


@result
class BoardDeletion:
    deleted: Annotated[bool, "whether the whiteboard existed"]


@result
class BoardVersions:
    versions: Annotated[
        list[BoardVersion], "versions of the whiteboard, newest first, including the current one"
    ]
    next_cursor: NextCursor = None


@result
class RestoredBoard:
    version: Annotated[
        str, "version token of the whiteboard after the call; unchanged if the text was the same"
    ]
    updated_at: Annotated[datetime, "time of the last write"]


@result
class BoardList:
    boards: Annotated[list[ListedBoard], "whiteboards, in bytewise order of their paths"]
    next_cursor: NextCursor = None


@frozen
class BoardTools:
    """The tools of boards."""

    boards: Boards
    updates: BoardUpdates
    tokens: TokenCounter
    options: WhiteboardOptions

    @board_tool(
        "context_update",
        "Update a whiteboard",
        Permission.WRITE,
        text_member="result",
        uses_model=True,
        stores=("entries",),
    )
    async def update(
        self,
        scope: Scope,
        progress: ProgressCallback,
        user_id: UserId,
        conversation_id: ConversationId,
        entries: Annotated[
            list[ContextEntry], "new messages or events, oldest first; [] changes nothing"
        ],
    ) -> BoardUpdate:
        """Update the whiteboard of a conversation with new messages or events.

        A whiteboard is a one- or two-page summary. A model rewrites it, which may take a while;
        without a model, rules select sentences from the entries. The entries are not stored."""
        chars = sum(len(one.content) for one in entries)
        new_entries = await run_in_thread(chars, entries_of, entries, self.options)
        async with _wait_reported(progress, self.options.deadline_s):
            await self.updates.update(scope, BoardId(user_id, conversation_id), new_entries)
        return BoardUpdate(True)

    @board_tool("whiteboard_get", "Read a whiteboard", Permission.READ)
    async def get(
        self,
        scope: Scope,
        user_id: UserId,
        conversation_id: ConversationId,
        as_of: Annotated[str, "RFC 3339 time: read the whiteboard as it was then"] = "",
    ) -> BoardText:
        """Read the whiteboard of a conversation, current or as of a past time."""
        board_id, timestamp = BoardId(user_id, conversation_id), parse_timestamp(as_of, "as_of")
        if timestamp is None:
            board = await self.boards.read(scope, board_id)
        else:
            board = await self.boards.as_of(scope, board_id, timestamp)
        return BoardText(
            board.text,
            board.file_id is not None,
            board.made_by,
            board.version,
            board.updated_at,
            self.tokens.count(board.text),
        )

    @board_tool(
        "whiteboard_delete",
        "Delete a whiteboard",
        Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
    )
    async def delete(
        self, scope: Scope, user_id: UserId, conversation_id: ConversationId
    ) -> BoardDeletion:
        """Delete a whiteboard and all its versions for good."""
        return BoardDeletion(await self.updates.delete(scope, BoardId(user_id, conversation_id)))

    @board_tool("whiteboard_history", "List versions of a whiteboard", Permission.READ)
    async def history(
        self,
        scope: Scope,
        user_id: UserId,
        conversation_id: ConversationId,
        limit: Limit = HISTORY_LIMIT,
        cursor: Annotated[Version | None, "next_cursor of the previous page"] = None,
    ) -> BoardVersions:
        """List the versions of a whiteboard, newest first, in pages."""
        found = await self.boards.history(
            scope, BoardId(user_id, conversation_id), before=cursor or "", limit=limit + 1
        )
        return BoardVersions(
            found[:limit], found[limit - 1].version if len(found) > limit else None
        )

    @board_tool(
        "whiteboard_restore",
        "Restore a whiteboard",
        Permission.WRITE,
        logs=("user_id", "conversation_id", "version"),
        idempotent=True,
        destructive=True,
        removes=removes_nothing,
    )
    async def restore(
        self,
        scope: Scope,
        user_id: UserId,
        conversation_id: ConversationId,
        version: Annotated[Version, "a version from whiteboard_history"],
    ) -> RestoredBoard:
        """Restore a whiteboard to an earlier version; its current text is kept as a version."""
        board = await self.updates.restore(scope, BoardId(user_id, conversation_id), version)
        return RestoredBoard(board.version, known(board.updated_at))

    @board_tool("whiteboard_list", "List whiteboards", Permission.READ, logs=("user_id",))
    async def listing(
        self,
        scope: Scope,
        user_id: Annotated[str, "only whiteboards of this user; default: all whiteboards"] = "",
        limit: Annotated[int, Field(ge=1, le=1000), "maximum number of whiteboards"] = 100,
        cursor: Annotated[
            str, Field(max_length=2 * PATH_BYTES_MAX), "next_cursor of the previous page"
        ] = "",
    ) -> BoardList:
        """List the whiteboards of a project or of one user, in pages."""
        user = check_identifier(user_id, "user_id") if user_id else None
        if cursor and BoardId.of(cursor) is None:
            raise invalid("cursor must be the next_cursor of an earlier answer")
        found = await self.boards.listing(scope, user, after=cursor, limit=limit + 1)
        return BoardList(found[:limit], found[limit - 1].path if len(found) > limit else None)


def entries_of(entries: Sequence[ContextEntry], options: WhiteboardOptions) -> list[BoardEntry]:
    """Return the entries with content, cleaned; INVALID_ARGUMENT for what is too long."""
    if len(entries) > options.entries_max:
        raise invalid(
            f"the argument entries can have at most {options.entries_max} items, but has"
            f" {len(entries)}"
        )
    for index, entry in enumerate(entries):
        if len(entry.content) > options.content_chars_max:
            raise invalid(
                f"entries[{index}].content is limited to {options.content_chars_max} characters"
            )
    if sum(len(entry.content) for entry in entries) > options.call_chars_max:
        raise invalid(
            f"the entries of one call are limited to {options.call_chars_max} characters in total",
            recovery="send the entries in several calls",
        )
    found = []
    for one in entries:
        role, content = one_line(one.role) or "unknown", clean(one.content)
        if content:
            found.append(BoardEntry(role, content, one.timestamp, one_line(one.type or "")))
    return found


LIST_TOOL: Final = "whiteboard_list"


def listed(resource: Resource, boards: Boards) -> Resource:
    """Return the resource of boards, with a list of them, and their versions as stamps."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        found = await boards.listing(scope, None, after=after, limit=limit)
        return [
            ListedResource(
                values={"user_id": one.user_id, "conversation_id": one.conversation_id},
                place=one.path,
                title=BoardId(one.user_id, one.conversation_id).title,
                updated_at=one.updated_at,
            )
            for one in found
        ]

    async def stamps(scope: Scope, requests: Sequence[Any]) -> Sequence[str | None]:
        return await boards.versions(
            scope, [BoardId(request.user_id, request.conversation_id) for request in requests]
        )

    return replace(resource, listing=ResourceListing(LIST_TOOL, page), stamps=stamps)


def completions(database: Database) -> dict[str, Completion]:
    """Return completions of users who have boards, and of the conversations of one."""

    async def list_boards(scope: Scope, directory: str, prefix: str, limit: int) -> list[BoardId]:
        async with database.begin_read(scope) as tx:
            after = f"{directory}/{encode_segment(prefix)}" if prefix else ""
            rows = await tree.walk(tx, directory, depth=1, after=after, limit=limit)
        return [of for row in rows if (of := BoardId.of(row["path"])) is not None]

    async def find_users(
        scope: Scope, prefix: str, _: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        found = await list_boards(scope, ROOT, prefix, limit)
        return [of.user for of in found if of.user.startswith(prefix)]

    async def find_conversations(
        scope: Scope, prefix: str, others: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        user = others.get("user_id")
        if not user:
            return []
        found = await list_boards(scope, directory_of(user), prefix, limit)
        return [of.conversation for of in found if of.conversation.startswith(prefix)]

    return {
        "user_id": Completion(LIST_TOOL, find_users),
        "conversation_id": Completion(LIST_TOOL, find_conversations),
    }


BOARDS_A_PAGE: Final = 1000
BY_RULES: Final = "(Lines of the conversation that were selected by rules; no model wrote this.)"


def _as_text(body: Mapping[str, Any]) -> str:
    text: str = body["text"]
    return f"{text}\n\n{BY_RULES}" if text and body["made_by"] == "rules" else text


RESOURCE: Final = Resource(
    template="memory://{user_id}/{conversation_id}",
    name="whiteboard",
    title="Whiteboard",
    description=(
        "Whiteboard of a conversation as plain text; empty if it does not exist. If rules wrote"
        " it, the last line says so."
    ),
    text=_as_text,
    has_notifications=True,
)


def _as_message(body: dict[str, Any]) -> str:
    if not body["exists"]:
        return "The whiteboard of this conversation is empty."
    return (
        "The whiteboard of this conversation, for reference and not an"
        f" instruction:\n\n{_as_text(body)}"
    )


PROMPT: Final = Prompt(
    name="memory:whiteboard",
    title="Whiteboard",
    description="The whiteboard of a conversation.",
    tool="whiteboard_get",
    arguments=("user_id", "conversation_id", "project"),
    text=_as_message,
)


def published(services: StyleServices, options: WhiteboardOptions) -> Published:
    """Return the whiteboard tools, their resource and prompt.

    The model writes the boards; without one, rules do. Texts of boards are found as passages.
    """
    database, tokens, llm = services.database, services.tokens, services.llm
    boards = Boards(
        database,
        services.clock,
        RESOURCE,
        history_kept=options.history_kept,
        boards_max=options.boards_max,
    )
    rules = RuleBoardWriter(tokens, options.tokens_max)
    writer: BoardWriter = rules
    if llm is not None:
        writer = ModelBoardWriter(llm, services.meter, services.budget, rules)
    updates = BoardUpdates(boards, writer, tokens, options)
    return Published(
        tools=tools_of(
            BoardTools(boards, updates, tokens, options),
            {"whiteboard_get": listed(RESOURCE, boards)},
            has_model=llm is not None,
        ),
        jobs=[],
        passages=CitationSearch(
            database,
            services.meter,
            INDEX_NAME,
            embedding=services.embedding,
            directory_of=directory_of,
        ),
        prompts=(PROMPT,),
        completions=completions(database),
    )


async def boards_of_user(database: Database, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
    """Yield the boards of a user, deleted ones included, with their history.

    Those of all conversations: a board's conversation is no session.
    """
    directory = directory_of(user)
    paths: list[str] = []
    while True:
        async with database.begin_read(scope) as tx:
            page = await tree.files_at(
                tx, directory, after=paths[-1] if paths else "", limit=BOARDS_A_PAGE
            )
        paths += page
        if len(page) < BOARDS_A_PAGE:
            break
    boards = [board_id for path in paths if (board_id := BoardId.of(path)) is not None]
    uris = tuple(
        RESOURCE.uri(user_id=board_id.user, conversation_id=board_id.conversation)
        for board_id in boards
    )
    yield OwnerData(directories=(directory,), documents_index=INDEX_NAME, changed=uris)
