"""Commands `memsvc hook` and `memsvc install`: memory for hosts that nobody has to tell of it."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from memsvc.core.errors import invalid
from memsvc.hosts.hook import run_hook
from memsvc.hosts.hook_files import HookFiles, write_private
from memsvc.hosts.host_configs import NOTES, HostName, InstallTarget, Scope, changes_of
from memsvc.hosts.install_files import FileUpdate, plan, write
from memsvc.variables import KEY_VARIABLE, PROJECT_VARIABLE, URL_VARIABLE, USER_VARIABLE

FOLDER_KEY = Path(".memsvc/api-key")
"""The key that `make serve` makes in a checkout."""


def hook(
    event: Annotated[str, Argument(help="session-start, prompt, stop or pre-compact.")],
    host: Annotated[
        str, Option(help="claude-code, codex, cursor, gemini or opencode.")
    ] = "claude-code",
) -> None:
    """Answer a hook of a host, whose JSON is on standard input; it never fails."""
    run_hook(event, host)


def install(
    host: Annotated[HostName, Argument(help="The host.")],
    scope: Annotated[Scope, Option(help="For all of the user's work, or here.")] = "user",
    url: Annotated[str | None, Option(envvar=URL_VARIABLE, help="The running server.")] = None,
    key: Annotated[
        str | None,
        Option(envvar=KEY_VARIABLE, show_envvar=True, help="Its key; never printed."),
    ] = None,
    user: Annotated[
        str | None,
        Option(envvar=USER_VARIABLE, help="Whose memory it is; else the account's name."),
    ] = None,
    project: Annotated[
        str | None,
        Option(envvar=PROJECT_VARIABLE, help="The project; else one for each repository."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say which files would change.")
    ] = False,
    remove: Annotated[
        bool, Option("--remove", help="Undo what was installed, and nothing else.")
    ] = False,
) -> None:
    """Give a host memory: connect it, and add hooks or instructions to its configuration."""
    given = {URL_VARIABLE: url, KEY_VARIABLE: key, USER_VARIABLE: user, PROJECT_VARIABLE: project}
    files = HookFiles(os.environ | {name: value for name, value in given.items() if value})
    settings = files.settings()
    settings = settings._replace(
        url=settings.url.rstrip("/").removesuffix("/mcp"),
        key=settings.key or (FOLDER_KEY.read_text("utf-8").strip() if FOLDER_KEY.exists() else ""),
    )
    if not settings.key and not remove:
        raise invalid("no key was given", recovery=f"set {KEY_VARIABLE}, or give --key")
    target = InstallTarget(scope, Path.home(), Path.cwd(), settings, _command(scope), os.environ)
    records = files.installed().get("installed", {})
    updates = plan(changes_of(host, target), records, remove=remove)
    _print_updates(updates, dry_run=dry_run)
    if dry_run:
        return
    write(updates)
    records |= {str(update.file): update.record for update in updates}
    left = {name: record for name, record in records.items() if record}
    if left:
        files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            files.settings_file, json.dumps(settings._asdict() | {"installed": left}, indent=2)
        )
    else:
        files.settings_file.unlink(missing_ok=True)
    if host in NOTES and not remove:
        print(NOTES[host])


def _print_updates(updates: list[FileUpdate], *, dry_run: bool) -> None:
    for file, before, after, _ in updates:
        state = "unchanged" if before == after else "removed" if after is None else "written"
        print(f"{state}{' (dry run)' if dry_run else ''}: {file}")


def _command(scope: Scope) -> str:
    """Return how a shell starts this program; files of a project, which are shared, find it."""
    if scope == "project":
        return "memsvc"
    program = Path(sys.executable).with_name("memsvc")
    python = shlex.quote(sys.executable)
    return shlex.quote(str(program)) if program.exists() else f"{python} -m memsvc"
