"""Backups of the embedded PostgreSQL: taken while it runs, and restored as of a point in time."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from memsvc.adapters.backup_folder import (
    BASE,
    CLUSTER_FILE,
    DATA,
    LOCK_FILE,
    LOG,
    MARK_FILE,
    NAME_FORMAT,
    TEMP_PREFIX,
    Backup,
    DroppedBackups,
    archived_to,
    backups_in,
    drop_old,
    locked,
    recovery_settings,
)
from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.adapters.postgres_cluster import POLL_S, PostgresCluster, program_dir
from memsvc.adapters.postgres_setup import (
    EmbeddedPostgresError,
    ServerUser,
    open_to,
    server_user_of,
    set_owner,
    write,
)
from memsvc.core.errors import conflict, invalid, invalid_content, not_found
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock

ARCHIVED_WAIT_S: Final = 60.0
_IDENTITY: Final = re.compile(
    r"^Database system identifier: +(\d+)$.*^Latest checkpoint's TimeLineID: +(\d+)$",
    re.MULTILINE | re.DOTALL,
)
_TARGET_MISSING_TEXT: Final = "recovery ended before configured recovery target was reached"
_LAST_CHANGE: Final = re.compile(r"last completed transaction was at log time (\S+ \S+)")


class Backups:
    """A folder of backups for the data folder `data_dir`.

    `extra_files` names files of it that belong to the database without being in it. All methods
    block, for as long as it takes to copy and to verify the copy.
    """

    def __init__(
        self,
        folder: Path,
        data_dir: Path,
        clock: Clock,
        *,
        statement_timeout_ms: int,
        extra_files: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder.expanduser().resolve()
        self._data_dir = data_dir.expanduser().resolve()
        self._clock = clock
        self._extra_files = extra_files
        self._server = EmbeddedPostgres(self._data_dir, statement_timeout_ms=statement_timeout_ms)
        if "\n" in str(self.folder):
            raise invalid("the name of a backup folder must not contain a line break")

    def archive(self) -> Backup:
        """Archive the log here from now on, starting with a copy, and restart the server.

        CONFLICT for a folder that is not empty: logs of another database, or of another timeline of
        this one, stay as they are.
        """
        with self._running_cluster() as cluster, self._opened(cluster, log=True):
            previous = archived_to(self._data_dir)
            write(self._data_dir / MARK_FILE, f"{self.folder}\n", None)
            self._server.restart()
            try:
                return self._create_backup(cluster)
            except BaseException:
                if previous is None:
                    (self._data_dir / MARK_FILE).unlink()
                else:
                    write(self._data_dir / MARK_FILE, f"{previous}\n", None)
                self._server.restart()
                raise

    def backup(self, keep: int | None = None) -> tuple[Backup, DroppedBackups]:
        """Take a copy while the server runs, and verify it; then drop all but the newest `keep`.

        CONFLICT for a folder of something else, RESOURCE_BUSY while another copy is being made
        here.
        """
        with self._running_cluster() as cluster, self._opened(cluster, log=False):
            taken = self._create_backup(cluster)
            return taken, drop_old(self.folder, keep) if keep else DroppedBackups(0, 0)

    def restore(self, until: datetime | None) -> Backup:
        """Restore the data folder's database from a copy and the log after it; return the copy.

        It is restored as of a point in time, or of the log's end. CONFLICT where the data folder
        has a database, NOT_FOUND for a time that cannot be restored.
        """
        backups = backups_in(self.folder)
        if until is not None and not (self.folder / LOG).is_dir():
            raise not_found(
                f"{self.folder} does not contain an archived log, so a backup can only be"
                " restored to the time at which it was taken: omit --at",
            )
        candidates = [one for one in backups if until is None or one.ended_at <= until]
        if not candidates:
            oldest = backups[0].ended_at.isoformat()
            raise not_found(
                f"the oldest backup in {self.folder} was finished at {oldest}, which is"
                " later than the requested point in time: pass a later time in --at"
            )
        self._server.create_from(
            lambda place, user: self._replay(candidates[-1], until, place, user)
        )
        return candidates[-1]

    def _replay(
        self, backup: Backup, until: datetime | None, folder: Path, user: ServerUser | None
    ) -> None:
        shutil.copytree(backup.folder / DATA, folder, dirs_exist_ok=True)
        folder.chmod(0o700)
        for path in (folder, *folder.rglob("*")):
            set_owner(path, user)
        cluster = PostgresCluster(folder, user)
        cluster.check_usable()
        _check(folder, cluster)
        # the server's log from when the copy was made
        shutil.rmtree(folder / "log", ignore_errors=True)
        write(folder / "recovery.signal", "", user)
        try:
            cluster.recover(recovery_settings(self.folder, until))
        except EmbeddedPostgresError as error:
            if _TARGET_MISSING_TEXT not in str(error):
                raise
            last = _LAST_CHANGE.search(str(error))
            raise not_found(
                f"the archived log in {self.folder} ends before the requested point in time"
                + (f", at {last[1]} UTC" if last else ""),
                recovery="omit --at to restore everything that was archived",
            ) from error
        finally:
            if cluster.server_is_here():
                cluster.stop()
        self._copy_extra_files(backup.folder, self._data_dir, None)

    def _copy_extra_files(self, source: Path, target: Path, user: ServerUser | None) -> None:
        for name in self._extra_files:
            if (source / name).exists() and not (target / name).exists():
                write(target / name, (source / name).read_text("utf-8"), user)

    @contextmanager
    def _running_cluster(self) -> Iterator[PostgresCluster]:
        """Yield the running cluster of the data folder."""
        folder = self._data_dir / "postgres"
        if not folder.exists():
            raise not_found(f"{self._data_dir} does not contain a database")
        self._password = urlsplit(self._server.start().superuser_url).password or ""
        try:
            yield PostgresCluster(folder, server_user_of(folder))
        finally:
            self._server.stop()

    @contextmanager
    def _opened(self, cluster: PostgresCluster, *, log: bool) -> Iterator[None]:
        """Lock the folder, made where it is missing, for one copy of this cluster at a time."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self.folder / CLUSTER_FILE
        # a first backup that was interrupted at once leaves only the lock
        if not known.exists() and any(one.name != LOCK_FILE for one in self.folder.iterdir()):
            raise conflict(
                f"{self.folder} contains files but is not a backup folder: choose an empty"
                " or new folder"
            )
        user = server_user_of(self._data_dir / "postgres")
        with locked(self.folder):
            identity = _identity(cluster)
            if known.exists() and known.read_text("utf-8").strip() != identity:
                raise conflict(
                    f"{self.folder} contains backups of another database, or backups of"
                    " this database that were taken before it was restored",
                    recovery="choose another folder",
                )
            if log and known.exists() and archived_to(self._data_dir) != self.folder:
                raise conflict(
                    f"{self.folder} already contains backups, but archiving of the log must"
                    " start in a new folder",
                    recovery="choose a new folder",
                )
            if user:
                set_owner(self.folder, user)
                open_to(user, self.folder, program_dir())
            write(known, f"{identity}\n", user)
            for name in (BASE, LOG) if log else (BASE,):
                (self.folder / name).mkdir(mode=0o700, exist_ok=True)
                set_owner(self.folder / name, user)
            for left_over in self.folder.glob(f"{TEMP_PREFIX}*"):
                shutil.rmtree(left_over, ignore_errors=True)
            yield

    def _create_backup(self, cluster: PostgresCluster) -> Backup:
        user = server_user_of(self._data_dir / "postgres")
        temp_folder = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=self.folder))
        set_owner(temp_folder, user)
        data = temp_folder / DATA
        options = ("--checkpoint=fast", "--wal-method=stream", "--format=plain", f"--pgdata={data}")
        checksums = f"--manifest-checksums={CHECKSUMS}"
        cluster.run(
            "pg_basebackup",
            *cluster.connection(),
            *options,
            checksums,
            secret={"PGPASSWORD": self._password},
        )
        finished_at = self._clock.now()
        _check(data, cluster)
        self._copy_extra_files(self._data_dir, temp_folder, user)
        if archived_to(self._data_dir) == self.folder:
            self._await_log(wal_range(data).last_segment, cluster)
        final_folder = temp_folder.rename(self.folder / BASE / finished_at.strftime(NAME_FORMAT))
        _sync(final_folder.parent)
        return next(one for one in backups_in(self.folder) if one.folder == final_folder)

    def _await_log(self, segment: str, cluster: PostgresCluster) -> None:
        """Wait until the log that the copy needs is archived, which proves archiving too."""
        deadline = time.monotonic() + ARCHIVED_WAIT_S
        while not (self.folder / LOG / f"{segment}.gz").exists():
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"PostgreSQL cannot archive its log to {self.folder / LOG}; the last"
                    f" messages of PostgreSQL are:\n{cluster.log_tail()}"
                )
            time.sleep(POLL_S)


def stop_archive(data_dir: Path, *, statement_timeout_ms: int) -> bool:
    """Stop archiving the log; return whether it was on. Archived log stays. Restarts; blocks."""
    folder = data_dir.expanduser().resolve()
    if archived_to(folder) is None:
        return False
    (folder / MARK_FILE).unlink()
    server = EmbeddedPostgres(folder, statement_timeout_ms=statement_timeout_ms)
    server.start()
    try:
        server.restart()
    finally:
        server.stop()
    return True


def _identity(cluster: PostgresCluster) -> str:
    """Return the cluster's id and its timeline: each restore starts another one."""
    found = _IDENTITY.search(cluster.run("pg_controldata", "-D", "."))
    if found is None:
        raise EmbeddedPostgresError(
            "pg_controldata did not report the system identifier of this PostgreSQL cluster"
        )
    return f"{found[1]} {found[2]}"


def _check(data: Path, cluster: PostgresCluster) -> None:
    """Read a whole copy, its log too; INVALID_CONTENT where it is not as it was written."""
    if found := find_errors(data):
        raise invalid_content(f"{data} is not a complete copy of the database: {found}")
    wal = wal_range(data)
    where = (f"--path={data / 'pg_wal'}", f"--timeline={wal.timeline}")
    cluster.run("pg_waldump", "--quiet", *where, f"--start={wal.start}", f"--end={wal.end}")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


MANIFEST: Final = "backup_manifest"
CHECKSUMS: Final = "SHA256"
"""Checksums that a copy is taken with."""
_SEGMENT_BITS: Final = 24


@frozen
class WalRange:
    """The log that a copy needs to be complete, from `start` to `end` on a timeline."""

    timeline: int
    start: str
    end: str

    @property
    def last_segment(self) -> str:
        """Return the name of the segment in which it ends."""
        high, low = (int(part, 16) for part in self.end.split("/"))
        # one less: at the end of a segment, the next has not begun
        number = ((high << 32 | low) - 1) >> _SEGMENT_BITS
        return f"{self.timeline:08X}{number >> 8:08X}{number & 0xFF:08X}"


def wal_range(data: Path) -> WalRange:
    """Return the log that the copy in this folder needs."""
    (one,) = json.loads((data / MANIFEST).read_bytes())["WAL-Ranges"]
    return WalRange(one["Timeline"], one["Start-LSN"], one["End-LSN"])


def find_errors(data: Path) -> str | None:
    """Return a short description of the damage of a copy, or None; read all of it but its log."""
    if not (data / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    text = (data / MANIFEST).read_bytes()
    body, _, rest = text.rpartition(b'"Manifest-Checksum"')
    try:
        checksum = json.loads(b"{" + b'"Manifest-Checksum"' + rest)["Manifest-Checksum"]
    except ValueError:
        checksum = None
    if hashlib.sha256(body).hexdigest() != checksum:
        return f"{MANIFEST} is damaged"
    for file in json.loads(text)["Files"]:
        name = (
            file["Path"]
            if "Path" in file
            else bytes.fromhex(file["Encoded-Path"]).decode(errors="surrogateescape")
        )
        path = data / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != file["Size"]:
            return f"{name} has the wrong size"
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file["Checksum"]:
                return f"{name} has the wrong content"
    return None
