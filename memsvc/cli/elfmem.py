"""The commands of knowledge, such as `memsvc remember`, which are also commands of `elfmem`."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Argument, Option

from memsvc.cli.main import EXAMPLES, HELP_OPTIONS, fail, with_examples
from memsvc.cli.tool_client import (
    OR_STDIN,
    CommandOutput,
    CommandTarget,
    Json,
    Lines,
    RemoteTools,
    argument,
    columns,
    command_group,
    option,
    printed,
    stores,
    text,
    text_or_stdin,
    tool_command,
)
from memsvc.core.errors import MemsvcError, SettingsError, invalid
from memsvc.styles.knowledge.guide import guide as documentation
from memsvc.styles.knowledge.guide import is_operation
from memsvc.variables import URL_VARIABLE

Db = Annotated[
    str | None, Option("--db", envvar="ELFMEM_DB", help="Folder that contains the data.")
]
Config = Annotated[
    Path | None,
    Option("--config", envvar="ELFMEM_CONFIG", help="YAML file that contains the settings."),
]
BLOCK_HELP: Final = "The id of a knowledge block."
BLOCK: Final = argument("block_id", BLOCK_HELP)
EDGE: Final = (argument("source", BLOCK_HELP), argument("target", BLOCK_HELP))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _remembered(body: Any) -> Iterable[str]:
    program = "elfmem" if Path(sys.argv[0]).stem == "elfmem" else "memsvc knowledge"
    yield body["summary"]
    if program != "elfmem":  # upstream shows a short id, which no command takes
        yield f"id: {body['block_id']}"
    if body["should_dream"]:
        yield f"Inbox full \N{EM DASH} run '{program} dream' to consolidate."


remember = stores(
    tool_command(
        "elfmem_remember",
        "Store knowledge for future retrieval.",
        argument("content", f"The text to remember{OR_STDIN}", callback=text_or_stdin),
        option("tags", "Tags, separated by commas.", callback=_words),
        option(
            "category", "The category of the knowledge block; blocks can be listed by category."
        ),
        option("cue", "A description of the situation in which to recall the knowledge block."),
        lines=_remembered,
    )
)
outcome = tool_command(
    "elfmem_outcome",
    "Record how helpful knowledge blocks were (0 to 1), and update their confidence.",
    argument(
        "block_ids",
        "Ids of knowledge blocks, separated by commas.",
        metavar="ID,ID",
        callback=_words,
    ),
    argument("signal", "How helpful the blocks were, from 0 (misleading) to 1 (helpful).", float),
    option(
        "weight",
        "How much this outcome counts as evidence, compared with an outcome of weight 1; must be"
        " above 0.",
        float,
        1.0,
    ),
    option(
        "source",
        "Where this outcome comes from, such as test_pass; the source is recorded for audits.",
        default="",
    ),
    lines=text("summary"),
)


@printed
def guide(
    method: Annotated[
        str | None,
        Argument(
            help="The name of an operation; if omitted, an overview of all operations is shown."
        ),
    ] = None,
) -> CommandOutput:
    """Show the documentation of an operation, or an overview; needs no database."""
    if method is not None and not is_operation(method):
        raise typer.BadParameter(documentation(method), param_hint="METHOD")
    card = documentation(method)
    return CommandOutput({"text": card}, [card])


async def dream(call: RemoteTools) -> CommandOutput:
    """Consolidate the pending blocks."""
    body = await call("elfmem_dream")
    if "message" in body:
        idle = "No pending blocks — nothing to consolidate."
        return CommandOutput(body | {"message": idle}, [idle])
    return CommandOutput(body, [body["summary"]])


def _blocks(none: str) -> Lines:
    def lines(body: Any) -> Iterable[str]:
        rows = [
            row
            | {
                "text": " ".join(
                    [row["content"], f"[{', '.join(row['tags'])}]" * bool(row["tags"])]
                )
            }
            for row in body["result"]
        ]
        return columns(rows, "id", "status", "text") if rows else [none]

    return lines


recall = tool_command(
    "elfmem_recall",
    "Retrieve relevant knowledge as text to insert into a prompt.",
    argument(
        "query",
        "The topic to recall knowledge about; if omitted, the most important blocks are returned.",
    ),
    option(
        "top_k",
        "Maximum number of knowledge blocks; the default is 5, or more if the frame requires more.",
        int,
        min=1,
    ),
    option(
        "frame",
        "The type of recall: attention, self, task or simulate.",
        default="attention",
    ),
    lines=text("text"),
)
status = tool_command(
    "elfmem_status",
    "Show the state of the stored knowledge and a suggested next action.",
    lines=text("summary"),
)
curate = tool_command(
    "elfmem_curate",
    "Archive decayed knowledge blocks, remove weak edges, and reinforce the best blocks.",
    lines=text("summary"),
)
MAIN: Final = {
    "remember": remember,
    "recall": recall,
    "status": status,
    "outcome": outcome,
    "curate": curate,
}
"""Commands of `memsvc` itself."""
GROUP: Final = {
    "edit": tool_command(
        "elfmem_edit",
        "Change the content of a knowledge block, or its cue (when to recall it).",
        BLOCK,
        argument("content", f"The new content{OR_STDIN}", default=None, callback=text_or_stdin),
        option("cue", "The new cue."),
        lines=text("summary"),
    ),
    "forget": tool_command(
        "elfmem_forget",
        "Forget a knowledge block and delete its text.",
        BLOCK,
        lines=text("summary"),
    ),
    "ls": tool_command(
        "elfmem_ls",
        "List active knowledge blocks.",
        option("tag", "List only knowledge blocks with this tag."),
        option("category", "List only knowledge blocks in this category."),
        option("limit", "Maximum number of knowledge blocks.", int, 50, min=1),
        lines=_blocks("No active knowledge blocks match."),
    ),
    "inbox": tool_command(
        "elfmem_inbox",
        "List the knowledge blocks that are waiting for consolidation.",
        option("most", None, int, flags=["--max"], to="max_count", min=1),
        lines=_blocks("Inbox empty."),
    ),
    "dream": dream,
    "connect": tool_command(
        "elfmem_connect",
        "Connect two knowledge blocks.",
        *EDGE,
        option(
            "relation",
            "How the source block relates to the target block, such as supports or contradicts.",
        ),
        option("note", "Why the blocks are connected."),
        lines=text("summary"),
    ),
    "disconnect": tool_command(
        "elfmem_disconnect",
        "Remove the connection between two knowledge blocks.",
        *EDGE,
        lines=text("summary"),
    ),
}
"""Commands under `memsvc knowledge`."""
knowledge = command_group(GROUP)


def command_target(*, db: Db = None, config: Config = None, as_json: Json = False) -> CommandTarget:
    """Return the data folder, opened with its own key as `serve` does.

    If no folder is named and MEMSVC_URL is set, return the server there."""
    if not db and os.environ.get(URL_VARIABLE):
        return CommandTarget(os.environ[URL_VARIABLE], config=config, as_json=as_json)
    return CommandTarget(
        config=config, data_dir=folder_of(db), as_json=as_json, use_folder_key=True
    )


def folder_of(db: str | None) -> Path:
    """Return the data folder.

    Raises one error if no folder is named, and another if it is a database of another program."""
    if not db:
        raise invalid("--db is required (or set ELFMEM_DB env var)")
    folder = Path(db)
    if folder.is_file():
        raise invalid(
            f"{db} is a file, but --db must name a folder",
            recovery="name a new folder, or a folder that memsvc created",
        )
    return folder


def serve(db: Db = None, config: Config = None) -> None:
    """Start the elfmem MCP server for agent tool integration."""
    from memsvc.standalone import serve_knowledge  # noqa: PLC0415 - the whole server

    serve_knowledge(folder_of(db), config)


NAMES: Final[dict[str, Callable[..., Any]]] = {**MAIN, **GROUP, "guide": guide, "serve": serve}
commands = command_group(
    NAMES,
    command_target,
    name="elfmem",
    help="Adaptive memory for AI agents.",
    add_completion=True,
    context_settings=HELP_OPTIONS,
    pretty_exceptions_enable=False,
)


def program() -> Any:
    """Return the command `elfmem`, whose help pages have examples."""
    examples = {
        name: EXAMPLES[next(path for path in _paths(name) if path in EXAMPLES)] for name in NAMES
    }
    return with_examples(typer.main.get_command(commands), "elfmem", examples)


def _paths(name: str) -> Iterable[str]:
    """Return the paths under which the example of a command may be, the most special one first."""
    return f"elfmem {name}", f"knowledge {name}", name


def main() -> None:
    """Run the command; a failure prints a line or two on stderr, without a traceback."""
    try:
        program()()
    except SettingsError as error:
        fail(error.errors, "see docs/configuration.md", status=2)
    except MemsvcError as error:
        fail([error.message], error.recovery)
