"""Commands `memsvc hook` and `memsvc install`, which connect hosts to memory."""

import json
import os
import shlex
from contextlib import closing, suppress
from http.client import HTTPException
from math import inf
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from memsvc.core.errors import invalid
from memsvc.core.urls import CONSOLE_PATH
from memsvc.hosts.hook import MemoryCalls, run_hook, store_spooled
from memsvc.hosts.hook_files import HookFiles, HookSettings, project_of, write_private
from memsvc.hosts.host_configs import NOTES, HostName, InstallTarget, Scope, changes_of
from memsvc.hosts.install_files import FileUpdate, exposes_key, plan, write
from memsvc.package_files import own_program
from memsvc.variables import (
    DATA_DIR_VARIABLE,
    KEY_VARIABLE,
    PORT_VARIABLE,
    PROJECT_VARIABLE,
    URL_VARIABLE,
    USER_VARIABLE,
)


def hook(
    event: Annotated[
        str, Argument(help="The hook to answer: session-start, prompt, stop or pre-compact.")
    ],
    host: Annotated[
        str, Option(help="The agent host: claude-code, codex, cursor, gemini or opencode.")
    ] = "claude-code",
) -> None:
    """Answer a hook call, which the agent host sends as JSON on standard input. Never fails."""
    run_hook(event, host)


def install(
    host: Annotated[HostName, Argument(help="The agent host to connect.")],
    scope: Annotated[
        Scope,
        Option(help="Connect the host for all your work (user) or only for this folder (project)."),
    ] = "user",
    url: Annotated[
        str | None, Option(envvar=URL_VARIABLE, help="URL of the running server.")
    ] = None,
    key: Annotated[
        str | None,
        Option(
            envvar=KEY_VARIABLE,
            show_envvar=True,
            help="API key for the server; it is never printed.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        Option(
            envvar=USER_VARIABLE,
            help="The user to whom the memory belongs; the default is your account name.",
        ),
    ] = None,
    project: Annotated[
        str | None,
        Option(
            envvar=PROJECT_VARIABLE,
            help="The project in which to store memory; by default, each repository has its"
            " own project.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="List the files that would change, without changing them.")
    ] = False,
    remove: Annotated[
        bool,
        Option("--remove", help="Remove only what `memsvc install` added for this agent host."),
    ] = False,
) -> None:
    """Connect an agent host to memsvc and add hooks or instructions to its configuration."""
    port = os.environ.get(PORT_VARIABLE)  # that of a server on this machine
    url = url or (f"http://127.0.0.1:{port}" if port else None)
    given = {URL_VARIABLE: url, KEY_VARIABLE: key, USER_VARIABLE: user, PROJECT_VARIABLE: project}
    files = HookFiles(os.environ | {name: value for name, value in given.items() if value})
    settings = files.settings()
    settings = settings._replace(
        url=settings.url.rstrip("/").removesuffix("/mcp"),
        key=settings.key or _key_of_folder(is_needed=not remove),
    )
    target = InstallTarget(scope, Path.home(), Path.cwd(), settings, _command(scope), os.environ)
    records = files.installed().get("installed", {})
    updates = plan(changes_of(host, target), records, remove=remove)
    _print_updates(updates, settings.key, dry_run=dry_run)
    if dry_run:
        return
    write(updates, settings.key)
    records |= {str(update.file): update.record for update in updates}
    left = {name: record for name, record in records.items() if record}
    if left:
        files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            files.settings_file, json.dumps(settings._asdict() | {"installed": left}, indent=2)
        )
    else:
        files.settings_file.unlink(missing_ok=True)
        _store_rest(files, settings)
    if not remove:
        _print_next(host, target)


def _key_of_folder(*, is_needed: bool) -> str:
    """Return the key in the data folder, or ""; INVALID_ARGUMENT without one that is needed."""
    file = Path(os.environ.get(DATA_DIR_VARIABLE) or ".memsvc") / "api-key"
    if not file.exists() and is_needed:
        raise invalid(
            f"no API key was given, and the file {file} does not exist",
            recovery=f"pass --key, set {KEY_VARIABLE}, or run the command in the folder in which"
            " the server was started",
        )
    return file.read_text("utf-8").strip() if file.exists() else ""


def _print_updates(updates: list[FileUpdate], key: str, *, dry_run: bool) -> None:
    for update in updates:
        file, before, after, _ = update
        state = "unchanged" if before == after else "removed" if after is None else "written"
        state = f"would be {state}" if dry_run and before != after else state
        private = "; the file contains the key, so it is now readable only by you" * exposes_key(
            update, key
        )
        print(f"{state}: {file}{private}")


def _print_next(host: HostName, target: InstallTarget) -> None:
    """Say whose memory it is, where it can be seen, and what to do next."""
    settings = target.settings
    # its shared files name no user, and no hook of it does
    asks = host == "vscode" and target.scope == "project"
    user = "the user that the key is bound to" if asks else f"user {settings.user}"
    here = settings.project or project_of(str(Path.cwd()))
    each = (
        ""
        if settings.project
        else " (each repository has its own project; this is the project of the current folder)"
    )
    print(f"memory is stored for: {user}, project {here}{each}")
    print(f"console: {settings.url}{CONSOLE_PATH}")
    if host in NOTES:
        print(NOTES[host])
    print(f"next: start {host} and ask it: What do you know about me?")


def _store_rest(files: HookFiles, settings: HookSettings) -> None:
    """Store the turns that wait where no hook will do it any more, and delete the others."""
    for turn in files.expired_prompts(inf):
        files.spool(turn)
    waiting = len([*files.spool_files()])
    with suppress(OSError, HTTPException), closing(MemoryCalls(settings)) as calls:
        for _ in store_spooled(files, calls, None):
            pass
    deleted = files.clear()
    if waiting or deleted:
        stored = waiting - deleted
        print(
            f"{max(0, stored)} turns that were waiting to be sent were stored, and {deleted} were"
            " deleted"
        )


def _command(scope: Scope) -> str:
    """Return how a shell starts this program; files of a project, which are shared, find it."""
    if scope == "project":
        return "memsvc"
    return shlex.join(own_program())
