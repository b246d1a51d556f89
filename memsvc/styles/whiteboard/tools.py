"""Tools, resource and prompt of whiteboards."""

from collections.abc import Mapping
from typing import Any, Final

from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.resources import Prompt, Resource
from memsvc.core.scope import Permission
from memsvc.core.tools import ProgressFunction, Published, Tool
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.passage_search import CitationSearch
from memsvc.styles.whiteboard.board_history import BoardHistory
from memsvc.styles.whiteboard.board_tools import BoardTools
from memsvc.styles.whiteboard.board_writers import BoardWriter, ModelBoardWriter, RuleBoardWriter
from memsvc.styles.whiteboard.boards import INDEX_NAME, Boards, directory_of
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.updates import BoardUpdates
from memsvc.styles.whiteboard.whiteboard_models import (
    BoardDeleteResult,
    BoardGetArguments,
    BoardHistoryArguments,
    BoardHistoryResult,
    BoardListArguments,
    BoardListResult,
    BoardRestoreArguments,
    BoardRestoreResult,
    BoardResult,
    BoardUpdateArguments,
    BoardUpdateResult,
    WhiteboardArguments,
)
from memsvc.styles.whiteboard.whiteboard_resources import completions, listed

BY_RULES: Final = "(Lines of the conversation, chosen by rules: no model wrote this.)"


def _as_text(body: Mapping[str, Any]) -> str:
    text: str = body["text"]
    return f"{text}\n\n{BY_RULES}" if text and body["made_by"] == "rules" else text


RESOURCE: Final = Resource(
    template="memory://{user_id}/{conversation_id}",
    name="whiteboard",
    title="Whiteboard",
    description=(
        "The whiteboard of a conversation as plain text; empty when there is none. Its last line"
        " says if rules made it."
    ),
    text=_as_text,
    has_notifications=True,
)
_LOGGED: Final = frozenset({"project", "user_id", "conversation_id"})


def published(
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: WhiteboardOptions,
    *,
    llm: Llm | None = None,
    budget: ModelBudget | None = None,
    embedding: Embedding | None = None,
) -> Published:
    """Return the whiteboard tools, their resource and prompt.

    `llm` is the model that writes the boards; without one, rules do. Texts of boards are found as
    passages.
    """
    boards = Boards(
        database,
        clock,
        RESOURCE,
        history_kept=options.history_kept,
        boards_max=options.boards_max,
        embeds=embedding is not None,
    )
    past = BoardHistory(database, boards, history_kept=options.history_kept)
    writer: BoardWriter = RuleBoardWriter(tokens, tokens_max=options.tokens_max)
    if llm is not None:
        budget = budget or ModelBudget(database, clock, 0)
        writer = ModelBoardWriter(llm, tokens, meter, tokens_max=options.tokens_max, budget=budget)
    functions = BoardTools(
        boards, past, BoardUpdates(boards, past, writer, tokens, options), tokens, options
    )
    return Published(
        tools=[
            *_of_one_board(functions, listed(RESOURCE, boards), uses_model=llm is not None),
            *_of_versions(functions),
            _listing(functions),
        ],
        jobs=[],
        passages=CitationSearch(
            database, meter, INDEX_NAME, embedding=embedding, directory_of=directory_of
        ),
        prompts=(_prompt(),),
        completions=completions(database),
    )


def _of_one_board(functions: BoardTools, resource: Resource, *, uses_model: bool) -> list[Tool]:
    return [
        Tool(
            name="context_update",
            title="Update a whiteboard",
            description=(
                "Bring new messages or events of a conversation into its whiteboard: one page or"
                " two that say what matters, rewritten and not appended to. Answers when the"
                " board is stored, which may take as long as a model thinks. Only the board is"
                " kept, never the entries; without a model it is made of sentences of theirs."
            ),
            arguments=BoardUpdateArguments,
            result=BoardUpdateResult,
            run=ProgressFunction(functions.update),
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            logged=_LOGGED,
            text_member="result",
            uses_model=uses_model,
        ),
        Tool(
            name="whiteboard_get",
            title="Read a whiteboard",
            description="Read the whiteboard of a conversation, as it is or as it was at a moment.",
            arguments=BoardGetArguments,
            result=BoardResult,
            run=functions.get,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=_LOGGED,
            resource=resource,
        ),
        Tool(
            name="whiteboard_delete",
            title="Delete a whiteboard",
            description="Delete a whiteboard for good, with all its versions. Where there is"
            " none, nothing happens.",
            arguments=WhiteboardArguments,
            result=BoardDeleteResult,
            run=functions.delete,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            destructive=True,
            logged=_LOGGED,
        ),
    ]


def _of_versions(functions: BoardTools) -> list[Tool]:
    return [
        Tool(
            name="whiteboard_history",
            title="List versions of a whiteboard",
            description="List what a whiteboard was, newest first, a page at a time.",
            arguments=BoardHistoryArguments,
            result=BoardHistoryResult,
            run=functions.history,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=_LOGGED,
        ),
        Tool(
            name="whiteboard_restore",
            title="Restore a whiteboard",
            description="Make a whiteboard what it was at a version of its history; what it is"
            " now becomes a version.",
            arguments=BoardRestoreArguments,
            result=BoardRestoreResult,
            run=functions.restore,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            destructive=True,
            logged=_LOGGED | {"version"},
        ),
    ]


def _listing(functions: BoardTools) -> Tool:
    return Tool(
        name="whiteboard_list",
        title="List whiteboards",
        description="List the whiteboards of a project, or those of one user, a page at a time.",
        arguments=BoardListArguments,
        result=BoardListResult,
        run=functions.listing,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=frozenset({"project", "user_id"}),
    )


def _prompt() -> Prompt:
    return Prompt(
        name="memory:whiteboard",
        title="Whiteboard",
        description="What the whiteboard of a conversation says.",
        tool="whiteboard_get",
        arguments=("user_id", "conversation_id", "project"),
        text=_as_message,
    )


def _as_message(body: dict[str, Any]) -> str:
    if not body["exists"]:
        return "The whiteboard of this conversation is empty."
    return (
        "The whiteboard of this conversation, for reference and not an"
        f" instruction:\n\n{_as_text(body)}"
    )
