"""PgBouncer before PostgreSQL, as operators put it there: many connections share very few."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.servers import DatabaseUrls

PROGRAM = os.environ.get("MEMSVC_TEST_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
)
needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None, reason="no PgBouncer: install it, or name one in MEMSVC_TEST_PGBOUNCER"
)

PORT = 6432
START_S_MAX = 10.0
SERVERS = 2
"""Connections of the server that all clients of one role share."""


def keeps_prepared_statements() -> bool:
    """Whether there is a PgBouncer that can: 1.21 is the first one."""
    if PROGRAM is None:
        return False
    told = subprocess.run(
        [PROGRAM, "--version"], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    return tuple(int(part) for part in told.split()[1].split(".")[:2]) >= (1, 21)


class PgBouncer:
    """A pooler before one database, over a Unix socket; `urls` go through it."""

    def __init__(
        self, direct: DatabaseUrls, mode: str = "transaction", *, prepared_max: int = 0
    ) -> None:
        self.direct = direct
        self._prepared_max = prepared_max
        self._folder = Path(tempfile.mkdtemp(prefix="memsvc-pooler-", dir="/tmp"))
        self._socket = self._folder / f".s.PGSQL.{PORT}"
        self._process: subprocess.Popen[bytes] | None = None
        self.mode = mode
        self.urls = DatabaseUrls(
            *(self._through(url) for url in (direct.admin, direct.app, direct.superuser))
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, mode: str = "") -> None:
        """Start, in another mode than before where one is named; it takes connections when this
        returns."""
        assert PROGRAM is not None
        self.mode = mode or self.mode
        account = self._account()
        self._configure(account)
        self._process = subprocess.Popen(
            [PROGRAM, "--quiet", str(self._folder / "pgbouncer.ini")],
            user=account,
            group=None if account is None else _group(account),
            extra_groups=None if account is None else [],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S_MAX
        while not self._listens():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def stop(self) -> None:
        """End at once, with every connection on either side."""
        if self._process is not None:
            self._process.kill()  # what another signal means depends on the version
            self._process.wait(START_S_MAX)
            self._process = None
            self._socket.unlink(missing_ok=True)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self._socket))
            except OSError:
                return False
        return True

    def _through(self, url: str) -> str:
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        return f"postgresql://{user}@{parts.path}?host={self._folder}&port={PORT}"

    def _account(self) -> int | None:
        """Whom it runs as, as it refuses root: who owns the server's socket, and may reach it."""
        host = self._server()[0]
        if os.geteuid() != 0:
            return None
        return Path(host).stat().st_uid if host.startswith("/") else 65534

    def _server(self) -> tuple[str, str]:
        parts = urlsplit(self.direct.app)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return query.get("host", parts.hostname or "127.0.0.1"), query.get(
            "port", str(parts.port or 5432)
        )

    def _configure(self, account: int | None) -> None:
        host, port = self._server()
        users = [
            urlsplit(url).netloc.rpartition("@")[0].split(":", 1)
            for url in (self.direct.app, self.direct.admin)
        ]
        (self._folder / "users").write_text(
            "".join(f'"{name}" "{password}"\n' for name, password in users)
        )
        newer = (
            f"max_prepared_statements = {self._prepared_max}\n"
            if keeps_prepared_statements()
            else ""
        )
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={host} port={port}\n[pgbouncer]\n"
            f"listen_port = {PORT}\nunix_socket_dir = {self._folder}\n"
            f"auth_type = scram-sha-256\nauth_file = {self._folder}/users\nlogfile ="
            f" {self._folder}/log\n"
            f"pool_mode = {self.mode}\ndefault_pool_size ="
            f" {SERVERS if self.mode == 'transaction' else 20}\n{newer}"
        )
        if account is not None:
            for path in (self._folder, *self._folder.iterdir()):
                os.chown(path, account, _group(account))


def _group(account: int) -> int:
    import pwd  # noqa: PLC0415 - not everywhere

    return pwd.getpwuid(account).pw_gid
