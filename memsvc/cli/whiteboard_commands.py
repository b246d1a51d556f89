"""Command `memsvc whiteboard`: the running summaries of conversations."""

from typing import Annotated

import typer

from memsvc.cli.tool_client import CommandOutput, RemoteTools, columns, using_memory

commands = typer.Typer(
    help="Whiteboard: a running summary of each conversation.", no_args_is_help=True
)

User = Annotated[str, typer.Argument(help="The user.")]
Conversation = Annotated[str, typer.Argument(help="The conversation.")]


@using_memory(commands)
async def ls(
    call: RemoteTools,
    user: Annotated[str | None, typer.Option(help="Only boards of this user.")] = None,
) -> CommandOutput:
    """List the boards of a project."""
    boards = await call.list_all("whiteboard_list", "boards", user_id=user)
    return CommandOutput(
        {"boards": boards}, columns(boards, "updated_at", "user_id", "conversation_id")
    )


@using_memory(commands)
async def show(
    call: RemoteTools,
    user: User,
    conversation: Conversation,
    as_of: Annotated[str | None, typer.Option(help="As it was at this moment (RFC 3339).")] = None,
) -> CommandOutput:
    """Print a board."""
    body = await call("whiteboard_get", user_id=user, conversation_id=conversation, as_of=as_of)
    return CommandOutput(body, [body["text"]])


@using_memory(commands)
async def update(
    call: RemoteTools,
    user: User,
    conversation: Conversation,
    content: Annotated[str, typer.Argument(help="What was said.")],
    role: Annotated[str, typer.Option(help="Who said it.")] = "user",
) -> CommandOutput:
    """Update a board with a message."""
    entries = [{"role": role, "content": content}]
    body = await call("context_update", user_id=user, conversation_id=conversation, entries=entries)
    return CommandOutput(body, ["updated"])


@using_memory(commands)
async def history(call: RemoteTools, user: User, conversation: Conversation) -> CommandOutput:
    """List the past versions of a board, newest first."""
    versions = await call.list_all(
        "whiteboard_history", "versions", user_id=user, conversation_id=conversation
    )
    return CommandOutput({"versions": versions}, columns(versions, "version", "updated_at"))


@using_memory(commands)
async def restore(
    call: RemoteTools, user: User, conversation: Conversation, version: str
) -> CommandOutput:
    """Restore a board to a version."""
    body = await call(
        "whiteboard_restore", user_id=user, conversation_id=conversation, version=version
    )
    return CommandOutput(body, ["restored"])


@using_memory(commands)
async def rm(call: RemoteTools, user: User, conversation: Conversation) -> CommandOutput:
    """Delete a board with its history, for good."""
    body = await call("whiteboard_delete", user_id=user, conversation_id=conversation)
    return CommandOutput(body, ["deleted" if body["deleted"] else "there was none"])
