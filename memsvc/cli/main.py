"""The command line. Each command is loaded when it is typed: a server takes seconds to load, a call of one does not."""

import gc
import sys
from importlib import import_module
from inspect import iscoroutinefunction
from io import TextIOWrapper
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from memsvc.cli.calls import as_command
from memsvc.core.errors import MemsvcError, SettingsError

PLACES: Final = {
    "serve": "serve:serve_command",
    "worker": "serve:worker_command",
    "migrate": "serve:migrate",
    "stdio": "stdio:stdio",
    "structured-memory": "stdio:structured_memory",
    "key": "keys:commands",
    "calls": "call_log:calls",
    "jobs": "jobs:commands",
    "doctor": "doctor:doctor",
    "maintain": "maintain:maintain",
    "purge": "administration:purge",
    "usage": "administration:usage",
    "import": "imports:import_folder",
    "export": "archives:export_command",
    "restore": "archives:restore_command",
    "shadow-report": "imports:shadow_report",
    "files": "files:commands",
    "turns": "turns:commands",
    "remember": "knowledge:remember",
    "recall": "knowledge:recall",
    "status": "knowledge:status",
    "outcome": "knowledge:outcome",
    "curate": "knowledge:curate",
    "guide": "knowledge:guide",
    "knowledge": "knowledge:commands",
    "memories": "memories:commands",
    "notebook": "notebook:commands",
    "whiteboard": "whiteboard:commands",
    "version": "serve:version_command",
    "docs": "serve:docs",
}
"""Where each command is: a module of this package, and a group or a function in it."""
HIDDEN: Final = frozenset({"docs"})


class _Commands(TyperGroup):
    """The commands of `PLACES`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return loaded(cmd_name) if cmd_name in PLACES else None


def loaded(name: str) -> Any:
    """The command of this name."""
    module, _, attribute = PLACES[name].partition(":")
    gc.disable()  # what is loaded stays, and looking through it again and again takes a tenth of the start
    found = getattr(import_module(f"memsvc.cli.{module}"), attribute)
    gc.enable()
    if iscoroutinefunction(found):
        found = as_command(found)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name, hidden=name in HIDDEN)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


commands = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@commands.callback()
def _memsvc() -> None:
    """Long-term memory for AI agents: an MCP server over PostgreSQL."""


def main() -> None:
    """Run the command that was typed; a failure is told in a line or two on stderr, without a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):  # whatever a terminal or a file can hold: what it cannot is told escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        commands()
    except SettingsError as error:
        fail(error.problems, "see docs/configuration.md, or config/memsvc.yaml for every setting", status=2)
    except MemsvcError as error:
        fail([error.message], error.recovery)


def fail(messages: list[str], recovery: str | None, *, status: int = 1) -> NoReturn:
    """Tell what is wrong, and end."""
    for message in messages:
        print(f"Error: {message}", file=sys.stderr)
    if recovery is not None:
        print(f"Recovery: {recovery}", file=sys.stderr)
    sys.exit(status)
