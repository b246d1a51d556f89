"""Commands `memsvc db archive`, `backup`, `backups` and `restore` of the embedded PostgreSQL."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from memsvc.adapters.backup_folder import Backup, backups_in, kept_until, missing_segments
from memsvc.adapters.clock import SystemClock
from memsvc.adapters.postgres_backups import Backups, stop_archiving
from memsvc.cli.calls import Config, DataDir, Json, Said, show
from memsvc.cli.options import settings_of
from memsvc.core.errors import invalid
from memsvc.core.moments import moment_of
from memsvc.own_key import KEY_FILE
from memsvc.settings import Settings

Folder = Annotated[Path, typer.Argument(help="The folder of backups, on another disk than the data folder.")]
MIB: Final = 2**20


def archive(
    folder: Annotated[Path | None, typer.Argument(help="A new folder, on another disk than the data folder.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Keep no log any more; what was kept stays.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Keep the log of the embedded PostgreSQL from now on, and take a first backup.

    Any later time can then be restored. It holds for the data folder, whichever memsvc serves from
    it. Servers pause for a second.
    """
    if off == (folder is not None):
        raise invalid("name a folder, or say --off")
    if folder is None:
        settings = _settings(config, data_dir)
        stopped = stop_archiving(settings.data_dir, statement_timeout_ms=settings.database.statement_timeout_ms)
        show(Said({"stopped": stopped}, ["no log is kept any more" if stopped else "no log was kept"]), as_json=as_json)
        return
    show(_told(_backups(folder, config, data_dir).archive()), as_json=as_json)


def backup(
    folder: Folder,
    keep: Annotated[int | None, typer.Option(min=1, help="Then drop all but so many backups.")] = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Take a backup of the embedded PostgreSQL while servers run, and verify its checksums.

    In the folder that `memsvc db archive` named, --keep also drops the log that no backup needs.
    """
    taken, dropped = _backups(folder, config, data_dir).backup(keep)
    said = _told(taken)
    counts = {"dropped_backups": dropped.backups, "dropped_segments": dropped.segments}
    told = [f"dropped\t{dropped.backups} backups, {dropped.segments} segments of the log"] if keep else []
    show(Said(said.body | counts, [*said.lines, *told]), as_json=as_json)


def backups(folder: Folder, as_json: Json = False) -> None:
    """List the backups in a folder, and how far the log after them reaches."""
    until = kept_until(folder)
    rows = [_Listed(one, missing_segments(folder, one)) for one in backups_in(folder)]
    body = {
        "backups": [
            {"folder": str(one.backup.folder), "ended_at": one.backup.ended_at, "missing_segments": one.missing}
            for one in rows
        ],
        "log_until": until,
    }
    show(Said(body, _lines(rows, until)), as_json=as_json)


def restore(
    folder: Folder,
    at: Annotated[str, typer.Option(help="The moment, as 2026-01-31T12:00:00Z; else the latest that is kept.")] = "",
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Restore the database of an empty data folder from a backup, as of a point in time.

    What was acknowledged before that time is there, nothing of what came after. Then start memsvc
    on the data folder.
    """
    moment = moment_of(at, "--at")
    used = _backups(folder, config, data_dir).restore(moment)
    if at:
        told = f"restored as of {at}"
    elif until := kept_until(folder):
        told = f"restored to the end of the log, which was kept until {until.isoformat()}"
    else:
        told = "restored as of the backup"
    again = "its log is not archived: run `memsvc db archive` with a new folder"
    body = {"backup": str(used.folder), "at": moment}
    show(Said(body, [f"{told}, from the backup of {used.ended_at.isoformat()}", again]), as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Listed:
    backup: Backup
    missing: int


def _settings(config: Path | None, data_dir: Path | None) -> Settings:
    settings = settings_of(config, data_dir=data_dir)
    if settings.database.url:
        raise invalid(
            "database.url names a server that memsvc does not run",
            recovery="back that one up with deploy/backup/postgres.sh, or as its provider says",
        )
    return settings


def _backups(folder: Path, config: Path | None, data_dir: Path | None) -> Backups:
    settings = _settings(config, data_dir)
    timeout_ms = settings.database.statement_timeout_ms
    return Backups(folder, settings.data_dir, SystemClock(), statement_timeout_ms=timeout_ms, beside=(KEY_FILE,))


def _told(taken: Backup) -> Said:
    size = sum(path.stat().st_size for path in taken.folder.rglob("*") if path.is_file())
    body: dict[str, Any] = {"folder": str(taken.folder), "ended_at": taken.ended_at, "size_bytes": size}
    return Said(body, [f"backup\t{taken.folder}\t{size // MIB} MiB, checked"])


def _lines(rows: list[_Listed], until: datetime | None) -> Iterator[str]:
    for one in rows:
        if until is None:
            reach = "restorable as it is"
        elif one.missing:
            reach = f"the log after it has gaps: {one.missing} segments are missing"
        else:
            reach = f"any time until {max(until, one.backup.ended_at):%Y-%m-%dT%H:%M:%SZ}"
        yield f"{one.backup.ended_at + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}\t{reach}\t{one.backup.folder}"
