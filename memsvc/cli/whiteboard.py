"""Command `memsvc whiteboard`: the running summaries of conversations."""

from typing import Annotated

import typer

from memsvc.cli.calls import Calls, Said, columns, using_memory

commands = typer.Typer(help="Whiteboard: a running summary of each conversation.", no_args_is_help=True)

User = Annotated[str, typer.Argument(help="The user.")]
Conversation = Annotated[str, typer.Argument(help="The conversation.")]


@using_memory(commands)
async def ls(call: Calls, user: Annotated[str | None, typer.Option(help="Only boards of this user.")] = None) -> Said:
    """List the boards of a project."""
    boards = await call.pages("whiteboard_list", "boards", user_id=user)
    return Said({"boards": boards}, columns(boards, "updated_at", "user_id", "conversation_id"))


@using_memory(commands)
async def show(
    call: Calls,
    user: User,
    conversation: Conversation,
    as_of: Annotated[str | None, typer.Option(help="As it was at this moment (RFC 3339).")] = None,
) -> Said:
    """Print a board."""
    body = await call("whiteboard_get", user_id=user, conversation_id=conversation, as_of=as_of)
    return Said(body, [body["text"]])


@using_memory(commands)
async def update(
    call: Calls,
    user: User,
    conversation: Conversation,
    content: Annotated[str, typer.Argument(help="What was said.")],
    role: Annotated[str, typer.Option(help="Who said it.")] = "user",
) -> Said:
    """Update a board with a message."""
    entries = [{"role": role, "content": content}]
    body = await call("context_update", user_id=user, conversation_id=conversation, entries=entries)
    return Said(body, ["updated"])


@using_memory(commands)
async def history(call: Calls, user: User, conversation: Conversation) -> Said:
    """List the past versions of a board, newest first."""
    versions = await call.pages("whiteboard_history", "versions", user_id=user, conversation_id=conversation)
    return Said({"versions": versions}, columns(versions, "version", "updated_at"))


@using_memory(commands)
async def restore(call: Calls, user: User, conversation: Conversation, version: str) -> Said:
    """Restore a board to a version."""
    body = await call("whiteboard_restore", user_id=user, conversation_id=conversation, version=version)
    return Said(body, ["restored"])


@using_memory(commands)
async def rm(call: Calls, user: User, conversation: Conversation) -> Said:
    """Delete a board with its history, for good."""
    body = await call("whiteboard_delete", user_id=user, conversation_id=conversation)
    return Said(body, ["deleted" if body["deleted"] else "there was none"])
