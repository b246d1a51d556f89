"""Command `memsvc memories`: memories of a user, as REST clients of long-term memories use them."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from memsvc.cli.tool_client import CommandOutput, RemoteTools, columns, using_memory
from memsvc.core.errors import invalid

commands = typer.Typer(help="Memories: what is known of a user.", no_args_is_help=True)

User = Annotated[str, typer.Argument(help="The user.")]
Memory = Annotated[str, typer.Argument(help="The id of a memory.")]


@using_memory(commands)
async def add(
    call: RemoteTools,
    user: User,
    text: Annotated[str | None, typer.Argument(help="What the user said.")] = None,
    messages: Annotated[
        Path | None, typer.Option(help="A JSON file: a list of {role, content}.")
    ] = None,
) -> CommandOutput:
    """Extract memories from a conversation and store them."""
    if (text is None) == (messages is None):
        raise invalid("give either a text or --messages")
    if messages is None:
        conversation = [{"role": "user", "content": text}]
    else:
        try:
            conversation = orjson.loads(messages.read_bytes())
        except OSError as error:
            raise invalid(f"cannot read {messages}: {error.strerror}") from error
        except orjson.JSONDecodeError as error:
            raise invalid(f"{messages} is not JSON") from error
    body = await call("memories_add", user_id=user, messages=conversation)
    return CommandOutput(
        body, [body["message"], *columns(body["results"], "event", "id", "memory")]
    )


@using_memory(commands)
async def search(
    call: RemoteTools,
    user: User,
    query: Annotated[str, typer.Argument(help="A question, or words.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Memories at the most.")] = None,
) -> CommandOutput:
    """Find the memories of a user that match a question."""
    body = await call("memories_search", user_id=user, query=query, limit=limit)
    return CommandOutput(body, columns(body["results"], "id", "memory"))


@using_memory(commands)
async def ls(
    call: RemoteTools,
    user: User,
    limit: Annotated[int, typer.Option(min=1, help="Memories at the most.")] = 100,
) -> CommandOutput:
    """List the memories of a user, newest first."""
    body = await call("memories_list", user_id=user, limit=limit)
    return CommandOutput(body, columns(body["results"], "updated_at", "id", "memory"))


@using_memory(commands)
async def history(call: RemoteTools, user: User, memory: Memory) -> CommandOutput:
    """Show the changes of a memory, oldest first."""
    body = await call("memories_history", user_id=user, memory_id=memory)
    return CommandOutput(body, columns(body["results"], "at", "event", "origin", "memory"))


@using_memory(commands)
async def rm(
    call: RemoteTools,
    user: User,
    memory: Annotated[str | None, typer.Argument(help="The id of a memory.")] = None,
    all_memories: Annotated[bool, typer.Option("--all", help="Every memory of the user.")] = False,
) -> CommandOutput:
    """Delete a memory, or with --all every memory of a user."""
    if (memory is None) is not all_memories:
        raise invalid("name a memory, or give --all")
    if memory is None:
        body = await call("memories_delete_all", user_id=user)
    else:
        body = await call("memories_delete", user_id=user, memory_id=memory)
    return CommandOutput(body, [body["message"]])
