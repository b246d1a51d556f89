"""The command `elfmem`: the knowledge commands over a data folder that --db or ELFMEM_DB names."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memsvc.cli import knowledge_commands
from memsvc.cli.main import fail
from memsvc.cli.tool_client import CommandTarget, Json, using_memory
from memsvc.core.errors import MemsvcError, SettingsError, invalid
from memsvc.variables import URL_VARIABLE

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


for _command in (*knowledge_commands.MAIN, *knowledge_commands.GROUP):
    using_memory(commands, command_target)(_command)
commands.command("guide")(knowledge_commands.guide)


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
