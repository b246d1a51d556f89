"""Nodes of a Citus cluster: what each is told, and what becomes of it when one dies."""

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from asyncpg import Connection

from benchmarks.faults.serving import kill_family

START_S = 60.0


def at(dsn: str, node: str) -> str:
    """A DSN of the same database on another node."""
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{node}").geturl()


async def node_of(coordinator: Connection, tenant: bytes) -> str:
    """The address of the node that has a tenant's rows."""
    found = await coordinator.fetchrow(
        """SELECT n.nodename, n.nodeport FROM pg_dist_placement AS p JOIN pg_dist_node AS n
            USING (groupid)
        WHERE p.shardid = get_shard_id_for_distribution_column('files', $1::bytea)""",
        tenant,
    )
    return f"{found['nodename']}:{found['nodeport']}"


@contextmanager
def told(patch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many statements the coordinator sends to each node, over connections that are opened
    with `TELL` set."""
    counts: Counter[str] = Counter()

    def count(_: Any, fields: dict[str, str], __: Any) -> None:
        if fields.get("M", "").startswith("issuing "):
            counts[fields["D"].split("@")[1].split()[0]] += 1

    with patch.context() as patched:
        patched.setattr(Connection, "_process_log_message", count)
        yield counts


TELL = ("citus.log_remote_commands = on", "client_min_messages = log")


class Node:
    """A PostgreSQL of this machine that can be killed, and started as it was."""

    def __init__(self, dsn: str, pid: int) -> None:
        self._dsn = dsn
        process = Path(f"/proc/{pid}")
        self._pid = pid
        self._command = process.joinpath("cmdline").read_bytes().split(b"\0")[:-1]
        self._folder = process.joinpath("cwd").readlink()
        self._log = process.joinpath("fd/2").readlink()
        variables = process.joinpath("environ").read_bytes().split(b"\0")[:-1]
        self._variables = dict(one.split(b"=", 1) for one in variables)
        self._user = process.stat()
        self._started: subprocess.Popen[bytes] | None = None

    @classmethod
    async def find(cls, dsn: str) -> "Node | None":
        """The server of a superuser's DSN, if this process may kill it."""
        connection = await asyncpg.connect(dsn)
        try:
            pid = int(
                (await connection.fetchval("SELECT pg_read_file('postmaster.pid')")).split()[0]
            )
        finally:
            await connection.close()
        try:
            os.kill(pid, 0)
            return cls(dsn, pid)
        except OSError:
            return None

    def kill(self) -> None:
        """kill -9 of it with all its children."""
        kill_family(self._pid)
        self._started = None

    async def start(self) -> None:
        """Start it again; returns when it answers."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    connection = await asyncpg.connect(self._dsn)
                    return await connection.close()
                except (OSError, asyncpg.PostgresError):
                    # one that was started ends where a child of the killed one is not gone yet
                    if self._started is None or self._started.poll() is not None:
                        self._started = self._launch()
                    await asyncio.sleep(0.1)

    def _launch(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            started = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._variables,
                user=self._user.st_uid,
                group=self._user.st_gid,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid = started.pid
        return started
