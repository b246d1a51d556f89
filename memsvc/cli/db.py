"""Command `memsvc db`: backups of the database, and its distribution over a cluster."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Option

from memsvc import database_setup
from memsvc.adapters.backup_folder import Backup, backups_in, log_end, missing_segments
from memsvc.adapters.clock import SystemClock
from memsvc.adapters.postgres_backups import Backups, stop_archive
from memsvc.cli.settings_option import new_settings_option, settings_option
from memsvc.cli.tool_client import (
    CommandOutput,
    command_group,
    printed,
    with_options,
)
from memsvc.core.errors import invalid
from memsvc.core.timestamp import parse_timestamp
from memsvc.folder_key import KEY_FILE
from memsvc.settings import Settings


@partial(with_options, make=settings_option)
def distribute(
    settings: Settings,
    *,
    shards: Annotated[
        int | None,
        Option(
            min=1,
            max=1024,
            help="Number of shards for each table; the default is the setting of the Citus"
            " cluster.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the SQL statements without running them.")
    ] = False,
) -> None:
    """Distribute the tables of a migrated database over the nodes of its Citus cluster, by tenant.

    Run it as the database owner on the coordinator while servers and workers are stopped. Run it
    again after each migration and after an interruption: it only does what has not been done yet.
    """
    from memsvc.store import shard_setup  # noqa: PLC0415 - heavy, for this command alone

    def report(step: shard_setup.ShardStep) -> None:
        print(f"-- {step.description}")
        for statement in step.statements:
            print(f"{statement};", flush=True)

    with database_setup.database_urls(settings) as urls:
        role, _ = database_setup.role_of(urls.app)
        if not urls.admin or role is None:
            raise invalid(
                "memsvc needs two DSNs to distribute the tables over a Citus cluster: one of the"
                " database owner, and one with the application's role",
                recovery="set database.admin_url to the owner's DSN, and database.url to the DSN"
                " with the application's role",
            )
        asyncio.run(
            shard_setup.shard_all_tables(
                urls.admin, role, shards=shards, dry_run=dry_run, report=report
            )
        )


Folder = Annotated[
    Path, Argument(help="The folder with the backups, on a different disk from the data folder.")
]
BYTES_PER_MB: Final = 2**20


def _check_embedded(settings: Settings) -> None:
    if settings.database.url:
        raise invalid(
            "this command only works on the embedded PostgreSQL, but database.url points to"
            " another PostgreSQL server",
            recovery="back up that server with deploy/backup/postgres.sh or with the provider's"
            " tools",
        )


@partial(with_options, make=settings_option)
@printed
def archive(
    settings: Settings,
    folder: Annotated[
        Path | None,
        Argument(
            help="A new folder for the log and the backups, on a different disk from the data"
            " folder."
        ),
    ] = None,
    off: Annotated[
        bool,
        Option(
            "--off",
            help="Stop archiving the log; the parts of the log that are already archived are kept.",
        ),
    ] = False,
) -> CommandOutput:
    """Archive the log of the embedded PostgreSQL from now on, and take a first backup.

    The database can then be restored to any later point in time. The setting belongs to the data
    folder and applies to every memsvc server that uses it. Running servers pause for about a
    second."""
    _check_embedded(settings)
    if off == (folder is not None):
        raise invalid(
            "pass either a folder for the log and the backups, or --off to stop archiving"
        )
    if folder is None:
        stopped = stop_archive(
            settings.data_dir, statement_timeout_ms=settings.database.statement_timeout_ms
        )
        line = "log archiving has been turned off" if stopped else "log archiving was already off"
        return CommandOutput({"stopped": stopped}, [line])
    return _backup_output(_backups(folder, settings).archive())


@partial(with_options, make=settings_option)
@printed
def backup(
    settings: Settings,
    folder: Folder,
    keep: Annotated[
        int | None,
        Option(
            min=1,
            help="Number of backups to keep, including the new backup; older backups are deleted.",
        ),
    ] = None,
) -> CommandOutput:
    """Take a backup of the embedded PostgreSQL while servers run, and verify its checksums.

    --keep deletes older backups and, in the folder that `memsvc db archive` uses, also the log
    segments that no remaining backup needs."""
    _check_embedded(settings)
    taken, dropped = _backups(folder, settings).backup(keep)
    output = _backup_output(taken)
    counts = {"dropped_backups": dropped.backups, "dropped_segments": dropped.segments}
    dropped_lines = (
        [f"deleted\t{dropped.backups} backups, {dropped.segments} log segments"] if keep else []
    )
    return CommandOutput(output.body | counts, [*output.lines, *dropped_lines])


@printed
def backups(folder: Folder) -> CommandOutput:
    """List the backups in a folder, and how far the log after them reaches."""
    until = log_end(folder)
    rows = [(one, missing_segments(folder, one)) for one in backups_in(folder)]
    body = {
        "backups": [
            {
                "folder": str(backup.folder),
                "ended_at": backup.ended_at,
                "missing_segments": missing,
            }
            for backup, missing in rows
        ],
        "log_until": until,
    }
    return CommandOutput(body, _lines(rows, until))


@partial(with_options, make=new_settings_option)
@printed
def restore(
    settings: Settings,
    folder: Folder,
    at: Annotated[
        str,
        Option(
            help="Restore the state at this time, such as 2026-01-31T12:00:00Z; the default is"
            " the latest possible time."
        ),
    ] = "",
) -> CommandOutput:
    """Restore a backup into an empty data folder, as of a point in time.

    The restored database contains everything committed before that time and nothing after it. To
    use it, start memsvc with the new data folder."""
    _check_embedded(settings)
    timestamp = parse_timestamp(at, "--at")
    used = _backups(folder, settings).restore(timestamp)
    if at:
        summary = f"restored to the state at {at}"
    elif until := log_end(folder):
        summary = f"restored to the end of the archived log ({until.isoformat()})"
    else:
        summary = "restored to the state at the end of the backup"
    hint = (
        "the log of the restored database is not archived yet; to archive it, run `memsvc db"
        " archive` with a new folder"
    )
    body = {"backup": str(used.folder), "at": timestamp}
    return CommandOutput(
        body, [f"{summary}, using the backup of {used.ended_at.isoformat()}", hint]
    )


def _backups(folder: Path, settings: Settings) -> Backups:
    timeout_ms = settings.database.statement_timeout_ms
    return Backups(
        folder,
        settings.data_dir,
        SystemClock(),
        statement_timeout_ms=timeout_ms,
        extra_files=(KEY_FILE,),
    )


def _backup_output(taken: Backup) -> CommandOutput:
    size = sum(path.stat().st_size for path in taken.folder.rglob("*") if path.is_file())
    body: dict[str, Any] = {
        "folder": str(taken.folder),
        "ended_at": taken.ended_at,
        "size_bytes": size,
    }
    return CommandOutput(
        body, [f"backup\t{taken.folder}\t{size // BYTES_PER_MB} MiB, checksums verified"]
    )


def _lines(rows: list[tuple[Backup, int]], until: datetime | None) -> Iterator[str]:
    for backup, missing in rows:
        if until is None:
            status = "can be restored, but only to the time at which the backup was taken"
        elif missing:
            status = (
                f"can be restored up to a gap in the archived log: {missing} of the log"
                " segments after this backup are missing"
            )
        else:
            status = (
                "can be restored to any time up to"
                f" {max(until, backup.ended_at):%Y-%m-%dT%H:%M:%SZ}"
            )
        earliest = backup.ended_at + timedelta(seconds=1)
        yield f"{earliest:%Y-%m-%dT%H:%M:%SZ}\t{status}\t{backup.folder}"


commands = command_group(
    {
        "archive": archive,
        "backup": backup,
        "backups": backups,
        "restore": restore,
        "distribute": distribute,
    }
)
