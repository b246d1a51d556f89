"""Session folders on this machine's disk, without links or invalid names."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_identifier, decode_segment

FILE_BYTES_MAX = 64 * 1024 * 1024
_SESSION_FILES = (
    "meta",
    "events",
    "memory_tiers",
    "log.jsonl",
    "context.jsonl",
    "memory_facts.jsonl",
    "meta.json",
)


@dataclass(slots=True)
class SessionDirectory:
    """A session on disk: its name, its path, and the files left out, with reasons."""

    session: str
    path: Path
    ignored: dict[str, str] = field(default_factory=dict)

    def read(self) -> dict[str, bytes]:
        """Return its files by relative names.

        Raises UNAVAILABLE when one cannot be read: it must not look empty.
        """
        return {
            path.relative_to(self.path).as_posix(): _content(path)
            for path in self._files(self.path)
        }

    def _files(self, directory: Path) -> Iterator[Path]:
        for entry in sorted(os.scandir(directory), key=lambda one: one.name):
            name = Path(entry.path).relative_to(self.path).as_posix()
            if entry.is_symlink():
                self.ignored[name] = "a symbolic link"
            elif entry.is_dir(follow_symlinks=False):
                yield from self._files(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                self.ignored[name] = "not a file"
            elif entry.stat(follow_symlinks=False).st_size > FILE_BYTES_MAX:
                self.ignored[name] = f"larger than {FILE_BYTES_MAX} bytes"
            else:
                yield Path(entry.path)


def find_sessions(root: Path) -> list[SessionDirectory]:
    """Return the sessions of a folder that holds `memory`, of that folder itself, or the one it is.

    Raises INVALID_ARGUMENT where there is none, INVALID_PATH for a session whose name cannot be an
    identifier.
    """
    if not root.is_dir():
        raise invalid(
            "there is no such folder",
            recovery="an archive of memsvc export comes back by memsvc restore",
        )
    inner = root / "memory"
    if inner.is_dir() and not inner.is_symlink():
        root = inner
    if _is_session(root):
        return [SessionDirectory(session_name(root.resolve().name), root)]
    found = [
        SessionDirectory(session_name(entry.name), Path(entry.path))
        for entry in sorted(os.scandir(root), key=lambda one: one.name)
        if entry.is_dir(follow_symlinks=False) and _is_session(Path(entry.path))
    ]
    if not found:
        raise invalid(
            "no session is in this folder",
            recovery="name the folder that holds memory/, or one session",
        )
    return found


def session_name(name: str) -> str:
    """Return the session that a folder is named after; `%` starts an encoded byte."""
    session = decode_segment(name) if "%" in name else name
    if session is None:
        raise MemsvcError(
            Code.INVALID_PATH, "a session's folder has a name that no session can have"
        )
    return check_identifier(session, "the name of a session's folder")


def _is_session(directory: Path) -> bool:
    return any((directory / name).exists() for name in _SESSION_FILES) or any(
        directory.glob("legacy*.json*")
    )


def _content(path: Path) -> bytes:
    try:
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise MemsvcError(
                    Code.INVALID_PATH, "a file of the folder was replaced while it was read"
                )
            return file.read()
    except OSError as error:
        raise MemsvcError(
            Code.UNAVAILABLE, f"{path.name}: cannot be read: {error.strerror}"
        ) from error
