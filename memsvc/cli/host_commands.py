"""Commands `memsvc hook` and `memsvc install`, which connect hosts to memory.

All files of an installation are planned before one is replaced."""

import json
import os
import shlex
import tomllib
from contextlib import closing, suppress
from http.client import HTTPException
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from typer import Argument, Option

from memsvc.core.errors import invalid
from memsvc.core.urls import CONSOLE_PATH
from memsvc.hosts import host_configs
from memsvc.hosts.hook import MemoryCalls, run_hook, store_spooled
from memsvc.hosts.hook_files import HookFiles, HookSettings, project_of, write_private
from memsvc.hosts.host_configs import (
    NAME,
    NOTES,
    Entry,
    HostFileChange,
    HostName,
    InstallTarget,
    Scope,
    changes_of,
)
from memsvc.package_files import own_program
from memsvc.variables import (
    DATA_DIR_VARIABLE,
    KEY_VARIABLE,
    PORT_VARIABLE,
    PROJECT_VARIABLE,
    URL_VARIABLE,
    USER_VARIABLE,
)

PRIVATE: Final = 0o600
COMMENTS: Final = {".toml": ("# ", ""), ".md": ("<!-- ", " -->")}

Record = dict[str, Any]


class FileUpdate(NamedTuple):
    """What a file is to become: None as a text is no file. `record` tells how to undo it."""

    file: Path
    before: str | None
    after: str | None
    record: Record


def plan(
    changes: list[HostFileChange], records: dict[str, Record], *, remove: bool
) -> list[FileUpdate]:
    """Return the files as they will be; `records` are what an earlier installation did to each.

    Raises INVALID_ARGUMENT, naming the file, for one that cannot be read as what it should be."""
    updates = []
    for change in changes:
        file = change.file.resolve()  # what a link points to is replaced, and not the link
        record = records.get(str(file), {})
        try:
            before = _read(file)
            edit = _removed if remove else _installed
            updates.append(FileUpdate(file, before, *edit(change, before, record)))
        except (ValueError, OSError) as error:
            raise invalid(
                f"cannot use the file {file}: {_error_text(error)}",
                recovery="correct the file and run the command again; nothing was written",
            ) from error
    return updates


def write(updates: list[FileUpdate], key: str) -> None:
    """Replace the files that change.

    Those that exist keep their rights, but what holds the key only its owner may read. A folder in
    which nothing is left goes with its last file."""
    for update in updates:
        file, before, after, _ = update
        is_exposed = exposes_key(update, key)
        if before == after and not is_exposed:
            continue
        try:
            if after is None:
                file.unlink()
                _remove_empty(file.parent)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            is_private = before is None or is_exposed
            write_private(file, after, PRIVATE if is_private else file.stat().st_mode & 0o7777)
        except OSError as error:
            raise invalid(f"cannot write {file}: {error.strerror}") from error


def exposes_key(update: FileUpdate, key: str) -> bool:
    """Return whether others may read a file that is to hold the key."""
    holds_key = bool(key) and key in (update.after or "")
    return holds_key and update.file.exists() and bool(update.file.stat().st_mode & 0o077)


def _remove_empty(folder: Path) -> None:
    """Remove a folder in which nothing is left, and those above it, below the user's own ones."""
    with suppress(OSError):
        while folder not in (Path.home(), Path.cwd()):
            folder.rmdir()
            folder = folder.parent


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def _error_text(error: Exception) -> str:
    """Return what is wrong with a file, without a word of its content."""
    if isinstance(error, OSError):
        return error.strerror or "cannot be read"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "not valid TOML" if isinstance(error, tomllib.TOMLDecodeError) else str(error)


def _installed(change: HostFileChange, before: str | None, record: Record) -> tuple[str, Record]:
    record = {"created": before is None, "was": []} | record
    if change.text:
        if not _is_managed(before):
            raise ValueError("a file with this name already exists and was not written by memsvc")
        return change.text, record
    text = before or ""
    if change.block:
        if not _is_foreign(change, text):
            text = host_configs.set_block(text, change.block, COMMENTS[change.file.suffix])
            _check_block(change, text)
        return text, record
    text = text if text.strip() else "{}\n"
    for entry in change.entries:
        text, record = _with_entry(text, record, entry)
    return text, record


def _with_entry(text: str, record: Record, entry: Entry) -> tuple[str, Record]:
    path, value, mark = entry
    found = host_configs.find(text, path)
    existing = _existing(found, mark)
    was = None
    if found is None:
        was = [[*host_configs.first_missing(text, path)], None]
    elif value in ([found.value[number] for number in existing] if mark else [found.value]):
        return text, record
    elif not mark and not _is_within(path, [parents for parents, _ in record["was"]]):
        was = [[*path], found.value]
    for number in reversed(existing):
        text = host_configs.remove(text, path, number)
    put = host_configs.add_element if mark else host_configs.set_member
    return put(text, path, value), record | {"was": [*record["was"], *([was] if was else [])]}


def _removed(
    change: HostFileChange, before: str | None, record: Record
) -> tuple[str | None, Record]:
    if before is None or change.text:
        return (None if _is_managed(before) else before), {}
    created = record.get("created")
    if change.block:
        _check_block(change, before)
        after = host_configs.remove_block(before, COMMENTS[change.file.suffix])
        return (after if after or not created else None), {}
    text = before
    was = record.get("was", [[[*path], None] for path, *_ in change.entries if path[-1] == NAME])
    made = [path for path, value in was if value is None]
    for path, _, mark in change.entries:
        for number in reversed(_existing(host_configs.find(text, path), mark)):
            text = host_configs.remove(text, path, number)
        if not mark and _is_within(path, made):
            text = host_configs.remove(text, path)
    for path, value in sorted(was, key=lambda each: len(each[0]), reverse=True):
        if value is None:
            text = _without_empty(text, tuple(path))
        else:
            text = host_configs.set_member(text, tuple(path), value)
    return (None if created and host_configs.parse_json(text).value == {} else text), {}


def _without_empty(text: str, path: tuple[str, ...]) -> str:
    """Return the text without what was made at a path, where nothing is left in it."""
    found = host_configs.find(text, path)
    for child in found.children if found and isinstance(found.value, dict) else []:
        text = _without_empty(text, (*path, child.name))
    found = host_configs.find(text, path)
    return host_configs.remove(text, path) if found and found.value in ({}, []) else text


def _existing(found: host_configs.JsonNode | None, mark: str) -> list[int]:
    """Return the numbers of the elements of a list that hold our mark."""
    if found is None or not mark:
        return []
    if not isinstance(found.value, list):
        raise ValueError("each hook event must contain a list of hooks")
    return [number for number, value in enumerate(found.value) if mark in json.dumps(value)]


def _is_within(path: tuple[str, ...], parents: list[list[str]]) -> bool:
    """Return whether one of these paths leads to a path or to something above it."""
    return any([*path[: len(each)]] == each for each in parents)


def _is_managed(text: str | None) -> bool:
    """Return whether a file that is wholly ours is one, or is not there yet."""
    return text is None or NAME in text


def _is_foreign(change: HostFileChange, text: str) -> bool:
    """Return whether a TOML file has our table, but not from us: it is left as it is."""
    if change.file.suffix != ".toml" or host_configs.BEGIN in text:
        return False
    return NAME in tomllib.loads(text).get("mcp_servers", {})


def _check_block(change: HostFileChange, text: str) -> None:
    if change.file.suffix == ".toml":
        tomllib.loads(text)


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
