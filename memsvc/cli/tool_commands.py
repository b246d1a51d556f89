"""Commands that pass their options on to a tool, and related commands in the same groups."""

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
        str | None,
        Argument(help=f"A message written by the user{OR_STDIN}", callback=text_or_stdin),
    ] = None,
    messages: Annotated[
        Path | None,
        Option(
            help="A JSON file that contains a list of messages, each as"
            f" {{role, content}}{OR_STDIN}",
            allow_dash=True,
        ),
    ] = None,
) -> CommandOutput:
    """Extract memories from a conversation and store them."""
    if (text is None) == (messages is None):
        raise invalid("pass either a text or --messages, but not both")
    if messages is None:
        conversation = [{"role": "user", "content": text}]
    else:
        try:
            conversation = orjson.loads(local_bytes(messages))
        except orjson.JSONDecodeError as error:
            raise invalid(f"--messages {messages} does not contain valid JSON") from error
    body = await call("memories_add", user_id=user, messages=conversation)
    return CommandOutput(
        body, [body["message"], *columns(body["results"], "event", "id", "memory")]
    )


async def remove_memories(
    call: RemoteTools,
    user: User,
    memory: Annotated[str | None, Argument(help="The id of a memory.")] = None,
    all_memories: Annotated[bool, Option("--all", help="Delete every memory of the user.")] = False,
) -> CommandOutput:
    """Delete one memory of a user or, with --all, all of them."""
    if (memory is None) is not all_memories:
        raise invalid("pass the id of a memory, or pass --all to delete every memory of the user")
    tool = "memories_delete_all" if memory is None else "memories_delete"
    body = await call(tool, user_id=user, memory_id=memory)
    return CommandOutput(body, [body["message"]])


memories = command_group(
    {
        "add": add_memories,
        "search": tool_command(
            "memories_search",
            "Find a user's memories that match a question.",
            USER,
            argument("query", "A question, or words to search for."),
            option("limit", "Maximum number of memories to print.", int, min=1),
            lines=rows("results", "id", "memory"),
        ),
        "ls": tool_command(
            "memories_list",
            "List a user's memories, newest first.",
            USER,
            option("limit", "Maximum number of memories to print.", int, 100, min=1),
            lines=rows("results", "updated_at", "id", "memory"),
        ),
        "history": tool_command(
            "memories_history",
            "Show the history of a memory, oldest change first.",
            USER,
            MEMORY,
            lines=rows("results", "at", "event", "origin", "memory"),
        ),
        "update": tool_command(
            "memories_update",
            "Change the text of a memory; the old text is kept in its history.",
            USER,
            MEMORY,
            argument("text", f"The new text{OR_STDIN}", callback=text_or_stdin, to="memory"),
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
    source: Annotated[
        Path, Argument(help="A local file, or - for standard input.", allow_dash=True)
    ],
) -> CommandOutput:
    """Write a document from a file; a new [[link]] creates a document, a removed one deletes it."""
    try:
        content = local_bytes(source).decode()
    except UnicodeDecodeError as error:
        raise invalid(f"the content of {source} is not UTF-8 text") from error
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
            option("version", "Print this version of the document instead of the current one."),
            lines=_document_text,
        ),
        "write": write_document,
        "edit": tool_command(
            "edit_document",
            "Replace a text that occurs exactly once in a document.",
            DOCUMENT,
            argument("old_text", "The text to replace."),
            argument("new_text", f"The new text{OR_STDIN}", callback=text_or_stdin),
            lines=text("text"),
        ),
        "mv": tool_command(
            "move_document",
            "Move a document, with everything below it, to another parent.",
            DOCUMENT,
            argument("parent", "The id of the new parent."),
            lines=text("text"),
        ),
        "rename": tool_command(
            "move_document",
            "Rename a document and update the link to it; the document's history is kept.",
            DOCUMENT,
            argument("new_id", "The new id."),
            lines=text("text"),
        ),
        "search": tool_command(
            "search_documents",
            "Find passages in documents.",
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
            "Restore a document to an earlier version.",
            DOCUMENT,
            VERSION,
            lines=text("text"),
        ),
        "split": tool_command(
            "split_document",
            "Show how a document would be split at its headings; with --apply, split it.",
            DOCUMENT,
            option(
                "apply",
                "Split the document instead of only showing a preview.",
                bool,
                False,
                flags=["--apply"],
            ),
            lines=text("text"),
        ),
    }
)

BOARD: Final = (
    USER,
    argument("conversation", "The id of the conversation.", to="conversation_id"),
)


@stores
async def update_board(
    call: RemoteTools,
    user: User,
    conversation: Annotated[str, Argument(help="The id of the conversation.")],
    content: Annotated[str, Argument(help=f"The message{OR_STDIN}", callback=text_or_stdin)],
    role: Annotated[
        str, Option(help="The role of the message's author, such as user or assistant.")
    ] = "user",
) -> CommandOutput:
    """Update the whiteboard of a conversation with a new message."""
    entries = [{"role": role, "content": content}]
    body = await call("context_update", user_id=user, conversation_id=conversation, entries=entries)
    return CommandOutput(body, ["updated"])


whiteboard = command_group(
    {
        "ls": tool_command(
            "whiteboard_list",
            "List the whiteboards of a project.",
            option("user", "List only whiteboards of this user.", to="user_id"),
            lines=rows("boards", "updated_at", "user_id", "conversation_id"),
            pages="boards",
        ),
        "show": tool_command(
            "whiteboard_get",
            "Print a whiteboard.",
            *BOARD,
            option(
                "as_of",
                "Print the whiteboard as it was at this time, such as 2026-01-31T12:00:00Z.",
            ),
            lines=text("text"),
        ),
        "update": update_board,
        "history": tool_command(
            "whiteboard_history",
            "List the past versions of a whiteboard, newest first.",
            *BOARD,
            lines=rows("versions", "version", "updated_at"),
            pages="versions",
        ),
        "restore": tool_command(
            "whiteboard_restore",
            "Restore a whiteboard to an earlier version.",
            *BOARD,
            VERSION,
            lines=lambda body: ["restored"],
        ),
        "rm": tool_command(
            "whiteboard_delete",
            "Delete a whiteboard and its history for good.",
            *BOARD,
            lines=lambda body: ["deleted" if body["deleted"] else "the whiteboard did not exist"],
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
        "List logged calls, newest first, one per line, with columns separated by tabs.",
        option("tool", "List only calls to this tool."),
        option("status", "List only calls with this status: success, error or cancelled."),
        option("code", "List only calls that failed with this error code."),
        option("surface", "List only calls over this interface, such as mcp, rest or pipe."),
        option("key_label", "List only calls by keys with this label."),
        option("session", "List only calls with this session id.", to="session_id"),
        option("since", "List only calls at or after this time, such as 2026-01-31T12:00:00Z."),
        option("until", "List only calls before this time."),
        option("limit", "Maximum number of calls to list.", int, 50, min=1, max=100_000),
        lines=lambda body: ("\t".join(CALL_COLUMNS), *columns(body["calls"], *CALL_COLUMNS)),
        pages="calls",
        table="calls",
    ),
    target_of_project("List only calls in this project, or * for all projects.", ALL_PROJECTS),
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
    total = [] if len(projects) == 1 else [{"project": "(total)"} | body["total"]]
    table = [row | {"calls": sum(row["calls"].values())} for row in (*projects, *total)]
    yield "\t".join(("project", *COUNTS, "calls"))
    yield from columns(table, "project", *COUNTS, "calls")
    yield from (
        f"model calls today\t{name}\t{times}" for name, times in body["model_calls"].items()
    )


usage = tool_command(
    "tenant_usage",
    "Report how much data a project stores; with --project '*', report each project and the total.",
    lines=_usage,
    table="projects",
)
