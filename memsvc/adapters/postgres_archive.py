"""Settings by which the embedded PostgreSQL archives its log, and restores from there."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import Final

from memsvc.adapters.backup_folder import LOG

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
