"""The commands of the knowledge style: `memsvc remember` and others, all of them also `elfmem`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from memsvc.cli.main import fail
from memsvc.cli.tool_client import (
    CommandOutput,
    CommandTarget,
    Json,
    RemoteTools,
    columns,
    show,
    using_memory,
)
from memsvc.core.errors import MemsvcError, SettingsError, invalid
from memsvc.styles.knowledge.guide import guide as documentation
from memsvc.variables import URL_VARIABLE

knowledge = typer.Typer(
    help="Knowledge: blocks that fade unless they prove useful.", no_args_is_help=True
)

Blocks = Annotated[str, typer.Argument(help="Ids of blocks, commas between them.", metavar="ID,ID")]
Block = Annotated[str, typer.Argument(help="The id of a block.")]

commands = typer.Typer(
    name="elfmem",
    help="Adaptive memory for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Db = Annotated[str | None, typer.Option("--db", envvar="ELFMEM_DB", help="Data folder.")]
Config = Annotated[
    Path | None, typer.Option("--config", envvar="ELFMEM_CONFIG", help="YAML file of settings.")
]


async def remember(
    call: RemoteTools,
    content: Annotated[str, typer.Argument(help="What to remember.")],
    tags: Annotated[str | None, typer.Option(help="Commas between them.")] = None,
    category: Annotated[str | None, typer.Option(help="What kind of block it is.")] = None,
    cue: Annotated[str | None, typer.Option(help="When it should come to mind.")] = None,
) -> CommandOutput:
    """Store knowledge for future retrieval."""
    args = {"content": content, "tags": _words(tags), "category": category, "cue": cue}
    body = await call("elfmem_remember", **args)
    program = "elfmem" if Path(sys.argv[0]).stem == "elfmem" else "memsvc knowledge"
    full = (
        [f"Inbox full \N{EM DASH} run '{program} dream' to consolidate."]
        if body["should_dream"]
        else []
    )
    return CommandOutput(body, [body["summary"], *full])


async def recall(
    call: RemoteTools,
    query: Annotated[str, typer.Argument(help="What it is about; empty for what matters most.")],
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Blocks at the most; else 5, or all guaranteed.")
    ] = None,
    frame: Annotated[str, typer.Option(help="attention, self, task or simulate.")] = "attention",
) -> CommandOutput:
    """Retrieve relevant knowledge, rendered for prompt injection."""
    body = await call("elfmem_recall", query=query, top_k=top_k, frame=frame)
    return CommandOutput(body, [body["text"]])


async def status(call: RemoteTools) -> CommandOutput:
    """System health and suggested next action."""
    return _summary(await call("elfmem_status"))


async def outcome(
    call: RemoteTools,
    block_ids: Blocks,
    signal: Annotated[float, typer.Argument(help="From 0 (it misled) to 1 (it helped).")],
    weight: Annotated[float, typer.Option(help="How much this observation counts.")] = 1.0,
    source: Annotated[str, typer.Option(help="A label for the audit.")] = "",
) -> CommandOutput:
    """Record domain outcome signal [0.0-1.0] to update block confidence."""
    ids = _words(block_ids) or []
    return _summary(
        await call("elfmem_outcome", block_ids=ids, signal=signal, weight=weight, source=source)
    )


async def curate(call: RemoteTools) -> CommandOutput:
    """Archive decayed blocks, prune weak edges, reinforce top knowledge."""
    return _summary(await call("elfmem_curate"))


def guide(
    method: Annotated[
        str | None, typer.Argument(help="An operation; the overview if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show documentation for a specific operation, or the full overview; no database is needed."""
    show(CommandOutput({"text": documentation(method)}, [documentation(method)]), as_json=as_json)


async def edit(
    call: RemoteTools,
    block_id: Block,
    content: Annotated[str | None, typer.Argument(help="The new content.")] = None,
    cue: Annotated[str | None, typer.Option(help="The new cue.")] = None,
) -> CommandOutput:
    """Change the content or the cue of a block."""
    return _summary(await call("elfmem_edit", block_id=block_id, content=content, cue=cue))


async def forget(call: RemoteTools, block_id: Block) -> CommandOutput:
    """Stop recalling a block."""
    return _summary(await call("elfmem_forget", block_id=block_id))


async def ls(
    call: RemoteTools,
    tag: Annotated[str | None, typer.Option(help="Only blocks with this tag.")] = None,
    category: Annotated[str | None, typer.Option(help="Only blocks of this category.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Blocks at the most.")] = 50,
) -> CommandOutput:
    """List active blocks."""
    return _blocks(
        await call("elfmem_ls", tag=tag, category=category, limit=limit), "No active blocks match."
    )


async def inbox(
    call: RemoteTools, most: Annotated[int | None, typer.Option("--max", min=1)] = None
) -> CommandOutput:
    """List the blocks pending consolidation."""
    return _blocks(await call("elfmem_inbox", max_count=most), "Inbox empty.")


async def dream(call: RemoteTools) -> CommandOutput:
    """Consolidate the pending blocks."""
    body = await call("elfmem_dream")
    if "message" in body:
        idle = "No pending blocks \N{EM DASH} nothing to consolidate."
        return CommandOutput(body | {"message": idle}, [idle])
    return _summary(body)


async def connect(
    call: RemoteTools,
    source: Block,
    target: Block,
    relation: Annotated[str | None, typer.Option(help="What the source is to the target.")] = None,
    note: Annotated[str | None, typer.Option(help="Why.")] = None,
) -> CommandOutput:
    """Connect two blocks."""
    return _summary(
        await call("elfmem_connect", source=source, target=target, relation=relation, note=note)
    )


async def disconnect(call: RemoteTools, source: Block, target: Block) -> CommandOutput:
    """Remove the connection of two blocks."""
    return _summary(await call("elfmem_disconnect", source=source, target=target))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _summary(body: dict[str, Any]) -> CommandOutput:
    return CommandOutput(body, [body["summary"]])


def _blocks(body: dict[str, Any], none: str) -> CommandOutput:
    rows = [
        row | {"text": " ".join([row["content"], _tags(row["tags"])])} for row in body["result"]
    ]
    return CommandOutput(body, columns(rows, "id", "status", "text") if rows else [none])


def _tags(tags: list[str]) -> str:
    return f"[{', '.join(tags)}]" if tags else ""


MAIN = (remember, recall, status, outcome, curate)
"""Commands of `memsvc` itself."""
GROUP = (edit, forget, ls, inbox, dream, connect, disconnect)
"""Commands under `memsvc knowledge`."""


def command_target(*, db: Db = None, config: Config = None, as_json: Json = False) -> CommandTarget:
    """Return the data folder, opened by its own key as `serve` does.

    Where none is named and MEMSVC_URL is set, return the server there.
    """
    if not db and os.environ.get(URL_VARIABLE):
        return CommandTarget(os.environ[URL_VARIABLE], config=config, as_json=as_json)
    return CommandTarget(
        config=config, data_dir=folder_of(db), as_json=as_json, use_folder_key=True
    )


def folder_of(db: str | None) -> Path:
    """Return the data folder.

    Raises one error where none is named, another where it is a database of another program.
    """
    if not db:
        raise invalid("--db is required (or set ELFMEM_DB env var)")
    folder = Path(db)
    if folder.is_file():
        raise invalid(
            f"{db} is a file, and --db names a folder",
            recovery="name a folder that is new or memsvc made",
        )
    return folder


for _command in (*MAIN, *GROUP):
    using_memory(commands, command_target)(_command)
    if _command in GROUP:
        using_memory(knowledge)(_command)
commands.command("guide")(guide)


@commands.command()
def serve(db: Db = None, config: Config = None) -> None:
    """Start the elfmem MCP server for agent tool integration."""
    from memsvc.standalone import serve_knowledge  # noqa: PLC0415 - the whole server

    serve_knowledge(folder_of(db), config)


def main() -> None:
    """Run the command; a failure prints a line or two on stderr, without a traceback."""
    try:
        commands()
    except SettingsError as error:
        fail(error.errors, "see docs/configuration.md", status=2)
    except MemsvcError as error:
        fail([error.message], error.recovery)
