"""A folder of backups: its content, and the removal of old ones.

`base/` holds whole copies of a database, each named after the time at which it was finished and
moved there only then; `log/` what was written after them, a file per segment; `cluster` names the
database they belong to. deploy/backup/postgres.sh keeps the same layout for servers that memsvc
does not run.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memsvc.core.errors import Code, MemsvcError

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


@dataclass(frozen=True, slots=True)
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
            raise MemsvcError(
                Code.INVALID_CONTENT, f"{self.folder} is no whole backup: its label is damaged"
            )
        return first[1]


@dataclass(frozen=True, slots=True)
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
        raise MemsvcError(
            Code.NOT_FOUND,
            f"there is no backup in {folder}",
            recovery="take one: `memsvc db backup`",
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
            raise MemsvcError(
                Code.RESOURCE_BUSY, f"another backup is being taken in {folder}"
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
