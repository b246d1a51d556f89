"""How the embedded PostgreSQL keeps its log in a folder of backups, and how it reads it from there to come back."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import Final

from memsvc.adapters.backup_folder import LOG

MARK_FILE: Final = "postgres-archive"
"""In the data folder, so that every process that starts its server keeps the log: a gap would end what can be had."""
SEGMENT_S_MAX: Final = 60
"""After so long a segment is kept though it is not full: what is lost with the disk of the data folder."""

_KEEP: Final = (
    "if test -e {file}; then gzip -dc {file} | cmp -s - {segment}; "
    "else gzip -1 < {segment} > {file}.unfinished && sync {file}.unfinished && mv {file}.unfinished {file} "
    "&& sync {log}; fi"
)
"""Never replaces a segment. One that is there already is kept where it is the same, as after a crash."""
_FETCH: Final = "test -x {log} || exit 255; test -e {file} || exit 1; gzip -dc {file} > {segment} || exit 255"
"""1 says that the log ends here, 255 that it cannot be read, at which PostgreSQL gives up."""


def archived_to(data_dir: Path) -> Path | None:
    """The folder of backups in which a data folder's log is kept, if there is one."""
    mark = data_dir / MARK_FILE
    return Path(mark.read_text("utf-8").rstrip("\n")) if mark.exists() else None


def archiving(data_dir: Path) -> str:
    """The settings by which the server of a data folder keeps its log, or keeps none."""
    folder = archived_to(data_dir)
    if folder is None:
        return ""
    return (
        "\n# Written by `memsvc db archive`.\n"
        f"archive_mode = on\narchive_timeout = '{SEGMENT_S_MAX}s'\n"
        f"archive_command = {_literal(_command(_KEEP, folder))}\n"
    )


def recovery(folder: Path, until: datetime | None) -> str:
    """The settings by which a server replays the log in a folder of backups, to a moment or to its end, and goes on
    from there as a history of its own. It takes no connection before. Where no log is kept, the copy's own is
    replayed."""
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
    """A text as a value in PostgreSQL's configuration."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
