"""A folder of backups: its content, and the removal of old ones.

`base/` holds whole copies of a database, each named after the time at which it was finished and
moved there only then; `log/` what was written after them, a file per segment; `cluster` names the
database they belong to. deploy/backup/postgres.sh keeps the same layout for servers that memsvc
does not run.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memsvc.core.errors import invalid_content, not_found, resource_busy
from memsvc.core.frozen import frozen

MARK_FILE: Final = "postgres-archive"
"""Marker in the data folder, by which every process that starts the server keeps the log.

A gap would end what can be restored.
"""
SEGMENT_S_MAX: Final = 60
"""Seconds after which a segment is archived although it is not full.

That is what is lost with the disk of the data folder.
"""

_KEEP: Final = (
    "if test -e {file}; then gzip -dc {file} | cmp -s - {segment}; else gzip -1 < {segment} >"
    " {file}.unfinished && sync {file}.unfinished && mv {file}.unfinished {file} && sync {log};"
    " fi"
)
"""Never replaces a segment; succeeds for one that exists and is the same, as after a crash."""
_FETCH: Final = (
    "test -x {log} || exit 255; test -e {file} || exit 1; gzip -dc {file} > {segment} || exit 255"
)
"""Status 1 means the end of the log, 255 that it cannot be read, at which PostgreSQL gives up."""


if sys.platform != "win32":
    import fcntl

BASE: Final = "base"
LOG: Final = "log"
CLUSTER_FILE: Final = "cluster"
LOCK_FILE: Final = "lock"
DATA: Final = "data"
"""The database in a copy."""
TEMP_PREFIX: Final = "unfinished-"
NAME_FORMAT: Final = "%Y%m%dT%H%M%S.%fZ"
_NAME: Final = re.compile(r"^\d{8}T\d{6}(\.\d{6})?Z$")
_FIRST_SEGMENT: Final = re.compile(
    r"^START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)$", re.MULTILINE
)
_SEGMENT: Final = re.compile(r"^[0-9A-F]{24}(\.[0-9A-F]{8}\.backup)?(\.gz)?(\.partial)?$")


@frozen
class Backup:
    """One whole copy; with the log from `first_segment` on it restores times from `ended_at` on."""

    folder: Path
    ended_at: datetime

    @property
    def first_segment(self) -> str:
        """Return the segment in its label.

        Raises INVALID_CONTENT where the label is damaged; the other copies can still be used.
        """
        try:
            first = _FIRST_SEGMENT.search(
                (self.folder / DATA / "backup_label").read_text(errors="replace")
            )
        except FileNotFoundError:
            first = None
        if first is None:
            raise invalid_content(
                f"{self.folder} is not a complete backup: its file backup_label is damaged"
            )
        return first[1]


@frozen
class DroppedBackups:
    """Number of removed copies, and of log segments from before the oldest copy that was kept."""

    backups: int
    segments: int


def backups_in(folder: Path) -> list[Backup]:
    """Return the copies in a folder, the oldest first; NOT_FOUND where there is none."""
    base = folder / BASE
    found = (
        [_backup(one) for one in sorted(base.iterdir()) if _NAME.match(one.name)]
        if base.is_dir()
        else []
    )
    if not found:
        raise not_found(
            f"{folder} does not contain a backup",
            recovery="take a backup with `memsvc db backup`",
        )
    return found


def log_end(folder: Path) -> datetime | None:
    """Return when the newest log segment came into a folder; None where no log is kept."""
    times = [one.stat().st_mtime for one in _segments(folder)]
    return datetime.fromtimestamp(max(times), UTC) if times else None


def drop_old(folder: Path, keep: int) -> DroppedBackups:
    """Remove all copies but the newest `keep`, and the log before the oldest of these."""
    backups = backups_in(folder)
    remaining = backups[-keep:]
    first = remaining[0].first_segment  # an error here removes nothing
    for one in backups[:-keep]:
        shutil.rmtree(one.folder.rename(folder / f"{TEMP_PREFIX}{one.folder.name}"))
    old_segments = [one for one in _segments(folder) if one.name[8:24] < first[8:]]
    for segment in old_segments:
        segment.unlink()
    return DroppedBackups(len(backups) - len(remaining), len(old_segments))


def missing_segments(folder: Path, backup: Backup) -> int:
    """Return how many segments the log after a copy lacks.

    Past the first missing one nothing can be restored from that copy.
    """
    numbers = {_number(one.name) for one in _segments(folder)}
    first = _number(backup.first_segment)
    after = [number for number in numbers if number >= first]
    return max(after) - first + 1 - len(after) if after else 0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one backup at a time; RESOURCE_BUSY while another is being taken."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise resource_busy(
                f"another backup to {folder} is running: try again when it has finished"
            ) from error
        yield
    finally:
        os.close(lock)


def _backup(folder: Path) -> Backup:
    name = folder.name if "." in folder.name else folder.name.replace("Z", ".0Z")
    return Backup(folder, datetime.strptime(name, NAME_FORMAT).replace(tzinfo=UTC))


def _segments(folder: Path) -> list[Path]:
    log = folder / LOG
    return [one for one in log.iterdir() if _SEGMENT.match(one.name)] if log.is_dir() else []


def _number(segment: str) -> int:
    """Return the number of a segment of 16 MB: 256 of them share the middle part of the name."""
    return int(segment[8:16], 16) << 8 | int(segment[16:24], 16)


def archived_to(data_dir: Path) -> Path | None:
    """Return the folder of backups in which a data folder's log is kept, if there is one."""
    mark = data_dir / MARK_FILE
    return Path(mark.read_text("utf-8").rstrip("\n")) if mark.exists() else None


def archive_settings(data_dir: Path) -> str:
    """Return the settings by which the server of a data folder keeps its log, or keeps none."""
    folder = archived_to(data_dir)
    if folder is None:
        return ""
    return (
        "\n# Written by `memsvc db archive`.\n"
        f"archive_mode = on\narchive_timeout = '{SEGMENT_S_MAX}s'\n"
        f"archive_command = {_literal(_command(_KEEP, folder))}\n"
    )


def recovery_settings(folder: Path, until: datetime | None) -> str:
    """Return the settings by which a server replays the archived log, up to a time or its end.

    It then goes on with a timeline of its own, and takes no connection before. Where no log is
    kept, the copy's own is replayed.
    """
    fetch = _command(_FETCH, folder) if (folder / LOG).is_dir() else "false"
    settings = [
        "hot_standby = off",
        "archive_mode = off",
        f"restore_command = {_literal(fetch)}",
        "recovery_target_timeline = 'current'",
        "recovery_target_action = 'promote'",
    ]
    if until is not None:
        settings.append(f"recovery_target_time = '{until.isoformat()}'")
    return "\n" + "\n".join(settings) + "\n"


def _command(script: str, folder: Path) -> str:
    log = str(folder / LOG).replace("%", "%%")
    return script.format(log=shlex.quote(log), file=f"{shlex.quote(log)}/%f.gz", segment='"%p"')


def _literal(text: str) -> str:
    """Return a text as a value in PostgreSQL's configuration."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
