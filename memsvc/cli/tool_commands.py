"""Commands that pass their options on to a tool, and a few beside them in the same groups."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from typer import Argument, Option

from memsvc.cli.tool_client import (
    OR_STDIN,
    CommandOutput,
    RemoteTools,
    argument,
    as_command,
    columns,
    command_group,
    local_bytes,
    option,
    rows,
    stores,
    target_of_project,
    text,
    text_or_stdin,
    tool_command,
)
from memsvc.core.errors import invalid
from memsvc.core.scope import ALL_PROJECTS

USER: Final = argument("user", "The user.", to="user_id")
MEMORY: Final = argument("memory", "The id of a memory.", to="memory_id")
User = Annotated[str, Argument(help="The user.")]


@stores
async def add_memories(
    call: RemoteTools,
    user: User,
    text: Annotated[
        str | None, Argument(help=f"What the user said{OR_STDIN}", callback=text_or_stdin)
    ] = None,
    messages: Annotated[
        Path | None,
        Option(help=f"A JSON file: a list of {{role, content}}{OR_STDIN}", allow_dash=True),
    ] = None,
) -> CommandOutput:
    """Extract memories from a conversation and store them."""
    if (text is None) == (messages is None):
        raise invalid("give either a text or --messages")
    if messages is None:
        conversation = [{"role": "user", "content": text}]
    else:
        try:
            conversation = orjson.loads(local_bytes(messages))
        except orjson.JSONDecodeError as error:
            raise invalid(f"{messages} is not JSON") from error
    body = await call("memories_add", user_id=user, messages=conversation)
    return CommandOutput(
        body, [body["message"], *columns(body["results"], "event", "id", "memory")]
    )


async def remove_memories(
    call: RemoteTools,
    user: User,
    memory: Annotated[str | None, Argument(help="The id of a memory.")] = None,
    all_memories: Annotated[bool, Option("--all", help="Every memory of the user.")] = False,
) -> CommandOutput:
    """Delete a memory, or with --all every memory of a user."""
    if (memory is None) is not all_memories:
        raise invalid("name a memory, or give --all")
    tool = "memories_delete_all" if memory is None else "memories_delete"
    body = await call(tool, user_id=user, memory_id=memory)
    return CommandOutput(body, [body["message"]])


memories = command_group(
    {
        "add": add_memories,
        "search": tool_command(
            "memories_search",
            "Find the memories of a user that match a question.",
            USER,
            argument("query", "A question, or words."),
            option("limit", "Memories at the most.", int, min=1),
            lines=rows("results", "id", "memory"),
        ),
        "ls": tool_command(
            "memories_list",
            "List the memories of a user, newest first.",
            USER,
            option("limit", "Memories at the most.", int, 100, min=1),
            lines=rows("results", "updated_at", "id", "memory"),
        ),
        "history": tool_command(
            "memories_history",
            "Show the changes of a memory, oldest first.",
            USER,
            MEMORY,
            lines=rows("results", "at", "event", "origin", "memory"),
        ),
        "update": tool_command(
            "memories_update",
            "Change the text of a memory; its history keeps the old one.",
            USER,
            MEMORY,
            argument("text", f"The new text{OR_STDIN}", is_text=True, to="memory"),
            lines=text("memory"),
        ),
        "rm": remove_memories,
    }
)

DOCUMENT_HELP: Final = "The id of a document."
DOCUMENT: Final = argument("document", DOCUMENT_HELP, to="id", metavar="ID")
DOCUMENT_OR_ROOT: Final = argument("document", DOCUMENT_HELP, default="root", to="id", metavar="ID")
VERSION: Final = argument("version")


@stores
async def write_document(
    call: RemoteTools,
    document: Annotated[str, Argument(help=DOCUMENT_HELP, metavar="ID")],
    source: Annotated[Path, Argument(help="A local file; - for standard input.", allow_dash=True)],
) -> CommandOutput:
    """Replace a document with a local file; new [[links]] make documents, dropped ones delete."""
    try:
        content = local_bytes(source).decode()
    except UnicodeDecodeError as error:
        raise invalid(f"{source} is not UTF-8 text") from error
    body = await call("update_document", id=document, content=content)
    return CommandOutput(body, [body["text"], *([body["note"]] if body.get("note") else [])])


def _document_text(body: Any) -> Iterable[str]:
    return [body["text"].rstrip("\n")]


notebook = command_group(
    {
        "tree": tool_command(
            "get_document_tree", "Show all documents as a tree, in YAML.", lines=_document_text
        ),
        "read": tool_command(
            "read_document",
            "Print a document.",
            DOCUMENT_OR_ROOT,
            option("version", "What it was at this version."),
            lines=_document_text,
        ),
        "write": write_document,
        "edit": tool_command(
            "edit_document",
            "Replace a text that occurs exactly once in a document.",
            DOCUMENT,
            argument("old_text", "The text to replace."),
            argument("new_text", f"What it says instead{OR_STDIN}", is_text=True),
            lines=text("text"),
        ),
        "mv": tool_command(
            "move_document",
            "Move a document, with all below it, to another parent.",
            DOCUMENT,
            argument("parent", "The document it goes below."),
            lines=text("text"),
        ),
        "rename": tool_command(
            "move_document",
            "Give a document another id, and mend the link to it; its history is kept.",
            DOCUMENT,
            argument("new_id", "Its id from now on."),
            lines=text("text"),
        ),
        "search": tool_command(
            "search_documents",
            "Find passages of documents.",
            argument("query"),
            option("limit", None, int, min=1),
            lines=rows("passages", "score", "id", "text"),
        ),
        "history": tool_command(
            "document_history",
            "List the past versions of a document, newest first.",
            DOCUMENT_OR_ROOT,
            lines=rows("versions", "version", "size_bytes", "created_at"),
            pages="versions",
        ),
        "restore": tool_command(
            "restore_document",
            "Restore a document to a version.",
            DOCUMENT,
            VERSION,
            lines=text("text"),
        ),
        "split": tool_command(
            "split_document",
            "Show how a document could be split by its headings, or do it.",
            DOCUMENT,
            option("apply", "Do it.", bool, False, flags=["--apply"]),
            lines=text("text"),
        ),
    }
)

BOARD: Final = (
    USER,
    argument("conversation", "The conversation.", to="conversation_id"),
)


@stores
async def update_board(
    call: RemoteTools,
    user: User,
    conversation: Annotated[str, Argument(help="The conversation.")],
    content: Annotated[str, Argument(help=f"What was said{OR_STDIN}", callback=text_or_stdin)],
    role: Annotated[str, Option(help="Who said it.")] = "user",
) -> CommandOutput:
    """Update a board with a message."""
    entries = [{"role": role, "content": content}]
    body = await call("context_update", user_id=user, conversation_id=conversation, entries=entries)
    return CommandOutput(body, ["updated"])


whiteboard = command_group(
    {
        "ls": tool_command(
            "whiteboard_list",
            "List the boards of a project.",
            option("user", "Only boards of this user.", to="user_id"),
            lines=rows("boards", "updated_at", "user_id", "conversation_id"),
            pages="boards",
        ),
        "show": tool_command(
            "whiteboard_get",
            "Print a board.",
            *BOARD,
            option("as_of", "As it was at this moment (RFC 3339)."),
            lines=text("text"),
        ),
        "update": update_board,
        "history": tool_command(
            "whiteboard_history",
            "List the past versions of a board, newest first.",
            *BOARD,
            lines=rows("versions", "version", "updated_at"),
            pages="versions",
        ),
        "restore": tool_command(
            "whiteboard_restore",
            "Restore a board to a version.",
            *BOARD,
            VERSION,
            lines=lambda body: ["restored"],
        ),
        "rm": tool_command(
            "whiteboard_delete",
            "Delete a board with its history, for good.",
            *BOARD,
            lines=lambda body: ["deleted" if body["deleted"] else "there was none"],
        ),
    }
)

CALL_COLUMNS: Final = (
    "called_at", "status", "code", "duration_ms", "surface", "tool", "project", "key_label",
    "request_id",
)  # fmt: skip


calls = as_command(
    tool_command(
        "calls_list",
        "List the calls that were made, newest first, one a line, columns separated by tabs.",
        option("tool", "Only calls of this tool."),
        option("status", "Only calls that ended so: success, error, cancelled."),
        option("code", "Only calls that failed with this code."),
        option("surface", "Only calls that came this way: mcp, rest, pipe."),
        option("key_label", "Only calls of keys of this label."),
        option("session", "Only calls that named this session.", to="session_id"),
        option("since", "Only calls from this time on, such as 2026-01-31T12:00:00Z."),
        option("until", "Only calls before this time, given likewise."),
        option("limit", "So many at the most.", int, 50, min=1, max=100_000),
        lines=lambda body: ("\t".join(CALL_COLUMNS), *columns(body["calls"], *CALL_COLUMNS)),
        pages="calls",
    ),
    target_of_project("Only calls of this project; * for all.", ALL_PROJECTS),
)

COUNTS: Final = (
    "files", "file_bytes", "stored_bytes", "sessions", "turns", "facts", "memories", "boards",
    "documents", "blocks", "index_entries", "vectors", "jobs",
)  # fmt: skip


def _usage(body: Any) -> Iterable[str]:
    names = {ALL_PROJECTS: "(no project)"}
    projects = [
        row | {"project": names.get(row["project"], row["project"])} for row in body["projects"]
    ]
    total = [] if len(projects) == 1 else [{"project": "(all together)"} | body["total"]]
    table = [row | {"calls": sum(row["calls"].values())} for row in (*projects, *total)]
    yield "\t".join(("project", *COUNTS, "calls"))
    yield from columns(table, "project", *COUNTS, "calls")
    yield from (
        f"model calls today\t{name}\t{times}" for name, times in body["model_calls"].items()
    )


usage = tool_command(
    "tenant_usage",
    "Report what a project stores; with --project '*' each project and all of them together.",
    lines=_usage,
)
