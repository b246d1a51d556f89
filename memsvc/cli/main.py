"""The command line.

A command is only loaded when it is used, because loading the server takes seconds."""

import gc
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import iscoroutinefunction
from io import TextIOWrapper
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from memsvc.core.errors import MemsvcError, SettingsError

COMMANDS: Final = {
    "serve": (
        "serve:serve_command",
        "Serve MCP, using the embedded PostgreSQL or the database that database.url names.",
    ),
    "service": (
        "service_commands:commands",
        "Run the server as a service that starts at login (systemd on Linux, launchd on macOS).",
    ),
    "worker": (
        "serve:worker_command",
        "Run background jobs only, with the same settings as the server.",
    ),
    "migrate": (
        "serve:migrate",
        "Migrate the database to the newest revision, or back to an older one.",
    ),
    "db": (
        "db:commands",
        "Back up or restore the database, or distribute its tables over a Citus cluster.",
    ),
    "stdio": (
        "stdio:stdio",
        (
            "Serve MCP over standard input and output, using the embedded or the configured"
            " PostgreSQL."
        ),
    ),
    "structured-memory": (
        "structured_memory:structured_memory",
        "Serve the notebook over standard input and output, compatible with structured-memory.",
    ),
    "key": ("key_commands:commands", "Create, list, rotate and revoke API keys."),
    "calls": (
        "tool_commands:calls",
        "List logged calls, newest first, one per line, with columns separated by tabs.",
    ),
    "jobs": (
        "job_commands:commands",
        "List, retry and drop background jobs.",
    ),
    "doctor": (
        "check_commands:doctor",
        ("Check a running server and the hosts connected to it, or the local database and models."),
    ),
    "embeddings": ("model_commands:embeddings", "Turn search by meaning on or off."),
    "reranker": (
        "model_commands:rerank",
        "Turn the model that reorders search results on or off.",
    ),
    "maintain": (
        "maintenance_commands:maintain",
        ("Maintain sessions: summarize older context and delete expired facts."),
    ),
    "audit": (
        "audit_command:audit",
        (
            "Count duplicates, echoes of recalled text, secrets and outdated entries in"
            " memory or a file."
        ),
    ),
    "purge": (
        "admin_commands:purge",
        "Delete a tenant, project, user, session or path for good and print a receipt.",
    ),
    "tenants": (
        "admin_commands:tenants",
        "List all tenants with their keys, what they store and their calls of the last 24 hours.",
    ),
    "usage": (
        "tool_commands:usage",
        (
            "Report how much data a project stores; with --project '*', report each project and"
            " the total."
        ),
    ),
    "import": (
        "import_commands:import_folder",
        "Import sessions that a client-side SDK stored as folders. Run it again to resume.",
    ),
    "export": (
        "archive_commands:export_command",
        "Write all data, or one project, to an archive: a tar of files and JSON lines.",
    ),
    "restore": (
        "archive_commands:restore_command",
        "Restore an archive written by `memsvc export`, compressed or not, into empty projects.",
    ),
    "shadow-report": (
        "import_commands:shadow_report",
        "Report how often memory_shadow_compare found that memsvc and a client's own memory agree.",
    ),
    "files": ("file_commands:commands", "Read, write and search the files of a project."),
    "turns": (
        "turn_commands:commands",
        "Show the sessions, turns and facts of turn memory; correct, forget or recall them.",
    ),
    "install": (
        "host_commands:install",
        "Connect an agent host to memsvc and add hooks or instructions to its configuration.",
    ),
    "hook": (
        "host_commands:hook",
        "Answer a hook call, which the agent host sends as JSON on standard input. Never fails.",
    ),
    "remember": ("elfmem:remember", "Store knowledge for future retrieval."),
    "recall": (
        "elfmem:recall",
        "Retrieve relevant knowledge as text to insert into a prompt.",
    ),
    "status": (
        "elfmem:status",
        "Show the state of the stored knowledge and a suggested next action.",
    ),
    "outcome": (
        "elfmem:outcome",
        "Record how helpful knowledge blocks were (0 to 1), and update their confidence.",
    ),
    "curate": (
        "elfmem:curate",
        "Archive decayed knowledge blocks, remove weak edges, and reinforce the best blocks.",
    ),
    "guide": (
        "elfmem:guide",
        "Show the documentation of an operation, or an overview; needs no database.",
    ),
    "knowledge": (
        "elfmem:knowledge",
        "Knowledge: blocks of text that fade unless they prove useful.",
    ),
    "memories": ("tool_commands:memories", "Memories: short statements about each user."),
    "notebook": ("tool_commands:notebook", "Notebook: a tree of linked documents."),
    "whiteboard": (
        "tool_commands:whiteboard",
        "Whiteboard: a running summary of each conversation.",
    ),
    "version": ("version:version_command", "Print the version."),
}
"""The commands: each one's module here, its group or function in it, and its help.

`memsvc --help` loads none of them.
"""
EXAMPLES: Final = {
    "serve": "--port 8080",
    "worker": "--config memsvc.yaml",
    "migrate": "--config memsvc.yaml",
    "db archive": "/mnt/backups/memsvc",
    "db backup": "/mnt/backups/memsvc --keep 7",
    "db backups": "/mnt/backups/memsvc",
    "db restore": "/mnt/backups/memsvc --data-dir restored --at 2026-01-31T12:00:00Z",
    "db distribute": "--config memsvc.yaml --dry-run",
    "stdio": "--tools agent,knowledge",
    "structured-memory": "--all-tools",
    "key create": "--label laptop --permission read",
    "key list": "--json",
    "key revoke": "3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    "key rotate": "3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31 --overlap-hours 48",
    "key adopt": "3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31 --data-dir .memsvc",
    "calls": "--status error --since 2026-01-31T12:00:00Z",
    "service install": "--dry-run",
    "service status": "",
    "service remove": "",
    "jobs list": "--state failed",
    "jobs retry": "4711",
    "jobs drop": "4711 4712",
    "doctor": "--url http://127.0.0.1:8080",
    "embeddings use": "ollama --model nomic-embed-text",
    "embeddings off": "--data-dir .memsvc",
    "reranker use": "cohere --key-env CO_API_KEY",
    "reranker off": "--data-dir .memsvc",
    "maintain": "--check --data-dir .memsvc",
    "audit": "mem0.json --show",
    "purge": "user alex --project '*' --dry-run",
    "tenants": "--data-dir .memsvc",
    "usage": "--project '*'",
    "import": "old/memory --dry-run",
    "export": "memory.tar.gz",
    "restore": "memory.tar.gz --check",
    "shadow-report": "--project garden",
    "files ls": "/notes --depth 2",
    "files cat": "/notes/trip.md",
    "files put": "trip.md /notes/trip.md",
    "files rm": "/notes --recursive",
    "files mv": "/notes/trip.md /notes/oshima.md",
    "files search": "'ferry to Oshima' --limit 3",
    "files versions": "/notes/trip.md",
    "turns ls": "--project garden",
    "turns show": "holiday --last 10",
    "turns facts": "holiday --user ada --past",
    "turns correct": "holiday 2f097a9a63da --value Kiel",
    "turns forget": "holiday --query 'my address' --user ada",
    "turns recall": "holiday 'How should I travel?' --user ada",
    "install": "claude-code --url http://127.0.0.1:8080 --dry-run",
    "hook": "prompt --host claude-code",
    "remember": "'The user prefers dark mode' --tags ui",
    "recall": "'which mode' --top-k 3",
    "status": "--json",
    "outcome": "2f097a9a63da4c6e,9b1f0c8e2d7a4f35 0.9",
    "curate": "--json",
    "guide": "recall",
    "knowledge edit": "2f097a9a63da4c6e 'The user prefers light mode'",
    "knowledge forget": "2f097a9a63da4c6e",
    "knowledge ls": "--tag ui",
    "knowledge inbox": "--max 20",
    "knowledge dream": "--json",
    "knowledge connect": "2f097a9a63da4c6e 9b1f0c8e2d7a4f35 --relation supports",
    "knowledge disconnect": "2f097a9a63da4c6e 9b1f0c8e2d7a4f35",
    "elfmem serve": "--db ./memory",
    "memories add": "alex 'I am a vegetarian.'",
    "memories search": "alex 'what does Alex eat'",
    "memories ls": "alex --limit 20",
    "memories history": "alex 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    "memories update": "alex 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31 'Is a vegan'",
    "memories rm": "alex 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    "notebook tree": "--project garden",
    "notebook read": "root",
    "notebook write": "root root.md",
    "notebook edit": "root 'roses' 'tulips'",
    "notebook mv": "roses garden",
    "notebook rename": "roses tulips",
    "notebook search": "'when to plant tulips'",
    "notebook history": "root",
    "notebook restore": "root 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    "notebook split": "root --apply",
    "whiteboard ls": "--user bo",
    "whiteboard show": "bo trip --as-of 2026-01-31T12:00:00Z",
    "whiteboard update": "bo trip 'We meet in Nara.'",
    "whiteboard history": "bo trip",
    "whiteboard restore": "bo trip 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    "whiteboard rm": "bo trip",
    "version": "--json",
}
"""Arguments of an example of each command, which its help shows."""
HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """The commands of `COMMANDS`; only the one that is used is loaded."""

    def __init__(self, **kwargs: Any) -> None:
        stubs = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}
        super().__init__(**kwargs | {"commands": stubs})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else loaded(name), rest


def loaded(name: str) -> Any:
    """Return the command of this name."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    gc.disable()  # what is loaded stays, and scanning it again takes a tenth of the start
    found = getattr(import_module(f"memsvc.cli.{module}"), attribute)
    gc.enable()
    if iscoroutinefunction(found):
        from memsvc.cli.tool_client import as_command  # noqa: PLC0415 - loads an HTTP client

        found = as_command(found)
    if not isinstance(found, typer.Typer):
        group = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        group.command(name)(found)
        found = group
    command = typer.main.get_command(found)
    command.name = name
    command.help = command.help or COMMANDS[name][1]
    examples = {
        path.removeprefix(name).strip(): arguments
        for path, arguments in EXAMPLES.items()
        if path.split(" ")[0] == name
    }
    return with_examples(command, f"memsvc {name}", examples)


def with_examples(command: Any, typed: str, examples: Mapping[str, str]) -> Any:
    """Return a command or group whose help, and that of its commands, ends with their examples."""
    if not examples:
        return command
    if set(examples) == {""}:
        command.epilog = f"Example: {typed} {examples['']}"
        return command
    lines = {name: f"{typed} {name} {arguments}" for name, arguments in examples.items()}
    for name, line in lines.items():
        command.commands[name].epilog = f"Example: {line}"
    command.epilog = "\n\n".join(["Examples:", *lines.values()])
    return command


commands = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
    epilog="Example: memsvc remember 'The user prefers dark mode'",
)


def _print_version(value: bool) -> None:
    if value:
        loaded("version")([])


@commands.callback()
def _memsvc(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Long-term memory for AI agents: an MCP server over PostgreSQL."""


def main(command: Callable[[], Any] = commands) -> None:
    """Run the command. A failure prints a line or two on standard error, without a traceback.

    With --json, the error is JSON too."""
    # characters that a terminal or a file cannot hold are escaped
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command()
    except SettingsError as error:
        fail(
            error.errors,
            "every setting is described in docs/configuration.md and config/memsvc.yaml",
            status=2,
        )
    except MemsvcError as error:
        if "--json" in sys.argv:
            print(json.dumps(error.body(), ensure_ascii=False), file=sys.stderr)
            sys.exit(1)
        fail([error.message], error.recovery)


def fail(messages: list[str], recovery: str | None, *, status: int = 1) -> NoReturn:
    """Print the error and exit."""
    for message in messages:
        print(f"Error: {message.removeprefix('Error: ')}", file=sys.stderr)
    if recovery is not None:
        print(f"Recovery: {recovery}", file=sys.stderr)
    sys.exit(status)
