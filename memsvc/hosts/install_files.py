"""Installing memsvc in a host and removing it: all files are planned before one is replaced."""

import json
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from memsvc.core.errors import invalid
from memsvc.hosts import config_text
from memsvc.hosts.hook_files import write_private
from memsvc.hosts.host_configs import NAME, Element, HostFileChange

PRIVATE: Final = 0o600

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
                f"{file}: {_error_text(error)}", recovery="mend the file; nothing was written"
            ) from error
    return updates


def write(updates: list[FileUpdate]) -> None:
    """Replace the files that change; those that exist keep their rights."""
    for file, before, after, _ in updates:
        if before == after:
            continue
        try:
            if after is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            mode = PRIVATE if before is None else file.stat().st_mode & 0o7777
            write_private(file, after, mode)
        except OSError as error:
            raise invalid(f"cannot write {file}: {error.strerror}") from error


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
        return "no UTF-8"
    return "no TOML" if isinstance(error, tomllib.TOMLDecodeError) else str(error)


def _installed(change: HostFileChange, before: str | None, record: Record) -> tuple[str, Record]:
    record = {"created": before is None, "made": [], "replaced": [], "block": False} | record
    if change.text:
        if not _is_ours(before):
            raise ValueError("a file of this name is there already")
        return change.text, record
    if change.block:
        text = before or ""
        if _is_foreign(change, text, record):
            return text, record
        after = config_text.set_block(text, change.block, change.comment)
        _check_block(change, after)
        return after, record | {"block": True}
    text = before if before and before.strip() else "{}\n"
    for path, value in change.members:
        text, record = _with_member(text, record, path, value)
    for element in change.elements:
        text, record = _with_element(text, record, element)
    return text, record


def _with_member(
    text: str, record: Record, path: tuple[str, ...], value: object
) -> tuple[str, Record]:
    found = config_text.find(text, path)
    if found is None:
        record = record | {"made": [*record["made"], _first_missing(text, path)]}
    elif found.value == value:
        return text, record
    elif not _is_made(path, record["made"]):
        record = record | {"replaced": [*record["replaced"], [list(path), found.value]]}
    return config_text.set_member(text, path, value), record


def _with_element(text: str, record: Record, element: Element) -> tuple[str, Record]:
    found = config_text.find(text, element.path)
    numbers = _ours(found, element.mark)
    if found is None:
        record = record | {"made": [*record["made"], _first_missing(text, element.path)]}
    elif numbers and found.value[numbers[0]] == element.value:
        return text, record
    elif numbers:
        text = config_text.remove(text, element.path, numbers[0])
    return config_text.add_element(text, element.path, element.value), record


def _removed(
    change: HostFileChange, before: str | None, record: Record
) -> tuple[str | None, Record]:
    if before is None or change.text:
        return (None if _is_ours(before) else before), {}
    if change.block:
        _check_block(change, before)
        after = config_text.remove_block(before, change.comment)
        return (after if after or not record.get("created") else None), {}
    text = before
    made = record.get("made", [[*path] for path, _ in change.members if path[-1] == NAME])
    for element in change.elements:
        for number in reversed(_ours(config_text.find(text, element.path), element.mark)):
            text = config_text.remove(text, element.path, number)
    for path, _ in change.members:
        if _is_made(path, made):
            text = config_text.remove(text, path)
    for path, value in record.get("replaced", []):
        text = config_text.set_member(text, tuple(path), value)
    for each in sorted(made, key=len, reverse=True):
        text = _without_empty(text, tuple(each))
    empty = record.get("created") and config_text.parse_json(text).value == {}
    return (None if empty else text), {}


def _without_empty(text: str, path: tuple[str, ...]) -> str:
    """Return the text without what was made at a path, where nothing is left in it."""
    found = config_text.find(text, path)
    if found is None:
        return text
    if isinstance(found.value, dict):
        for name in found.value:
            text = _without_empty(text, (*path, name))
        found = config_text.find(text, path)
    return config_text.remove(text, path) if found and found.value in ({}, []) else text


def _first_missing(text: str, path: tuple[str, ...]) -> list[str]:
    """Return the beginning of a path that is not in the text."""
    for length in range(1, len(path)):
        if config_text.find(text, path[:length]) is None:
            return [*path[:length]]
    return [*path]


def _ours(found: config_text.JsonNode | None, mark: str) -> list[int]:
    """Return the numbers of the elements of a list that hold our mark."""
    if found is None:
        return []
    if not isinstance(found.value, list):
        raise ValueError("hooks are no lists")
    return [number for number, value in enumerate(found.value) if mark in json.dumps(value)]


def _is_made(path: tuple[str, ...], made: list[list[str]]) -> bool:
    """Return whether something on the path was made by an installation."""
    return any(list(path[: len(each)]) == each for each in made)


def _is_ours(text: str | None) -> bool:
    """Return whether a file that is wholly ours is one, or is not there yet."""
    return text is None or NAME in text


def _is_foreign(change: HostFileChange, text: str, record: Record) -> bool:
    """Return whether a TOML file has our table, but not from us: it is left as it is."""
    if change.file.suffix != ".toml":
        return False
    servers = tomllib.loads(text).get("mcp_servers", {})
    return not record["block"] and config_text.BEGIN not in text and NAME in servers


def _check_block(change: HostFileChange, text: str) -> None:
    if change.file.suffix == ".toml":
        tomllib.loads(text)
